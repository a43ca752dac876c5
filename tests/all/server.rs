//! A redis-server of one's own: on a free port, in a directory of its own, gone when dropped, also by a panic.
//!
//! `QUEENRIGHT_REDIS_SERVER` names another program to start: an older Redis, a Valkey.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use queenright::engine::redis::{ACL_LINE, Place, Server};
use redis::{IntoConnectionInfo, Value};

/// How long a server may take to start or to load its log.
const START_MAX: Duration = Duration::from_secs(20);

static DIRECTORIES: AtomicU32 = AtomicU32::new(0);

/// A running redis-server.
pub struct RedisServer {
    child: Child,
    port: u16,
    directory: PathBuf,
    args: Vec<String>,
}

impl RedisServer {
    /// A server that keeps nothing on disk.
    pub fn start() -> Self {
        Self::with_args(&[])
    }

    /// A server that survives a restart with everything that it acknowledged.
    pub fn durable() -> Self {
        // The log is kept as it was written, since some tests read it.
        let rewrite = ["--aof-use-rdb-preamble", "no", "--auto-aof-rewrite-percentage", "0"];
        Self::with_args(&[&["--appendonly", "yes", "--appendfsync", "always"][..], &rewrite].concat())
    }

    /// A server that finds this append-only file when it starts. Of one that is cut off, it takes what is whole.
    pub fn on_log(log: &[u8]) -> Self {
        let server = Self::prepared(&["--appendonly", "yes", "--aof-load-truncated", "yes"], |directory| {
            std::fs::write(directory.join("appendonly.aof"), log).expect("written");
        });
        let deadline = Instant::now() + START_MAX;
        while let Err(error) = server.command(&["PING"]) {
            assert!(Instant::now() < deadline, "{error}");
            std::thread::sleep(Duration::from_millis(1));
        }
        server
    }

    /// A server with further arguments.
    pub fn with_args(args: &[&str]) -> Self {
        Self::prepared(args, |_| {})
    }

