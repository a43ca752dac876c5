//! `--handle-each COMMAND`: a process for each message.

use super::{Workshop, wait_gone};

#[test]
fn exit_codes_are_outcomes_and_the_message_is_in_stdin_and_the_environment() {
    let workshop = Workshop::new();
    let script = r#"
payload=$(cat)
echo "$QUEENRIGHT_QUEUE $QUEENRIGHT_NUMBER $QUEENRIGHT_DELIVERIES $QUEENRIGHT_EPOCH $payload" >> $HERE/seen
case $payload in
  3) echo first >&2; printf '\033[31mlast\n' >&2; exit 3;;
  4) [ "$QUEENRIGHT_FAILURES" = 2 ] || { echo busy >&2; exit 75; };;
  5) kill -9 $$;;
esac
"#;
    let fleet = workshop
        .fleet()
        .queue("bees")
        .args("--also-handle --interval 1ms --messages 8 --concurrency 3 --backoff 10ms --handle-each")
        .arg(&workshop.script("each.sh", script))
        .start_joined();
    let status = fleet.wait_through(8);
    assert_eq!((status.done, status.failed), (6, 2), "{status:?}");
    let errors = fleet.errors();
    let text = |at: usize| errors[at]["error"].as_str().expect("a text");
    assert_eq!(text(0), "sh ended with exit code 3: first / \\u{1b}[31mlast");
    assert_eq!(text(1), "sh was killed by signal 9");
    let seen = workshop.read("seen");
    let mut lines: Vec<&str> = seen.lines().collect();
    lines.sort_unstable();
    let number = |number: u32| format!("bees {number} 1 1 {number}");
    let wanted: Vec<String> = [0, 1, 2, 3, 4, 4, 4, 5, 6, 7].map(number).into();
    assert_eq!(lines, wanted);
}

#[test]
fn a_process_that_takes_too_long_is_killed_with_all_that_it_started() {
    let workshop = Workshop::new();
    let script = r#"
[ "$QUEENRIGHT_NUMBER" = 1 ] || exit 0
sleep 100000 &
echo $! > $HERE/pid
wait
"#;
    let fleet = workshop
        .fleet()
        .args("--also-handle --interval 1ms --messages 3 --concurrency 3 --timeout 3s --handle-each")
        .arg(&workshop.script("each.sh", script))
        .start_joined();
    fleet.wait_through(3);
    let errors = fleet.errors();
    // On a machine that stands still for seconds, others may be late as well; none may fail otherwise.
    assert!(errors.iter().any(|error| error["number"] == 1), "{errors:?}");
    for error in &errors {
        assert!(
            error["error"].as_str().expect("a text").contains("--timeout"),
            "{error}"
        );
    }
    wait_gone(workshop.read("pid").trim());
}

#[test]
fn a_process_that_reads_nothing_or_says_much_or_leaves_others_behind_is_no_trouble() {
    let workshop = Workshop::new();
    let script = r#"
exec <&-
head -c 300000 /dev/zero | tr '\0' x >&2
sleep 100000 &
echo $! >> $HERE/pids
[ "$QUEENRIGHT_NUMBER" != 1 ]
"#;
    let fleet = workshop
        .fleet()
        .args("--also-handle --interval 1ms --messages 3 --quiet --handle-each")
        .arg(&workshop.script("each.sh", script))
        .start_joined();
    let status = fleet.wait_through(3);
    assert_eq!((status.done, status.failed), (2, 1), "{status:?}");
    let errors = fleet.errors();
    assert!(
        errors[0]["error"].as_str().expect("a text").ends_with("xxx"),
        "{errors:?}"
    );
    for pid in workshop.read("pids").lines() {
        wait_gone(pid);
    }
}
