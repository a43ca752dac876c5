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
    use std::io;
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::fs::MetadataExt;
    use std::os::unix::net::{SocketAddr, UnixListener};
    use std::time::Duration;

    use rustix::process::getuid;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::UnixStream;
    use tokio::task::JoinSet;
    use tokio::time::{Instant, timeout_at};

    use super::Health;

    /// The longest answer.
    const ANSWER_BYTES_MAX: u64 = 200;
    /// After a connection could not be accepted: out of file descriptors, most likely.
    const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
    /// After a process had no room for one more who asks.
    const ROOM_PAUSE: Duration = Duration::from_millis(20);
    const ROOT: u32 = 0;

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

    /// What a process said.
    enum Answer {
        Well(String),
        Silent,
        /// It ended meanwhile, or it is a stranger, who can say nothing about us.
        Nothing,
    }

    /// Asks one process, or all of this container, or of this user where there is none; together they have so much time.
    pub(in crate::app) fn ask(one: Option<u32>, time: Duration) -> io::Result<Health> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(ask_all(one, time))
    }

    async fn ask_all(one: Option<u32>, time: Duration) -> io::Result<Health> {
        let (deadline, prefix) = (Instant::now() + time, prefix()?);
        let mut asked = JoinSet::new();
        for pid in one.map_or_else(|| all(&prefix), |one| Ok(vec![one]))? {
            // Whose name it is not, is not even asked: anybody can take any name.
            let owner = std::fs::metadata(format!("/proc/{pid}")).map(|process| process.uid());
            if owner.is_ok_and(|owner| is_ours(pid, owner)) {
                let name = format!("\0{prefix}{pid}");
                // All at once: nobody takes the time of the others.
                asked.spawn(async move { (pid, answer(pid, &name, deadline).await) });
            }
        }
        let mut health = Health::default();
        while let Some(answered) = asked.join_next().await {
            match answered.map_err(io::Error::other)? {
                (pid, Answer::Well(about)) => health.well.push((pid, about)),
                (pid, Answer::Silent) => health.silent.push(pid),
                (_, Answer::Nothing) => {}
            }
        }
        health.well.sort_unstable();
        health.silent.sort_unstable();
        Ok(health)
    }

    /// The processes that listen here. The kernel hands its list out a page at a time and leaves out a socket when another one
    /// before it is closed meanwhile, so the list is read twice: one miss does not make a process that is well unhealthy.
    fn all(prefix: &str) -> io::Result<Vec<u32>> {
        let mut list = std::fs::read("/proc/net/unix")?;
        list.push(b'\n');
        list.extend(std::fs::read("/proc/net/unix")?);
        Ok(numbers(&list, prefix.as_bytes()))
    }

    /// The processes whose names are in this list of the kernel's. Names of others need not be text.
    pub(super) fn numbers(list: &[u8], prefix: &[u8]) -> Vec<u32> {
        let number = |line: &[u8]| {
            let at = line.windows(2).position(|two| two == b" @")?;
            let number = line[at + 2..].strip_prefix(prefix)?;
            std::str::from_utf8(number).ok()?.parse().ok()
        };
        let mut numbers: Vec<u32> = list.split(|byte| *byte == b'\n').filter_map(number).collect();
        // Each of its connections has its name, too.
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    }

    /// Whether what a process of this user says is about us. Root asks for everybody, and strangers are not believed: it must be
    /// this program.
    fn is_ours(pid: u32, theirs: u32) -> bool {
        let ours = getuid().as_raw();
        theirs == ours || theirs == ROOT || (ours == ROOT && is_this_program(pid))
    }

    fn is_this_program(pid: u32) -> bool {
        let file = |of: &str| std::fs::metadata(format!("/proc/{of}/exe")).map(|file| (file.dev(), file.ino()));
        matches!((file(&pid.to_string()), file("self")), (Ok(its), Ok(ours)) if its == ours)
    }

    async fn answer(pid: u32, name: &str, deadline: Instant) -> Answer {
        let stream = loop {
            match UnixStream::connect(name).await {
                Ok(stream) => break stream,
                // So many ask it already: it is frozen, or will have room in a moment. Or somebody else has taken its name.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if !is_this_program(pid) {
                        return Answer::Nothing;
                    }
                    if Instant::now() >= deadline {
                        return Answer::Silent;
                    }
                    tokio::time::sleep(ROOM_PAUSE).await;
                }
                Err(_) => return Answer::Nothing,
            }
        };
        // Of another namespace of processes it is 0.
        let is_it = |peer: tokio::net::unix::UCred| {
            peer.pid().and_then(|peer| u32::try_from(peer).ok()) == Some(pid) && is_ours(pid, peer.uid())
        };
        if !stream.peer_cred().is_ok_and(is_it) {
            return Answer::Nothing;
        }
        let mut text = String::new();
        match timeout_at(deadline, stream.take(ANSWER_BYTES_MAX).read_to_string(&mut text)).await {
            Ok(Ok(_)) if !text.is_empty() => Answer::Well(text.trim_end().to_string()),
            Ok(Ok(_)) => Answer::Nothing,
            Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionReset => Answer::Nothing,
            _ => Answer::Silent,
        }
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
        let list = [
            list.as_bytes(),
            b"0: 2 0 1 0001 01 106 @\xff\n0: 2 0 1 0001 01 107 @queenright/pid:[1]/3",
        ]
        .concat();
        assert_eq!(linux::numbers(&list, b"queenright/pid:[1]/"), [2, 3, 17]);
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
