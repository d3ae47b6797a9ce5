//! Clips that rav1e encodes, called from blocking closures of Tokio.
//!
//! ```sh
//! bash compat/video/run
//! ```
//!
//! builds this source twice, on `runtime` and on the published Tokio and Rayon. It runs both programs by
//! turns. rav1e is as published. It searches and codes the tiles of a frame, and prepares later frames, in
//! `par_iter` and `scope` of rayon. A program prints the length and checksum of each clip, which must be
//! equal, and to standard error what it took.

use std::error::Error;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Instant;

use rav1e::prelude::*;

type Failure = Box<dyn Error + Send + Sync>;

/// Clips that are encoded at the same time.
const CLIPS: u32 = 3;
const FRAMES: u32 = 12;
const WIDTH: usize = 384;
const HEIGHT: usize = 256;

#[tokio::main(worker_threads = 2)]
async fn main() -> Result<(), Failure> {
    let start = Instant::now();
    let clips: Vec<_> =
        (0..CLIPS).map(|number| tokio::task::spawn_blocking(move || encode(number))).collect();
    for (number, clip) in clips.into_iter().enumerate() {
        let stream = clip.await??;
        let mut hasher = DefaultHasher::new();
        stream.hash(&mut hasher);
        println!("clip {number}: {} bytes, checksum {:016x}", stream.len(), hasher.finish());
    }
    eprintln!("seconds {:.3} cpu {:.2}", start.elapsed().as_secs_f64(), cpu_seconds()?);
    Ok(())
}

/// Encodes a clip. rav1e uses the threads that rayon chooses for the calling thread.
fn encode(number: u32) -> Result<Vec<u8>, Failure> {
    let encoder = EncoderConfig {
        width: WIDTH,
        height: HEIGHT,
        tiles: 4,
        speed_settings: SpeedSettings::from_preset(8),
        ..EncoderConfig::default()
    };
    let mut context: Context<u8> = Config::new().with_encoder_config(encoder).new_context()?;
    for time in 0..FRAMES {
        let mut frame = context.new_frame();
        for (index, plane) in frame.planes.iter_mut().enumerate() {
            let (width, height) = if index == 0 { (WIDTH, HEIGHT) } else { (WIDTH / 2, HEIGHT / 2) };
            plane.copy_from_raw_u8(&draw(width, height, time + number * 7 + index as u32), width, 1);
        }
        context.send_frame(frame)?;
    }
    context.flush();

    let mut stream = Vec::new();
    loop {
        match context.receive_packet() {
            Ok(packet) => stream.extend(packet.data),
            Err(EncoderStatus::Encoded) => {}
            Err(EncoderStatus::LimitReached) => return Ok(stream),
            Err(status) => return Err(status.into()),
        }
    }
}

/// Draws waves that move with time, and some noise.
fn draw(width: usize, height: usize, time: u32) -> Vec<u8> {
    let mut noise = u64::from(time) + 1;
    let mut pixels = Vec::with_capacity(width * height);
    for y in 0..height as u32 {
        for x in 0..width as u32 {
            noise ^= noise << 13;
            noise ^= noise >> 7;
            noise ^= noise << 17;
            let wave = (x + time * 3) * (y + time) / 48;
            pixels.push((wave as u8 / 2).wrapping_add((noise & 7) as u8));
        }
    }
    pixels
}

/// Returns the CPU time of this process.
fn cpu_seconds() -> Result<f64, Failure> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    // The name may hold spaces. User and system time, in 10 ms, are the 12th and 13th field behind it.
    let (_, fields) = stat.rsplit_once(") ").ok_or("`stat` has no name")?;
    let ticks: u32 = fields.split(' ').skip(11).take(2).map(|field| field.parse().unwrap_or(0)).sum();
    Ok(f64::from(ticks) / 100.0)
}
