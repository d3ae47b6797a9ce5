//! The log of Raft, in a file of lines.
//!
//! Each change is one line of JSON at the end of the file. What Raft relies on is synced before it is
//! reported. A node that was killed may leave half a line at the end, which nothing relied on: it is dropped.
//! A node that starts writes the file anew, without what was purged or overwritten.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::io;
use std::ops::RangeBounds;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use openraft::alias::{EntryOf, LogIdOf, VoteOf};
use openraft::storage::{IOFlushed, RaftLogStorage};
use openraft::{LogState, OptionalSend, RaftLogReader};
use serde::{Deserialize, Serialize};
use tokio::fs::{self, File};
use tokio::io::AsyncWriteExt;
use tokio::sync::Mutex;

use crate::Types;

#[derive(Clone)]
pub struct Log(Arc<Mutex<Journal>>);

struct Journal {
    file: File,
    contents: Contents,
}

#[derive(Default)]
struct Contents {
    vote: Option<VoteOf<Types>>,
    committed: Option<LogIdOf<Types>>,
    purged: Option<LogIdOf<Types>>,
    entries: BTreeMap<u64, EntryOf<Types>>,
}

/// One line of the file.
#[derive(Serialize, Deserialize)]
enum Change {
    Vote(VoteOf<Types>),
    Committed(Option<LogIdOf<Types>>),
    Append(Vec<EntryOf<Types>>),
    /// All entries after this one are void.
    Truncate(Option<LogIdOf<Types>>),
    /// The entries up to this one are in a snapshot.
    Purge(LogIdOf<Types>),
}

impl Log {
    /// Opens the log in this file, or makes one.
    pub async fn open(path: &Path) -> io::Result<Self> {
        let lines = match fs::read_to_string(path).await {
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            lines => lines?,
        };
        let mut contents = Contents::default();
        for line in lines.split_inclusive('\n').filter(|line| line.ends_with('\n')) {
            contents.make(serde_json::from_str(line)?);
        }

        let new = PathBuf::from(format!("{}.new", path.display()));
        let mut journal = Journal { file: File::create(&new).await?, contents: Contents::default() };
        journal.write(contents.changes()).await?;
        fs::rename(&new, path).await?;
        Ok(Self(Arc::new(Mutex::new(journal))))
    }

    async fn write(&self, change: Change) -> io::Result<()> {
        self.0.lock().await.write([change]).await
    }
}

impl Journal {
    /// Writes the changes to the file and makes them in memory, then syncs the file. After an error the
    /// memory may have changes that the disk lacks.
    async fn write(&mut self, changes: impl IntoIterator<Item = Change>) -> io::Result<()> {
        for change in changes {
            let mut line = serde_json::to_vec(&change)?;
            line.push(b'\n');
            self.file.write_all(&line).await?;
            self.contents.make(change);
        }
        self.file.flush().await?;
        self.file.sync_data().await
    }
}

impl Contents {
    fn make(&mut self, change: Change) {
        match change {
            Change::Vote(vote) => self.vote = Some(vote),
            Change::Committed(id) => self.committed = id,
            Change::Append(entries) => {
                self.entries.extend(entries.into_iter().map(|entry| (entry.log_id.index, entry)));
            }
            Change::Truncate(last) => {
                self.entries.split_off(&last.map_or(0, |id| id.index + 1));
            }
            Change::Purge(id) => {
                self.entries = self.entries.split_off(&(id.index + 1));
                self.purged = Some(id);
            }
        }
    }

    /// The changes that make these contents.
    fn changes(self) -> impl Iterator<Item = Change> {
        let vote = self.vote.map(Change::Vote);
        let purged = self.purged.map(Change::Purge);
        let entries = Change::Append(self.entries.into_values().collect());
        vote.into_iter().chain(purged).chain([entries, Change::Committed(self.committed)])
    }
}

