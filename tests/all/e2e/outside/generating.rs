//! `--generate COMMAND`, `--generate-each COMMAND` and `--generate -`.

use std::io::Write;
use std::process::{Command, Stdio};

use super::{Workshop, wait_gone};
use crate::fleet::{Ends, Fleet, Line, said};

const QUICK: &str = "--work 0 --error-rate 0 --log json";

/// The payloads that were handled, by number.
fn handled(lines: &[Line]) -> Vec<(u64, String)> {
    let done = lines.iter().filter(|line| line.is("done"));
    let mut handled: Vec<_> = done
        .map(|line| (line.number.expect("numbered"), line.payload.clone()))
        .collect();
    handled.sort();
    handled.dedup();
    handled
}

fn wait_payload(fleet: &Fleet, payload: &str) {
    fleet.wait_for(&format!("{payload} is handled"), |lines| {
        lines.iter().any(|line| line.is("done") && line.payload == payload)
    });
}

/// Counts on from the last message, and notes each start.
const COUNTS: &str = r#"
echo "$$ $QUEENRIGHT_QUEUE $QUEENRIGHT_NUMBER $QUEENRIGHT_EPOCH [$QUEENRIGHT_CURSOR]" >> $HERE/starts
i=${QUEENRIGHT_CURSOR:--1}
while :; do i=$((i + 1)); echo $i; sleep 0.01; done
"#;

#[test]
fn a_command_goes_on_where_the_last_reign_ended_whoever_is_killed() {
    let workshop = Workshop::new();
    let mut fleet = Fleet::in_file(&workshop.path("queue.db"))
        .queue("bees")
        .copies(3)
        .args(QUICK)
        .args("--lease 1s --generate")
        .arg(&workshop.script("generator.sh", COUNTS))
        .start_joined();
    for _ in 0..4 {
        fleet.wait_for_more("done", 10);
        let generator = fleet.generator();
        fleet.kill9(generator);
        fleet.add("");
    }
    fleet.wait_for_more("done", 10);
    for (number, payload) in handled(&fleet.lines()) {
        assert_eq!(number.to_string(), payload, "skipped or repeated");
    }
    let starts = workshop.read("starts");
    let starts: Vec<Vec<&str>> = starts.lines().map(|line| line.split(' ').collect()).collect();
    assert!(starts.len() >= 5, "{starts:?}");
    for start in &starts {
        let next: u64 = start[2].parse().expect("a number");
        let last = next.checked_sub(1).map_or(String::new(), |last| last.to_string());
        assert_eq!(
            (start[1], start[4]),
            ("bees", format!("[{last}]").as_str()),
            "{start:?}"
        );
    }
    let epochs: Vec<u64> = starts.iter().map(|start| start[3].parse().expect("an epoch")).collect();
    assert!(epochs.windows(2).all(|two| two[0] < two[1]), "epochs grow: {starts:?}");
}

#[test]
fn a_command_is_stopped_with_its_reign() {
    let workshop = Workshop::new();
    let stubborn = format!("trap '' TERM\n{COUNTS}");
    let mut fleet = Fleet::in_file(&workshop.path("queue.db"))
        .copies(2)
        .args(QUICK)
        .args("--lease 6s --generate")
        .arg(&workshop.script("generator.sh", &stubborn))
        .start_led();
    fleet.wait_for_more("done", 3);
    let last_pid = || {
        let starts = workshop.read("starts");
        let line = starts.lines().last().unwrap_or_default();
        line.split(' ').next().unwrap_or_default().to_string()
    };
    let first = last_pid();
    // Frozen, replaced, and woken up: it is deposed, and so is what it started.
    fleet.stop(0);
    fleet.wait_for("another is elected", |lines| {
        lines.iter().any(|line| line.is("elected") && line.copy == 1)
    });
    fleet.cont(0);
    wait_gone(&first);
    fleet.wait_for_more("published", 3);
    let second = last_pid();
    assert_ne!(first, second);
    fleet.term(1);
    assert!(fleet.wait_exit(1).success());
    wait_gone(&second);
}

#[test]
fn a_line_is_published_as_soon_as_it_is_there_and_an_end_is_an_end() {
    let workshop = Workshop::new();
    let fleet = workshop
        .fleet()
        .args("--also-handle")
        .args(QUICK)
        .arg("--generate")
        .arg(&workshop.script(
            "slow.sh",
            "echo one; while kill -0 $PPID 2>/dev/null; do sleep 0.1; done",
        ))
        .start_joined();
    wait_payload(&fleet, "one");
    drop(fleet);

    let workshop = Workshop::new();
    let mut fleet = workshop
        .fleet()
        .args("--also-handle")
        .args(QUICK)
        .arg("--generate")
        .arg("printf 'a\\nb\\n\\nc'")
        .start_joined();
    fleet.wait_through(4);
    fleet.wait_for_outcomes(4);
    let payloads: Vec<String> = handled(&fleet.lines())
        .into_iter()
        .map(|(_, payload)| payload)
        .collect();
    assert_eq!(payloads, ["a", "b", "", "c"]);
    fleet.nobody_exited_but(&[]);
}

