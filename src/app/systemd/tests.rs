use super::*;
use crate::node::shutdown;

const WATCHDOG: Duration = Duration::from_millis(400);

/// A socket that plays systemd, and the service that speaks to it.
fn service() -> (tempfile::TempDir, UnixDatagram, Arc<Service>) {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("notify");
    let systemd = UnixDatagram::bind(&path).expect("a socket");
    systemd.set_nonblocking(true).expect("a socket");
    let service = Service::of(|name| match name {
        "NOTIFY_SOCKET" => path.to_str().map(String::from),
        "WATCHDOG_USEC" => Some(WATCHDOG.as_micros().to_string()),
        _ => None,
    });
    (
        directory,
        systemd,
        Arc::new(service.expect("an address").expect("a service")),
    )
}

fn told(systemd: &UnixDatagram) -> Vec<String> {
    let mut words = Vec::new();
    let mut buffer = [0; 1000];
    while let Ok(bytes) = systemd.recv(&mut buffer) {
        words.push(String::from_utf8_lossy(&buffer[..bytes]).into_owned());
    }
    words
}

/// What is told within so long: a socket has room for ten words.
async fn told_within(systemd: &UnixDatagram, time: Duration) -> Vec<String> {
    let (mut words, end) = (Vec::new(), tokio::time::Instant::now() + time);
    while tokio::time::Instant::now() < end {
        tokio::time::sleep(WATCHDOG / 4).await;
        words.extend(told(systemd));
    }
    words
}

fn alive(words: &[String]) -> usize {
    words.iter().filter(|words| *words == "WATCHDOG=1").count()
}

#[tokio::test(start_paused = true)]
async fn a_beat_that_goes_round_is_told_as_life_and_one_that_hangs_is_not() {
    let (_directory, systemd, service) = service();
    service.hears(&Event::Joined);
    let (meter, lease) = (Arc::new(Meter::default()), Duration::from_secs(2));
    let (_stopper, shutdown) = shutdown::channel();
    tokio::spawn(service.keep(meter.clone(), lease, shutdown));
    let mut words = Vec::new();
    for _ in 0..100 {
        meter.beat_turns();
        words.extend(told_within(&systemd, lease / 4).await);
    }
    // 50 s, and twice in each 400 ms at least.
    assert!(alive(&words) >= 250, "{words:?}");
    assert!(!words.iter().any(|words| words.starts_with("EXTEND")), "{words:?}");
    told_within(&systemd, 2 * lease + BEAT_EXTRA).await;
    let words = told_within(&systemd, 10 * WATCHDOG).await;
    assert!(words.is_empty(), "the beat hangs: {words:?}");
    meter.beat_turns();
    tokio::time::sleep(WATCHDOG).await;
    assert!(alive(&told(&systemd)) > 0, "it goes round again");
}

#[tokio::test]
async fn a_runtime_that_is_blocked_is_not_told_as_life() {
    let (_directory, systemd, service) = service();
    service.hears(&Event::Joined);
    let (meter, lease) = (Arc::new(Meter::default()), Duration::from_secs(2));
    let (_stopper, shutdown) = shutdown::channel();
    tokio::spawn(service.keep(meter.clone(), lease, shutdown));
    tokio::time::sleep(WATCHDOG).await;
    assert!(alive(&told(&systemd)) > 0);
    meter.beat_turns();
    std::thread::sleep(2 * WATCHDOG);
    assert_eq!(alive(&told(&systemd)), 0, "nothing runs here meanwhile");
}

#[tokio::test(start_paused = true)]
async fn a_start_and_a_stop_may_take_their_time() {
    let (_directory, systemd, service) = service();
    let (stopper, shutdown) = shutdown::channel();
    let lease = Duration::from_secs(2);
    tokio::spawn(service.clone().keep(Arc::default(), lease, shutdown));
    let extensions = |words: &[String]| {
        words
            .iter()
            .filter(|words| *words == "EXTEND_TIMEOUT_USEC=30000000")
            .count()
    };
    let words = told_within(&systemd, 10 * WATCHDOG).await;
    assert!(
        extensions(&words) >= 20 && !words.iter().any(|words| words.contains("READY")),
        "{words:?}"
    );
    service.hears(&Event::Joined);
    service.hears(&Event::Joined);
    let words = told_within(&systemd, 10 * WATCHDOG).await;
    assert_eq!(
        words.iter().filter(|words| words.starts_with("READY=1")).count(),
        1,
        "{words:?}"
    );
    assert!(extensions(&words) <= 1, "{words:?}");
    stopper.stop();
    let words = told_within(&systemd, 10 * WATCHDOG).await;
    assert!(
        words.iter().any(|words| words.starts_with("STOPPING=1\n")) && extensions(&words) >= 20,
        "{words:?}"
    );
}

fn last_status(words: &[String]) -> Option<&str> {
    words.iter().rev().find_map(|words| words.split("STATUS=").nth(1))
}

fn elected() -> Event {
    Event::Elected {
        epoch: 3,
        next_number: 0,
    }
}

fn away() -> Event {
    let reason = "no answer".into();
    Event::Away { reason }
}

