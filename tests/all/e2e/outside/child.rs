//! `--handle COMMAND`: a child that lives on.

use super::{Workshop, wait_gone};
use crate::fleet::Fleet;
use crate::server::RedisServer;

const ANSWERS: &str = r#"
while IFS= read -r line; do
  case $line in
    *'"payload":"3"'*) echo '{"error":"three is \"bad\""}';;
    *'"payload":"4"'*'"failures":0'*|*'"failures":0'*'"payload":"4"'*) echo '{"retry":"busy","after":"10ms"}';;
    *'"payload":"4"'*) echo '{"number":4,"ok":true}';;
    *'"payload":"5"'*) echo '{"ok":true,"effects":[{"add":"sum","by":5},{"push":"list","value":"five"}]}';;
    *) echo '{"ok":true}';;
  esac
done
"#;

#[test]
fn a_child_answers_done_error_retry_and_effects() {
    let server = RedisServer::start();
    let workshop = Workshop::new();
    let fleet = Fleet::on(&server)
        .args("--also-handle --interval 1ms --messages 20 --concurrency 4 --lease 30s --handle")
        .arg(&workshop.script("handler.sh", ANSWERS))
        .start_joined();
    let status = fleet.wait_through(20);
    assert_eq!((status.done, status.failed), (19, 1), "{status:?}");
    let errors = fleet.errors();
    assert_eq!(errors[0]["number"], 3);
    assert_eq!(errors[0]["error"], r#"three is "bad""#);
    let get = |args: &[&str]| server.command(args).expect("an answer");
    assert_eq!(
        redis::from_redis_value::<i64>(get(&["GET", "sum"])).expect("a number"),
        5
    );
    let list: Vec<String> = redis::from_redis_value(get(&["LRANGE", "list", "0", "-1"])).expect("a list");
    assert_eq!(list, ["five"]);
    fleet.wait_for("the retry is told", |lines| {
        let mut retried = lines.iter().filter(|line| line.is("retried"));
        retried.any(|line| line.number == Some(4) && line.error == "busy")
    });
}

#[test]
fn several_messages_are_on_their_way_at_once() {
    let workshop = Workshop::new();
    // Answers only when it has four.
    let script = r#"
while read -r a && read -r b && read -r c && read -r d; do
  printf '{"ok":true}\n{"ok":true}\n{"ok":true}\n{"ok":true}\n'
done
"#;
    let fleet = workshop
        .fleet()
        .args("--also-handle --interval 1ms --messages 16 --concurrency 4 --workers 1 --handle")
        .arg(&workshop.script("handler.sh", script))
        .start_joined();
    let status = fleet.wait_through(16);
    assert_eq!(status.failed, 0, "{status:?}");
}

#[test]
fn as_many_workers_as_asked_for_are_at_work_at_once() {
    let workshop = Workshop::new();
    // Each waits until four are at work.
    let script = r#"
while IFS= read -r line; do
  touch $HERE/at-work-$$
  until [ "$(ls $HERE | grep -c at-work)" -eq 4 ]; do sleep 0.01; done
  echo '{"ok":true}'
done
"#;
    let fleet = workshop
        .fleet()
        .args("--also-handle --interval 1ms --messages 4 --workers 4 --handle")
        .arg(&workshop.script("handler.sh", script))
        .start_joined();
    assert_eq!(fleet.wait_through(4).done, 4);
}

#[test]
fn answers_with_a_number_come_in_any_order() {
    let workshop = Workshop::new();
    // Answers when it has four, the last one first.
    let script = r#"
number() { n=${1#*\"number\":}; n=${n%%,*}; }
while read -r a && read -r b && read -r c && read -r d; do
  for line in "$d" "$c" "$b" "$a"; do
    number "$line"
    case $n in *[13579]) echo "{\"number\":$n,\"error\":\"$n is odd\"}";; *) echo "{\"ok\":true,\"number\":$n}";; esac
  done
done
"#;
    let fleet = workshop
        .fleet()
        .args("--also-handle --interval 1ms --messages 16 --concurrency 4 --workers 1 --handle")
        .arg(&workshop.script("handler.sh", script))
        .start_joined();
    let status = fleet.wait_through(16);
    assert_eq!((status.done, status.failed), (8, 8), "{status:?}");
    for error in fleet.errors() {
        assert_eq!(error["error"], format!("{} is odd", error["number"]), "{error}");
    }
}

#[test]
fn a_python_worker_need_not_flush() {
    let workshop = Workshop::new();
    let path = workshop.path("worker.py");
    std::fs::write(
        &path,
        "import sys\nfor line in sys.stdin:\n    print('{\"ok\":true}')\n",
    )
    .expect("written");
    let fleet = workshop
        .fleet()
        .args("--also-handle --interval 1ms --messages 3 --handle")
        .arg(&format!("python3 {}", path.display()))
        .start_joined();
    assert_eq!(fleet.wait_through(3).done, 3);
}

#[test]
fn of_a_child_that_answers_nothing_it_is_asked_once_whether_it_flushes() {
    let workshop = Workshop::new();
    let mut fleet = workshop
        .fleet()
        .args("--also-handle --interval 1ms --messages 3 --concurrency 3 --workers 1 --grace 100ms --handle")
        .arg("sh -c 'cat > /dev/null'")
        .start_joined();
    let asks = |line: &crate::fleet::Line| line.is("child") && line.fields["message"].to_string().contains("flush");
    fleet.wait_for("it is asked", |lines| lines.iter().any(asks));
    // What it has in hand at the end is said as well.
    fleet.term(0);
    assert!(fleet.wait_exit(0).success());
    let lines = fleet.lines();
    let field = |event: &str, name: &str| {
        let line = lines.iter().find(|line| line.is(event)).expect(event);
        line.fields[name].as_u64()
    };
    assert_eq!(field("stopping", "in_hand"), Some(3));
    assert_eq!(field("given_up", "messages"), Some(3));
    assert_eq!(lines.iter().filter(|line| asks(line)).count(), 1);
}

#[test]
fn a_child_that_dies_costs_its_message_and_is_started_again() {
    let workshop = Workshop::new();
    let script = r#"
while IFS= read -r line; do
  case $line in
    *'"payload":"3"'*) echo 'out of honey' >&2; exit 9;;
    *'"payload":"9"'*) kill -9 $$;;
    *) echo '{"ok":true}';;
  esac
