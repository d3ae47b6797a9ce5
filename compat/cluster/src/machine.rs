//! The contents that the log makes, and snapshots of them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::{fmt, io};

use openraft::alias::{LogIdOf, SnapshotMetaOf, SnapshotOf, StoredMembershipOf};
use openraft::storage::{EntryResponder, RaftStateMachine};
use openraft::{EntryPayload, OptionalSend, RaftSnapshotBuilder};
use serde::{Deserialize, Serialize};
use tokio::fs::{self, File};
use tokio::io::AsyncWriteExt;
use tokio_stream::{Stream, StreamExt};

use crate::Types;

/// Sets a key. A client numbers its writes, so that a write that it sends again is made once.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Write {
    pub client: u64,
    pub serial: u64,
    pub key: String,
    pub value: u64,
}

impl fmt::Display for Write {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {}, client {} number {}", self.key, self.value, self.client, self.serial)
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Written;

/// The contents after a part of the log.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct State {
    pub applied: Option<LogIdOf<Types>>,
    membership: StoredMembershipOf<Types>,
    pub values: BTreeMap<String, u64>,
    /// The number of each client's last write.
    serials: BTreeMap<u64, u64>,
}

impl State {
    fn write(&mut self, write: Write) {
        let last = self.serials.entry(write.client).or_default();
        if write.serial > *last {
            *last = write.serial;
            self.values.insert(write.key, write.value);
        }
    }
}

/// The contents of one node. Snapshots are in a file, all else is made again from the log at each start.
#[derive(Clone)]
pub struct Machine {
    path: Arc<PathBuf>,
    inner: Arc<Mutex<Inner>>,
}

#[derive(Default)]
struct Inner {
    state: State,
    snapshot: Option<State>,
}

impl Machine {
    /// Takes the contents from the snapshot in this file, if there is one.
    pub async fn open(path: &Path) -> io::Result<Self> {
        let snapshot: Option<State> = match fs::read(path).await {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            bytes => Some(serde_json::from_slice(&bytes?)?),
        };
        let inner = Inner { state: snapshot.clone().unwrap_or_default(), snapshot };
        Ok(Self { path: Arc::new(path.into()), inner: Arc::new(Mutex::new(inner)) })
    }

    pub fn state(&self) -> State {
        self.lock().state.clone()
    }

    pub fn value(&self, key: &str) -> Option<u64> {
        self.lock().state.values.get(key).copied()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().expect("nothing panics under this lock")
    }

    /// Replaces the snapshot. The file is whole at any time.
    async fn keep(&self, state: State) -> io::Result<()> {
        let new = PathBuf::from(format!("{}.new", self.path.display()));
        let mut file = File::create(&new).await?;
        file.write_all(&serde_json::to_vec(&state)?).await?;
        file.flush().await?;
        file.sync_data().await?;
        fs::rename(&new, &*self.path).await?;
        self.lock().snapshot = Some(state);
        Ok(())
    }
}

impl RaftSnapshotBuilder<Types> for Machine {
    type SnapshotData = State;

    async fn build_snapshot(&mut self) -> io::Result<SnapshotOf<Types, State>> {
        let state = self.state();
        self.keep(state.clone()).await?;
        Ok(snapshot(state))
    }
}

impl RaftStateMachine<Types> for Machine {
    type SnapshotData = State;
    type SnapshotBuilder = Self;

    async fn applied_state(&mut self) -> io::Result<(Option<LogIdOf<Types>>, StoredMembershipOf<Types>)> {
        let state = &self.lock().state;
        Ok((state.applied, state.membership.clone()))
    }

    async fn apply<S>(&mut self, mut entries: S) -> io::Result<()>
    where
        S: Stream<Item = io::Result<EntryResponder<Types>>> + Unpin + OptionalSend,
    {
        while let Some((entry, responder)) = entries.try_next().await? {
            {
                let state = &mut self.lock().state;
                state.applied = Some(entry.log_id);
                match entry.payload {
                    EntryPayload::Blank => {}
                    EntryPayload::Normal(write) => state.write(write),
                    EntryPayload::Membership(membership) => {
                        state.membership = StoredMembershipOf::<Types>::new(Some(entry.log_id), membership);
                    }
                }
            }
            if let Some(responder) = responder {
                responder.send(Written);
            }
        }
        Ok(())
    }

    async fn get_snapshot_builder(&mut self) -> Self {
        self.clone()
    }

    async fn install_snapshot(&mut self, meta: &SnapshotMetaOf<Types>, snapshot: State) -> io::Result<()> {
        let state = State { applied: meta.last_log_id, membership: meta.last_membership.clone(), ..snapshot };
        self.keep(state.clone()).await?;
        self.lock().state = state;
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> io::Result<Option<SnapshotOf<Types, State>>> {
        Ok(self.lock().snapshot.clone().map(snapshot))
    }
}

fn snapshot(state: State) -> SnapshotOf<Types, State> {
    let meta =
        SnapshotMetaOf::<Types> { last_log_id: state.applied, last_membership: state.membership.clone() };
    SnapshotOf::<Types, State> { meta, snapshot: state }
}