#[test]
fn a_generator_that_fails_is_started_again_and_what_it_said_is_told() {
    let workshop = Workshop::new();
    let script = "echo \"after [$QUEENRIGHT_CURSOR]\" | cut -c 1-20; echo 'no honey' >&2; exit 3";
    let fleet = workshop
        .fleet()
        .args("--also-handle")
        .args(QUICK)
        .arg("--generate")
        .arg(&workshop.script("fails.sh", script))
        .start_joined();
    wait_payload(&fleet, "after [after []]");
    fleet.wait_for("its end is told", |lines| {
        let mut ended = lines.iter().filter(|line| line.is("child"));
        ended.any(|line| {
            let text = line.fields["message"].as_str().unwrap_or_default();
            text.contains("exit code 3") && text.contains("no honey")
        })
    });
}

#[test]
fn json_lines_carry_a_cursor_that_the_next_generator_is_told() {
    let workshop = Workshop::new();
    let script = r#"
n=${QUEENRIGHT_CURSOR:-0}
i=0
while kill -0 $PPID 2>/dev/null; do
  if IFS= read -r line; then
    i=$((i + 1))
    [ $i -le $n ] || printf '{"payload":{"line":"%s"},"cursor":%d}\n' "$line" $i
  else
    sleep 0.05
  fi
done < $HERE/log
"#;
    std::fs::write(workshop.path("log"), "").expect("written");
    let mut log = std::fs::File::options()
        .append(true)
        .open(workshop.path("log"))
        .expect("opened");
    let mut fleet = Fleet::in_file(&workshop.path("queue.db"))
        .copies(2)
        .args(QUICK)
        .args("--lease 1s --generate-json --generate")
        .arg(&workshop.script("poller.sh", script))
        .start_joined();
    for round in 0..4 {
        for line in 0..25 {
            writeln!(log, "{}", round * 25 + line).expect("written");
        }
        fleet.wait_for_more("done", 1);
        let generator = fleet.generator();
        fleet.kill9(generator);
        fleet.add("");
    }
    let status = fleet.wait_status("all lines are handled", |status| status.settled() >= 100);
    assert_eq!((status.published, status.done), (100, 100), "{status:?}");
    for (number, payload) in handled(&fleet.lines()) {
        assert_eq!(payload, format!("{{\"line\":\"{number}\"}}"), "in order");
    }
}

#[test]
fn lines_survive_that_others_push_in_between() {
    let workshop = Workshop::new();
    let fleet = workshop
        .fleet()
        .copies(2)
        .args("--error-rate 0 --work 0 --quiet --generate")
        .arg("seq 0 19999")
        .start_joined();
    fleet.wait_status("it has begun", |status| status.published > 0);
    let mut pushed = 0;
    while fleet.status().published < 20_000 {
        let output = fleet.command(&["push", "x", "y", "z"]).output().expect("it starts");
        assert!(output.status.success(), "{}", said(&output));
        pushed += 3;
    }
    let status = fleet.wait_status("all are settled", |status| status.settled() >= 20_000 + pushed);
    assert_eq!((status.published, status.failed), (20_000 + pushed, 0), "{status:?}");
}

#[test]
fn a_process_a_beat_makes_a_message_or_none() {
    let workshop = Workshop::new();
    // Prints what is in the box, if there is something; with its own cursor, it counts.
    let script = r"
mv $HERE/box $HERE/taken 2>/dev/null || exit 0
cat $HERE/taken
";
    let fleet = workshop
        .fleet()
        .args("--also-handle --interval 10ms")
        .args(QUICK)
        .arg("--generate-each")
        .arg(&workshop.script("each.sh", script))
        .start_joined();
    for word in ["hello", "two words", "bye"] {
        std::fs::write(workshop.path("new"), format!("{word}\n")).expect("written");
        std::fs::rename(workshop.path("new"), workshop.path("box")).expect("put there");
        wait_payload(&fleet, word);
    }
    assert_eq!(fleet.wait_through(3).done, 3);
}

#[test]
fn a_process_a_beat_that_fails_makes_nothing_and_is_told() {
    let workshop = Workshop::new();
    let script = "[ $QUEENRIGHT_NUMBER = 1 ] && [ ! -e $HERE/once ] && { : > $HERE/once; echo half; exit 4; }\n\
                  echo \"$QUEENRIGHT_NUMBER after [$QUEENRIGHT_CURSOR]\" | cut -c 1-9";
    let fleet = workshop
        .fleet()
        .args("--also-handle --interval 10ms --messages 3")
        .args(QUICK)
        .arg("--generate-each")
        .arg(&workshop.script("each.sh", script))
        .start_joined();
    fleet.wait_through(3);
    fleet.wait_for("all are told", |lines| {
        lines.iter().filter(|line| line.is("done")).count() == 3
            && lines.iter().any(|line| {
                line.is("child")
                    && line.fields["message"]
                        .as_str()
                        .is_some_and(|text| text.contains("exit code 4"))
            })
    });
    let payloads: Vec<String> = handled(&fleet.lines())
        .into_iter()
        .map(|(_, payload)| payload)
        .collect();
    assert_eq!(payloads, ["0 after [", "1 after [", "2 after ["]);
}

