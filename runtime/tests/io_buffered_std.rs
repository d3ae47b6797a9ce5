//! Buffers beside those of std: the same operations over the same rough streams have the same results.

mod io_support;

use std::io::{self, BufRead, ErrorKind, IoSlice, Read, Seek, SeekFrom, Write};

use io_support::{Faults, Random, Rough, Terrain, Waiting, cancelled_at_times, finish, outcome};
use runtime::io::{
    AsyncBufReadExt, AsyncReadExt, AsyncSeekExt, AsyncWriteExt, BufReader, BufStream, BufWriter,
};

const SEEDS: u64 = if cfg!(any(asan, tsan)) { 100 } else { 2_000 };

fn faults(random: &mut Random) -> Faults {
    [Faults::Interruptions, Faults::Errors, Faults::Zeroes][random.below(3)]
}

fn capacity(random: &mut Random) -> usize {
    [1, 2, 3, 5, 8, 16, 64][random.below(7)]
}

/// A place in a stream of some hundred bytes, or an impossible one.
fn position(random: &mut Random) -> SeekFrom {
    let offset = random.below(120) as i64 - 60;
    match random.below(8) {
        0 => SeekFrom::Current(i64::MIN),
        1 => SeekFrom::Current(i64::MAX),
        2 => SeekFrom::End(offset),
        3 => SeekFrom::Start(random.below(400) as u64),
        _ => SeekFrom::Current(offset),
    }
}

/// One operation on both readers.
fn read_both<R>(random: &mut Random, theirs: &mut io::BufReader<Rough>, ours: &mut R)
where
    R: runtime::io::AsyncBufRead + Unpin,
{
    match random.below(6) {
        0 => {
            let n = random.below(20);
            let (mut a, mut b) = (vec![0; n], vec![0; n]);
            let result = cancelled_at_times(random, async || ours.read(&mut b).await);
            assert_eq!(outcome(theirs.read(&mut a)), outcome(result), "read");
            assert_eq!(a, b, "read");
        }
        1 => {
            let n = random.below(20);
            let (mut a, mut b) = (vec![0; n], vec![0; n]);
            let result = outcome(theirs.read_exact(&mut a));
            assert_eq!(result, outcome(finish(ours.read_exact(&mut b))).map(drop), "read_exact");
            assert!(result.is_err() || a == b, "read_exact");
        }
        2 => {
            let delimiter = b",\na"[random.below(3)];
            let (mut a, mut b) = (b"before".to_vec(), b"before".to_vec());
            // A second call counts anew.
            let result =
                cancelled_at_times(random, async || ours.read_until(delimiter, &mut b).await).map(drop);
            assert_eq!(
                outcome(theirs.read_until(delimiter, &mut a).map(drop)),
                outcome(result),
                "read_until"
            );
            assert_eq!(a, b, "read_until");
        }
        3 => {
            let (mut a, mut b) = ("é".to_owned(), "é".to_owned());
            let result = finish(ours.read_line(&mut b));
            assert_eq!(outcome(theirs.read_line(&mut a)), outcome(result), "read_line");
            assert_eq!(a, b, "read_line");
        }
        4 => {
            let result = cancelled_at_times(random, async || ours.fill_buf().await.map(<[u8]>::to_vec));
            let result = outcome(result);
            assert_eq!(outcome(theirs.fill_buf().map(<[u8]>::to_vec)), result, "fill_buf");
            let n = random.below(result.map_or(0, |bytes| bytes.len()) + 1);
            theirs.consume(n);
            ours.consume(n);
        }
        _ => {}
    }
}

/// Reads the rest of both readers. The sizes of the reads differ there, and with them the places that go
/// wrong. So this compares only readers without errors.
fn read_the_rest_of_both<R>(random: &mut Random, theirs: &mut io::BufReader<Rough>, ours: &mut R)
where
    R: runtime::io::AsyncBufRead + Unpin,
{
    if theirs.get_ref().faults() != Faults::Interruptions {
        return;
    }
    if random.one_in(2) {
        let (mut a, mut b) = (b"before".to_vec(), b"before".to_vec());
        let result = finish(ours.read_to_end(&mut b));
        assert_eq!(outcome(theirs.read_to_end(&mut a)), outcome(result), "read_to_end");
        assert_eq!(a, b, "read_to_end");
    } else {
        let (mut a, mut b) = ("é".to_owned(), "é".to_owned());
        let result = finish(ours.read_to_string(&mut b));
        assert_eq!(outcome(theirs.read_to_string(&mut a)), outcome(result), "read_to_string");
        assert_eq!(a, b, "read_to_string");
    }
}

