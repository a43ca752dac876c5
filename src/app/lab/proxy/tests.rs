use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::{Direction, Proxy};

/// How long something may take that must happen.
const PATIENCE: Duration = Duration::from_mins(1);

/// How long nothing must happen.
const SILENCE: Duration = Duration::from_millis(50);

/// Sends back what it receives, a `!` before it, and remembers it. Its threads end with their connections.
struct Echo {
    address: SocketAddr,
    heard: Arc<Mutex<Vec<u8>>>,
}

impl Echo {
    fn start(mark: u8) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let address = listener.local_addr().expect("bound");
        let heard = Arc::new(Mutex::new(Vec::new()));
        let ears = heard.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (mut stream, ears) = (stream.expect("a connection"), ears.clone());
                std::thread::spawn(move || {
                    let mut buffer = [0; 4096];
                    while let Ok(1..) = stream.read(&mut buffer[1..]).inspect(|&n| {
                        buffer[0] = mark;
                        ears.lock().expect("no panic").extend_from_slice(&buffer[1..=n]);
                        let _ = stream.write_all(&buffer[..=n]);
                    }) {}
                });
            }
        });
        Self { address, heard }
    }

    fn heard(&self) -> Vec<u8> {
        self.heard.lock().expect("no panic").clone()
    }
}

fn connect(proxy: &Proxy) -> TcpStream {
    let stream = TcpStream::connect(proxy.address()).expect("the proxy listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    stream
}

fn say(stream: &mut TcpStream, text: &str) {
    stream.write_all(text.as_bytes()).expect("sent");
}

fn expect(stream: &mut TcpStream, text: &str) {
    let mut buffer = vec![0; text.len()];
    stream.read_exact(&mut buffer).expect("an answer");
    assert_eq!(String::from_utf8_lossy(&buffer), text);
}

fn warm(proxy: &Proxy) -> TcpStream {
    let mut stream = connect(proxy);
    say(&mut stream, "warm");
    expect(&mut stream, "!warm");
    stream
}

/// One that gives up writing when nothing moves.
fn impatient(proxy: &Proxy) -> TcpStream {
    let stream = connect(proxy);
    stream.set_write_timeout(Some(SILENCE)).expect("a timeout");
    stream
}

/// What still comes, until the connection is closed or reset.
fn rest(stream: &mut TcpStream) -> Vec<u8> {
    let mut all = Vec::new();
    match stream.read_to_end(&mut all) {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}"),
    }
    all
}

fn expect_silence(stream: &mut TcpStream) {
    stream.set_read_timeout(Some(SILENCE)).expect("a timeout");
    let error = stream.read(&mut [0; 1]).expect_err("neither bytes nor an end");
    assert!(
        matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
        "{error}"
    );
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
}

fn lost(proxy: &Proxy, direction: Direction) -> usize {
    let state = proxy.shared.state();
    state.open.values().filter(|open| open.lost[direction as usize]).count()
}