done
"#;
    let fleet = workshop
        .fleet()
        .args("--also-handle --interval 1ms --messages 20 --concurrency 4 --backoff 10ms --handle")
        .arg(&workshop.script("handler.sh", script))
        .start_joined();
    let status = fleet.wait_through(20);
    assert_eq!((status.done, status.failed), (18, 2), "{status:?}");
    let errors = fleet.errors();
    assert_eq!(errors[0]["number"], 3);
    let text = errors[0]["error"].as_str().expect("a text");
    assert!(text.contains("exit code 9") && text.contains("out of honey"), "{text}");
    assert_eq!(errors[1]["number"], 9);
    let text = errors[1]["error"].as_str().expect("a text");
    assert!(text.contains("signal 9"), "{text}");
    fleet.wait_for("what it said is in the log", |lines| {
        let mut said = lines.iter().filter(|line| line.is("stderr"));
        said.any(|line| line.fields["message"] == "out of honey")
    });
}

#[test]
fn a_child_that_hangs_is_killed_with_all_that_it_started() {
    let workshop = Workshop::new();
    let script = r#"
while IFS= read -r line; do
  case $line in
    *'"payload":"3"'*) sleep 100000 & echo $! > $HERE/pid; wait;;
    *) echo '{"ok":true}';;
  esac
done
"#;
    let fleet = workshop
        .fleet()
        .args("--also-handle --interval 1ms --messages 10 --concurrency 2 --backoff 10ms --timeout 3s --handle")
        .arg(&workshop.script("handler.sh", script))
        .start_joined();
    let status = fleet.wait_through(10);
    assert!(status.failed >= 1, "{status:?}");
    let errors = fleet.errors();
    // On a machine that stands still for seconds, others may be late as well; none may fail otherwise.
    assert!(errors.iter().any(|error| error["number"] == 3), "{errors:?}");
    for error in &errors {
        assert!(
            error["error"].as_str().expect("a text").contains("--timeout"),
            "{error}"
        );
    }
    wait_gone(workshop.read("pid").trim());
}

