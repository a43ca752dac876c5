//! A fleet from compose.yaml, scaled, and harmed as containers can be harmed; then the checks of `verify` on the books of all
//! copies. `QUEENRIGHT_CONTAINERS=200` for more of them than the gate has time for.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use queenright::app::lab::ledger::Remains;
use queenright::app::lab::ledger::checks::{Observed, Verdict, judge};
use queenright::app::lab::ledger::history::History;
use queenright::app::lab::ledger::times::{failover_gaps_ms, redelivery_delays_ms};
use queenright::engine::Engine;
use queenright::engine::redis::keys::Keys;
use queenright::engine::redis::{Place, RedisEngine, Server};
use queenright::settings::Settings;
use redis::IntoConnectionInfo;
use serde_json::Value;

use super::docker::{Yard, docker, done, inspect, wait_exit};
use crate::fleet::{json_lines, left_out, said, within};

/// A crowd takes its time on two cores.
const PATIENCE: Duration = Duration::from_mins(5);

fn copies() -> usize {
    let asked = std::env::var("QUEENRIGHT_CONTAINERS").ok();
    asked.map_or(8, |text| text.parse().expect("QUEENRIGHT_CONTAINERS is a number"))
}

fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    u64::try_from(now.as_millis()).expect("not so late")
}

/// Whoever runs the test; but not root, whom the image is not meant for, and who can read all books.
fn user() -> String {
    let id = Command::new("id").arg("-u").output().expect("id is there").stdout;
    let id = String::from_utf8_lossy(&id).trim().to_string();
    if id == "0" { "65532".into() } else { id }
}

/// docker-compose, or the one that is a part of docker.
fn compose() -> Option<Command> {
    [("docker-compose", None), ("docker", Some("compose"))]
        .into_iter()
        .map(|(program, first)| {
            let mut command = Command::new(program);
            command.args(first);
            command
        })
        .find(|command| {
            let mut asked = Command::new(command.get_program());
            asked.args(command.get_args()).arg("version");
            asked.output().is_ok_and(|output| output.status.success())
        })
}

/// None: stderr is told.
fn yard_with_compose() -> Option<Yard> {
    let yard = Yard::open()?;
    if compose().is_none() {
        left_out("fleets of containers", "there is no docker-compose");
        return None;
    }
    Some(yard)
}

/// What compose.yaml makes, with books.
struct Fleet<'a> {
    yard: &'a Yard,
    books: tempfile::TempDir,
    /// The container in which questions are asked: nobody harms it.
    asked: OnceCell<String>,
    /// When whose container was killed, by its short id.
    killed: BTreeMap<String, u64>,
}

impl<'a> Fleet<'a> {
    fn new(yard: &'a Yard) -> Self {
        let books = tempfile::tempdir().expect("a folder");
        // Whoever the copies are.
        std::fs::set_permissions(books.path(), PermissionsExt::from_mode(0o777)).expect("ours");
        Self {
            yard,
            books,
            asked: OnceCell::new(),
            killed: BTreeMap::new(),
        }
    }

    fn compose(&self, line: &str) -> Output {
        compose()
            .expect("the test was not left out")
            .args([
                "-p",
                &self.yard.name,
                "-f",
                "compose.yaml",
                "-f",
                "tests/all/containers/books.yaml",
            ])
            .args(shell_words::split(line).expect("words"))
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .env("QUEENRIGHT_IMAGE", &self.yard.image)
            .env("QUEENRIGHT_TOKEN", "a-token-for-the-tests")
            .env("QUEENRIGHT_PORT", "0")
            .env("QUEENRIGHT_TEST_USER", user())
            .env("QUEENRIGHT_TEST_BOOKS", self.books.path())
            .env("QUEENRIGHT_TEST_INTERVAL", if copies() > 50 { "100ms" } else { "20ms" })
            .output()
            .expect("it ran before")
    }

    fn up(&self, copies: usize) {
        let output = self.compose(&format!("up -d --scale queenright={copies}"));
        assert!(output.status.success(), "{}", said(&output));
    }

    fn containers(&self, service: &str) -> Vec<String> {
        let output = self.compose(&format!("ps -q {service}"));
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.lines().map(|id| id[..12].to_string()).collect()
    }

    fn ask(&self, command: &str) -> Output {
        let at = self.asked.get_or_init(|| self.containers("dashboard").remove(0));
        docker(&format!("exec {at} /queenright {command} -h redis"))
    }

    /// None while Redis is away.
    fn status(&self) -> Option<Value> {
        json_lines(&self.ask("status --json").stdout).into_iter().next()
    }

    fn wait(&self, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let mut last = None;
        let found = within(PATIENCE, || {
            last = self.status();
            last.clone().filter(&holds)
        });
        found.unwrap_or_else(|| panic!("{what}: {last:?}"))
    }

