//! A program as text: pseudo-code, one operation a line, with what has become of each if that is known.

use std::fmt::{self, Write};

use crate::program::*;

/// What has become of an operation, for the margin.
pub type States<'a> = &'a dyn Fn(Id) -> String;

/// Writes a program.
pub fn show(program: &Program, states: States) -> String {
    let mut writer = Writer { text: String::new(), depth: 0, states };
    writer.program(program).expect("a string takes everything");
    writer.text
}

struct Writer<'a> {
    text: String,
    depth: usize,
    states: States<'a>,
}

fn pool(id: PoolId) -> String {
    match id {
        0 => "runtime".to_owned(),
        1 => "global".to_owned(),
        id => format!("pool{id}"),
    }
}

fn on(id: Option<PoolId>) -> String {
    id.map_or(String::new(), |id| format!("{}.", pool(id)))
}

impl fmt::Display for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Pool::Workers { workers, spares, blocking } => {
                write!(f, "multi_thread, {workers} workers")?;
                if spares != 512 {
                    write!(f, ", spare_workers({spares})")?;
                }
                if blocking != 512 {
                    write!(f, ", max_blocking_threads({blocking})")?;
                }
                Ok(())
            }
            Pool::Single => f.write_str("current_thread"),
            Pool::Threads(threads) => write!(f, "ThreadPool, {threads} threads"),
            Pool::Global(threads) => write!(f, "the process-wide pool, {threads} threads"),
        }
    }
}

