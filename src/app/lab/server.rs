//! A redis-server of our own, which may be harmed. It ends when this process does, however that comes.

use std::io::{self, BufRead, BufReader, Write as _};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use redis::{ConnectionInfo, IntoConnectionInfo, ToRedisArgs};
use rustix::process::Signal;

use crate::app::lab::{copy, port};
use crate::node::id::new_id;

/// How long a server may take to answer for the first time.
const START_MAX: Duration = Duration::from_secs(30);
const ANSWER_MAX: Duration = Duration::from_secs(2);
/// Between two tries.
const AGAIN: Duration = Duration::from_millis(50);

/// The shell waits for its stdin to end, which it does with this process, and takes the server with it.
const KEEPER: &str = r#""$@" & server=$!; echo "$server"; cat >/dev/null; kill -9 "$server""#;

/// Who may do everything.
const OWNER: &str = "lab";
/// The name of its configuration.
const SETTINGS: &str = "redis.conf";
/// What it says of itself, and the words in it when somebody else has its port.
pub(super) const LOG: &str = "redis.log";
const TAKEN: &str = "Address already in use";
/// So many ports are tried.
const PORTS_MAX: u32 = 10;

pub struct Server {
    program: PathBuf,
    directory: PathBuf,
    port: u16,
    /// Of [`OWNER`]: other users of this machine reach the port, too.
    password: String,
    /// Lines of its configuration.
    settings: Vec<String>,
    /// Another user: its name and its rules.
    user: Vec<String>,
    running: Option<Running>,
}

struct Running {
    keeper: Child,
    pid: u32,
}

/// When what was written reaches the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fsync {
    /// Nothing is kept on disk.
    Never,
    EverySecond,
    /// Nothing that was acknowledged is lost by kill -9.
    Always,
}

impl Server {
    /// The one that was named, or what the system has, by whichever name.
    pub fn program() -> Option<PathBuf> {
        if let Some(named) = std::env::var_os("QUEENRIGHT_REDIS_SERVER") {
            return Some(named.into());
        }
        let path = std::env::var_os("PATH")?;
        let places = std::env::split_paths(&path)
            .flat_map(|place| ["redis-server", "valkey-server"].map(|name| place.join(name)));
        places.into_iter().find(|place| place.is_file())
    }

    /// In a directory that nobody else can look into.
    pub fn start(program: &Path, directory: &Path, fsync: Fsync) -> io::Result<Self> {
        Self::with_password(program, directory, fsync, &new_id())
    }

    fn with_password(program: &Path, directory: &Path, fsync: Fsync, password: &str) -> io::Result<Self> {
        Self::on_free_port(|port| Self::with_settings(program, directory, fsync, password.into(), port, &[]))
    }

    /// Somebody else may be faster on a port that was free: then another one is tried.
    pub(super) fn on_free_port(start: impl Fn(u16) -> io::Result<Self>) -> io::Result<Self> {
        for _ in 1..PORTS_MAX {
            match start(port::free()?) {
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
                started => return started,
            }
        }
        start(port::free()?)
    }

    /// With further lines of configuration.
    pub(super) fn with_settings(
        program: &Path,
        directory: &Path,
        fsync: Fsync,
        password: String,
        port: u16,
        further: &[&str],
    ) -> io::Result<Self> {
        let (append, fsync) = match fsync {
            Fsync::Never => ("no", "no"),
            Fsync::EverySecond => ("yes", "everysec"),
            Fsync::Always => ("yes", "always"),
        };
        let mut settings = vec![
            format!("port {port}"),
            "bind 127.0.0.1".into(),
            // The default user keeps its rights: Redis loads its append-only file as that user, and without them drops what
            // transactions wrote.
            format!("requirepass {password}"),
            format!("user {OWNER} on >{password} ~* &* +@all"),
            // Its replica has the same.
            format!("masteruser {OWNER}"),
            format!("masterauth {password}"),
            format!("appendonly {append}"),
            format!("appendfsync {fsync}"),
            "save \"\"".into(),
            format!("logfile {LOG}"),
            // A replica need not wait for others that may come.
            "repl-diskless-sync-delay 0".into(),
        ];
        // From version 7 on, DEBUG must be asked for; before, the option is not known.
        if major(program) >= 7 {
            settings.push("enable-debug-command yes".into());
        }
        settings.extend(further.iter().map(ToString::to_string));
        Self::configured(program, directory, port, password, settings)
    }