    /// The container in which the generator is.
    fn generator(&self) -> String {
        let status = self.wait("a generator", |status| status["generator"].is_string());
        let all = status["nodes"].as_array().expect("nodes");
        let reigning = all.iter().find(|node| node["node"] == status["generator"]);
        reigning
            .and_then(|node| node["host"].as_str())
            .expect("a host")
            .to_string()
    }

    /// Waits until someone else generates, and something new was published by it.
    fn wait_for_another(&self, than: &str) {
        let before = self
            .status()
            .map_or(0, |status| status["published"].as_u64().unwrap_or_default());
        self.wait("another generator", |status| {
            let all = status["nodes"].as_array().expect("nodes");
            let reigning = all.iter().find(|node| node["node"] == status["generator"]);
            reigning.is_some_and(|node| node["host"] != than) && status["published"].as_u64() > Some(before + 5)
        });
    }

    fn wait_for_all(&self, copies: usize) {
        self.wait("all are members", |status| {
            status["nodes"].as_array().map(Vec::len) == Some(copies)
        });
    }

    /// Everything that was published has its outcome, and everybody has left.
    fn end(&self) -> Value {
        let paused = self.ask("pause generator");
        assert!(paused.status.success(), "{}", said(&paused));
        let last = self.wait("nothing is left to do", |status| {
            ["queued", "in_hand", "later"].iter().all(|place| status[*place] == 0)
        });
        let ids = self.containers("queenright").join(" ");
        done(&format!("stop {ids}"));
        last
    }

    fn books(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.books.path()).expect("the folder");
        entries.map(|entry| entry.expect("a book").path()).collect()
    }

    /// The verdict of `verify`, and how long each failover and each redelivery took.
    fn judge(&self, last: &Value) -> (Verdict, Vec<u64>, Vec<u64>) {
        let mut history = History::default();
        for path in self.books() {
            let book = history.add(&path);
            history.fate(book).killed_ms = self.killed.get(container(&path)).copied();
        }
        history.read().expect("the books can be read");
        let redis = inspect(&self.containers("redis")[0]);
        let networks = redis["NetworkSettings"]["Networks"].as_object().expect("networks");
        let address = networks
            .values()
            .next()
            .and_then(|network| network["IPAddress"].as_str());
        let address = format!("{}:6379", address.expect("an address"));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        let number = |name: &str| last[name].as_u64().expect("a number");
        let remains = runtime.block_on(remains(address, number("published")));
        let observed = Observed {
            remains,
            done: number("done"),
            failed: number("failed"),
            ..Observed::default()
        };
        let verdict = judge(&mut history, &observed);
        let published = history.recorded.reigns.values().filter_map(|reign| reign.published_ms);
        (verdict, failover_gaps_ms(published), redelivery_delays_ms(&history))
    }
}

/// The container of someone who holds a message, and does not generate.
fn holder(status: &Value) -> Option<String> {
    let all = status["nodes"].as_array()?.iter();
    let mut holders = all.filter(|node| node["in_hand"].as_u64() > Some(0) && node["role"] == "handler");
    Some(holders.next()?["host"].as_str()?.to_string())
}

/// Whose book it is: HOST-PID.
fn container(book: &Path) -> &str {
    let name = book.file_name().and_then(|name| name.to_str()).expect("a name");
    name.rsplit_once('-').expect("a host and a process").0
}

async fn remains(address: String, published: u64) -> Remains {
    let settings = Settings::default();
    let server = Server {
        place: Place::at(format!("redis://{address}").into_connection_info().expect("a URL")),
        password: None,
        address,
        answer_timeout: Duration::from_secs(10),
        replicas: 0,
        watch: true,
    };
    let engine = RedisEngine::new(&server, Keys::new(&settings.queue, &settings.names)).expect("an engine");
    assert_eq!(engine.published().await.expect("it answers"), published);
    Remains::of(&engine, vec![published]).await.expect("it answers")
}