    fn prepared(args: &[&str], prepare: impl Fn(&Path)) -> Self {
        let number = DIRECTORIES.fetch_add(1, Ordering::Relaxed);
        let directory = std::env::temp_dir().join(format!("queenright-test-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("a directory for the server");
        let args: Vec<String> = args.iter().map(ToString::to_string).collect();
        for _ in 0..20 {
            prepare(&directory);
            let port = free_port();
            let child = spawn(port, &directory, &args);
            let mut server = Self {
                child,
                port,
                directory: directory.clone(),
                args: args.clone(),
            };
            if server.answers() {
                return server;
            }
            // Someone else was faster on that port.
            server.kill();
            std::mem::forget(server);
        }
        panic!("no redis-server started: is it installed?");
    }

    /// The append-only file as it is now, of a server that keeps one and has not rewritten it.
    pub fn log(&self) -> Vec<u8> {
        // Since 7.0 the file has a directory of its own, and a part that is appended to.
        let parts = ["appendonlydir/appendonly.aof.1.incr.aof", "appendonly.aof"];
        let mut read = parts
            .iter()
            .filter_map(|part| std::fs::read(self.directory.join(part)).ok());
        read.next().expect("an append-only file")
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/0", self.port)
    }

    /// Makes the user `bee`, with all that a node of this queue needs but these words of the line; the URL of one who is that user.
    pub fn bee(&self, queue: &str, without: &str) -> String {
        let line = ACL_LINE.replace("NAME", "bee").replace("PASSWORD", "honey");
        let line = line.replace(without, "").replace("QUEUE", queue);
        self.command(&line.split_whitespace().collect::<Vec<_>>())
            .expect("a user");
        format!("redis://bee:honey@127.0.0.1:{}", self.port)
    }

    /// What an engine needs to connect.
    pub fn server(&self) -> Server {
        self.server_as(&self.url())
    }

    /// The same under another URL, with credentials for example.
    pub fn server_as(&self, url: &str) -> Server {
        Server {
            place: Place::at(url.into_connection_info().expect("a URL")),
            password: None,
            address: format!("127.0.0.1:{}", self.port),
            answer_timeout: Duration::from_secs(10),
            replicas: 0,
            watch: true,
        }
    }

    /// One command on a connection of its own.
    ///
    /// # Errors
    /// What the server or the connection says.
    pub fn command(&self, args: &[&str]) -> redis::RedisResult<Value> {
        let mut connection = redis::Client::open(self.url())?.get_connection_with_timeout(Duration::from_secs(2))?;
        let mut cmd = redis::cmd(args[0]);
        for arg in &args[1..] {
            cmd.arg(arg);
        }
        cmd.query(&mut connection)
    }

    /// What is said of a command in `INFO commandstats`: how often it was carried out, and how often it was refused. Of one with several parts, all of
    /// them together.
    pub fn counted(&self, command: &str) -> (u64, u64) {
        let stats = self.command(&["INFO", "commandstats"]).expect("INFO");
        let stats: String = redis::from_redis_value(stats).expect("text");
        let is_of = |line: &&str| {
            let rest = line.strip_prefix(&format!("cmdstat_{command}"));
            rest.is_some_and(|rest| rest.starts_with([':', '|']))
        };
        let sum = |figure: &str| {
            let of = stats.lines().filter(is_of).filter_map(|line| line.split_once(figure));
            of.filter_map(|(_, rest)| rest.split([',', '\r']).next()?.parse::<u64>().ok())
                .sum()
        };
        (sum("calls="), sum("rejected_calls="))
    }

    /// `kill -9`, and waits until it is gone.
    pub fn kill(&mut self) {
        // It may be gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Starts it again on the same port with the same directory, after a `kill -9`.
    pub fn restart(&mut self) {
        self.kill();
        let deadline = Instant::now() + START_MAX;
        loop {
            self.child = spawn(self.port, &self.directory, &self.args);
            if self.answers() {
                return;
            }
            self.kill();
            assert!(Instant::now() < deadline, "redis-server does not start again");
        }
    }

    /// Waits until this very process answers. False: it has ended, or another one answers.
    fn answers(&mut self) -> bool {
        let deadline = Instant::now() + START_MAX;
        while Instant::now() < deadline && matches!(self.child.try_wait(), Ok(None)) {
            match self.command(&["INFO", "server"]) {
                Ok(Value::BulkString(info)) => {
                    let pid = format!("process_id:{}\r", self.pid());
                    return String::from_utf8_lossy(&info).contains(&pid);
                }
                // A password is set: only ours could be.
                Err(error) if error.code() == Some("NOAUTH") => return true,
                _ => std::thread::sleep(Duration::from_millis(2)),
            }
        }
        false
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        self.kill();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// A certificate under this name (`DNS:bees`, `IP:127.0.0.1`) that is its own authority, and its key.
pub fn certificate(name: &str, cert: &Path, key: &Path) {
    let made = Command::new("openssl")
        .args(
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=queenright".split(' '),
        )
        .args(["-addext", &format!("subjectAltName={name}")])
        .args(["-addext", "basicConstraints=critical,CA:FALSE", "-keyout"])
        .arg(key)
        .arg("-out")
        .arg(cert)
        .output()
        .expect("openssl is there: scripts/test installs it");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

pub fn free_port() -> u16 {
    queenright::app::lab::port::free().expect("a free port")
}

/// The program that is started.
pub fn redis_server() -> String {
    std::env::var("QUEENRIGHT_REDIS_SERVER").unwrap_or("redis-server".into())
}

fn spawn(port: u16, directory: &PathBuf, args: &[String]) -> Child {
    Command::new(redis_server())
        .args([
            "--port",
            &port.to_string(),
            "--bind",
            "127.0.0.1",
            "--save",
            "",
            "--daemonize",
            "no",
            "--dir",
        ])
        .arg(directory)
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("redis-server is installed")
}