#[test]
fn nonsense_floods_and_answers_that_nobody_asked_for_end_the_child_and_nothing_else() {
    let workshop = Workshop::new();
    let twice = "read -r line; echo '{\"ok\":true}'; echo '{\"ok\":true}'; cat";
    let fleet = workshop
        .fleet()
        .args("--also-handle --interval 1ms --messages 1 --handle")
        .arg(&workshop.script("twice.sh", twice))
        .start_joined();
    fleet.wait_for("it is noticed", |lines| {
        let mut ended = lines.iter().filter(|line| line.is("child"));
        ended.any(|line| {
            line.fields["message"]
                .as_str()
                .is_some_and(|text| text.contains("asked nothing"))
        })
    });
    assert_eq!(fleet.wait_through(1).done, 1);
    drop(fleet);

    let workshop = Workshop::new();
    let script = r#"
while IFS= read -r line; do
  case $line in
    *'"payload":"2"'*) echo 'reading two…';;
    *'"payload":"5"'*) head -c 3000000 /dev/zero;;
    *'"payload":"7"'*) echo '{"ok":true,"number":6}';;
    *) echo '{"ok":true}';;
  esac
done
"#;
    let fleet = workshop
        .fleet()
        .args("--also-handle --interval 1ms --messages 12 --concurrency 3 --backoff 10ms --handle")
        .arg(&workshop.script("handler.sh", script))
        .start_joined();
    let status = fleet.wait_through(12);
    assert_eq!((status.done, status.failed), (9, 3), "{status:?}");
    let errors = fleet.errors();
    for (error, (number, word)) in errors
        .iter()
        .zip([(2, "reading two"), (5, "1048576"), (7, "no such message")])
    {
        assert_eq!(error["number"], number, "{error}");
        assert!(error["error"].as_str().expect("a text").contains(word), "{error}");
    }
}

#[test]
fn a_child_ends_with_its_node_even_if_it_does_not_want_to() {
    let workshop = Workshop::new();
    let stubborn = r#"
trap '' TERM
echo $$ > $HERE/pid
while IFS= read -r line; do echo '{"ok":true}'; done
while :; do sleep 1; done
"#;
    let mut fleet = workshop
        .fleet()
        .args("--also-handle --interval 1ms --messages 2 --handle")
        .arg(&workshop.script("handler.sh", stubborn))
        .start_joined();
    fleet.wait_through(2);
    fleet.term(0);
    assert!(fleet.wait_exit(0).success());
    wait_gone(workshop.read("pid").trim());
}

#[test]
fn a_command_that_cannot_be_started_puts_messages_off_until_it_can() {
    let workshop = Workshop::new();
    let path = workshop.path("handler");
    let put = |text: &str| {
        use std::os::unix::fs::PermissionsExt;
        let new = workshop.path("new");
        std::fs::write(&new, text).expect("written");
        std::fs::set_permissions(&new, std::fs::Permissions::from_mode(0o755)).expect("made executable");
        std::fs::rename(&new, &path).expect("renamed");
    };
    put("#!/no/such/interpreter\n");
    let fleet = workshop
        .fleet()
        .args("--also-handle --interval 10ms --messages 2 --backoff 10ms --handle")
        .arg(&path.display().to_string())
        .start_joined();
    fleet.wait_for("it cannot be started", |lines| {
        let mut retried = lines.iter().filter(|line| line.is("retried"));
        retried.any(|line| line.error.contains("cannot start"))
    });
    put("#!/bin/sh\nwhile read -r line; do echo '{\"ok\":true}'; done\n");
    assert_eq!(fleet.wait_through(2).failed, 0);
}

#[test]
fn a_child_that_reads_no_more_is_replaced() {
    let workshop = Workshop::new();
    let script = r#"
read -r line
exec <&-
echo '{"ok":true}'
exec sleep 60
"#;
    let fleet = workshop
        .fleet()
        .args("--also-handle --interval 1ms --messages 3 --handle")
        .arg(&workshop.script("child.sh", script))
        .start_joined();
    assert_eq!(fleet.wait_through(3).done, 3);
}