#[test]
fn stdin_is_a_generator_too() {
    let workshop = Workshop::new();
    let mut fleet = workshop
        .fleet()
        .copies(1)
        .args(QUICK)
        .args("--prefer never")
        .start_joined();
    let mut command = fleet.command(&["start", "--lease", "30s", "--generate", "-"]);
    let feeder = command.stdin(Stdio::piped()).stderr(Stdio::null()).spawn();
    let mut feeder = Ends(feeder.expect("it starts"));
    let mut stdin = feeder.0.stdin.take().expect("piped");
    stdin.write_all(b"one\ntwo\n").expect("written");
    wait_payload(&fleet, "two");
    // While the next line is waited for, the crown goes and comes back: what was published is not published again.
    let silent = fleet.add("--prefer handler --generate-each true");
    fleet.wait_for("it has joined", |lines| {
        lines.iter().any(|line| line.copy == silent && line.is("joined"))
    });
    let nodes = fleet.status().nodes;
    let node_of = |pid: u32| {
        let node = nodes.iter().find(|node| node.pid == u64::from(pid));
        node.expect("a member").node.clone()
    };
    for heir in [node_of(fleet.pid(silent)), node_of(feeder.0.id())] {
        let output = fleet.command(&["handover", &heir]).output().expect("it starts");
        assert!(output.status.success(), "{}", said(&output));
    }
    stdin.write_all(b"three").expect("written");
    drop(stdin);
    wait_payload(&fleet, "three");
    assert_eq!(fleet.wait_through(3).done, 3);
}

#[test]
fn half_a_line_of_a_command_that_was_killed_is_no_message() {
    let workshop = Workshop::new();
    let script = r"
if mkdir $HERE/begun 2>/dev/null; then printf 'one\nhal'; kill -9 $$; fi
printf 'two'
";
    let fleet = workshop
        .fleet()
        .args("--also-handle --quiet --generate")
        .arg(&workshop.script("generator.sh", script))
        .start_joined();
    fleet.wait_through(2);
    let payloads: Vec<_> = fleet.errors().iter().map(|error| error["payload"].clone()).collect();
    assert_eq!(payloads, ["one", "two"]);
}

#[test]
fn a_process_a_beat_that_prints_without_end_is_told_and_does_not_hold_up_the_next() {
    // The second takes no notice of a closed pipe.
    for floods in [
        "yes",
        "trap '' PIPE; while :; do head -c 1000000 /dev/zero 2>/dev/null; done",
    ] {
        let workshop = Workshop::new();
        let script =
            format!("if mkdir $HERE/begun 2>/dev/null; then {floods}; fi\n[ $QUEENRIGHT_NUMBER = 0 ] && echo next\n:");
        let fleet = workshop
            .fleet()
            .args("--also-handle --interval 10ms")
            .args(QUICK)
            .arg("--generate-each")
            .arg(&workshop.script("each.sh", &script))
            .start_joined();
        wait_payload(&fleet, "next");
        let told = fleet.lines();
        let mut told = told.iter().filter(|line| line.is("child"));
        assert!(
            told.any(|line| line.fields["message"]
                .to_string()
                .contains("printed more than 8388608 bytes")),
            "{floods}"
        );
    }
}

#[test]
fn a_process_a_beat_is_not_waited_for_longer_than_it_lives() {
    let workshop = Workshop::new();
    // What it leaves behind has its pipes, in a group of its own.
    let script = "setsid sleep 100 &\necho $! >> $HERE/pids\necho here\n";
    let fleet = workshop
        .fleet()
        .args("--also-handle --interval 1ms --messages 1 --generate-each")
        .arg(&workshop.script("each.sh", script))
        .start_joined();
    fleet.wait_through(1);
    drop(fleet);
    for pid in workshop.read("pids").lines() {
        // It may have been ended before it had its own group.
        let _ = Command::new("kill").args(["-KILL", pid]).output();
    }
}

#[test]
fn a_message_of_a_process_a_beat_is_made_once_however_often_others_push_first() {
    let workshop = Workshop::new();
    let script = "echo run >> $HERE/runs\nsleep 0.1\necho made\n";
    let fleet = workshop
        .fleet()
        .args("--also-handle --interval 1ms --quiet --generate-each")
        .arg(&workshop.script("each.sh", script))
        .start_joined();
    let (mut pushed, mut status) = (0, fleet.status());
    while status.published < pushed + 3 {
        let output = fleet.command(&["push", "x"]).output().expect("it starts");
        assert!(output.status.success(), "{}", said(&output));
        pushed += 1;
        status = fleet.status();
    }
    let runs = workshop.read("runs").lines().count() as u64;
    // One may have been published since, and one may be on its way.
    let made = fleet.status().published - pushed;
    assert!(runs <= made + 1, "{runs} runs for {made} messages");
}
