//! What this project and Tokio do with files, under the same names.

use std::path::Path;

use super::{Ours, Service, Tokio};

/// A runtime with Tokio's `fs`.
pub trait Files: Service {
    /// Reads a whole file so many `times`; says how many bytes.
    fn read_whole(path: &Path, times: usize) -> impl Future<Output = usize> + Send;

    /// Reads the lines of a file through a buffer; says how many.
    fn lines_of_file(path: &Path) -> impl Future<Output = usize> + Send;

    /// Opens a file, and reads pieces of so many `bytes` from its start, so many `times`.
    fn read_pieces(path: &Path, times: usize, bytes: usize) -> impl Future<Output = ()> + Send;

    /// Opens a file, and writes so many `bytes` to its start, so many `times`.
    fn write_pieces(path: &Path, times: usize, bytes: usize) -> impl Future<Output = ()> + Send;

    /// Asks how long a file is, so many `times`.
    fn ask_length(path: &Path, times: usize) -> impl Future<Output = u64> + Send;
}

macro_rules! files {
    ($peer:ident, $rt:ident) => {
        impl Files for $peer {
            async fn read_whole(path: &Path, times: usize) -> usize {
                let mut bytes = 0;
                for _ in 0..times {
                    bytes += ::$rt::fs::read(path).await.expect("the file can be read").len();
                }
                bytes
            }

            async fn lines_of_file(path: &Path) -> usize {
                use ::$rt::io::{AsyncBufReadExt, BufReader};

                let file = ::$rt::fs::File::open(path).await.expect("the file is there");
                let mut lines = BufReader::new(file).lines();
                let mut count = 0;
                while lines.next_line().await.expect("the file can be read").is_some() {
                    count += 1;
                }
                count
            }

            async fn read_pieces(path: &Path, times: usize, bytes: usize) {
                use ::$rt::io::{AsyncReadExt, AsyncSeekExt};

                let mut file = ::$rt::fs::File::open(path).await.expect("the file is there");
                let mut piece = vec![0; bytes];
                for _ in 0..times {
                    if file.read(&mut piece).await.expect("the file can be read") < bytes {
                        file.rewind().await.expect("the file has a start");
                    }
                }
            }

            async fn write_pieces(path: &Path, times: usize, bytes: usize) {
                use ::$rt::io::{AsyncSeekExt, AsyncWriteExt};

                let file = ::$rt::fs::OpenOptions::new().write(true).open(path).await;
                let mut file = file.expect("the file is there");
                let piece = vec![b'x'; bytes];
                for _ in 0..times {
                    file.write_all(&piece).await.expect("the file can be written");
                    file.flush().await.expect("the file can be written");
                    file.rewind().await.expect("the file has a start");
                }
            }

            async fn ask_length(path: &Path, times: usize) -> u64 {
                let mut length = 0;
                for _ in 0..times {
                    length = ::$rt::fs::metadata(path).await.expect("the file is there").len();
                }
                length
            }
        }
    };
}

files!(Ours, runtime);
files!(Tokio, tokio);
