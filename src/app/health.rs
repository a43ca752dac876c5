//! Whether the processes here are well, without a port and without a file: each listens on an abstract socket, which needs no
//! place on a disk, is there for this machine or container alone, and is gone with its process, however that ends.
//!
//! An answer means that the process runs and that its work gets its turn: the one who does the work answers. A store that is
//! away makes nobody unhealthy, as with `/healthz`: a restart would not help.

use std::fmt;

#[cfg(target_os = "linux")]
pub(in crate::app) use linux::{ask, listen};

/// What the processes of this container, or of this user's machine, had to say.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::app) struct Health {
    /// By process, what it is about.
    pub(in crate::app) well: Vec<(u32, String)>,
    pub(in crate::app) silent: Vec<u32>,
}

impl Health {
    pub(in crate::app) fn is_good(&self) -> bool {
        self.silent.is_empty() && !self.well.is_empty()
    }
}

/// One line.
impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.well.as_slice(), self.silent.as_slice()) {
            ([], []) => f.write_str("unhealthy: no queenright start or dashboard runs here, under this user"),
            ([(_, about)], []) => write!(f, "healthy: {about}"),
            (all, []) => write!(f, "healthy: all {} processes answer", all.len()),
            (_, [one]) => write!(f, "unhealthy: process {one} does not answer"),
            (well, silent) => {
                let all = well.len() + silent.len();
                write!(f, "unhealthy: {} of {all} processes do not answer", silent.len())
            }
        }
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use std::io::{self, Read};
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
    use std::time::{Duration, Instant};

    use rustix::net::sockopt::socket_peercred;
    use rustix::process::getuid;
    use tokio::io::AsyncWriteExt;

    use super::Health;

    /// The longest answer.
    const ANSWER_BYTES_MAX: u64 = 200;
    /// After a connection could not be accepted: out of file descriptors, most likely.
    const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

    /// The names of this container's processes begin so. Containers may share a network, and with it these names; process
    /// numbers belong to their namespace.
    fn prefix() -> io::Result<String> {
        let namespace = std::fs::read_link("/proc/self/ns/pid")?;
        Ok(format!("queenright/{}/", namespace.display()))
    }

    /// From now on this process answers whoever asks, with a few words on what it is about.
    pub(in crate::app) fn listen(about: impl Fn() -> String + Send + 'static) -> io::Result<()> {
        let name = format!("{}{}", prefix()?, std::process::id());
        let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(name)?)?;
        listener.set_nonblocking(true)?;
        let listener = tokio::net::UnixListener::from_std(listener)?;
        tokio::spawn(async move {
            loop {
                match listener.accept().await {
                    // So few bytes find room at once: nobody who does not read them is waited for.
                    Ok((mut asking, _)) => _ = asking.write_all(format!("{}\n", about()).as_bytes()).await,
                    Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
                }
            }
        });
        Ok(())
    }

    /// Asks one process, or all of this container, or of this user where there is none; together they have so much time.
    pub(in crate::app) fn ask(one: Option<u32>, time: Duration) -> io::Result<Health> {
        let deadline = Instant::now() + time;
        let asked: Vec<(u32, UnixStream)> = numbers(&std::fs::read_to_string("/proc/net/unix")?, &prefix()?)
            .into_iter()
            .filter(|pid| one.is_none_or(|one| *pid == one))
            .filter_map(|pid| Some((pid, connect(pid).ok()??)))
            .collect();
        let mut health = Health::default();
        for (pid, stream) in asked {
            match answer(stream, deadline) {
                Ok(about) if !about.is_empty() => health.well.push((pid, about)),
                // It ended meanwhile.
                Ok(_) => {}
                Err(_) => health.silent.push(pid),
            }
        }
        Ok(health)
    }

    /// The processes whose names are in this list of the kernel's.
    pub(super) fn numbers(list: &str, prefix: &str) -> Vec<u32> {
        let names = list.lines().filter_map(|line| line.split_once(" @"));
        let mut numbers: Vec<u32> = names
            .filter_map(|(_, name)| name.strip_prefix(prefix)?.parse().ok())
            .collect();
        // Each of its connections has its name, too.
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    }

    /// None: the name belongs to a stranger, who can say nothing about us.
    fn connect(pid: u32) -> io::Result<Option<UnixStream>> {
        let name = format!("{}{pid}", prefix()?);
        let stream = UnixStream::connect_addr(&SocketAddr::from_abstract_name(name)?)?;
        let (theirs, ours) = (socket_peercred(&stream)?.uid, getuid());
        Ok((theirs == ours || theirs.is_root() || ours.is_root()).then_some(stream))
    }

    fn answer(mut stream: UnixStream, deadline: Instant) -> io::Result<String> {
        let left = deadline.saturating_duration_since(Instant::now());
        stream.set_read_timeout(Some(left.max(Duration::from_millis(1))))?;
        let mut text = String::new();
        match (&mut stream).take(ANSWER_BYTES_MAX).read_to_string(&mut text) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(String::new()),
            read => read?,
        };
        Ok(text.trim_end().to_string())
    }
}

#[cfg(not(target_os = "linux"))]
pub(in crate::app) fn listen(_: impl Fn() -> String + Send + 'static) -> std::io::Result<()> {
    Ok(())
}

#[cfg(not(target_os = "linux"))]
pub(in crate::app) fn ask(_: Option<u32>, _: std::time::Duration) -> std::io::Result<Health> {
    Err(std::io::Error::other(
        "only Linux has the sockets that it uses; ask /healthz of --metrics instead",
    ))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn only_processes_of_this_namespace_are_asked_and_each_once() {
        let list = "Num       RefCount Protocol Flags    Type St Inode Path\n\
                    0000000000000000: 00000002 00000000 00010000 0001 01 100 @queenright/pid:[1]/17\n\
                    0000000000000000: 00000003 00000000 00000000 0001 03 101 @queenright/pid:[1]/17\n\
                    0000000000000000: 00000002 00000000 00010000 0001 01 102 @queenright/pid:[12]/18\n\
                    0000000000000000: 00000002 00000000 00010000 0001 01 103 @queenright/pid:[1]/x\n\
                    0000000000000000: 00000002 00000000 00010000 0001 01 104 /run/queenright/pid:[1]/19\n\
                    0000000000000000: 00000002 00000000 00010000 0001 01 105 @queenright/pid:[1]/2\n";
        assert_eq!(linux::numbers(list, "queenright/pid:[1]/"), [2, 17]);
    }

    #[test]
    fn one_line_says_who_is_well_and_who_is_not() {
        let health = |well: &[u32], silent: &[u32]| Health {
            well: well.iter().map(|pid| (*pid, "handles".into())).collect(),
            silent: silent.to_vec(),
        };
        for (health, is_good, line) in [
            (health(&[], &[]), false, "unhealthy: no queenright"),
            (health(&[7], &[]), true, "healthy: handles"),
            (health(&[7, 8], &[]), true, "healthy: all 2 processes answer"),
            (health(&[], &[7]), false, "unhealthy: process 7 does not answer"),
            (
                health(&[7], &[8, 9]),
                false,
                "unhealthy: 2 of 3 processes do not answer",
            ),
        ] {
            assert_eq!(health.is_good(), is_good, "{health}");
            assert!(health.to_string().starts_with(line), "{health}");
        }
    }
}