#[test]
fn a_reader_reads_as_that_of_std_and_loses_nothing_where_it_was_given_up() {
    for seed in 0..SEEDS {
        let mut random = Random::new(seed);
        let len = random.below(300);
        let rough = Rough::new(random.text(len, false), Terrain::new(seed, faults(&mut random)));
        let capacity = capacity(&mut random);
        let mut theirs = io::BufReader::with_capacity(capacity, rough.clone());
        let mut ours = BufReader::with_capacity(capacity, Waiting::new(rough, seed));
        for step in 0..40 {
            match random.below(5) {
                0 => {
                    let position = position(&mut random);
                    let result = match position {
                        // A second one goes where the first did.
                        SeekFrom::Start(_) => {
                            cancelled_at_times(&mut random, async || ours.seek(position).await)
                        }
                        _ => finish(ours.seek(position)),
                    };
                    assert_eq!(outcome(theirs.seek(position)), outcome(result), "seek {position:?}");
                }
                _ => read_both(&mut random, &mut theirs, &mut ours),
            }
            assert_eq!(theirs.buffer(), ours.buffer(), "seed {seed}, step {step}");
            let there = theirs.get_ref().stream.position();
            assert_eq!(there, ours.get_ref().inner.stream.position(), "seed {seed}, step {step}");
        }
        read_the_rest_of_both(&mut random, &mut theirs, &mut ours);
    }
}

/// `write_all` as the trait `Write` provides it. Std's `BufWriter` has its own, which writes the end of a
/// large piece past the buffer.
fn write_all(writer: &mut impl Write, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match writer.write(bytes) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(n) => bytes = &bytes[n..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// One operation on both writers.
fn write_both<W>(random: &mut Random, theirs: &mut io::BufWriter<Rough>, ours: &mut W)
where
    W: runtime::io::AsyncWrite + Unpin,
{
    let len = random.below(24);
    let bytes = random.text(len, false);
    match random.below(5) {
        0 => {
            let result = cancelled_at_times(random, async || ours.write(&bytes).await);
            assert_eq!(outcome(theirs.write(&bytes)), outcome(result), "write");
        }
        1 => {
            let result = finish(ours.write_all(&bytes));
            assert_eq!(outcome(write_all(theirs, &bytes)), outcome(result), "write_all");
        }
        2 => {
            let mut slices = bytes.chunks(1 + random.below(5)).map(IoSlice::new).collect::<Vec<_>>();
            slices.insert(random.below(slices.len() + 1), IoSlice::new(&[]));
            let result = cancelled_at_times(random, async || ours.write_vectored(&slices).await);
            assert_eq!(outcome(theirs.write_vectored(&slices)), outcome(result), "write_vectored");
        }
        3 => {
            let result = cancelled_at_times(random, async || ours.flush().await);
            assert_eq!(outcome(theirs.flush()), outcome(result), "flush");
        }
        _ => {}
    }
}

#[test]
fn a_writer_writes_as_that_of_std_and_loses_nothing_where_it_was_given_up() {
    for seed in 0..SEEDS {
        let mut random = Random::new(seed);
        let rough = Rough::new(Vec::new(), Terrain::new(seed, faults(&mut random)));
        let capacity = capacity(&mut random);
        let mut theirs = io::BufWriter::with_capacity(capacity, rough.clone());
        let mut ours = BufWriter::with_capacity(capacity, Waiting::new(rough, seed));
        for step in 0..40 {
            match random.below(8) {
                0 => {
                    let position = SeekFrom::Start(random.below(200) as u64);
                    let result = cancelled_at_times(&mut random, async || ours.seek(position).await);
                    assert_eq!(outcome(theirs.seek(position)), outcome(result), "seek {position:?}");
                }
                _ => write_both(&mut random, &mut theirs, &mut ours),
            }
            assert_eq!(theirs.buffer(), ours.buffer(), "seed {seed}, step {step}");
            let written = theirs.get_ref().stream.get_ref();
            assert_eq!(written, ours.get_ref().inner.stream.get_ref(), "seed {seed}, step {step}");
        }
    }
}

/// Two directions that know nothing of each other.
type Joined = BothWays<Waiting<Rough>, Waiting<Rough>>;

struct BothWays<R, W> {
    reader: R,
    writer: W,
}

mod both_ways {
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use runtime::io::{AsyncRead, AsyncWrite, ReadBuf, Result};

    use super::BothWays;

    impl<R: AsyncRead + Unpin, W: Unpin> AsyncRead for BothWays<R, W> {
        fn poll_read(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
            buf: &mut ReadBuf<'_>,
        ) -> Poll<Result<()>> {
            Pin::new(&mut self.reader).poll_read(cx, buf)
        }
    }

    impl<R: Unpin, W: AsyncWrite + Unpin> AsyncWrite for BothWays<R, W> {
        fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<Result<usize>> {
            Pin::new(&mut self.writer).poll_write(cx, buf)
        }

        fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
            Pin::new(&mut self.writer).poll_flush(cx)
        }

        fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
            Pin::new(&mut self.writer).poll_shutdown(cx)
        }
    }
}

