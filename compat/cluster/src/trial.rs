//! Clients, kills and checks.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{env, io};

use tokio::fs;
use tokio::process::{Child, Command};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::Failure;
use crate::machine::{State, Write};
use crate::node::ELECTION_TIME;
use crate::wire::{self, Answer, Client, Json};

const CLIENTS: u64 = 16;
/// A client rests so long after each write. That leaves load enough, and the contents stay small.
const PAUSE: Duration = Duration::from_millis(5);
/// A client reads its last write back each time it has made so many.
const WRITES_PER_READ: u64 = 8;
/// A client asks another node if it has no answer for so long.
const CALL: Duration = Duration::from_millis(300);
/// Writes between two kills.
const WRITES_PER_KILL: u32 = 500;
/// How long anything may take before the trial has failed.
const PATIENCE: Duration = Duration::from_secs(30);

/// A write that was acknowledged.
struct Acknowledged {
    sent: Instant,
    node: usize,
}

/// Runs the trial with so many kills of a leader.
pub async fn run(folder: &Path, kills: u32) -> Result<(), Failure> {
    match fs::remove_dir_all(folder).await {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    let mut cluster = Cluster::start(folder).await?;
    let stop = CancellationToken::new();
    let (sender, mut acknowledged) = mpsc::channel(1024);
    let mut clients = JoinSet::new();
    for client in 1..=CLIENTS {
        let nodes = cluster.clients();
        let work = Work { client, nodes, stop: stop.clone(), acknowledged: sender.clone() };
        clients.spawn(work.run());
    }
    drop(sender);

    let mut recoveries = Vec::new();
    let mut leader = write_on(&mut acknowledged).await?;
    for kill in 1..=kills {
        let start = Instant::now();
        cluster.kill(leader).await?;
        // A write that the leader has acknowledged before it died is no sign of an heir.
        let heir = first_after(&mut acknowledged, Instant::now()).await?;
        recoveries.push(start.elapsed());
        println!("kill {kill}: node {leader} led, node {heir} took over in {:?}", start.elapsed());
        cluster.restart(leader)?;
        cluster.until_caught_up(leader).await?;
        leader = write_on(&mut acknowledged).await?;
    }

    for node in 0..3 {
        cluster.kill(node).await?;
    }
    let start = Instant::now();
    for node in 0..3 {
        cluster.restart(node)?;
    }
    first_after(&mut acknowledged, start).await?;
    println!("all three killed and started: the next write took {:?}", start.elapsed());

    stop.cancel();
    // The clients wait for their last answers.
    while acknowledged.recv().await.is_some() {}
    let mut serials = BTreeMap::new();
    while let Some(client) = clients.join_next().await {
        let (client, serial) = client??;
        serials.insert(client, serial);
    }
    let writes = check(&mut cluster, &serials).await?;
    cluster.end().await?;

    recoveries.sort();
    let slowest = recoveries.last().copied().unwrap_or_default();
    let median = recoveries.get(recoveries.len() / 2).copied().unwrap_or_default();
    println!(
        "{writes} writes acknowledged, none lost; {kills} leaders killed; recovery: median {median:?}, \
         slowest {slowest:?}; two election times are {:?}",
        2 * ELECTION_TIME
    );
    if slowest >= 2 * ELECTION_TIME {
        return Err("a new leader took more than two election times".into());
    }
    Ok(())
}

/// Waits until some more writes are acknowledged. Returns the node that acknowledged the last one.
async fn write_on(acknowledged: &mut mpsc::Receiver<Acknowledged>) -> Result<usize, Failure> {
    let mut node = 0;
    for _ in 0..WRITES_PER_KILL {
        node = next(acknowledged).await?.node;
    }
    Ok(node)
}

/// Waits for a write that was sent after `start`. Returns the node that acknowledged it.
async fn first_after(
    acknowledged: &mut mpsc::Receiver<Acknowledged>,
    start: Instant,
) -> Result<usize, Failure> {
    loop {
        let write = next(acknowledged).await?;
        if write.sent > start {
            return Ok(write.node);
        }
    }
}

async fn next(acknowledged: &mut mpsc::Receiver<Acknowledged>) -> Result<Acknowledged, Failure> {
    Ok(timeout(PATIENCE, acknowledged.recv())
        .await
        .map_err(|_| "no write is acknowledged any more")?
        .ok_or("all clients have failed")?)
}

/// What a client writes as its write with this number.
fn written(client: u64, serial: u64) -> (String, u64) {
    (format!("{client}/{serial}"), client * 1_000_000 + serial)
}

/// One client, which writes one key after the other.
struct Work {
    client: u64,
    nodes: Vec<Client>,
    stop: CancellationToken,
    acknowledged: mpsc::Sender<Acknowledged>,
}

impl Work {
    /// Returns the client and how many of its writes were acknowledged.
    async fn run(mut self) -> Result<(u64, u64), Failure> {
        let (mut serial, mut node) = (0, 0);
        while !self.stop.is_cancelled() {
            serial += 1;
            let (key, value) = written(self.client, serial);
            let write = Json::of(&Write { client: self.client, serial, key: key.clone(), value })?;
            let sent = self.until_answered(&mut node, Call::Write, &write).await?.1;
            self.acknowledged.send(Acknowledged { sent, node }).await?;
            if serial.is_multiple_of(WRITES_PER_READ) {
                let key = Json::of(&key)?;
                let (answer, _) = self.until_answered(&mut node, Call::Read, &key).await?;
                if !matches!(answer, Answer::Value(Some(found)) if found == value) {
                    return Err(format!("{value} was acknowledged, but a read gave {answer:?}").into());
                }
            }
            sleep(PAUSE).await;
        }
        Ok((self.client, serial))
    }

    /// Asks one node after the other until one answers. Returns the answer, and when the call with the answer
    /// was sent.
    async fn until_answered(
        &mut self,
        node: &mut usize,
        call: Call,
        request: &Json,
    ) -> Result<(Answer, Instant), Failure> {
        let start = Instant::now();
        loop {
            let sent = Instant::now();
            let client = &mut self.nodes[*node];
            let response = async {
                match call {
                    Call::Write => client.write(request.clone()).await,
                    Call::Read => client.read(request.clone()).await,
                }
            };
            let response = timeout(CALL, response).await;
            match response.map(wire::answer) {
                Ok(Ok(answer @ (Answer::Written | Answer::Value(_)))) => return Ok((answer, sent)),
                Ok(Ok(Answer::Elsewhere(Some(leader)))) if leader as usize != *node => {
                    *node = leader as usize
                }
                _ => *node = (*node + 1) % self.nodes.len(),
            }
            if start.elapsed() > PATIENCE {
                return Err(format!("client {} has no answer", self.client).into());
            }
            sleep(PAUSE).await;
        }
    }
}

#[derive(Clone, Copy)]
enum Call {
    Write,
    Read,
}

/// Waits until the nodes agree, and compares what they have with what was acknowledged. Returns how many
/// writes were acknowledged.
async fn check(cluster: &mut Cluster, serials: &BTreeMap<u64, u64>) -> Result<usize, Failure> {
    let expected: BTreeMap<String, u64> = serials
        .iter()
        .flat_map(|(&client, &last)| (1..=last).map(move |serial| written(client, serial)))
        .collect();
    let start = Instant::now();
    loop {
        let mut states = Vec::new();
        for node in 0..3 {
            states.push(cluster.state(node).await);
        }
        let states: Vec<State> = states.into_iter().flatten().collect();
        let agree = |state: &State| state.values == expected;
        if states.len() == 3 && states.iter().all(agree) {
            return Ok(expected.len());
        }
        if start.elapsed() > PATIENCE {
            for state in &states {
                let lost = expected.iter().filter(|&(key, value)| state.values.get(key) != Some(value));
                let strange = state.values.keys().filter(|&key| !expected.contains_key(key));
                println!("applied {:?}: {} lost, {} strange", state.applied, lost.count(), strange.count());
            }
            return Err("acknowledged writes are lost, or the nodes do not agree".into());
        }
        sleep(Duration::from_millis(50)).await;
    }
}

/// The three processes. They are killed when this is dropped.
struct Cluster {
    folder: PathBuf,
    addresses: Arc<[String; 3]>,
    nodes: Vec<Child>,
    clients: Vec<Client>,
}

impl Cluster {
    async fn start(folder: &Path) -> Result<Self, Failure> {
        // The ports stay free for as long as it takes to start a process.
        let listeners = [(); 3].map(|()| TcpListener::bind("127.0.0.1:0"));
        let mut addresses = [const { String::new() }; 3];
        for (address, listener) in addresses.iter_mut().zip(listeners) {
            *address = listener?.local_addr()?.to_string();
        }
        let clients = addresses.iter().map(|address| wire::client(address)).collect();
        let mut cluster =
            Self { folder: folder.into(), addresses: Arc::new(addresses), nodes: Vec::new(), clients };
        for node in 0..3 {
            let child = cluster.spawn(node)?;
            cluster.nodes.push(child);
        }
        Ok(cluster)
    }

    fn spawn(&self, node: usize) -> Result<Child, Failure> {
        let child = Command::new(env::current_exe()?)
            .arg("node")
            .arg(node.to_string())
            .arg(self.folder.join(node.to_string()))
            .args(self.addresses.iter())
            // The node ends with this process, which holds the other end of the pipe.
            .stdin(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        Ok(child)
    }

    fn clients(&self) -> Vec<Client> {
        self.addresses.iter().map(|address| wire::client(address)).collect()
    }

    /// Kills a node as `kill -9` does.
    async fn kill(&mut self, node: usize) -> Result<(), Failure> {
        if let Some(status) = self.nodes[node].try_wait()? {
            return Err(format!("node {node} ended by itself: {status}").into());
        }
        Ok(self.nodes[node].kill().await?)
    }

    fn restart(&mut self, node: usize) -> Result<(), Failure> {
        self.nodes[node] = self.spawn(node)?;
        Ok(())
    }

    async fn state(&mut self, node: usize) -> Option<State> {
        let response = timeout(PATIENCE, self.clients[node].state(Json::default())).await.ok()?;
        wire::answer(response).ok()
    }

    /// Waits until a node has what another one has now.
    async fn until_caught_up(&mut self, node: usize) -> Result<(), Failure> {
        let start = Instant::now();
        let target = loop {
            if let Some(state) = self.state((node + 1) % 3).await {
                break state.applied;
            }
            if start.elapsed() > PATIENCE {
                return Err(format!("node {} does not answer", (node + 1) % 3).into());
            }
            sleep(Duration::from_millis(20)).await;
        };
        while self.state(node).await.is_none_or(|state| state.applied < target) {
            if start.elapsed() > PATIENCE {
                return Err(format!("node {node} does not catch up").into());
            }
            sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }

    /// Ends all nodes as their user would.
    async fn end(mut self) -> Result<(), Failure> {
        for node in &mut self.nodes {
            drop(node.stdin.take());
        }
        for (index, node) in self.nodes.iter_mut().enumerate() {
            let status =
                timeout(PATIENCE, node.wait()).await.map_err(|_| format!("node {index} does not end"))??;
            if !status.success() {
                return Err(format!("node {index} ended with {status}").into());
            }
        }
        Ok(())
    }
}