    /// With this configuration alone: a sentinel, for one.
    pub(super) fn configured(
        program: &Path,
        directory: &Path,
        port: u16,
        password: String,
        settings: Vec<String>,
    ) -> io::Result<Self> {
        let mut server = Self {
            program: program.to_path_buf(),
            directory: directory.to_path_buf(),
            port,
            password,
            settings,
            user: Vec::new(),
            running: None,
        };
        server.configure()?;
        let logged = server.log().len();
        server.run()?;
        let deadline = Instant::now() + START_MAX;
        while server.command(&["PING"]).is_err() {
            if server.log().get(logged..).is_some_and(|log| log.contains(TAKEN)) {
                return Err(io::ErrorKind::AddrInUse.into());
            }
            if Instant::now() >= deadline {
                return Err(io::Error::other(format!(
                    "{} does not answer; see {LOG} in {}",
                    program.display(),
                    directory.display()
                )));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(server)
    }

    /// What it has said so far.
    fn log(&self) -> String {
        let bytes = std::fs::read(self.directory.join(LOG)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Not as arguments, which all users of this machine can see. What the server adds to the file stays when it is started anew.
    fn configure(&self) -> io::Result<()> {
        std::fs::write(self.directory.join(SETTINGS), self.settings.join("\n"))
    }

    /// Starts it, and does not wait for it.
    pub fn run(&mut self) -> io::Result<()> {
        let is_sentinel = self.settings.iter().any(|line| line.starts_with("sentinel "));
        let mut keeper = Command::new("sh")
            .args(["-c", KEEPER, "sh"])
            .arg(&self.program)
            .arg(SETTINGS)
            .args(is_sentinel.then_some("--sentinel"))
            .current_dir(&self.directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            // Ctrl-C is for us.
            .process_group(0)
            .spawn()?;
        let mut line = String::new();
        if let Some(stdout) = keeper.stdout.take() {
            BufReader::new(stdout).read_line(&mut line)?;
        }
        let pid = line.trim().parse().map_err(io::Error::other)?;
        self.running = Some(Running { keeper, pid });
        Ok(())
    }

    /// The same, and no sentinel may promote it until it is told otherwise: it may come back empty.
    pub(super) fn run_unpromotable(&mut self) -> io::Result<()> {
        let mut settings = std::fs::File::options()
            .append(true)
            .open(self.directory.join(SETTINGS))?;
        settings.write_all(b"\nreplica-priority 0\n")?;
        self.run()
    }

    /// From now on there is another user, of this name and with these rules, whatever becomes of the process: a replica knows it,
    /// too.
    pub fn admit(&mut self, user: &[String]) -> io::Result<()> {
        let mut admitted = vec!["ACL", "SETUSER"];
        admitted.extend(user.iter().map(String::as_str));
        self.command(&admitted).map_err(io::Error::other)?;
        self.user = user.to_vec();
        self.settings.push(format!("user {}", user.join(" ")));
        self.configure()
    }

    /// Starts a second server, which follows this one.
    pub fn replica(&self) -> io::Result<Self> {
        let directory = self.directory.join("replica");
        std::fs::create_dir_all(&directory)?;
        let mut replica = Self::with_password(&self.program, &directory, Fsync::Always, &self.password)?;
        if !self.user.is_empty() {
            replica.admit(&self.user)?;
        }
        let following = replica.command(&["REPLICAOF", "127.0.0.1", &self.port.to_string()]);
        following.map_err(io::Error::other)?;
        Ok(replica)
    }

    /// Whether it has all that the server has which it follows, on its disk, too.
    pub fn is_in_step(&self) -> bool {
        let said = |section| match self.command(&["INFO", section]) {
            Ok(answer) => redis::from_redis_value::<String>(answer).unwrap_or_default(),
            Err(_) => String::new(),
        };
        let (link, disk) = (said("replication"), said("persistence"));
        link.contains("master_link_status:up")
            && ["aof_enabled:1", "aof_rewrite_in_progress:0", "aof_rewrite_scheduled:0"]
                .iter()
                .all(|wanted| disk.contains(wanted))
    }

    /// kill -9.
    pub fn kill(&mut self) {
        if let Some(Running { mut keeper, pid }) = self.running.take() {
            copy::signal(pid, Signal::KILL);
            drop(keeper.stdin.take());
            let _ = keeper.wait();
        }
    }

    pub(super) fn pid(&self) -> Option<u32> {
        self.running.as_ref().map(|running| running.pid)
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    pub fn is_running(&self) -> bool {
        self.running.is_some()
    }

    pub fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.port))
    }

    /// It, or what stands before it at this address.
    pub fn reached_at(&self, address: SocketAddr) -> ConnectionInfo {
        let url = format!("redis://{OWNER}:{}@{address}", self.password);
        url.into_connection_info().expect("an address is a URL")
    }

    /// For as long as `during` runs, everybody may push to this key, and do nothing else.
    pub fn open_for_pushes<T>(&self, key: &str, during: impl FnOnce() -> T) -> Result<T, redis::RedisError> {
        let (key, password) = (format!("~{key}"), format!(">{}", self.password));
        let everybody = ["ACL", "SETUSER", "default"];
        self.command(
            &[
                &everybody[..],
                &["reset", "on", "nopass", &key, "+lpush", "+ping", "+config|get"],
            ]
            .concat(),
        )?;
        let done = during();
        self.command(&[&everybody[..], &["reset", "on", &password, "~*", "&*", "+@all"]].concat())?;
        Ok(done)
    }

    pub fn command(&self, arguments: &[&str]) -> Result<redis::Value, redis::RedisError> {
        command(self.reached_at(self.address()), arguments)
    }

    /// Whether so many replicas say in time that they have something that is written now, under this key.
    pub fn is_kept_by(&self, replicas: usize, key: &str, at_most: Duration) -> bool {
        let at_most = u64::try_from(at_most.as_millis()).unwrap_or(u64::MAX);
        let kept = || -> Result<usize, redis::RedisError> {
            let mut connection = connect(self.reached_at(self.address()))?;
            let mut pipe = redis::pipe();
            pipe.cmd("SET").arg(key).arg(1).arg("PX").arg(at_most).ignore();
            pipe.cmd("WAIT").arg(replicas).arg(at_most);
            let (kept,) = pipe.query(&mut connection)?;
            Ok(kept)
        };
        kept().is_ok_and(|kept| kept >= replicas)
    }

    /// The same without waiting for the answer.
    pub fn send(&self, arguments: &[&str]) {
        let server = self.reached_at(self.address());
        let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
        std::thread::spawn(move || command(server, &arguments));
    }

    /// The same again and again, until the server has done it, or does not come back.
    pub fn insist(&self, arguments: &[&str]) {
        let server = self.reached_at(self.address());
        let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
        let give_up = Instant::now() + START_MAX;
        std::thread::spawn(move || {
            while command(server.clone(), &arguments).is_err() && Instant::now() < give_up {
                std::thread::sleep(AGAIN);
            }
        });
    }
}

/// Zero, if the program does not say.
fn major(program: &Path) -> u32 {
    let output = Command::new(program).arg("--version").output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let text = text.unwrap_or_default();
    let version = text.split_once("v=").and_then(|(_, rest)| rest.split('.').next());
    version.and_then(|major| major.parse().ok()).unwrap_or(0)
}

fn command(server: ConnectionInfo, arguments: &[impl ToRedisArgs]) -> Result<redis::Value, redis::RedisError> {
    redis::Cmd::new().arg(arguments).query(&mut connect(server)?)
}

fn connect(server: ConnectionInfo) -> Result<redis::Connection, redis::RedisError> {
    let connection = redis::Client::open(server)?.get_connection_with_timeout(ANSWER_MAX)?;
    connection.set_read_timeout(Some(ANSWER_MAX))?;
    Ok(connection)
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_server_whose_port_somebody_else_took_starts_on_another_one() {
        let directory = tempfile::tempdir().expect("a directory");
        let taken = TcpListener::bind(("127.0.0.1", port::free().expect("a port"))).expect("free");
        let taken = (taken.local_addr().expect("bound").port(), taken);
        let program = Server::program().expect("redis-server is installed");
        let tries = Cell::new(0);
        let server = Server::on_free_port(|port| {
            tries.set(tries.get() + 1);
            let port = if tries.get() == 1 { taken.0 } else { port };
            Server::with_settings(&program, directory.path(), Fsync::Never, new_id(), port, &[])
        });
        let server = server.expect("it starts");
        assert_eq!(tries.get(), 2);
        assert_ne!(server.port(), taken.0);
        assert!(server.command(&["PING"]).is_ok());
    }
}