#[test]
fn a_stream_is_a_reader_and_a_writer_whichever_way_it_was_made() {
    for seed in 0..SEEDS {
        let mut random = Random::new(seed);
        let len = random.below(300);
        let source = Rough::new(random.text(len, false), Terrain::new(seed, faults(&mut random)));
        let target = Rough::new(Vec::new(), Terrain::new(!seed, faults(&mut random)));
        let (read, write) = (capacity(&mut random), capacity(&mut random));
        let mut reader = io::BufReader::with_capacity(read, source.clone());
        let mut writer = io::BufWriter::with_capacity(write, target.clone());
        let inner = Joined { reader: Waiting::new(source, seed), writer: Waiting::new(target, seed + 1) };
        let mut ours = match random.below(2) {
            0 => BufStream::with_capacity(read, write, inner),
            // The other way round, with something in both buffers.
            _ => {
                let mut reversed = BufWriter::with_capacity(write, BufReader::with_capacity(read, inner));
                for _ in 0..4 {
                    read_both(&mut random, &mut reader, &mut reversed);
                    write_both(&mut random, &mut writer, &mut reversed);
                }
                reversed.into()
            }
        };
        for step in 0..20 {
            read_both(&mut random, &mut reader, &mut ours);
            write_both(&mut random, &mut writer, &mut ours);
            let ours = ours.get_ref();
            assert_eq!(
                writer.get_ref().stream.get_ref(),
                ours.writer.inner.stream.get_ref(),
                "seed {seed}, step {step}"
            );
            let there = reader.get_ref().stream.position();
            assert_eq!(there, ours.reader.inner.stream.position(), "seed {seed}, step {step}");
        }
    }
}

#[test]
fn lines_and_pieces_are_those_of_std_also_where_waiting_was_given_up() {
    for seed in 0..SEEDS {
        let mut random = Random::new(seed);
        let len = random.below(200);
        let bytes = random.text(len, false);
        let capacity = capacity(&mut random);
        // No errors but interruptions: after others std loses the piece it was at, and we do not.
        let waiting =
            || Waiting::new(Rough::new(bytes.clone(), Terrain::new(seed, Faults::Interruptions)), seed);

        let mut lines = BufReader::with_capacity(capacity, waiting()).lines();
        let mut all = Vec::new();
        while let Some(line) =
            outcome(cancelled_at_times(&mut random, async || lines.next_line().await)).transpose()
        {
            all.push(line);
        }
        assert_eq!(all, BufRead::lines(&bytes[..]).map(outcome).collect::<Vec<_>>(), "seed {seed}");

        let mut pieces = BufReader::with_capacity(capacity, waiting()).split(b',');
        let mut all = Vec::new();
        while let Some(piece) = cancelled_at_times(&mut random, async || pieces.next_segment().await).unwrap()
        {
            all.push(piece);
        }
        let expected = BufRead::split(&bytes[..], b',').map(Result::unwrap).collect::<Vec<_>>();
        assert_eq!(all, expected, "seed {seed}");
    }
}

/// The pieces before and after an error are one.
#[test]
fn an_error_divides_no_piece() {
    for seed in 0..SEEDS {
        let mut random = Random::new(seed);
        let len = random.below(200);
        let bytes = random.text(len, true);
        let capacity = capacity(&mut random);
        let rough = Rough::new(bytes.clone(), Terrain::new(seed, Faults::Errors));
        let mut lines = BufReader::with_capacity(capacity, Waiting::new(rough, seed)).lines();
        let mut all = Vec::new();
        loop {
            match finish(lines.next_line()) {
                Ok(Some(line)) => all.push(line),
                Ok(None) => break,
                Err(_) => {}
            }
        }
        assert_eq!(all, BufRead::lines(&bytes[..]).map(Result::unwrap).collect::<Vec<_>>(), "seed {seed}");
    }
}
