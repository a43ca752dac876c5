//! Connections to the server: one for each purpose, made when needed, dropped after any doubt.

use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use redis::{Client, Cmd, Pipeline, RedisError, RedisResult, Value};
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::password::Password;
use super::refusal::classify;
use super::scripts::Script;
use super::stream::{self, Connection, Flow};
use crate::error::{Absence, Error, Result};
use crate::settings::Settings;

/// Where and how to connect.
#[derive(Debug, Clone)]
pub struct Server {
    pub info: redis::ConnectionInfo,
    /// In the place of the password that is in `info`.
    pub password: Option<Password>,
    /// For people; without a password.
    pub address: String,
    /// How long to wait for an answer while nothing moves: longer than any script takes, short enough to stop in good time.
    pub answer_timeout: Duration,
}

impl Server {
    /// A server for nodes with these settings. `address` is shown to people.
    #[must_use]
    pub fn new(info: redis::ConnectionInfo, address: String, settings: &Settings) -> Self {
        // Calls are small and answers are waited for: nothing is gained by collecting bytes.
        let tcp = redis::io::tcp::TcpSettings::default().set_nodelay(true);
        Self {
            info: info.set_tcp_settings(tcp),
            password: None,
            address,
            answer_timeout: (settings.lease / 2).clamp(Duration::from_millis(500), Duration::from_secs(2)),
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

/// One connection. A call that fails in transit drops it: what was on the wire may still be executed, which every
/// verb allows for.
pub(super) struct Link {
    /// In a box: an engine has five of these, and is part of every future that holds it.
    client: Box<Client>,
    password: Option<Password>,
    address: String,
    answer_timeout: Duration,
    flow: Arc<Flow>,
    connection: Mutex<Option<Connection>>,
    /// Which run of which server the connection leads to, where that is asked for.
    run: Option<std::sync::Mutex<String>>,
}

impl Link {
    pub(super) fn new(server: &Server) -> Result<Self> {
        // Another provider may have been chosen by the program that uses this library: then that one serves.
        #[cfg(feature = "tls")]
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = Client::open(server.info.clone()).map_err(|error| classify(&server.address, &error))?;
        Ok(Self {
            client: Box::new(client),
            password: server.password.clone(),
            address: server.address.clone(),
            answer_timeout: server.answer_timeout,
            flow: Arc::default(),
            connection: Mutex::new(None),
            run: None,
        })
    }

    /// The same, and asks at each connect which run of which server it is: one that is another than before may lack the last
    /// writes.
    pub(super) fn asking_for_the_run(self) -> Self {
        Self {
            run: Some(std::sync::Mutex::default()),
            ..self
        }
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

    async fn connect(&self) -> Result<Connection> {
        let password = match &self.password {
            Some(password) => Some(
                password
                    .ask(self.answer_timeout)
                    .await
                    .map_err(|error| self.without_password(&error))?,
            ),
            None => None,
        };
        let connected = timeout(self.answer_timeout, self.open(password)).await;
        let connected = connected
            .unwrap_or_else(|_| Err(silent()))
            .map_err(|error| classify(&self.address, &error));
        match (&self.password, connected) {
            (Some(password), Err(error)) if error.is_about_credentials() && password.was_admitted() => {
                Err(self.without_password(&error))
            }
            (Some(password), Ok(connection)) => {
                password.admitted();
                Ok(connection)
            }
            (_, connected) => connected,
        }
    }

    /// The next try may have another password.
    fn without_password(&self, why: &impl std::fmt::Display) -> Error {
        Error::Away {
            store: format!("Redis at {}", self.address),
            absence: Absence::Unable,
            reason: format!("there is no password for it: {why}"),
        }
    }

    async fn open(&self, password: Option<String>) -> RedisResult<Connection> {
        let mut connection = stream::connect(&self.client, password, &self.flow).await?;
        if let Some(run) = &self.run {
            let told = connection
                .redis
                .send_packed_command(redis::cmd("INFO").arg("server"))
                .await;
            *run.lock().unwrap_or_else(PoisonError::into_inner) =
                told.map_or_else(|_| String::new(), |told| run_id(&told));
        }
        Ok(connection)
    }

    /// Waits for an answer: for so long while nothing moves, and for as long as it takes while bytes flow.
    async fn wait_for<T>(&self, mut at_most: Duration, answer: impl Future<Output = RedisResult<T>>) -> RedisResult<T> {
        let (mut answer, mut moved) = (pin!(answer), self.flow.moved());
        // Nearly all answers come within the first wait.
        let (mut step, mut still) = (at_most, Duration::ZERO);
        loop {
            if let Ok(answer) = timeout(step, &mut answer).await {
                return answer;
            }
            still += step;
            let now = self.flow.moved();
            if now != moved {
                (moved, still, at_most) = (now, Duration::ZERO, self.answer_timeout);
                step = self.answer_timeout / LOOKS;
            }
            if still >= at_most {
                return Err(silent());
            }
        }
    }

    async fn connection(&self) -> Result<Connection> {
        let mut slot = self.connection.lock().await;
        if slot.is_none() {
            *slot = Some(self.connect().await?);
        }
        Ok(slot.clone().expect("just made"))
    }

    /// Sends a command and waits for the answer.
    pub(super) async fn query(&self, cmd: &Cmd) -> Result<Value> {
        let mut connection = self.connection().await?;
        let answer = connection.redis.send_packed_command(cmd);
        match self.wait_for(self.answer_timeout, answer).await {
            Ok(value) => value.extract_error().map_err(|error| classify(&self.address, &error)),
            Err(error) => Err(self.failed(&error).await),
        }
    }

    /// Runs a script; one that the server does not know is sent whole.
    pub(super) async fn run(&self, script: &Script, arguments: impl Fn(&mut Cmd)) -> Result<Value> {
        self.run_after(None, script, arguments).await
    }

    /// The same; with commands before it, all are one transaction.
    pub(super) async fn run_after(
        &self,
        before: Option<Before<'_>>,
        script: &Script,
        arguments: impl Fn(&mut Cmd),
    ) -> Result<Value> {
        let mut connection = self.connection().await?;
        let build = |name: &str, text: &str| {
            let mut cmd = redis::cmd(name);
            cmd.arg(text);
            arguments(&mut cmd);
            cmd
        };
        let answer = self.send(&mut connection, before, build("EVALSHA", &script.sha)).await;
        let answer = match answer {
            Err(error) if error.code() == Some("NOSCRIPT") => {
                self.send(&mut connection, before, build("EVAL", &script.text)).await
            }
            answer => answer,
        };
        match answer {
            Ok(value) => Ok(value),
            Err(error) => Err(self.failed(&error).await),
        }
    }

    /// A command, or the last of several in one transaction.
    async fn send(&self, connection: &mut Connection, before: Option<Before<'_>>, cmd: Cmd) -> RedisResult<Value> {
        let Some(before) = before else {
            let answer = connection.redis.send_packed_command(&cmd);
            return self.wait_for(self.answer_timeout, answer).await?.extract_error();
        };
        let mut pipe = redis::pipe();
        pipe.cmd("MULTI");
        before(&mut pipe);
        pipe.add_command(cmd).cmd("EXEC");
        let answers = connection.redis.send_packed_commands(&pipe, 0, pipe.len());
        let mut last = Value::Nil;
        // What is refused before the transaction says why there; at its end it is only said that it was.
        for answer in self.wait_for(self.answer_timeout, answers).await? {
            last = answer.extract_error()?;
        }
        match last {
            Value::Array(mut all) => all.pop().unwrap_or(Value::Nil).extract_error(),
            other => Ok(other),
        }
    }

    /// Waits for an element of a list. The connection is out of its place meanwhile: if the caller gives up waiting,
    /// it is closed, and the server stops waiting too.
    pub(super) async fn pop(&self, key: &str, at_most: Duration) -> Result<bool> {
        let answers = self.pop_then(key, at_most, None).await?;
        Ok(answers.first() != Some(&Value::Nil))
    }

    /// The same, and then a script, in one go. None: the server does not know the script.
    pub(super) async fn pop_then_run(
        &self,
        key: &str,
        at_most: Duration,
        script: &Script,
        arguments: impl Fn(&mut Cmd),
    ) -> Result<Option<Value>> {
        let mut cmd = redis::cmd("EVALSHA");
        cmd.arg(&script.sha);
        arguments(&mut cmd);
        match self
            .pop_then(key, at_most, Some(cmd))
            .await?
            .pop()
            .map(Value::extract_error)
        {
            Some(Err(error)) if error.code() == Some("NOSCRIPT") => Ok(None),
            Some(answer) => answer.map(Some).map_err(|error| classify(&self.address, &error)),
            None => Ok(None),
        }
    }

    async fn pop_then(&self, key: &str, at_most: Duration, then: Option<Cmd>) -> Result<Vec<Value>> {
        let kept = self.connection.lock().await.take();
        let mut connection = match kept {
            Some(connection) => connection,
            None => self.connect().await?,
        };
        let mut pipe = redis::pipe();
        pipe.cmd("BLPOP").arg(key).arg(at_most.as_secs_f64());
        if let Some(cmd) = then {
            pipe.add_command(cmd);
        }
        let failed = |error| classify(&self.address, &error);
        let answers = connection.redis.send_packed_commands(&pipe, 0, pipe.len());
        let answers = self.wait_for(at_most + self.answer_timeout, answers);
        let answers = answers.await.map_err(failed)?;
        if let Some(first) = answers.first() {
            first.clone().extract_error().map_err(failed)?;
        }
        *self.connection.lock().await = Some(connection);
        Ok(answers)
    }

    async fn failed(&self, error: &RedisError) -> Error {
        // Other errors are answers, and the connection that brought them is sound.
        let stale = error.is_io_error() || matches!(error.code(), Some("READONLY" | "MOVED" | "UNBLOCKED"));
        if stale || error.code().is_none() {
            *self.connection.lock().await = None;
        }
        classify(&self.address, error)
    }
}

/// The id that a server draws when it starts. A server that does not tell it has none.
fn run_id(told: &Value) -> String {
    let text = match told {
        Value::BulkString(text) => String::from_utf8_lossy(text).into_owned(),
        Value::VerbatimString { text, .. } => text.clone(),
        _ => String::new(),
    };
    let id = text.lines().find_map(|line| line.strip_prefix("run_id:"));
    id.unwrap_or_default().trim().to_string()
}

/// What is said of an answer that does not come.
fn silent() -> RedisError {
    std::io::Error::from(std::io::ErrorKind::TimedOut).into()
}
