//! A picture to compute: the Mandelbrot set, its rows split between the workers.

use std::io::Write;

use runtime::parallel;

/// The widest picture, in pixels.
pub const MAX_WIDTH: u32 = 4096;

/// Steps after which a point that has not left counts as one of the set.
const MAX_STEPS: u32 = 1000;

/// So many pixels are computed without a split: some ten to a hundred microseconds.
const GRAIN: usize = 128;

const BYTES_PER_PIXEL: usize = 3;

/// Computes a picture `width` pixels wide and two thirds as high, as a PNG file.
///
/// To be called in `runtime::compute`. If that is cancelled, the call ends at its next split. Between the
/// rows that it encodes there is no split, so it asks.
///
/// # Errors
/// Those of the encoder, and an I/O error of the kind [`Interrupted`](std::io::ErrorKind::Interrupted) if it
/// found between two rows that the computation was cancelled.
pub fn png(width: u32) -> Result<Vec<u8>, png::EncodingError> {
    let height = (width * 2 / 3).max(1);
    let view = View { width, scale: 3.0 / f64::from(width), top: 1.5 * f64::from(height) / f64::from(width) };
    let row = width as usize * BYTES_PER_PIXEL;
    let mut pixels = vec![0; row * height as usize];
    view.paint(0, &mut pixels);

    let mut file = Vec::new();
    let mut encoder = png::Encoder::new(&mut file, width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.set_compression(png::Compression::Fast);
    let mut writer = encoder.write_header()?;
    let mut rows = writer.stream_writer()?;
    for row in pixels.chunks(row) {
        if parallel::is_cancelled() {
            // No caller will look at the result.
            return Err(std::io::Error::from(std::io::ErrorKind::Interrupted).into());
        }
        rows.write_all(row)?;
    }
    rows.finish()?;
    writer.finish()?;
    Ok(file)
}

/// Which part of the plane is seen.
struct View {
    width: u32,
    /// Breadth of a pixel.
    scale: f64,
    /// The imaginary part of the first row.
    top: f64,
}

impl View {
    /// Paints the pixels from number `first` on.
    fn paint(&self, first: usize, pixels: &mut [u8]) {
        let count = pixels.len() / BYTES_PER_PIXEL;
        if count > GRAIN {
            let (left, right) = pixels.split_at_mut(count / 2 * BYTES_PER_PIXEL);
            parallel::join(|| self.paint(first, left), || self.paint(first + count / 2, right));
            return;
        }
        for (i, pixel) in pixels.chunks_exact_mut(BYTES_PER_PIXEL).enumerate() {
            pixel.copy_from_slice(&colour(self.steps(first + i)));
        }
    }

    /// How many steps the point of pixel `number` takes to leave; `None` if it does not.
    fn steps(&self, number: usize) -> Option<u32> {
        let (row, column) = (number / self.width as usize, number % self.width as usize);
        let (c_re, c_im) = (column as f64 * self.scale - 2.2, self.top - row as f64 * self.scale);
        let (mut re, mut im) = (0.0, 0.0);
        (0..MAX_STEPS).find(|_| {
            (re, im) = (re * re - im * im + c_re, 2.0 * re * im + c_im);
            re * re + im * im > 4.0
        })
    }
}

/// Black for the set; the longer a point took to leave, the brighter.
fn colour(steps: Option<u32>) -> [u8; BYTES_PER_PIXEL] {
    let Some(steps) = steps else {
        return [0, 0, 0];
    };
    let brightness = f64::from(steps + 2).ln() / f64::from(MAX_STEPS + 1).ln();
    [(9.0 * brightness).sin().abs(), brightness, brightness.sqrt()].map(|part| (part.min(1.0) * 255.0) as u8)
}