#[tokio::test(start_paused = true)]
async fn a_generator_that_kept_its_crown_over_an_outage_is_not_said_to_handle() {
    let (_directory, systemd, service) = service();
    let (meter, lease) = (Arc::new(Meter::default()), Duration::from_mins(1));
    let (_stopper, shutdown) = shutdown::channel();
    tokio::spawn(service.clone().keep(meter.clone(), lease, shutdown));
    tokio::time::sleep(WATCHDOG).await;
    service.hears(&Event::Joined);
    meter.hears(1);
    meter.generates.store(true, Ordering::Relaxed);
    service.hears(&elected());
    let words = told_within(&systemd, 2 * WATCHDOG).await;
    assert_eq!(last_status(&words), Some("generating, epoch 3"), "{words:?}");
    service.hears(&away());
    let words = told_within(&systemd, 2 * WATCHDOG).await;
    assert_eq!(
        last_status(&words),
        Some("waiting for the store: no answer"),
        "{words:?}"
    );
    service.hears(&Event::Reconnected);
    meter.hears(2);
    let words = told_within(&systemd, 2 * WATCHDOG).await;
    assert_eq!(last_status(&words), Some("generating, epoch 3"), "{words:?}");
    meter.generates.store(false, Ordering::Relaxed);
    service.hears(&Event::Deposed { epoch: Some(3) });
    let words = told_within(&systemd, 2 * WATCHDOG).await;
    assert_eq!(last_status(&words), Some("handling"), "{words:?}");
    let words = told_within(&systemd, 10 * WATCHDOG).await;
    assert_eq!(last_status(&words), None, "nothing is new: {words:?}");
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_back_is_seen_by_its_answer_even_if_nobody_tells_of_it() {
    let (_directory, systemd, service) = service();
    let (meter, lease) = (Arc::new(Meter::default()), Duration::from_mins(1));
    let (_stopper, shutdown) = shutdown::channel();
    service.hears(&Event::Joined);
    tokio::spawn(service.clone().keep(meter.clone(), lease, shutdown));
    meter.hears(1);
    tokio::time::sleep(WATCHDOG).await;
    service.hears(&away());
    let words = told_within(&systemd, 2 * WATCHDOG).await;
    assert_eq!(
        last_status(&words),
        Some("waiting for the store: no answer"),
        "{words:?}"
    );
    meter.hears(2);
    let words = told_within(&systemd, 2 * WATCHDOG).await;
    assert_eq!(last_status(&words), Some("handling"), "{words:?}");
}

#[test]
fn the_watchdog_of_another_process_and_addresses_of_other_kinds_are_no_concern() {
    let of = |pairs: &'static [(&str, &str)]| {
        Service::of(|name| {
            let found = pairs.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| value.to_string())
        })
    };
    assert!(of(&[]).expect("nothing is wrong").is_none());
    assert!(of(&[("NOTIFY_SOCKET", "")]).expect("nothing is wrong").is_none());
    for wrong in ["vsock:2:1234", "relative/path"] {
        assert!(address(wrong).is_err(), "{wrong}");
    }
    let service = of(&[
        ("NOTIFY_SOCKET", "/nobody"),
        ("WATCHDOG_USEC", "1000000"),
        ("WATCHDOG_PID", "1"),
    ]);
    assert_eq!(service.expect("an address").expect("a service").watchdog, None);
    let service = of(&[("NOTIFY_SOCKET", "/nobody"), ("WATCHDOG_USEC", "1000000")]);
    let service = service.expect("an address").expect("a service");
    assert_eq!(service.watchdog, Some(Duration::from_secs(1)));
    // Nobody listens there: that is nobody's error, and it is told again.
    service.hears(&Event::Joined);
    assert!(!service.is_ready.load(Ordering::Relaxed));
}

#[tokio::test(start_paused = true)]
async fn a_systemd_without_room_is_told_later_and_holds_up_nobody() {
    let (_directory, systemd, service) = service();
    let meter = Arc::new(Meter::default());
    meter.generates.store(true, Ordering::Relaxed);
    while service.tell("STATUS=full") {}
    service.hears(&Event::Joined);
    service.hears(&elected());
    let (stopper, shutdown) = shutdown::channel();
    tokio::spawn(service.clone().keep(meter, Duration::from_secs(2), shutdown));
    let words = told_within(&systemd, WATCHDOG).await;
    assert_eq!(last_status(&words), Some("generating, epoch 3"), "{words:?}");
    assert_eq!(
        words.iter().filter(|words| words.starts_with("READY=1")).count(),
        1,
        "{words:?}"
    );
    while service.tell("STATUS=full") {}
    stopper.stop();
    tokio::time::sleep(Duration::from_millis(1)).await;
    let words = told_within(&systemd, WATCHDOG).await;
    assert!(words.iter().any(|words| words.starts_with("STOPPING=1\n")), "{words:?}");
}

#[test]
fn of_two_threads_that_see_it_ready_one_tells_it() {
    for _ in 0..500 {
        let (_directory, systemd, service) = service();
        let both = Arc::new(std::sync::Barrier::new(2));
        service.has_joined.store(true, Ordering::Relaxed);
        let threads = [(); 2].map(|()| {
            let (service, both) = (service.clone(), both.clone());
            std::thread::spawn(move || {
                both.wait();
                service.tell_ready()
            })
        });
        let _ = threads.map(|thread| thread.join().expect("no panic"));
        assert_eq!(told(&systemd).len(), 1);
    }
}
