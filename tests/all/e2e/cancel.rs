//! `cancel`: messages that wait, that are put off, of groups, and in work, with real processes.

use std::io::Read as _;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::Output;
use std::sync::Arc;
use std::time::Duration;

use queenright::engine::{Engine as _, Item, memory::Local};
use queenright::{Failure, Message, Node, Settings, cancel, generate::Next, push, shutdown};
use serde_json::Value;

use super::push::{feed, good};
use crate::fleet::{Fleet, PATIENCE, Plan, json_lines, said, within};
use crate::server::RedisServer;

struct Workshop(tempfile::TempDir);

impl Workshop {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a directory"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A shell script. Returns the command that runs it.
    fn script(&self, text: &str) -> String {
        let path = self.path("handler.sh");
        let text = text.replace("$HERE", &self.0.path().display().to_string());
        std::fs::write(&path, text).expect("written");
        format!("sh {}", path.display())
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    fn wait_for(&self, name: &str) -> String {
        let there = || Some(self.read(name)).filter(|text| !text.is_empty());
        within(PATIENCE, there).unwrap_or_else(|| panic!("{name} is not written"))
    }
}

/// Writes down what it handles.
const NOTES: &str = r#"echo "$QUEENRIGHT_NUMBER" >> $HERE/handled"#;

fn worker(plan: Plan, how: &str, handler: &str) -> Fleet {
    plan.copies(1)
        .args("--concurrency 4 --lease 6s --retries 5")
        .arg(how)
        .arg(handler)
        .start_joined()
}

fn states(output: &Output) -> Vec<Value> {
    json_lines(&output.stdout)
        .iter()
        .map(|line| line["state"].clone())
        .collect()
}

/// Waits until these messages have ended, and tells how.
fn ended(fleet: &Fleet, numbers: &[&str]) -> Vec<Value> {
    let output = feed(fleet, &[&["where", "--wait", "--json"][..], numbers].concat(), "");
    states(&output)
}

fn what_waits_is_never_handled(plan: impl Fn() -> Plan, workshop: &Workshop) {
    let fleet = plan().copies(0).start();
    good(&feed(&fleet, &["push", "--ask", "a", "b", "c"], ""));
    good(&feed(&fleet, &["push", "--ask", "--delay", "1s", "later"], ""));
    good(&feed(&fleet, &["push", "--ask", "--group", "g", "d", "e"], ""));
    assert_eq!(
        good(&feed(&fleet, &["cancel", "1", "3"], "")),
        "1 cancelled\n3 cancelled\n"
    );
    assert_eq!(
        good(&feed(&fleet, &["cancel", "1"], "")),
        "1 cancelled\n",
        "twice is as good"
    );
    let group = good(&feed(&fleet, &["cancel", "--group", "g"], ""));
    assert_eq!(group, "group g is cancelled, 2 messages in its line\n");
    good(&feed(&fleet, &["push", "--ask", "--group", "g", "after it"], ""));
    let looked = good(&feed(&fleet, &["status"], ""));
    assert!(looked.contains("cancels    3  (pending"), "{looked}");
    let working = worker(plan().queue(fleet.queue()), "--handle-each", &workshop.script(NOTES));
    let told = ended(&fleet, &["0", "1", "2", "3", "4", "5", "6"]);
    let (done, over) = ("done", "cancelled");
    assert_eq!(told, [done, over, done, over, over, over, done]);
    let mut handled: Vec<_> = workshop.read("handled").lines().map(str::to_string).collect();
    handled.sort_unstable();
    assert_eq!(handled, ["0", "2", "6"]);
    let errors = working.errors();
    assert_eq!(errors.len(), 4);
    assert!(errors.iter().all(|failed| failed["error"] == "cancelled"), "{errors:?}");
    let status: Value = serde_json::from_str(&good(&feed(&fleet, &["status", "--json"], ""))).expect("JSON");
    assert!(status["cancels"].as_u64() <= Some(1), "{status}");
}

#[test]
fn what_is_cancelled_while_it_waits_is_never_handled_on_redis() {
    let (server, workshop) = (RedisServer::start(), Workshop::new());
    let queue = Fleet::on(&server).copies(0).start().queue().to_string();
    what_waits_is_never_handled(|| Fleet::on(&server).queue(&queue), &workshop);
}

#[test]
fn what_is_cancelled_while_it_waits_is_never_handled_in_a_file() {
    let workshop = Workshop::new();
    let queue = Fleet::in_file(&workshop.path("queue.db"))
        .copies(0)
        .start()
        .queue()
        .to_string();
    what_waits_is_never_handled(|| Fleet::in_file(&workshop.path("queue.db")).queue(&queue), &workshop);
}

#[test]
fn a_process_that_works_on_a_cancelled_message_gets_a_sigterm_and_is_not_started_again() {
    let (server, workshop) = (RedisServer::start(), Workshop::new());
    let script = r#"
trap 'echo "$QUEENRIGHT_NUMBER" >> $HERE/terminated; exit 75' TERM
echo "$QUEENRIGHT_NUMBER" >> $HERE/handled
while :; do sleep 0.05; done
"#;
    let working = worker(Fleet::on(&server), "--handle-each", &workshop.script(script));
    good(&feed(&working, &["push", "--ask", "endless"], ""));
    workshop.wait_for("handled");
    good(&feed(&working, &["cancel", "0"], ""));
    assert_eq!(ended(&working, &["0"]), ["cancelled"]);
    assert_eq!(
        (workshop.read("terminated"), workshop.read("handled")),
        ("0\n".into(), "0\n".into())
    );
    let late = feed(&working, &["cancel", "0"], "");
    assert_eq!(late.status.code(), Some(1), "{}", said(&late));
    assert_eq!(
        String::from_utf8_lossy(&late.stderr),
        "queenright: message 0 has ended: it was not cancelled\n"
    );
}

#[test]
fn one_that_ignores_a_sigterm_is_killed() {
    let workshop = Workshop::new();
    let script = r#"
trap '' TERM
echo "$QUEENRIGHT_NUMBER" >> $HERE/handled
while :; do sleep 0.05; done
"#;
    let plan = Fleet::in_file(&workshop.path("queue.db"));
    let working = worker(plan, "--handle-each", &workshop.script(script));
    good(&feed(&working, &["push", "--ask", "endless"], ""));
    workshop.wait_for("handled");
    good(&feed(&working, &["cancel", "0"], ""));
    assert_eq!(ended(&working, &["0"]), ["cancelled"]);
}

#[test]
fn a_child_that_lives_on_is_stopped_and_another_goes_on() {
    let (server, workshop) = (RedisServer::start(), Workshop::new());
    let script = r#"
trap 'echo stopped >> $HERE/terminated; exit 0' TERM
while IFS= read -r line; do
  case $line in
    *'"payload":"endless"'*) echo begun >> $HERE/handled; while :; do sleep 0.05; done;;
    *) echo '{"ok":true}';;
  esac
