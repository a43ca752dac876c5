//! Connections to the server: one for each purpose, made when needed, dropped after any doubt.

mod connect;
pub(super) mod kept;
pub(super) mod signs;
mod trip;
mod wait;

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use redis::{Cmd, ConnectionInfo, Pipeline, RedisError, RedisResult, Value};
use tokio::sync::Mutex;

use super::locator::Locator;
use super::password::Password;
use super::place::Place;
use super::refusal::{self, classify};
use super::scripts::Script;
use super::stream::{Connection, Flow};
use crate::engine::requeue;
use crate::error::Result;
use crate::settings::Settings;
use kept::{Behind, Mark, Sent};
use signs::Signs;
use trip::Trips;
use wait::Waits;

/// Where and how to connect.
#[derive(Debug, Clone)]
pub struct Server {
    pub place: Place,
    /// In the place of the password that is in `place`.
    pub password: Option<Password>,
    /// For people; without a password.
    pub address: String,
    /// How long to wait for an answer while nothing moves: longer than any script takes, short enough to stop in good time.
    pub answer_timeout: Duration,
    /// So many replicas must have a publish, a settle or a push before it counts.
    pub replicas: u32,
    /// Nodes are seen to be there by their connections, and look at those of others.
    pub watch: bool,
}

impl Server {
    /// A server for nodes with these settings. `address` is shown to people.
    #[must_use]
    pub fn new(place: Place, address: String, settings: &Settings) -> Self {
        // Calls are small and answers are waited for: nothing is gained by collecting bytes.
        let tcp = redis::io::tcp::TcpSettings::default().set_nodelay(true);
        let info = place.info.set_tcp_settings(tcp);
        Self {
            place: Place { info, ..place },
            password: None,
            address,
            answer_timeout: (settings.lease / 2).clamp(Duration::from_millis(500), Duration::from_secs(2)),
            replicas: settings.replicas,
            watch: settings.watch,
        }
    }
}

/// The keys of a script, counted.
pub(super) trait Keyed {
    fn keys<const N: usize>(&mut self, keys: [&String; N]) -> &mut Self;
}

impl Keyed for Cmd {
    fn keys<const N: usize>(&mut self, keys: [&String; N]) -> &mut Self {
        self.arg(N).arg(&keys[..])
    }
}

/// Makes the commands that come before a script: large, and hardly ever made twice.
pub(super) type Before<'a> = &'a (dyn Fn(&mut Pipeline) + Sync);

/// A call over which bytes flow is looked at so many times within the time that nothing may move.
const LOOKS: u32 = 8;

/// How long to wait for a cluster that has not made up its mind.
const UNDECIDED: Duration = Duration::from_millis(20);
/// How often a call follows redirections: more would be a circle.
const REDIRECTIONS_MAX: u32 = 5;

/// One connection. A call that fails in transit drops it: what was on the wire may still be executed, which every
/// verb allows for.
pub(super) struct Link {
    locator: Arc<Locator>,
    password: Option<Password>,
    address: String,
    answer_timeout: Duration,
    flow: Arc<Flow>,
    trips: Trips,
    slot: Mutex<Option<Open>>,
    /// Which run of which server the connection leads to, where that is asked for.
    run: Option<std::sync::Mutex<String>>,
    /// It may lead to a replica, which answers looks, and is asked for nothing else.
    may_look_at_a_replica: bool,
    /// The server takes scripts only whole.
    sends_whole: AtomicBool,
    /// How many replicas must have what counts.
    replicas: u32,
    /// Calls leave marks under names that begin so.
    marks: Option<String>,
    /// Calls share the connection with a wait, which they end.
    waits: Option<Box<Waits>>,
    /// By what others see that its node is there.
    signs: Option<Arc<Signs>>,
    /// How many connections were made, and the number of the one that is used.
    serial: AtomicU64,
    current: AtomicU64,
}

/// A connection, and where it leads.
#[derive(Clone)]
struct Open {
    connection: Connection,
    to: Arc<ConnectionInfo>,
    /// How often the queue's place had changed.
    changes: u64,
    /// Where calls on it leave their marks.
    mark: Option<Arc<Mark>>,
    /// Its number among those of the link.
    serial: u64,
    /// The server calls itself a replica, and would not lead elsewhere.
    is_replica: bool,
}

/// How often a call is made again.
struct Tries {
    until: Instant,
    redirections: u32,
}

/// What is to be done after an error.
enum Next {
    /// It is the answer.
    Done,
    /// The same call again, where the queue is now.
    Again,
    /// The same call in a moment: the cluster has not made up its mind.
    Later,
}

impl Link {
    pub(super) fn new(server: &Server, locator: &Arc<Locator>) -> Self {
        // Another provider may have been chosen by the program that uses this library: then that one serves.
        #[cfg(feature = "tls")]
        let _ = rustls::crypto::ring::default_provider().install_default();
        Self {
            locator: locator.clone(),
            password: server.password.clone(),
            address: server.address.clone(),
            answer_timeout: server.answer_timeout,
            flow: Arc::default(),
            trips: Trips::default(),
            slot: Mutex::new(None),
            run: None,
            may_look_at_a_replica: false,
            sends_whole: AtomicBool::new(false),
            replicas: server.replicas,
            marks: None,
            waits: None,
            signs: None,
            serial: AtomicU64::new(0),
            current: AtomicU64::new(0),
        }
    }

