//! Images that oxipng makes smaller, on the threads of rayon, while tasks of Tokio wait for them.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Instant;

use oxipng::{BitDepth, ColorType, Options, RawImage};
use tokio::sync::oneshot;

use crate::Failure;

const IMAGES: u32 = 8;
const SIZE: u32 = 512;

/// Prints the checksum of each result, then the time.
pub async fn run() -> Result<(), Failure> {
    // Made before the clock starts.
    let images = (0..IMAGES).map(draw).collect::<Result<Vec<_>, _>>()?;
    let start = Instant::now();
    let results: Vec<_> = images
        .into_iter()
        .map(|image| {
            let (sender, receiver) = oneshot::channel();
            rayon::spawn(move || _ = sender.send(image.create_optimized_png(&Options::max_compression())));
            tokio::spawn(receiver)
        })
        .collect();
    for (number, result) in results.into_iter().enumerate() {
        let png = result.await???;
        let mut hasher = DefaultHasher::new();
        png.hash(&mut hasher);
        println!("image {number}: {} bytes, checksum {:016x}", png.len(), hasher.finish());
    }
    eprintln!("seconds {:.3}", start.elapsed().as_secs_f64());
    Ok(())
}

/// Waves with some noise, another picture for each number.
fn draw(number: u32) -> Result<RawImage, Failure> {
    let mut noise = u64::from(number) + 1;
    let mut pixels = Vec::with_capacity((SIZE * SIZE * 3) as usize);
    for y in 0..SIZE {
        for x in 0..SIZE {
            noise ^= noise << 13;
            noise ^= noise >> 7;
            noise ^= noise << 17;
            let wave = (x * (number + 1) + y * y / 64) as u8;
            pixels.extend([wave, (x ^ y) as u8, (y as u8).wrapping_add((noise & 3) as u8)]);
        }
    }
    let color = ColorType::RGB { transparent_color: None };
    Ok(RawImage::new(SIZE, SIZE, color, BitDepth::Eight, pixels)?)
}