fn wait(what: &str, mut until: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !until() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn passes_on_both_ways_and_counts_what_is_open() {
    let echo = Echo::start(b'!');
    let proxy = Proxy::start(echo.address).expect("a proxy");
    let first = warm(&proxy);
    let mut second = warm(&proxy);
    assert_eq!(proxy.connections(), 2);
    assert_eq!(proxy.passed(Direction::Requests), 8);
    assert_eq!(proxy.passed(Direction::Replies), 10);

    let large = "x".repeat(1 << 20);
    let mut writer = second.try_clone().expect("a clone");
    let text = large.clone();
    let sending = std::thread::spawn(move || say(&mut writer, &text));
    let mut left = large.len();
    let mut buffer = [0; 4096];
    while left > 0 {
        let n = second.read(&mut buffer).expect("an answer");
        left -= buffer[..n].split(|&byte| byte == b'!').map(<[u8]>::len).sum::<usize>();
    }
    sending.join().expect("sent");
    drop(first);
    wait("a closed connection is not open", || proxy.connections() == 1);
}

#[test]
fn a_cut_closes_what_is_open_and_lets_new_connections_in() {
    let echo = Echo::start(b'!');
    let proxy = Proxy::start(echo.address).expect("a proxy");
    let (mut first, mut second) = (warm(&proxy), warm(&proxy));
    proxy.cut();
    assert_eq!(proxy.connections(), 0);
    for stream in [&mut first, &mut second] {
        let error = stream.read(&mut [0; 1]).expect_err("a reset");
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    }
    warm(&proxy);
}

#[test]
fn new_connections_go_to_the_new_upstream_and_old_ones_stay() {
    let (old, new) = (Echo::start(b'!'), Echo::start(b'?'));
    let proxy = Proxy::start(old.address).expect("a proxy");
    let mut first = warm(&proxy);
    proxy.upstream(new.address);
    let mut second = connect(&proxy);
    say(&mut second, "b");
    expect(&mut second, "?b");
    say(&mut first, "a");
    expect(&mut first, "!a");
}

#[test]
fn an_upstream_that_refuses_is_told_by_a_reset() {
    let echo = Echo::start(b'!');
    // A port that is taken, by someone who does not listen.
    let taken = TcpStream::connect(echo.address).expect("the echo listens");
    let proxy = Proxy::start(taken.local_addr().expect("connected")).expect("a proxy");
    assert_eq!(rest(&mut connect(&proxy)), b"");
    wait("nothing is left open", || proxy.connections() == 0);
}

#[test]
fn a_delay_holds_every_chunk_in_both_directions_and_keeps_the_order() {
    let echo = Echo::start(b'!');
    let proxy = Proxy::start(echo.address).expect("a proxy");
    let mut stream = warm(&proxy);
    let by = Duration::from_millis(40);
    proxy.delay(by);
    let start = Instant::now();
    say(&mut stream, "slow");
    expect(&mut stream, "!slow");
    assert!(start.elapsed() >= 2 * by, "{:?}", start.elapsed());

    say(&mut stream, "1");
    // Most likely on its way by then; if not, there is less to keep in order.
    std::thread::sleep(by / 4);
    proxy.delay(Duration::ZERO);
    say(&mut stream, "2");
    wait("both arrive", || echo.heard().ends_with(b"12"));
    assert_eq!(echo.heard(), b"warmslow12");
}

#[test]
fn a_throttle_is_shared_by_all_connections_holds_their_senders_back_and_ends() {
    let echo = Echo::start(b'!');
    let proxy = Proxy::start(echo.address).expect("a proxy");
    let mut streams = [warm(&proxy), warm(&proxy)];
    proxy.throttle(Direction::Requests, 200_000);
    let start = Instant::now();
    let text = "x".repeat(20_000);
    for stream in &mut streams {
        say(stream, &text);
    }
    wait("both get theirs through", || echo.heard().len() >= 8 + 40_000);
    assert!(
        start.elapsed() + super::MAKE_UP >= Duration::from_millis(200),
        "{:?}",
        start.elapsed()
    );

    // So slow that nothing gets through: what the sender cannot send is little more than what sockets hold by themselves.
    proxy.throttle(Direction::Requests, 1);
    let mut stream = impatient(&proxy);
    let megabytes = vec![b'y'; 64 << 20];
    let error = stream.write_all(&megabytes).expect_err("nobody takes 64 MB in");
    assert!(
        matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
        "{error}"
    );
    proxy.cut();
    proxy.throttle(Direction::Requests, 0);
    warm(&proxy);
}

#[test]
fn a_throttle_of_replies_leaves_requests_alone() {
    let echo = Echo::start(b'!');
    let proxy = Proxy::start(echo.address).expect("a proxy");
    let mut stream = warm(&proxy);
    proxy.throttle(Direction::Replies, 1_000_000);
    let start = Instant::now();
    let text = "x".repeat(100_000);
    let mut writer = stream.try_clone().expect("a clone");
    let sending = std::thread::spawn(move || say(&mut writer, &text));
    let mut left = 100_000;
    let mut buffer = [0; 4096];
    while left > 0 {
        let n = stream.read(&mut buffer).expect("an answer");
        left -= buffer[..n].split(|&byte| byte == b'!').map(<[u8]>::len).sum::<usize>();
    }
    sending.join().expect("sent");
    assert!(start.elapsed() >= Duration::from_millis(90), "{:?}", start.elapsed());
    assert!(proxy.passed(Direction::Requests) >= 100_000);
}

#[test]
fn a_black_hole_forwards_nothing_closes_nothing_and_ends_with_what_it_swallowed() {
    let echo = Echo::start(b'!');
    let proxy = Proxy::start(echo.address).expect("a proxy");
    let (mut idle, mut busy) = (warm(&proxy), warm(&proxy));
    proxy.black_hole(true);
    say(&mut busy, "lost");
    let mut new = connect(&proxy);
    say(&mut new, "lost");
    expect_silence(&mut busy);
    expect_silence(&mut new);
    wait("a new connection is accepted", || proxy.connections() == 3);
    wait("both have lost something", || lost(&proxy, Direction::Requests) == 2);

    proxy.black_hole(false);
    assert_eq!(rest(&mut busy), b"");
    assert_eq!(rest(&mut new), b"");
    say(&mut idle, "still here");
    expect(&mut idle, "!still here");
    warm(&proxy);
    assert_eq!(echo.heard(), b"warmwarmstill herewarm");
}

#[test]
fn the_server_does_not_learn_that_a_client_died_in_a_black_hole() {
    let echo = Echo::start(b'!');
    let proxy = Proxy::start(echo.address).expect("a proxy");
    let stream = warm(&proxy);
    proxy.black_hole(true);
    drop(stream);
    wait("the end is swallowed", || lost(&proxy, Direction::Requests) == 1);
    std::thread::sleep(SILENCE);
    assert_eq!(proxy.connections(), 1);
    proxy.black_hole(false);
    assert_eq!(proxy.connections(), 0);
}

#[test]
fn half_open_swallows_every_reply_while_every_request_arrives() {
    let echo = Echo::start(b'!');
    let proxy = Proxy::start(echo.address).expect("a proxy");
    let mut old = warm(&proxy);
    proxy.half_open(true);
    say(&mut old, "one");
    wait("the first request arrives", || echo.heard() == b"warmone");
    expect_silence(&mut old);
    say(&mut old, "two");
    wait("the second request arrives", || echo.heard() == b"warmonetwo");
    let mut new = connect(&proxy);
    say(&mut new, "three");
    wait("a new connection's request arrives", || {
        echo.heard() == b"warmonetwothree"
    });
    expect_silence(&mut new);
    wait("both have lost replies", || lost(&proxy, Direction::Replies) == 2);

    proxy.half_open(false);
    assert_eq!(rest(&mut old), b"");
    assert_eq!(rest(&mut new), b"");
    warm(&proxy);
}

#[test]
fn the_client_does_not_learn_that_the_server_died_behind_a_half_open_connection() {
    let server = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let proxy = Proxy::start(server.local_addr().expect("bound")).expect("a proxy");
    let mut stream = connect(&proxy);
    proxy.half_open(true);
    drop(server.accept().expect("a connection"));
    wait("the end is swallowed", || lost(&proxy, Direction::Replies) == 1);
    wait("the server's resets are met", || {
        say(&mut stream, "anybody there?");
        lost(&proxy, Direction::Requests) == 1
    });
    expect_silence(&mut stream);
    proxy.half_open(false);
    assert_eq!(rest(&mut stream), b"");
}

#[test]
fn a_cut_after_so_many_bytes_delivers_exactly_these_and_is_over() {
    let echo = Echo::start(b'!');
    let proxy = Proxy::start(echo.address).expect("a proxy");
    for bytes in 0..=7 {
        let before = echo.heard();
        let (mut stream, mut bystander) = (warm(&proxy), warm(&proxy));
        proxy.cut_after(Direction::Requests, bytes as u64);
        say(&mut stream, "1234567");
        assert_eq!(rest(&mut stream), b"", "the reply to {bytes} bytes");
        assert_eq!(rest(&mut bystander), b"");
        let expected = [&before[..], b"warmwarm", &b"1234567"[..bytes]].concat();
        wait("the server has heard it", || echo.heard().len() >= expected.len());
        assert_eq!(echo.heard(), expected);
        assert_eq!(proxy.connections(), 0);
    }
    for bytes in 0..=8 {
        let (mut stream, mut bystander) = (warm(&proxy), warm(&proxy));
        proxy.cut_after(Direction::Replies, bytes as u64);
        say(&mut stream, "1234567");
        assert_eq!(rest(&mut stream), &b"!1234567"[..bytes]);
        assert_eq!(rest(&mut bystander), b"");
        wait("the server has heard all", || {
            echo.heard().ends_with(b"warmwarm1234567")
        });
    }
    warm(&proxy);
}

#[test]
fn a_black_hole_after_so_many_bytes_swallows_the_rest() {
    let echo = Echo::start(b'!');
    let proxy = Proxy::start(echo.address).expect("a proxy");
    let mut stream = warm(&proxy);
    proxy.black_hole_after(Direction::Requests, 3);
    say(&mut stream, "1234567");
    wait("three bytes have arrived", || echo.heard() == b"warm123");
    assert!(proxy.is_black_hole());
    expect_silence(&mut stream);
    proxy.black_hole(false);
    assert_eq!(rest(&mut stream), b"");
    assert_eq!(echo.heard(), b"warm123");
}

#[test]
fn an_allowance_counts_over_all_connections_and_several_chunks() {
    let echo = Echo::start(b'!');
    let proxy = Proxy::start(echo.address).expect("a proxy");
    let (mut first, mut second) = (warm(&proxy), warm(&proxy));
    proxy.cut_after(Direction::Requests, 5);
    say(&mut first, "abc");
    expect(&mut first, "!abc");
    say(&mut second, "defgh");
    assert_eq!(rest(&mut second), b"");
    assert_eq!(rest(&mut first), b"");
    wait("the server has heard it", || echo.heard().ends_with(b"de"));
    assert_eq!(echo.heard(), b"warmwarmabcde");
}

#[test]
fn only_small_requests_and_replies_arrive_where_large_ones_are_swallowed() {
    let echo = Echo::start(b'!');
    let proxy = Proxy::start(echo.address).expect("a proxy");
    let (mut small, mut large) = (warm(&proxy), warm(&proxy));
    proxy.swallow_beyond(8);
    for _ in 0..3 {
        say(&mut small, "1234567");
        expect(&mut small, "!1234567");
    }
    say(&mut large, "123456789");
    wait("the large request is lost", || lost(&proxy, Direction::Requests) == 1);
    expect_silence(&mut large);
    say(&mut small, "12345678");
    wait("the large reply is lost", || lost(&proxy, Direction::Replies) == 1);
    expect_silence(&mut small);

    proxy.swallow_beyond(0);
    assert_eq!(rest(&mut large), b"");
    assert_eq!(rest(&mut small), b"");
    warm(&proxy);
}

#[test]
fn dropping_it_closes_everything() {
    let echo = Echo::start(b'!');
    let proxy = Proxy::start(echo.address).expect("a proxy");
    let mut stream = warm(&proxy);
    drop(proxy);
    assert_eq!(rest(&mut stream), b"");
}
