//! What docs/dashboard.md tells, measured, and its pictures. Not in the gate: a figure is no promise, and takes minutes.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::board::{Board, new_queue};
use super::browser::Browser;
use crate::fleet::Fleet;
use crate::server::RedisServer;

const MILLION: u64 = 1_000_000;

/// What INFO says.
fn info(server: &RedisServer, section: &str) -> String {
    match server.command(&["INFO", section]).expect("INFO") {
        redis::Value::BulkString(text) => String::from_utf8_lossy(&text).into_owned(),
        other => format!("{other:?}"),
    }
}

/// The seconds that Redis has worked.
fn cpu(server: &RedisServer) -> f64 {
    let text = info(server, "cpu");
    let field = |name: &str| {
        let value = text
            .lines()
            .find_map(|line| line.strip_prefix(name)?.trim().parse::<f64>().ok());
        value.expect("a number")
    };
    field("used_cpu_user:") + field("used_cpu_sys:")
}

fn share(server: &RedisServer, over: Duration) -> f64 {
    let before = cpu(server);
    std::thread::sleep(over);
    (cpu(server) - before) / over.as_secs_f64() * 100.0
}

#[test]
#[ignore = "takes minutes: cargo test --profile gate --all-features --test all -- --ignored --nocapture figures_of_the_dashboard"]
fn figures_of_the_dashboard_on_a_million_messages_and_a_million_errors() {
    let server = RedisServer::start();
    let queue = new_queue();
    let mut failing = Fleet::on(&server)
        .queue(&queue)
        .copies(3)
        .args(&format!(
            "--interval 0 --messages {MILLION} --work 0 --error-rate 1 --quiet"
        ))
        .start();
    failing.wait_through(MILLION);
    for copy in 0..failing.len() {
        failing.term(copy);
        failing.wait_exit(copy);
    }
    // A generator alone: nobody handles.
    let fleet = Fleet::on(&server)
        .queue(&queue)
        .args(&format!(
            "--interval 0 --messages {} --max-backlog {} --quiet",
            2 * MILLION,
            2 * MILLION
        ))
        .start();
    fleet.wait_status("a million is queued", |status| {
        status.queued == MILLION && status.errors == MILLION
    });
    let board = Board::start(&server, &queue, &[]);
    let browser = Browser::start();
    browser.look(1280, 900, false);
    println!(
        "a queue with 1,000,000 messages and 1,000,000 errors, {}",
        info(&server, "server").lines().nth(1).unwrap_or_default()
    );

    let idle = share(&server, Duration::from_secs(10));
    server.command(&["CONFIG", "RESETSTAT"]).expect("reset");
    server
        .command(&["CONFIG", "SET", "slowlog-log-slower-than", "10000"])
        .expect("set");
    server.command(&["SLOWLOG", "RESET"]).expect("reset");
    let mut paints = Vec::new();
    for _ in 0..5 {
        browser.open(&board.url);
        let numbers = "return document.querySelector('.tile.queued b')?.textContent === '1.00 M' && Math.round(performance.now())";
        let shown = browser.wait_for("the numbers", numbers);
        let paint = browser.wait_for(
            "a paint",
            "return performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? null",
        );
        paints.push((paint.as_f64().expect("a time"), shown.as_f64().expect("a time")));
    }
    println!("first paint, and all numbers, in ms: {paints:.0?}");
    let open = share(&server, Duration::from_secs(30));
    println!("CPU of Redis: {idle:.2} % with one idle node, {open:.2} % with the page open as well");

    browser.open(&format!("{}#errors", board.url));
    let listed = browser.wait_for(
        "a page of errors",
        "return document.querySelectorAll('#errors tbody tr').length === 50 && Math.round(performance.now())",
    );
    println!("a page of errors after {listed} ms");
    let begun = Instant::now();
    browser.write("#filters [name=text]", "absent");
    browser.click("#filters [type=submit]");
    browser.wait_for(
        "the end of the search",
        "return !document.getElementById('errors-empty').hidden && document.getElementById('search-stop').hidden",
    );
    println!(
        "a search through all of them: {:.1} s, {}",
        begun.elapsed().as_secs_f64(),
        browser.text("#search-state")
    );
    println!("commands of Redis, with calls and microseconds per call:");
    for line in info(&server, "commandstats")
        .lines()
        .filter(|line| line.starts_with("cmdstat_"))
    {
        let field = |name: &str| {
            line.split(',')
                .find_map(|part| part.split_once(name))
                .map_or("", |(_, value)| value)
        };
        println!(
            "  {:28} {:>8} {:>10}",
            &line[8..line.find(':').unwrap_or(8)],
            field("calls="),
            field("usec_per_call=")
        );
    }
    let slow = server.command(&["SLOWLOG", "LEN"]).expect("SLOWLOG");
    println!("commands that took longer than 10 ms: {slow:?}");
}