impl Writer<'_> {
    fn line(&mut self, id: Option<Id>, text: &str) -> fmt::Result {
        let state = id.map(self.states).unwrap_or_default();
        writeln!(self.text, "{state:>8} {:indent$}{text}", "", indent = 2 * self.depth)
    }

    fn nested(&mut self, body: impl FnOnce(&mut Self) -> fmt::Result) -> fmt::Result {
        self.depth += 1;
        body(self)?;
        self.depth -= 1;
        Ok(())
    }

    fn program(&mut self, program: &Program) -> fmt::Result {
        for (id, kind) in program.pools.iter().enumerate() {
            let is_own = id == 0 || program.thread_pools.contains(&id);
            let who = if is_own { "main builds" } else { "there is" };
            if id != 1 {
                self.line(None, &format!("{who} {}: {kind}", pool(id)))?;
            }
        }
        let more = [
            program.has_handler.then(|| "deadlock_handler".to_owned()),
            program.hook.map(|hook| format!("hooks: {hook:?}")),
            program.names.map(|names| format!("thread_name_fn: {names:?}")),
            program.is_pinned.then(|| "pin_workers".to_owned()),
            (program.interval != 61).then(|| format!("intervals {}", program.interval)),
            match program.drivers {
                Drivers::Used => None,
                Drivers::Idle => Some("neither timers nor sockets".to_owned()),
                Drivers::None => Some("no drivers".to_owned()),
            },
            program.keep_alive.map(|time| format!("thread_keep_alive({time} µs)")),
        ];
        for text in more.into_iter().flatten() {
            self.line(None, &format!("runtime: {text}"))?;
        }
        for call in &program.outside {
            self.line(None, "a thread outside:")?;
            self.nested(|w| w.call(call))?;
        }
        let how = if program.in_block_on { "runtime.block_on:" } else { "runtime.spawn:" };
        self.line(None, how)?;
        self.nested(|w| w.step(&program.root))?;
        let when = match program.when {
            When::Last => "at last".to_owned(),
            When::After(time) => format!("after {time} µs"),
        };
        self.line(None, &format!("{when}: {:?}", program.close))
    }

    fn head(&mut self, id: Id, text: &str, body: impl FnOnce(&mut Self) -> fmt::Result) -> fmt::Result {
        self.line(Some(id), &format!("[{id}] {text}"))?;
        self.nested(body)
    }

    fn step(&mut self, step: &Async) -> fmt::Result {
        let id = step.id;
        let none = |_: &mut Self| Ok(());
        match &step.op {
            AsyncOp::Seq(steps) => {
                self.head(id, "in turn", |w| steps.iter().try_for_each(|step| w.step(step)))
            }
            AsyncOp::Yield(times) => self.head(id, &format!("yield_now, {times} times"), none),
            AsyncOp::Sleep(time) => self.head(id, &format!("sleep({time} µs)"), none),
            AsyncOp::Spin(time) => self.head(id, &format!("spin {time} µs"), none),
            AsyncOp::Block(time) => self.head(id, &format!("std::thread::sleep({time} µs)"), none),
            AsyncOp::Panic => self.head(id, "panic", none),
            AsyncOp::Spawn { rt, free, body, end } => {
                let how = if *free { "spawn" } else { "handle.spawn" };
                self.head(id, &format!("{}: {how}, {end:?}", pool(*rt)), |w| w.step(body))
            }
            AsyncOp::Many { rt, count, body } => {
                self.head(id, &format!("{}: spawn {count}, await all", pool(*rt)), |w| w.step(body))
            }
            AsyncOp::Blocking { rt, body, end } => {
                self.head(id, &format!("{}: spawn_blocking, {end:?}", pool(*rt)), |w| w.call(body))
            }
            AsyncOp::Compute { on: named, body, end } => {
                self.head(id, &format!("{}compute, {end:?}", on(*named)), |w| w.call(body))
            }
            AsyncOp::Endless { rt, forks, body } => {
                let end = if *forks { ", whose destructor joins," } else { "" };
                let text = format!("{}.compute(loop join){end} until this has ended:", pool(*rt));
                self.head(id, &text, |w| w.step(body))
            }
            AsyncOp::InPlace(body) => self.head(id, "block_in_place", |w| w.call(body)),
            AsyncOp::Here(body) => self.head(id, "in the poll", |w| w.call(body)),
            AsyncOp::Both(steps) => {
                self.head(id, "join!", |w| steps.iter().try_for_each(|step| w.step(step)))
            }
            AsyncOp::Select(steps) => {
                self.head(id, "select!", |w| steps.iter().try_for_each(|step| w.step(step)))
            }
            AsyncOp::Timeout(time, body) => self.head(id, &format!("timeout({time} µs)"), |w| w.step(body)),
            AsyncOp::Gate { rt, kind, opener, waiter } => {
                self.head(id, &format!("{}: spawn two, the second waits: {kind:?}", pool(*rt)), |w| {
                    w.step(opener)?;
                    w.step(waiter)
                })
            }
            AsyncOp::Pipe { rt, bound, count, blocking, body } => {
                let who = if *blocking { "a closure" } else { "a task" };
                let text = format!("{}: receive {count} from {who}, mpsc {bound:?}, then it:", pool(*rt));
                self.head(id, &text, |w| w.step(body))
            }
            AsyncOp::Hold { lock, is_semaphore, body } => {
                let what = if *is_semaphore { "semaphore" } else { "mutex" };
                self.head(id, &format!("holding {what}{lock}"), |w| w.step(body))
            }
            AsyncOp::Echo { rt, bytes } => {
                self.head(id, &format!("{}: TCP echo of {bytes} bytes", pool(*rt)), none)
            }
            AsyncOp::Foreign { late, again } => {
                let more = if *again { ", and once more at the end" } else { "" };
                self.head(id, &format!("woken by a thread after {late} µs{more}"), none)
            }
            AsyncOp::Pause { rt, kind, body } => {
                let text = format!("{}: a thread pauses, then {kind:?}; then:", pool(*rt));
                self.head(id, &text, |w| w.step(body))
            }
            AsyncOp::Odd { kind, body, .. } => {
                self.head(id, &format!("polled with a waker that {kind:?}"), |w| w.step(body))
            }
            AsyncOp::Twins { rt, kind, time } => {
                let text = format!("{}: two timers due in {time} µs, twin: {kind:?}", pool(*rt));
                self.head(id, &text, none)
            }
            AsyncOp::Drops { rt, drops } => {
                let Drops { kept, has_holder, has_returner, waiters, sleepers, awaited, closures, time } =
                    drops;
                self.head(id, &format!("{}: spawn tasks that wait for ever", pool(*rt)), |w| {
                    for (task, kind) in kept.iter().enumerate() {
                        w.line(None, &format!("destructor of {task}: {kind:?}"))?;
                    }
                    match awaited {
                        Some(task) => {
                            w.line(None, &format!("{sleepers} closures that wait for destructor {task}"))?
                        }
                        None if *sleepers > 0 => {
                            w.line(None, &format!("{sleepers} closures that sleep {time} µs"))?
                        }
                        None => {}
                    }
                    for (closure, kind) in closures.iter().enumerate() {
                        w.line(None, &format!("destructor of queued closure {closure}: {kind:?}"))?;
                    }
                    if *has_holder {
                        w.line(None, &format!("a holder of the lock, for {time} µs"))?;
                    }
                    if *has_returner {
                        w.line(None, "blocks until the shutdown has begun, then takes the lock")?;
                    }
                    for Waiter { kind, other, holds_lock } in waiters {
                        let lock = if *holds_lock { ", and holds the lock" } else { "" };
                        w.line(None, &format!("waits for destructor {other}: {kind:?}{lock}"))?;
                    }
                    Ok(())
                })
            }
            AsyncOp::Local(body) => self.head(id, "KEY.scope", |w| w.step(body)),
            AsyncOp::Close(close) => self.head(id, &format!("end the runtime: {close:?}"), none),
            AsyncOp::Nested { pool: nested, close, early, body } => {
                let how = if *early { "not awaited" } else { "awaited" };
                let text = format!("build {}, spawn there, {how}, end it: {close:?}", pool(*nested));
                self.head(id, &text, |w| w.step(body))
            }
            AsyncOp::UntilEnd => self.head(id, "loop yield_now", none),
            AsyncOp::Deadlock => self.head(id, "mark_blocked, wait for the deadlock handler", none),
        }
    }

    fn job(&mut self, job: &Job) -> fmt::Result {
        self.line(None, "job:")?;
        self.nested(|w| {
            job.more.iter().try_for_each(|job| w.job(job))?;
            w.call(&job.body)
        })
    }

    fn call(&mut self, call: &Call) -> fmt::Result {
        let id = call.id;
        let none = |_: &mut Self| Ok(());
        match &call.op {
            CallOp::Seq(calls) => {
                self.head(id, "in turn", |w| calls.iter().try_for_each(|call| w.call(call)))
            }
            CallOp::Spin(time) => self.head(id, &format!("spin {time} µs"), none),
            CallOp::Block(time) => self.head(id, &format!("std::thread::sleep({time} µs)"), none),
            CallOp::Pause(body) => self.head(id, "the thread pauses, then:", |w| w.call(body)),
            CallOp::Panic => self.head(id, "panic", none),
            CallOp::Catch(body) => self.head(id, "catch_unwind", |w| w.call(body)),
            CallOp::Join { on: named, a, b } => self.head(id, &format!("{}join", on(*named)), |w| {
                w.call(a)?;
                w.call(b)
            }),
            CallOp::Scope { on: named, fifo, in_place, jobs, body } => {
                let place = if *in_place { "in_place_" } else { "" };
                let order = if *fifo { "_fifo" } else { "" };
                self.head(id, &format!("{}{place}scope{order}", on(*named)), |w| {
                    jobs.iter().try_for_each(|job| w.job(job))?;
                    w.call(body)
                })
            }
            CallOp::Isolated(body) => self.head(id, "isolated", |w| w.call(body)),
            CallOp::Install(named, body) => {
                self.head(id, &format!("{}.install", pool(*named)), |w| w.call(body))
            }
            CallOp::Broadcast { on: named, threads, body } => {
                self.head(id, &format!("{}broadcast on {threads}", on(*named)), |w| w.call(body))
            }
            CallOp::Barriers { pool: named, kind, count, threads, is_marked, body } => {
                let marked = if *is_marked { ", marked" } else { "" };
                let text = format!("{}: {count} broadcasts with a barrier, {kind:?}{marked}", pool(*named));
                self.head(id, &format!("{text}, on {threads}"), |w| w.call(body))
            }
            CallOp::Detached { on: named, order, runs, wait, body } => {
                let text = format!("{}parallel::spawn, {order:?}, {runs} runs, wait: {wait:?}", on(*named));
                self.head(id, &text, |w| w.call(body))
            }
            CallOp::BlockOn { rt, body } => {
                self.head(id, &format!("{}.block_on", pool(*rt)), |w| w.step(body))
            }
            CallOp::InPlace(body) => self.head(id, "block_in_place", |w| w.call(body)),
            CallOp::Blocking(body) => self.head(id, "parallel::blocking", |w| w.call(body)),
            CallOp::Meet { kind, body } => {
                let how = match kind {
                    MeetKind::Channel => "blocking_recv".to_owned(),
                    MeetKind::InPlace => "block_in_place(recv)".to_owned(),
                    MeetKind::Install(other) => format!("{}.install(recv)", pool(*other)),
                };
                self.head(id, &format!("join({how}, then send)"), |w| w.call(body))
            }
            CallOp::Yield { local } => {
                self.head(id, if *local { "parallel::yield_local" } else { "parallel::yield_now" }, none)
            }
            CallOp::Task { rt, body } => {
                self.head(id, &format!("{}.spawn, detached", pool(*rt)), |w| w.step(body))
            }
            CallOp::Thread { enter, body } => {
                let enters = enter.map_or(String::new(), |rt| format!(", enters {}", pool(rt)));
                self.head(id, &format!("std::thread::spawn, join{enters}"), |w| w.call(body))
            }
            CallOp::Nested { pool: nested, close, early, body } => {
                let how = if *early { "spawn" } else { "block_on" };
                let text = format!("build {}, {how} there, end it: {close:?}", pool(*nested));
                self.head(id, &text, |w| w.step(body))
            }
            CallOp::OwnPool { pool: own, body } => {
                self.head(id, &format!("build {}, install, drop it", pool(*own)), |w| w.call(body))
            }
            CallOp::Local(body) => self.head(id, "KEY.sync_scope", |w| w.call(body)),
            CallOp::Borrow(body) => self.head(id, "KEY.with", |w| w.call(body)),
            CallOp::Locked { lock, rings, body } => {
                let rings =
                    rings.map_or(String::new(), |rt| format!(", a timer's waker takes it: {}", pool(rt)));
                self.head(id, &format!("holding lock{lock} of std, isolated{rings}"), |w| w.call(body))
            }
            CallOp::UntilEnd { rt } => {
                let text = format!("while {0}.block_on({0}.spawn(yield_now)) is ok", pool(*rt));
                self.head(id, &text, none)
            }
            CallOp::Set { rt, kind, time, bytes } => {
                let text = format!("{}: a LocalSet, whose waker {kind:?}: sleep({time} µs)", pool(*rt));
                let echo = if *bytes > 0 { format!(", TCP echo of {bytes} bytes") } else { String::new() };
                self.head(id, &format!("{text}{echo}"), none)
            }
            CallOp::Levels { levels, body } => {
                let level = |level: &Level| {
                    let Level { kind, rt, in_task, sleeps } = level;
                    let place = if *in_task { ", task" } else { "" };
                    let sleeps = sleeps.map_or(String::new(), |time| format!(", sleeps {time} µs"));
                    format!("{kind:?} on {}{place}{sleeps}", pool(*rt))
                };
                let levels: Vec<_> = levels.iter().map(level).collect();
                self.head(id, &format!("local block_on: {}", levels.join("; ")), |w| w.step(body))
            }
            CallOp::Crowd { pool: own, blockers, others, close, body } => {
                let waits = format!("{blockers} polls that wait for this, {others} others");
                let text = format!("build {}, block_on on threads: {waits}, end it: {close:?}", pool(*own));
                self.head(id, &text, |w| w.step(body))
            }
            CallOp::Guarded { body, end } => self.head(id, "a value with a destructor, then:", |w| {
                w.call(body)?;
                w.line(None, "destructor:")?;
                w.nested(|w| w.call(end))
            }),
            CallOp::Guards { rts, order, jobs, body } => {
                let names: Vec<_> = rts.iter().map(|&rt| pool(rt)).collect();
                let isolated = if order.is_isolated { " in isolated" } else { "" };
                let first = if order.is_oldest_first { ", the oldest first" } else { "" };
                let text = format!("enter {}, in_place_scope", names.join(", "));
                self.head(id, &format!("{text}, drop the guards{isolated}{first}"), |w| {
                    for job in jobs {
                        w.line(None, "job:")?;
                        w.nested(|w| w.call(job))?;
                    }
                    w.call(body)
                })
            }
            CallOp::Close(close) => self.head(id, &format!("end the runtime: {close:?}"), none),
        }
    }
}
