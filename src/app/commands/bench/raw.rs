//! The baselines: what Redis, or the runtime, does without any guarantee.

use std::io;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::cost::Cost;
use super::session::Session;
use super::socket::{self, Answer};
use crate::app::exit::Failure;
use crate::app::run::runtime;

/// Commands on their way at once where nothing is far: more are slower.
pub(super) const PIPELINE: usize = 8;
const CONSUMERS: usize = 2;
const BATCH: usize = 500;
/// A command carries no more than this: larger ones are slower.
const BATCH_BYTES: usize = 512 * 1024;
/// A list that is empty is looked at again after this time.
const EMPTY: Duration = Duration::from_micros(100);

/// One thread pushes, two pop, 500 messages a command, so many commands on their way: messages a second.
pub(super) fn cycle(
    session: &Session,
    messages: u64,
    payload: usize,
    on_their_way: usize,
) -> Result<(f64, Cost), Failure> {
    let key = session.plain_key();
    let batch = BATCH.min(BATCH_BYTES / payload.max(1)).max(1);
    let before = Cost::of_redis(&[session])?;
    let (cpu, start) = (Cost::own_cpu(), Instant::now());
    let popped = AtomicU64::new(0);
    let moved: io::Result<()> = thread::scope(|scope| {
        let mut parts = vec![scope.spawn(|| push(session, &key, (messages, payload), batch, on_their_way))];
        for _ in 0..CONSUMERS {
            parts.push(scope.spawn(|| pop(session, &key, messages, batch, (on_their_way / 2, &popped))));
        }
        parts.into_iter().try_for_each(|part| part.join().expect("no panic"))
    });
    let seconds = start.elapsed().as_secs_f64();
    let cost = before.until_now(&[session], messages, Cost::own_cpu().saturating_sub(cpu))?;
    let _ = session.socket()?.call(&[b"DEL", key.as_bytes()]);
    moved.map_err(|error| Failure::cannot("move messages through plain sockets", error))?;
    Ok((float(messages) / seconds, cost))
}

fn push(
    session: &Session,
    key: &str,
    (messages, payload): (u64, usize),
    batch: usize,
    on_their_way: usize,
) -> io::Result<()> {
    let mut socket = session.connect()?;
    let (mut out, mut word, mut next, mut waiting) = (Vec::new(), Vec::new(), 0, 0);
    while next < messages {
        let count = (messages - next).min(batch as u64);
        out.clear();
        socket::head(&mut out, b'*', 2 + usize::try_from(count).expect("a batch"));
        socket::put_word(&mut out, b"RPUSH");
        socket::put_word(&mut out, key.as_bytes());
        for number in next..next + count {
            super::node::fill(&mut word, number, payload);
            socket::put_word(&mut out, &word);
        }
        socket.send(&out)?;
        next += count;
        waiting += 1;
        if waiting == on_their_way {
            socket.answer()?;
            waiting -= 1;
        }
    }
    (0..waiting).try_for_each(|_| socket.answer().map(drop))
}

fn pop(
    session: &Session,
    key: &str,
    messages: u64,
    batch: usize,
    (on_their_way, popped): (usize, &AtomicU64),
) -> io::Result<()> {
    let mut socket = session.connect()?;
    let mut out = Vec::new();
    socket::put(&mut out, &[b"LPOP", key.as_bytes(), batch.to_string().as_bytes()]);
    let mut waiting = 0;
    loop {
        let over = popped.load(Ordering::Relaxed) >= messages;
        if over && waiting == 0 {
            return Ok(());
        }
        if !over && waiting < on_their_way {
            socket.send(&out)?;
            waiting += 1;
            continue;
        }
        waiting -= 1;
        match socket.answer()? {
            Answer::Array(count) => _ = popped.fetch_add(count as u64, Ordering::Relaxed),
            _ if !over => thread::sleep(EMPTY),
            _ => {}
        }
    }
}

/// LPUSH by 50 clients, one command at a time each: commands a second, by redis-benchmark if it is there.
pub(super) fn lpush(session: &Session, requests: u64, clients: usize) -> Result<f64, Failure> {
    let key = session.plain_key();
    let rate = match redis_benchmark(session, &key, requests, clients) {
        Some(rate) => Ok(rate),
        None => own_lpush(session, &key, requests, clients),
    };
    let _ = session.socket()?.call(&[b"DEL", key.as_bytes()]);
    rate.map_err(|error| Failure::cannot("push with many clients", error))
}