done
"#;
    let working = Fleet::on(&server)
        .copies(1)
        .args("--concurrency 1 --workers 1 --lease 6s --retries 5 --handle")
        .arg(&workshop.script(script))
        .start_joined();
    good(&feed(&working, &["push", "--ask", "first", "endless", "last"], ""));
    workshop.wait_for("handled");
    good(&feed(&working, &["cancel", "1"], ""));
    assert_eq!(ended(&working, &["0", "1", "2"]), ["done", "cancelled", "done"]);
    assert_eq!(
        (workshop.read("terminated"), workshop.read("handled")),
        ("stopped\n".into(), "begun\n".into())
    );
}

#[test]
fn what_waits_for_a_child_whose_input_is_full_is_cancelled_at_once_and_never_reaches_it() {
    let (server, workshop) = (RedisServer::start(), Workshop::new());
    let script = r#"
while IFS= read -r line; do
  case $line in
    *'"payload":"first"'*) echo begun > $HERE/begun; while [ ! -e $HERE/go ]; do sleep 0.05; done;;
    *'"payload":"last"'*) echo here > $HERE/last;;
  esac
  echo '{"ok":true}'
done
"#;
    let working = Fleet::on(&server)
        .copies(1)
        .args("--concurrency 3 --workers 1 --lease 30s --retries 5 --handle")
        .arg(&workshop.script(script))
        .start_joined();
    let large = "b".repeat(300_000);
    for (place, payload) in ["first", &large, "last"].into_iter().enumerate() {
        good(&feed(&working, &["push", "--ask"], payload));
        working.wait_status("it is in hand", |status| status.in_hand == place as u64 + 1);
    }
    workshop.wait_for("begun");
    good(&feed(&working, &["cancel", "2"], ""));
    let told = feed(&working, &["where", "--wait", "--timeout", "20s", "--json", "2"], "");
    assert_eq!(states(&told), ["cancelled"], "while the first is in work");
    std::fs::write(workshop.path("go"), "").expect("written");
    assert_eq!(ended(&working, &["0", "1"]), ["done", "done"]);
    assert_eq!(workshop.read("last"), "", "the child was given it");
}

#[test]
fn a_request_for_a_cancelled_message_is_dropped() {
    let (server, service) = (RedisServer::start(), TcpListener::bind("127.0.0.1:0").expect("a port"));
    let url = format!("http://{}", service.local_addr().expect("an address"));
    let working = worker(Fleet::on(&server), "--handle", &url);
    good(&feed(&working, &["push", "--ask", "endless"], ""));
    let (mut request, _) = service.accept().expect("a request");
    request.set_read_timeout(Some(PATIENCE)).expect("set");
    let mut bytes = [0; 64];
    assert!(request.read(&mut bytes).expect("it asks") > 0);
    good(&feed(&working, &["cancel", "0"], ""));
    let mut rest = Vec::new();
    request
        .read_to_end(&mut rest)
        .expect("it hangs up, and nothing is answered");
    assert_eq!(ended(&working, &["0"]), ["cancelled"]);
}

