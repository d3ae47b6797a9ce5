//! What a program does wrong, so that a test sees that it is noticed.

use std::hint::black_box;
use std::mem::{ManuallyDrop, forget};
use std::time::Duration;

use super::{Boom, Cx, Failed};
use crate::cli::Sabotage;
use crate::program::Id;

impl Cx {
    /// Does what was asked for, if anything.
    pub fn sabotage(&self) {
        let root = self.w.program.root.id;
        match self.w.sabotage {
            None | Some(Sabotage::Wake) => {}
            Some(Sabotage::Token) => forget(self.token()),
            Some(Sabotage::Twice) => self.drop_twice(),
            Some(Sabotage::Value) => {
                self.settle(root, root, Ok(self.fact(root).value + 1));
            }
            Some(Sabotage::Panic) => {
                self.settle(root, root, Err(Failed::Panicked(Box::new(Boom(Id::MAX)))));
            }
            Some(Sabotage::Count) => self.begin(root),
            Some(Sabotage::Stray) => _ = std::thread::spawn(|| panic!("unasked")).join(),
            Some(Sabotage::Sleep) => loop {
                std::thread::sleep(Duration::from_secs(1));
            },
            Some(Sabotage::Spin) => loop {
                std::hint::spin_loop();
            },
            Some(Sabotage::Crash) => std::process::abort(),
            Some(Sabotage::Thread) => {
                std::thread::spawn(|| std::thread::sleep(Duration::from_secs(3600)));
            }
            Some(Sabotage::Descriptor) => forget(std::fs::File::open("/dev/null")),
            // In a release build the compiler would leave out an allocation that nothing looks at.
            Some(Sabotage::Memory) => (0..10).for_each(|_| forget(black_box(Box::new([0_u64; 8])))),
            Some(Sabotage::Compute) => {
                let w = &self.w;
                if crate::show::show(&w.program, &|_| String::new()).contains("compute, Await") {
                    w.fault("there is a computation");
                }
            }
        }
    }

    fn drop_twice(&self) {
        let mut token = ManuallyDrop::new(self.token());
        // References and counts for the second drop.
        forget(self.tokens.clone());
        forget(self.token());
        for _ in 0..2 {
            // SAFETY: the memory stays until this returns; that the second drop is wrong is the point.
            unsafe { ManuallyDrop::drop(&mut token) };
        }
        // The token that was forgotten above has given its count, and keeps its reference for good.
    }
}