/// Without a password: not every version of it takes one from the environment, and arguments are for everybody to see. On a server
/// of our own everybody may push to this one key for as long as it takes.
fn redis_benchmark(session: &Session, key: &str, requests: u64, clients: usize) -> Option<f64> {
    let (host, port) = &session.at;
    let redis = session.info.redis_settings();
    let mut command = Command::new("redis-benchmark");
    command.args(["-h", host, "-p", &port.to_string(), "--csv"]);
    command.args(["-n", &requests.to_string(), "-c", &clients.to_string()]);
    command.args(["--dbnum", &redis.db().to_string(), "LPUSH", key, "x"]);
    let output = match session.own_server() {
        Some(server) => server.open_for_pushes(key, || command.output()).ok()?,
        None if redis.username().is_some() || redis.password().is_some() => return None,
        None => command.output(),
    };
    let output = output.ok().filter(|output| output.status.success())?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().find(|line| line.starts_with("\"LPUSH"))?;
    line.split(',').nth(1)?.trim_matches('"').parse().ok()
}

/// The same by hand: one thread, as redis-benchmark has.
fn own_lpush(session: &Session, key: &str, requests: u64, clients: usize) -> io::Result<f64> {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut out = Vec::new();
    socket::put(&mut out, &[b"LPUSH", key.as_bytes(), b"x"]);
    let sockets: Vec<_> = (0..clients).map(|_| session.connect()).collect::<io::Result<_>>()?;
    session.runtime.block_on(async {
        let mut tasks = tokio::task::JoinSet::new();
        let start = Instant::now();
        for socket in sockets {
            let mut stream = tokio::net::TcpStream::from_std(socket.into_stream()?)?;
            let out = out.clone();
            tasks.spawn(async move {
                let mut answer = [0; 64];
                for _ in 0..requests / clients as u64 {
                    stream.write_all(&out).await?;
                    let read = stream.read(&mut answer).await?;
                    if !answer[..read].starts_with(b":") {
                        return Err(io::Error::other(String::from_utf8_lossy(&answer[..read]).into_owned()));
                    }
                }
                io::Result::Ok(())
            });
        }
        while let Some(ended) = tasks.join_next().await {
            ended.map_err(io::Error::other)??;
        }
        Ok(float(requests) / start.elapsed().as_secs_f64())
    })
}

/// From a push to the return of a waiting pop at another socket, paced: microseconds each.
pub(super) fn hand_over(session: &Session, messages: u32, pace: Duration) -> Result<Vec<f64>, Failure> {
    let key = session.plain_key();
    let failing = |error: io::Error| Failure::cannot("hand over through plain sockets", error);
    let (mut waiter, mut giver) = (session.socket()?, session.socket()?);
    let (told, times) = std::sync::mpsc::channel();
    let name = key.clone();
    let waiting = thread::spawn(move || {
        for _ in 0..messages {
            waiter.call(&[b"BLPOP", name.as_bytes(), b"30"])?;
            let _ = told.send(Instant::now());
        }
        io::Result::Ok(())
    });
    let mut micros = Vec::new();
    for _ in 0..messages {
        thread::sleep(pace);
        let begun = Instant::now();
        giver.call(&[b"RPUSH", key.as_bytes(), b"x"]).map_err(failing)?;
        let taken = times.recv_timeout(Duration::from_secs(30));
        let taken = taken.map_err(|error| failing(io::Error::other(error)))?;
        micros.push(taken.duration_since(begun).as_secs_f64() * 1e6);
    }
    waiting.join().expect("no panic").map_err(failing)?;
    Ok(micros)
}

/// Tasks that only sleep, as many at once, until as many sleeps are over as there would be messages: sleeps a second.
pub(super) fn sleepers(tasks: u64, each: Duration, sleeps: u64) -> Result<f64, Failure> {
    let runtime = runtime()?;
    let start = Instant::now();
    runtime.block_on(async {
        let mut running = tokio::task::JoinSet::new();
        for _ in 0..tasks {
            running.spawn(async move {
                for _ in 0..sleeps / tasks {
                    tokio::time::sleep(each).await;
                }
            });
        }
        while running.join_next().await.is_some() {}
    });
    Ok(float(sleeps) / start.elapsed().as_secs_f64())
}

#[expect(clippy::cast_precision_loss, reason = "counts here are far below 2^52")]
pub(super) fn float(count: u64) -> f64 {
    count as f64
}