#[test]
fn what_is_cancelled_stays_cancelled_when_the_generator_is_killed() {
    let server = RedisServer::start();
    let mut fleet = Fleet::on(&server)
        .copies(3)
        .args("--interval 1h --lease 2s --work 0")
        .start_led();
    good(&feed(&fleet, &["pause", "handlers"], ""));
    // The next one would be due in an hour.
    fleet.wait_status("the first is published", |status| status.published == 1);
    let pushed = "x\n".repeat(40);
    let told = good(&feed(&fleet, &["push", "--ask"], &pushed));
    let numbers: Vec<&str> = told.lines().collect();
    assert_eq!(numbers.len(), 40, "{told}");
    let some: Vec<&str> = numbers.iter().step_by(2).copied().collect();
    good(&feed(&fleet, &[&["cancel"][..], &some].concat(), ""));
    let generator = fleet.generator();
    fleet.kill9(generator);
    good(&feed(&fleet, &["resume", "handlers"], ""));
    let told = ended(&fleet, &numbers);
    for (at, state) in told.iter().enumerate() {
        assert_eq!(state == "cancelled", at % 2 == 0, "{at} of {told:?}");
    }
    let errors = fleet.errors();
    let cancelled = errors.iter().filter(|failed| failed["error"] == "cancelled").count();
    assert_eq!((cancelled, fleet.status().published), (20, 41), "{errors:?}");
}

#[test]
fn wrong_numbers_get_one_line_and_the_right_exit_code() {
    let server = RedisServer::start();
    let fleet = Fleet::on(&server).copies(0).start();
    let refused = |args: &[&str], code: i32, words: &[&str]| {
        let output = feed(&fleet, &[&["cancel"][..], args].concat(), "");
        assert_eq!(output.status.code(), Some(code), "{args:?}: {}", said(&output));
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        for word in words {
            assert!(stderr.contains(word), "{word:?} in {stderr}");
        }
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    refused(&["0"], 1, &["no queue"]);
    good(&feed(&fleet, &["push", "a", "b"], ""));
    let told = refused(
        &["7"],
        1,
        &["queenright: message 7 was never published: it was not cancelled\n"],
    );
    assert_eq!(told, "");
    let words = ["queenright: message 7 was never published: it was not cancelled, nor 1 other of those named\n"];
    assert_eq!(refused(&["7", "1", "8"], 1, &words), "1 cancelled\n");
    let told = refused(&["--json", "7", "1"], 1, &[]);
    assert_eq!(
        told,
        "{\"number\":7,\"state\":\"unpublished\"}\n{\"number\":1,\"state\":\"cancelled\"}\n"
    );
    refused(&[], 2, &["NUMBER"]);
    refused(&["x"], 2, &["'x' is no whole number"]);
    refused(&["-1"], 2, &[]);
    refused(&["--group", ""], 2, &["--group"]);
    refused(&["--group", "g", "1"], 2, &["cannot be used with"]);
    let many: Vec<String> = (0..1001).map(|n| n.to_string()).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    refused(&many, 2, &["at most 1000 messages"]);
}

#[tokio::test]
async fn a_handler_in_rust_is_told_and_what_it_makes_of_it_counts() {
    let settings = Settings {
        interval: Duration::from_hours(1),
        lease: Duration::from_secs(2),
        retries: 5,
        concurrency: 4,
        ..Settings::default()
    };
    let engine = Arc::new(Local::new(&settings.queue));
    let handler = |message: Message| async move {
        if message.payload == b"x"[..] {
            return Ok(Vec::new());
        }
        let cancellation = message.cancellation();
        cancellation.cancelled().await;
        assert!(cancellation.is_cancelled() && message.is_cancelled());
        match &message.payload[..] {
            b"done all the same" => Ok(Vec::new()),
            _ => Err(Failure::from("it stops here")),
        }
    };
    let (stopper, shutdown) = shutdown::channel();
    let mut nodes = Vec::new();
    for _ in 0..2 {
        let node = Node::new(engine.clone(), settings.clone(), |_: Next| b"x".to_vec(), handler);
        nodes.push(tokio::spawn(node.run(shutdown.clone())));
    }
    let items = ["stops", "done all the same"].map(|payload| Item::new(payload).ask());
    let pushed = push::push(&*engine, &settings, push::KEEP, &items)
        .await
        .expect("pushed");
    let numbers: Vec<u64> = pushed.iter().map(|receipt| receipt.number).collect();
    let in_hand = async {
        while engine.status().await.expect("a look").in_hand < 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, in_hand).await.expect("they are in work");
    let told = cancel::cancel(&*engine, &numbers).await.expect("cancelled");
    assert_eq!(told, [cancel::Cancelled::Asked; 2]);
    let mut words = Vec::new();
    for number in numbers {
        match push::wait(&*engine, &settings, number, PATIENCE).await {
            Ok(push::Waited::Ended(ending)) => words.push(ending.word()),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(words, ["cancelled", "done"]);
    stopper.stop();
    for node in nodes {
        node.await.expect("no panic").expect("it stops");
    }
}
