//! Groups with real processes: order across kills and retries, who is told the group, and what people see of it.

use serde_json::Value;

use super::Workshop;
use crate::e2e::push::{feed, good};
use crate::fleet::{Fleet, json_lines, said};
use crate::server::RedisServer;

const GROUPS: u64 = 8;
const EACH: u64 = 25;

/// Lines of JSON: the messages of all groups, in turn.
fn messages() -> String {
    let line = |n: u64| format!("{{\"payload\":\"{}\",\"group\":\"g{}\"}}\n", n / GROUPS, n % GROUPS);
    (0..GROUPS * EACH).map(line).collect()
}

/// Appends group, payload and when it began and ended: of one group no two overlap, and all come in order.
const SCRIPT: &str = r#"
payload=$(cat)
echo "begin $QUEENRIGHT_GROUP $payload" >> $HERE/seen
[ "$payload" != 7 ] || [ "$QUEENRIGHT_FAILURES" != 0 ] || exit 75
[ "$payload" != 9 ] || exit 3
echo "end $QUEENRIGHT_GROUP $payload" >> $HERE/seen
"#;

#[test]
fn a_group_stays_in_order_while_copies_are_killed_and_messages_are_retried() {
    let (server, workshop) = (RedisServer::start(), Workshop::new());
    let mut fleet = Fleet::on(&server)
        .copies(3)
        .args("--concurrency 4 --backoff 20ms --lease 1s --max-deliveries 100 --handle-each")
        .arg(&workshop.script("each.sh", SCRIPT))
        .start_joined();
    let pushed = good(&feed(&fleet, &["push", "--json"], &messages()));
    assert_eq!(pushed.lines().count() as u64, GROUPS * EACH);
    let some = |status: &crate::fleet::Status| status.settled() > GROUPS * EACH / 4;
    fleet.wait_status("a part is handled", some);
    fleet.kill9(0);
    let status = fleet.wait_through(GROUPS * EACH);
    assert_eq!(status.failed, GROUPS, "of each group one fails, and the others go on");
    let seen = workshop.read("seen");
    for group in 0..GROUPS {
        let name = format!("g{group}");
        let of = |word: &str| -> Vec<u64> {
            let lines = seen.lines().map(|line| line.split(' ').collect::<Vec<_>>());
            let own = lines.filter(|line| line[0] == word && line[1] == name);
            own.map(|line| line[2].parse().expect("a number")).collect()
        };
        let begun = of("begin");
        assert!(begun.is_sorted(), "{name}: {begun:?}");
        assert!(
            begun.iter().filter(|payload| **payload == 7).count() >= 2,
            "it was tried again"
        );
        let mut ended = of("end");
        ended.dedup();
        let wanted: Vec<u64> = (0..EACH).filter(|payload| *payload != 9).collect();
        assert_eq!(ended, wanted, "{name}");
    }
    let errors = fleet.errors();
    assert!(
        errors.iter().all(|error| error["group"].as_str().is_some()),
        "{errors:?}"
    );
}

/// Answers each line with the line itself as the value of an effect.
const ECHO: &str = r#"
while IFS= read -r line; do
  printf '%s\n' "$line" >> $HERE/lines
  echo '{"ok":true}'
done
"#;

#[test]
fn generators_name_groups_and_commands_are_told_them() {
    let workshop = Workshop::new();
    let make =
        r#"for n in 1 2 3; do echo "{\"payload\":$n,\"group\":\"made\"}"; done; echo '{"payload":4}'; sleep 1000"#;
    let fleet = workshop
        .fleet()
        .args("--also-handle --interval 0 --messages 4 --generate-json --generate")
        .arg(&workshop.script("make.sh", make))
        .arg("--handle")
        .arg(&workshop.script("echo.sh", ECHO))
        .start_joined();
    fleet.wait_through(4);
    let lines = json_lines(workshop.read("lines").as_bytes());
    let groups: Vec<&Value> = lines.iter().map(|line| &line["group"]).collect();
    assert_eq!(groups.iter().filter(|group| **group == "made").count(), 3, "{lines:?}");
    assert_eq!(groups.iter().filter(|group| group.is_null()).count(), 1, "{lines:?}");
}

#[test]
fn people_see_which_groups_wait_and_pause_one() {
    let server = RedisServer::start();
    let mut fleet = Fleet::on(&server)
        .copies(0)
        .args("--work 0 --error-rate 0 --interval 0")
        .start();
    good(&feed(&fleet, &["push", "--group", "tenant 7", "a", "b", "c"], ""));
    good(&feed(&fleet, &["push", "--group", "other", "d"], ""));
    let text = good(&feed(&fleet, &["status"], ""));
    let line = text.lines().find(|line| line.starts_with("groups")).expect("a line");
    assert!(
        line.contains("2  with 4 messages in line  longest: tenant 7 3, other 1"),
        "{line}"
    );
    let told: Value = serde_json::from_str(&good(&feed(&fleet, &["status", "--json"], ""))).expect("JSON");
    assert_eq!(
        (&told["groups"]["waiting"], &told["groups"]["longest"][0]["messages"]),
        (&2.into(), &3.into())
    );
    let paused = good(&feed(&fleet, &["pause", "--group", "tenant 7"], ""));
    assert_eq!(paused, "group tenant 7 is paused, 3 messages in its line\n");
    fleet.add("--prefer never");
    fleet.wait_status("the other group is done", |status| {
        status.done == 1 && status.queued == 3
    });
    let text = good(&feed(&fleet, &["status"], ""));
    assert!(
        text.contains("paused     group tenant 7  (queenright resume --group)"),
        "{text}"
    );
    let resumed = good(&feed(&fleet, &["resume", "--group", "tenant 7", "--json"], ""));
    let resumed: Value = serde_json::from_str(&resumed).expect("JSON");
    assert_eq!((&resumed["paused"], &resumed["waiting"]), (&false.into(), &3.into()));
    fleet.wait_status("all is done", |status| status.done == 4);
    for (args, why) in [
        (&["push", "--group", "", "x"][..], "must be 1 to 200 bytes"),
        (&["pause", "--group", ""], "must be 1 to 200 bytes"),
        (&["pause", "--group", "g", "handlers"], "cannot be used with"),
    ] {
        let output = feed(&fleet, args, "");
        assert_eq!(output.status.code(), Some(2), "{}", said(&output));
        assert!(said(&output).contains(why), "{}", said(&output));
    }
}
