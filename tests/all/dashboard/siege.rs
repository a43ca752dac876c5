//! A fleet that works while the dashboard of one of its nodes is attacked: what docs/security.md tells, measured. Not in the
//! gate: on a machine that others use, a rate says little.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::access::token_file;
use crate::fleet::{Fleet, Status};
use crate::server::RedisServer;

/// Of each kind; four kinds.
const ATTACKERS: usize = 32;
/// How long the fleet works in peace, and then under attack, in turn.
const PHASE: Duration = Duration::from_secs(10);
const ROUNDS: u32 = 3;
/// What an attacker waits after it was cut off or answered. It shares two cores with the fleet, and what it needs of them is
/// nobody's fault: so all of them together are held to a part of one, which is printed.
const PAUSE: Duration = Duration::from_millis(250);

/// What the attackers share.
struct Siege {
    address: String,
    attacks: AtomicBool,
    ends: AtomicBool,
    /// Requests and bytes that were sent.
    requests: AtomicU64,
    bytes: AtomicU64,
}

impl Siege {
    /// Waits for an attack; false: it is all over.
    fn goes_on(&self) -> bool {
        while !self.attacks.load(Ordering::Relaxed) {
            if self.ends.load(Ordering::Relaxed) {
                return false;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        true
    }

    fn is_on(&self) -> bool {
        self.attacks.load(Ordering::Relaxed)
    }

    fn connect(&self) -> Option<TcpStream> {
        let stream = TcpStream::connect(&self.address).ok()?;
        stream.set_write_timeout(Some(PAUSE)).ok()?;
        stream.set_read_timeout(Some(PAUSE)).ok()?;
        self.requests.fetch_add(1, Ordering::Relaxed);
        Some(stream)
    }

    fn send(&self, stream: &mut TcpStream, bytes: &[u8]) -> bool {
        let sent = stream.write(bytes);
        self.bytes
            .fetch_add(*sent.as_ref().unwrap_or(&0) as u64, Ordering::Relaxed);
        sent.is_ok_and(|sent| sent > 0)
    }

    /// A head that comes a byte at a time.
    fn sends_slowly(&self, stream: &mut TcpStream) {
        for byte in b"GET /api/v1/status HTTP/1.1\r\nhost: localhost\r\nx: "
            .iter()
            .chain(&[b'x'; 1000])
        {
            if !self.is_on() || !self.send(stream, &[*byte]) {
                return;
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Far more questions than the buffers between two sockets hold answers to.
    fn never_reads(&self, stream: &mut TcpStream) {
        let greedy = "GET /app.js HTTP/1.1\r\nhost: localhost\r\n\r\n".repeat(200);
        while self.is_on() && self.send(stream, greedy.as_bytes()) {
            std::thread::sleep(PAUSE);
        }
    }

    /// Two megabytes to where a token is asked for.
    fn posts(&self, stream: &mut TcpStream, body: &[u8]) {
        let head = format!(
            "POST /api/v1/session HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        if !self.send(stream, head.as_bytes()) {
            return;
        }
        for piece in body.chunks(1 << 16) {
            if !self.is_on() || !self.send(stream, piece) {
                return;
            }
        }
        let _ = stream.read(&mut [0; 1024]);
    }

    fn guesses(&self, stream: &mut TcpStream) {
        let guess = fastrand::u64(..);
        let ask = format!(
            "GET /api/v1/status HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {guess:020}\r\nconnection: close\r\n\r\n"
        );
        self.send(stream, ask.as_bytes());
        while self.is_on() && stream.read(&mut [0; 1024]).is_err() {}
    }

    fn attack(&self, kind: usize, body: &[u8]) {
        while self.goes_on() {
            if let Some(mut stream) = self.connect() {
                match kind {
                    0 => self.sends_slowly(&mut stream),
                    1 => self.never_reads(&mut stream),
                    2 => self.posts(&mut stream, body),
                    _ => self.guesses(&mut stream),
                }
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// How long a health check takes, with its connection.
    fn health(&self) -> Duration {
        let asked = Instant::now();
        let mut answer = String::new();
        if let Ok(mut stream) = TcpStream::connect(&self.address) {
            let _ = stream.set_read_timeout(Some(PHASE));
            let _ = stream.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
            let _ = stream.read_to_string(&mut answer);
        }
        if answer.starts_with("HTTP/1.1 200") {
            asked.elapsed()
        } else {
            PHASE
        }
    }
}

/// The seconds of processor time that a process has had.
fn cpu(pid: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("Linux");
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split(' ').collect();
    let ticks = |field: usize| fields[field].parse::<f64>().expect("a number");
    (ticks(12) + ticks(13)) / 100.0
}

fn number(count: u64) -> f64 {
    u32::try_from(count).map_or(f64::INFINITY, f64::from)
}

/// What one phase was like.
#[derive(Default)]
struct Phase {
    done: u64,
    seconds: f64,
    /// The rate of each second.
    rates: Vec<f64>,
    health_ms: Vec<f64>,
    /// Of the node with the dashboard, and of the attackers.
    cpu: [f64; 2],
}

impl Phase {
    fn rate(&self) -> f64 {
        number(self.done) / self.seconds
    }

    fn tell(&mut self, what: &str) {
        self.health_ms.sort_by(f64::total_cmp);
        self.rates.sort_by(f64::total_cmp);
        let (health, last) = (&self.health_ms, self.health_ms.len() - 1);
        println!(
            "{what}: {:.0} messages/s, in the slowest second {:.0}; /healthz median {:.1} ms, p99 {:.1} ms, max {:.1} ms of {}; \
             node with the dashboard {:.0} % of a core, attackers {:.0} %",
            self.rate(),
            self.rates[0],
            health[last / 2],
            health[last * 99 / 100],
            health[last],
            last + 1,
            self.cpu[0] / self.seconds * 100.0,
            self.cpu[1] / self.seconds * 100.0,
        );
    }
}

fn watch(phase: &mut Phase, siege: &Siege, node: u32, status: impl Fn() -> Status) {
    let pids = [node, std::process::id()];
    let (before, began, first) = (pids.map(cpu), Instant::now(), status().done);
    let (mut at, mut seen) = (began, first);
    while began.elapsed() < PHASE {
        for _ in 0..10 {
            let took = siege.health();
            phase.health_ms.push(took.as_secs_f64() * 1000.0);
            std::thread::sleep(Duration::from_millis(100).saturating_sub(took));
        }
        let (now, done) = (Instant::now(), status().done);
        phase.rates.push(number(done - seen) / (now - at).as_secs_f64());
        (at, seen) = (now, done);
    }
    phase.done += seen - first;
    phase.seconds += (at - began).as_secs_f64();
    for (sum, (pid, before)) in phase.cpu.iter_mut().zip(pids.into_iter().zip(before)) {
        *sum += cpu(pid) - before;
    }
}

#[test]
#[ignore = "takes a minute: cargo test --profile gate --all-features --test all -- --ignored --nocapture figures_of_a_fleet_under_attack"]
fn figures_of_a_fleet_under_attack() {
    let server = RedisServer::start();
    let directory = tempfile::tempdir().expect("a directory");
    let token = token_file(directory.path());
    // A given amount of work, which the machine does with ease: what is looked for is what the dashboard keeps from it.
    let fleet = Fleet::on(&server)
        .copies(3)
        .args("--interval 5ms --work 0 --also-handle --quiet --dashboard=127.0.0.1:0 --token-file")
        .arg(&token)
        .start_led();
    let generator = fleet.generator();
    let lines = fleet.lines();
    let of_it = |line: &&crate::fleet::Line| line.copy == generator && line.is("dashboard");
    let url = lines.iter().find(of_it).expect("it serves").fields["url"].clone();
    let address = url.as_str().expect("a URL").trim_start_matches("http://");
    let siege = Siege {
        address: address.trim_end_matches('/').into(),
        attacks: AtomicBool::new(false),
        ends: AtomicBool::new(false),
        requests: AtomicU64::new(0),
        bytes: AtomicU64::new(0),
    };
    let body = format!("{{\"token\":[{}1]}}", "1,".repeat(1_000_000));
    let (mut calm, mut attacked) = (Phase::default(), Phase::default());
    std::thread::scope(|scope| {
        for attacker in 0..4 * ATTACKERS {
            let (siege, body) = (&siege, body.as_bytes());
            scope.spawn(move || siege.attack(attacker % 4, body));
        }
        std::thread::sleep(Duration::from_secs(2));
        for _ in 0..ROUNDS {
            watch(&mut calm, &siege, fleet.pid(generator), || fleet.status());
            siege.attacks.store(true, Ordering::Relaxed);
            std::thread::sleep(Duration::from_secs(1));
            watch(&mut attacked, &siege, fleet.pid(generator), || fleet.status());
            siege.attacks.store(false, Ordering::Relaxed);
            std::thread::sleep(Duration::from_secs(1));
        }
        siege.ends.store(true, Ordering::Relaxed);
    });
    calm.tell("in peace");
    attacked.tell("under attack");
    let ratio = attacked.rate() / calm.rate();
    println!(
        "{} hostile connections at a time, {} in all, {} MB sent; ratio of the rates {ratio:.3}; the node's peak {} KB",
        4 * ATTACKERS,
        siege.requests.load(Ordering::Relaxed),
        siege.bytes.load(Ordering::Relaxed) >> 20,
        crate::fleet::peak_memory(fleet.pid(generator)).unwrap_or(0),
    );
    assert_eq!(fleet.generator(), generator, "the crown stays where it was");
    assert!(ratio > 0.95, "{ratio:.3}");
    let late = attacked.health_ms.len() * 99 / 100 - 1;
    assert!(attacked.health_ms[late] < 100.0, "{} ms", attacked.health_ms[late]);
}