#[test]
#[ignore = "takes a minute: cargo test --profile gate --all-features --test all -- --ignored --nocapture figures_of_a_failover"]
fn figures_of_a_failover_as_the_page_shows_it() {
    let server = RedisServer::start();
    let mut fleet = Fleet::on(&server)
        .queue(&new_queue())
        .copies(3)
        .args("--interval 100ms --work 0 --quiet")
        .start_led();
    let board = Board::start(&server, fleet.queue(), &[]);
    let browser = Browser::start();
    browser.open(&board.url);
    let mut times = Vec::new();
    for _ in 0..10 {
        let epoch = browser.wait_for("a generator", "return document.querySelector('.crown:not(.vacant)') && Number(document.getElementById('crown-epoch').textContent)");
        fleet.add("");
        fleet.wait_for_more("joined", 0);
        std::thread::sleep(Duration::from_secs(2));
        fleet.kill9(fleet.generator());
        let killed = Instant::now();
        browser.wait_for(
            "another reign",
            &format!("return Number(document.getElementById('crown-epoch').textContent) > {epoch}"),
        );
        times.push(killed.elapsed().as_millis());
    }
    times.sort_unstable();
    println!(
        "from kill -9 of the generator to the next reign on the page, 10 times: median {} ms, max {} ms",
        times[5], times[9]
    );
}

/// Orders, as fast as a shop that goes well has them.
const GENERATE: &str = r#"
import json, os, random, time
number = int(os.environ["QUEENRIGHT_NUMBER"])
while True:
    number += 1
    name = random.choice(["Ada", "Grace", "Edsger", "Barbara", "Alan", "Margaret"])
    print(json.dumps({"order": 48000 + number, "for": name, "cents": random.randrange(500, 20000)}), flush=True)
    time.sleep(random.uniform(0.004, 0.02))
"#;

/// Most go well, some later, some never.
const HANDLE: &str = r#"
import json, random, sys, time
errors = ["HTTP 503 from payments.example", "card declined", "timeout: stock.example did not answer within 5 s", "no such address"]
for line in sys.stdin:
    time.sleep(random.expovariate(1 / 0.03))
    luck = random.random()
    answer = {"ok": True} if luck > 0.05 else {"retry": "busy", "after": "3s"} if luck > 0.015 else {"error": random.choice(errors)}
    print(json.dumps(answer), flush=True)
"#;

/// docs/dashboard.png and its relatives, from a fleet that lives and loses its generator.
#[test]
#[ignore = "scripts/picture runs it, with where to put them in QUEENRIGHT_PICTURES"]
fn pictures_of_the_dashboard() {
    let directory =
        PathBuf::from(std::env::var_os("QUEENRIGHT_PICTURES").expect("QUEENRIGHT_PICTURES: where to put them"));
    let seconds = std::env::var("QUEENRIGHT_SECONDS")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(300);
    let server = RedisServer::with_args(&["--appendonly", "yes"]);
    let scripts = tempfile::tempdir().expect("a directory");
    let script = |name: &str, text: &str| {
        let path = scripts.path().join(name);
        std::fs::write(&path, text).expect("written");
        format!("python3 {}", path.display())
    };
    let mut fleet = Fleet::on(&server)
        .queue("orders")
        .copies(6)
        .args("-c 4 --quiet --generate")
        .arg(&script("generate.py", GENERATE))
        .arg("--handle")
        .arg(&script("handle.py", HANDLE))
        .start_led();
    let until = Instant::now() + Duration::from_secs(seconds);
    let mut kills = 0;
    while Instant::now() < until {
        let left = until.saturating_duration_since(Instant::now());
        std::thread::sleep(Duration::from_secs([50, 23, 71, 38][kills % 4]).min(left));
        if until > Instant::now() + Duration::from_secs(15) {
            fleet.kill9(fleet.generator());
            fleet.wait_for_more("elected", 1);
            fleet.add("");
            kills += 1;
        }
    }
    let board = Board::start(&server, "orders", &[]);
    let browser = Browser::start();
    let keep = |name: &str| std::fs::write(Path::new(&directory).join(name), browser.picture()).expect("written");
    let whole = |width: u32, dark: bool| {
        browser.look(width, 800, dark);
        browser.wait_for(
            "charts",
            "return document.querySelectorAll('#charts path.line').length > 5",
        );
        let height = browser.run("return document.documentElement.scrollHeight");
        browser.look(
            width,
            u32::try_from(height.as_u64().expect("a height")).expect("small"),
            dark,
        );
        std::thread::sleep(Duration::from_secs(2));
    };
    browser.look(1280, 800, false);
    browser.open(&board.url);
    std::thread::sleep(Duration::from_secs(5));
    whole(1280, false);
    keep("dashboard.png");
    whole(1280, true);
    keep("dashboard-dark.png");
    browser.look(390, 844, false);
    std::thread::sleep(Duration::from_secs(2));
    keep("dashboard-narrow.png");
    browser.look(1280, 760, false);
    browser.open(&format!("{}#errors", board.url));
    browser.wait_for(
        "errors",
        "return document.querySelectorAll('#errors tbody tr').length === 50",
    );
    keep("dashboard-errors.png");
}