#[test]
fn a_scaled_fleet_whose_containers_are_killed_frozen_and_cut_off_loses_nothing_and_settles_nothing_twice() {
    let Some(yard) = yard_with_compose() else { return };
    let (mut fleet, copies) = (Fleet::new(&yard), copies());
    let begun = Instant::now();
    let step = |what: &str| println!("{:>5.1} s: {what}", begun.elapsed().as_secs_f64());
    fleet.up(1);
    fleet.wait_for_all(1);
    step("one copy, which generates");
    fleet.up(copies);
    step("docker-compose up --scale has returned");
    let status = {
        fleet.wait_for_all(copies);
        fleet.status().expect("Redis is there")
    };
    step(&format!("{copies} copies are members"));
    let roles = status["nodes"].as_array().expect("nodes").iter();
    assert_eq!(roles.filter(|node| node["role"] == "generator").count(), 1, "{status}");

    let victim = fleet.generator();
    step(&format!("kill the generator's container, {victim}"));
    done(&format!("kill {victim}"));
    fleet.killed.insert(victim.clone(), now_ms());
    fleet.wait_for_another(&victim);

    let status = fleet.wait("someone holds a message", |status| holder(status).is_some());
    let victim = holder(&status).expect("someone");
    step(&format!("kill a handler's container, {victim}"));
    done(&format!("kill {victim}"));
    fleet.killed.insert(victim, now_ms());

    let victim = fleet.generator();
    step(&format!("pause the generator's container, {victim}"));
    done(&format!("pause {victim}"));
    fleet.wait_for_another(&victim);
    // Until it is given up for dead, too.
    fleet.wait_for_all(copies - 3);
    done(&format!("unpause {victim}"));
    fleet.wait_for_all(copies - 2);

    let victim = fleet.generator();
    step(&format!("disconnect the generator's container, {victim}"));
    let network = format!("{}_default", yard.name);
    done(&format!("network disconnect {network} {victim}"));
    fleet.wait_for_another(&victim);
    // Until it is given up for dead, too.
    fleet.wait_for_all(copies - 3);
    done(&format!("network connect {network} {victim}"));
    fleet.wait_for_all(copies - 2);

    let victim = fleet.generator();
    step(&format!("stop the generator's container, {victim}"));
    done(&format!("stop {victim}"));
    assert_eq!(wait_exit(&victim), 0);
    fleet.wait_for_all(copies - 3);

    let redis = fleet.containers("redis").remove(0);
    step("kill Redis, and start it again");
    done(&format!("kill {redis}"));
    wait_exit(&redis);
    done(&format!("start {redis}"));
    fleet.wait_for_all(copies - 3);
    let before = fleet.status().expect("Redis is there")["published"].as_u64();
    fleet.wait("it goes on", |status| {
        status["published"].as_u64() > before.map(|before| before + 10)
    });

    let last = fleet.end();
    step("everybody has left");
    let (verdict, gaps, redeliveries) = fleet.judge(&last);
    let account = &verdict.account;
    println!(
        "{} messages: {} done, {} failed, {} lost, {} settled twice, {} started more than once",
        account.generated,
        account.done + account.in_doubt,
        account.errors,
        account.lost,
        account.twice,
        verdict.handled_more_than_once
    );
    println!("gaps between generators: {gaps:?} ms; redeliveries after {redeliveries:?} ms");
    assert!(verdict.findings.is_empty(), "{:#?}", verdict.findings);
    assert_eq!(fleet.books().len(), copies, "a book for each copy");
    assert!(gaps.len() >= 4 && account.generated > 100, "{gaps:?}, {account:?}");
    let redis = inspect(&redis);
    assert_eq!(
        redis["HostConfig"]["PortBindings"],
        serde_json::json!({}),
        "Redis is not published"
    );
}

#[test]
fn the_dashboard_of_compose_asks_for_its_token_and_without_one_says_what_to_do() {
    let Some(yard) = yard_with_compose() else { return };
    let fleet = Fleet::new(&yard);
    fleet.up(1);
    let dashboard = fleet.containers("dashboard").remove(0);
    let asked = within(PATIENCE, || {
        let ports = inspect(&dashboard)["NetworkSettings"]["Ports"]["8077/tcp"][0].take();
        assert!(ports.is_null() || ports["HostIp"] == "127.0.0.1", "{ports}");
        let port = ports["HostPort"].as_str()?.to_string();
        let curl = |more: &[&str]| {
            let url = format!("http://127.0.0.1:{port}/api/v1/status");
            let output = Command::new("curl")
                .args(["-sS", "-o", "/dev/null", "-w", "%{http_code}", &url])
                .args(more)
                .output();
            String::from_utf8_lossy(&output.expect("curl is there").stdout).into_owned()
        };
        let with_token = curl(&["-H", "Authorization: Bearer a-token-for-the-tests"]);
        (with_token == "200").then(|| curl(&[]))
    });
    assert_eq!(asked.as_deref(), Some("401"), "without the token");
    let image = &yard.image;
    let alone = yard.start(
        "--env QUEENRIGHT_TOKEN=",
        image,
        "dashboard --listen 0.0.0.0:8077 -h redis",
    );
    assert_eq!(wait_exit(&alone), 2);
    let said = super::docker::logs(&alone);
    assert!(
        said.lines().count() == 1 && said.contains("needs a token: give --token-file FILE or QUEENRIGHT_TOKEN"),
        "{said}"
    );
}