    /// The same, and shows that its node is there.
    pub(super) fn that_shows(self, signs: Option<Arc<Signs>>) -> Self {
        Self { signs, ..self }
    }

    /// The same, and asks at each connect which run of which server it is: one that is another than before may lack the last
    /// writes.
    pub(super) fn asking_for_the_run(self) -> Self {
        Self {
            run: Some(std::sync::Mutex::default()),
            ..self
        }
    }

    /// The same for looks.
    pub(super) fn that_may_look_at_a_replica(self) -> Self {
        Self {
            may_look_at_a_replica: true,
            ..self
        }
    }

    /// Whether replicas must have what is told.
    pub(super) fn waits_for_replicas(&self) -> bool {
        self.replicas > 0
    }

    /// What is given, or the run that the server told; empty, where it does not.
    pub(super) fn server_or(&self, given: &str) -> String {
        match &self.run {
            Some(run) if given.is_empty() => run.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            _ => given.to_string(),
        }
    }

    /// How many bytes calls on this link have moved; those that connect are not counted.
    pub(super) fn moved(&self) -> u64 {
        self.flow.moved()
    }

    /// How long a call on this link takes, at the least of late.
    pub(super) fn trip(&self) -> Duration {
        self.trips.least()
    }

    /// Waits for an answer: for so long while nothing moves over its connection, and for as long as it takes while bytes flow; not if
    /// the queue is elsewhere meanwhile.
    async fn wait_for<T>(
        &self,
        (changes, flow): (u64, &Flow),
        mut at_most: Duration,
        answer: impl Future<Output = RedisResult<T>>,
    ) -> RedisResult<T> {
        let (mut answer, mut moved) = (pin!(answer), flow.moved());
        let mut elsewhere = pin!(self.locator.changed_since(changes));
        // The task that sends stands in line behind this one: it goes first, since a timer that is the next to end costs a system call.
        tokio::select! {
            biased;
            () = &mut elsewhere => return Err(left()),
            answer = &mut answer => return answer,
            () = requeue() => {}
        }
        // Nearly all answers come within the first wait.
        let (mut step, mut still) = (at_most, Duration::ZERO);
        loop {
            tokio::select! {
                biased;
                // First: once the beat may have told the new server what this node has seen, it sees nothing more of the old one.
                () = &mut elsewhere => return Err(left()),
                answer = &mut answer => return answer,
                () = tokio::time::sleep(step) => {}
            }
            still += step;
            let now = flow.moved();
            if now != moved {
                (moved, still, at_most) = (now, Duration::ZERO, self.answer_timeout);
                step = self.answer_timeout / LOOKS;
            }
            if still >= at_most {
                return Err(silent());
            }
        }
    }

    /// One that leads to where the queue is now.
    async fn connection(&self) -> Result<Open> {
        let mut slot = self.slot.lock().await;
        if slot.as_ref().is_none_or(|open| open.changes != self.locator.changes()) {
            *slot = None;
            let open = self.connect().await?;
            self.current.store(open.serial, Ordering::Relaxed);
            *slot = Some(open);
        }
        Ok(slot.clone().expect("just made"))
    }

    /// Sends a command and waits for the answer.
    pub(super) async fn query(&self, cmd: &Cmd) -> Result<Value> {
        let mut tries = self.tries();
        loop {
            let mut open = self.connection().await?;
            let answer = self.send(&mut open, None, cmd, Behind::Nothing).await;
            if let Some(sent) = self.answer(&open, answer, &mut tries).await? {
                return Ok(sent.answer);
            }
        }
    }

    /// Runs a script; one that the server does not know is sent whole.
    pub(super) async fn run(&self, script: &Script, arguments: impl Fn(&mut Cmd)) -> Result<Value> {
        let sent = self.run_all(None, script, Behind::Nothing, arguments).await?;
        Ok(sent.answer)
    }

    /// The same for one that writes nothing.
    pub(super) async fn look(&self, script: &Script, arguments: impl Fn(&mut Cmd)) -> Result<Value> {
        let sent = self.run_all(None, script, Behind::Look, arguments).await?;
        Ok(sent.answer)
    }