impl RaftLogReader<Types> for Log {
    async fn try_get_log_entries<R: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: R,
    ) -> io::Result<Vec<EntryOf<Types>>> {
        let journal = self.0.lock().await;
        Ok(journal.contents.entries.range(range).map(|(_, entry)| entry.clone()).collect())
    }

    async fn read_vote(&mut self) -> io::Result<Option<VoteOf<Types>>> {
        Ok(self.0.lock().await.contents.vote)
    }
}

impl RaftLogStorage<Types> for Log {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> io::Result<LogState<Types>> {
        let contents = &self.0.lock().await.contents;
        let last = contents.entries.values().next_back().map(|entry| entry.log_id);
        Ok(LogState { last_purged_log_id: contents.purged, last_log_id: last.or(contents.purged) })
    }

    async fn get_log_reader(&mut self) -> Self {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &VoteOf<Types>) -> io::Result<()> {
        self.write(Change::Vote(*vote)).await
    }

    async fn save_committed(&mut self, committed: Option<LogIdOf<Types>>) -> io::Result<()> {
        self.write(Change::Committed(committed)).await
    }

    async fn read_committed(&mut self) -> io::Result<Option<LogIdOf<Types>>> {
        Ok(self.0.lock().await.contents.committed)
    }

    async fn append<I>(&mut self, entries: I, flushed: IOFlushed<Types>) -> io::Result<()>
    where
        I: IntoIterator<Item = EntryOf<Types>> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let entries = entries.into_iter().collect();
        self.write(Change::Append(entries)).await?;
        flushed.io_completed(Ok(()));
        Ok(())
    }

    async fn truncate_after(&mut self, last: Option<LogIdOf<Types>>) -> io::Result<()> {
        self.write(Change::Truncate(last)).await
    }

    async fn purge(&mut self, id: LogIdOf<Types>) -> io::Result<()> {
        self.write(Change::Purge(id)).await
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

    use openraft::StorageError;
    use openraft::testing::log::{StoreBuilder, Suite};

    use super::*;
    use crate::machine::Machine;

    /// Makes stores in folders of their own.
    struct Stores {
        folder: PathBuf,
        made: AtomicU32,
    }

    impl StoreBuilder<Types, Log, Machine> for Stores {
        async fn build(&self) -> Result<((), Log, Machine), StorageError<Types>> {
            let folder = self.folder.join(self.made.fetch_add(1, Relaxed).to_string());
            fs::create_dir_all(&folder).await.expect("the folder can be made");
            let log = Log::open(&folder.join("log")).await.expect("there is no log yet");
            let machine = Machine::open(&folder.join("snapshot")).await.expect("there is no snapshot yet");
            Ok(((), log, machine))
        }
    }

    /// A folder that is not there yet.
    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("cluster-{name}-{}", std::process::id()));
        _ = std::fs::remove_dir_all(&folder);
        folder
    }

    #[tokio::test]
    async fn the_store_passes_the_suite_of_openraft() {
        let folder = folder("suite");
        Suite::test_all(Stores { folder: folder.clone(), made: AtomicU32::new(0) }).await.unwrap();
        fs::remove_dir_all(folder).await.unwrap();
    }

    #[tokio::test]
    async fn half_a_line_at_the_end_is_dropped() {
        let folder = folder("torn");
        fs::create_dir_all(&folder).await.unwrap();
        let path = folder.join("log");
        let vote = VoteOf::<Types>::new(3, 1);
        Log::open(&path).await.unwrap().save_vote(&vote).await.unwrap();
        let mut bytes = fs::read(&path).await.unwrap();
        bytes.extend_from_slice(br#"{"Vote":{"leader_id":{"term":4,"#);
        fs::write(&path, bytes).await.unwrap();
        for _ in 0..2 {
            assert_eq!(Log::open(&path).await.unwrap().read_vote().await.unwrap(), Some(vote));
        }
        fs::remove_dir_all(folder).await.unwrap();
    }

    #[test]
    fn the_runtime_passes_the_suite_of_openraft() {
        openraft::testing::runtime::Suite::<openraft::TokioRuntime>::test_all();
    }
}
