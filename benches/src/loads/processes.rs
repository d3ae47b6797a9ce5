//! Child processes: their start and their exit.

use super::{Countdown, Load};
use crate::peer::Processes;

/// Tasks that start children.
const TASKS: usize = 16;

/// The loads, with the number of children in one iteration.
pub fn all<P: Processes>() -> [(&'static str, usize, Load<P>); 1] {
    [("child_exit", 64, child_exit)]
}

/// Tasks start children one after the other, and wait for each.
pub fn child_exit<P: Processes>(peer: &P, children: usize) {
    let each = children.div_ceil(TASKS);
    peer.block_on(async {
        let (finish, all_done) = Countdown::<P>::new(TASKS);
        for _ in 0..TASKS {
            let finish = finish.clone();
            P::spawn(async move {
                for _ in 0..each {
                    P::run_child().await;
                }
                finish.one();
            });
        }
        all_done.await.expect("the last task sends");
    });
}