    /// Commands before it are sent in one go with it. That is no transaction: some managed services refuse those around scripts.
    async fn run_all(
        &self,
        before: Option<Before<'_>>,
        script: &Script,
        behind: Behind<'_>,
        arguments: impl Fn(&mut Cmd),
    ) -> Result<Sent> {
        let build = |name: &str, text: &str| {
            let mut cmd = redis::cmd(name);
            cmd.arg(text);
            arguments(&mut cmd);
            cmd
        };
        let mut tries = self.tries();
        loop {
            let mut open = self.connection().await?;
            if open.is_replica && !matches!(behind, Behind::Look) {
                // Some replicas would take it, and lose it.
                self.drop(&open).await;
                return Err(self.at_a_replica(&self.address_of(&open.to)));
            }
            let whole = self.sends_whole.load(Ordering::Relaxed);
            let first = if whole {
                build("EVAL", &script.text)
            } else {
                build("EVALSHA", &script.sha)
            };
            let mut answer = self.send(&mut open, before, &first, behind).await;
            if let Err(error) = &answer
                && !whole
                && refusal::wants_the_text(error)
            {
                let refused = error.code() != Some("NOSCRIPT");
                answer = self.send(&mut open, before, &build("EVAL", &script.text), behind).await;
                self.sends_whole.store(refused && answer.is_ok(), Ordering::Relaxed);
            }
            if let Some(answer) = self.answer(&open, answer, &mut tries).await? {
                // A script has keys: this server has the queue.
                self.locator.served(&open.to);
                return Ok(answer);
            }
        }
    }

    fn tries(&self) -> Tries {
        Tries {
            until: Instant::now() + self.answer_timeout,
            redirections: 0,
        }
    }

    /// The answer; or none, if the call is to be made again: the queue is elsewhere, or its slot is on its way to another server.
    async fn answer<T>(&self, open: &Open, answer: RedisResult<T>, tries: &mut Tries) -> Result<Option<T>> {
        let error = match answer {
            Ok(answer) => return Ok(Some(answer)),
            Err(error) => error,
        };
        match self.heed_error(open, &error).await {
            Next::Again if tries.redirections < REDIRECTIONS_MAX => tries.redirections += 1,
            Next::Again | Next::Later if Instant::now() < tries.until => tokio::time::sleep(UNDECIDED).await,
            _ => return Err(classify(&self.address_of(&open.to), &error)),
        }
        Ok(None)
    }

    /// A command, with others before it and behind it or not.
    async fn send(
        &self,
        open: &mut Open,
        before: Option<Before<'_>>,
        cmd: &Cmd,
        behind: Behind<'_>,
    ) -> RedisResult<Sent> {
        let Connection { redis, flow, .. } = &mut open.connection;
        if before.is_none() && matches!(behind, Behind::Nothing | Behind::Look) {
            let sent = Instant::now();
            let answer = {
                let answer = pin!(redis.send_packed_command(cmd));
                let answer = self.wait_for((open.changes, flow), self.answer_timeout, answer);
                self.past_the_wait(pin!(answer)).await?
            };
            self.trips.took(sent.elapsed());
            return Ok(Sent::plain(answer.extract_error()?));
        }
        let mut pipe = redis::pipe();
        if let Some(before) = before {
            before(&mut pipe);
        }
        pipe.add_command(cmd.clone());
        let own = pipe.len();
        let mark = self.behind(behind, open.mark.as_ref(), &mut pipe);
        let mut answers = {
            let answers = pin!(redis.send_packed_commands(&pipe, 0, pipe.len()));
            let answers = self.wait_for((open.changes, flow), self.answer_timeout, answers);
            self.past_the_wait(pin!(answers)).await?.into_iter()
        };
        let mut answer = Value::Nil;
        // What is refused first says why; what follows may only say that it was.
        for part in answers.by_ref().take(own) {
            answer = part.extract_error()?;
        }
        let mut behind: Vec<RedisResult<Value>> = answers.map(Value::extract_error).collect();
        if let (Some(key), Some(Err(error))) = (&mark, behind.first())
            && error.code() == Some("OOM")
        {
            behind[0] = self.mark_though_full(open, key).await;
        }
        let behind: Vec<Value> = behind.into_iter().collect::<RedisResult<_>>()?;
        let ticket = match (mark, behind.first()) {
            (Some(key), Some(Value::Int(number))) => self.ticket(open, key, number.cast_unsigned()).await?,
            _ => None,
        };
        let last = behind.into_iter().next_back().unwrap_or(Value::Nil);
        Ok(Sent { answer, last, ticket })
    }

    /// What an error says about the place, and about the connection that brought it.
    async fn heed_error(&self, open: &Open, error: &RedisError) -> Next {
        if let Some(to) = refusal::moved_to(error) {
            // To the same name, it is another server behind that name.
            self.drop(open).await;
            self.locator.redirect(&open.to, to);
            return Next::Again;
        }
        if refusal::is_undecided(error) {
            return Next::Later;
        }
        if refusal::ends_the_connection(error) {
            self.drop(open).await;
            self.locator.doubt(open.changes);
        }
        Next::Done
    }

    async fn drop(&self, open: &Open) {
        let mut slot = self.slot.lock().await;
        if slot.as_ref().is_some_and(|kept| Arc::ptr_eq(&kept.to, &open.to)) {
            *slot = None;
        }
    }
}

/// What is said of an answer that does not come.
pub(super) fn silent() -> RedisError {
    std::io::Error::from(std::io::ErrorKind::TimedOut).into()
}

/// The queue is on another server now.
fn left() -> RedisError {
    std::io::Error::new(
        std::io::ErrorKind::ConnectionAborted,
        "the queue has moved to another server",
    )
    .into()
}
