//! `reshard`: another number of shards, while copies work.

use std::process::{Command, Output, Stdio};
use std::time::Duration;

use queenright::engine::sharded::shard_of_group;
use serde_json::Value;

use super::push::{feed, good};
use super::shards::{all_came_once, published};
use crate::fleet::{Fleet, Line, PATIENCE, json_lines, program, said, within};
use crate::server::RedisServer;

fn servers(count: usize) -> (Vec<RedisServer>, String) {
    let servers: Vec<RedisServer> = (0..count).map(|_| RedisServer::start()).collect();
    let urls: Vec<String> = servers.iter().map(RedisServer::url).collect();
    (servers, urls.join(" "))
}

fn shards(fleet: &Fleet) -> Vec<Value> {
    let output = fleet.command(&["status", "--json"]).output().expect("it starts");
    assert!(output.status.success(), "{}", said(&output));
    let status = json_lines(&output.stdout).remove(0);
    status["shards"].as_array().cloned().unwrap_or_default()
}

/// Waits until each shard has got more than so many messages.
fn wait_all_beyond(fleet: &Fleet, bound: u64) {
    let are_beyond = |counts: &[u64]| !counts.is_empty() && counts.iter().all(|count| *count > bound);
    let found = within(PATIENCE, || are_beyond(&published(fleet)).then_some(()));
    found.unwrap_or_else(|| panic!("{:?}", published(fleet)));
}

/// A key whose messages go into the home shard.
fn home_key(shards: usize) -> String {
    let mut keys = (0..100).map(|i| format!("k{i}"));
    keys.find(|key| shard_of_group(key, shards) == 0).expect("one of them")
}

fn keyed(from: usize, to: usize) -> String {
    let line = |i| format!("{{\"payload\":\"p{i}\",\"key\":\"k{i}\"}}\n");
    (from..to).map(line).collect()
}

#[test]
fn a_queue_on_one_server_spreads_over_three_and_back_to_two_while_it_is_in_use() {
    let (_servers, urls) = servers(3);
    let fleet = Fleet::at(urls)
        .env("QUEENRIGHT_SHARDS", "1")
        .args("--interval 1ms --work 0 --error-rate 0.1")
        .copies(3)
        .start_joined();
    fleet.wait_status("it is under way", |status| status.done > 100);
    assert_eq!(
        shards(&fleet),
        Vec::<Value>::new(),
        "the other servers are not used yet"
    );
    let pushed = json_lines(good(&feed(&fleet, &["push", "--json"], &keyed(0, 30))).as_bytes());

    let told = good(&feed(&fleet, &["reshard", "--to", "3", "--timeout", "30s"], ""));
    assert_eq!(told, "3 shards, 1 before\n");
    wait_all_beyond(&fleet, 100);
    let again = json_lines(good(&feed(&fleet, &["push", "--json"], &keyed(0, 60))).as_bytes());
    assert_eq!(again.len(), 60);
    for (first, second) in pushed.iter().zip(&again) {
        assert_eq!(
            (&first["number"], &second["repeated"]),
            (&second["number"], &true.into())
        );
    }
    assert!(again[30..].iter().all(|line| line["repeated"] == false), "{again:?}");

    let told = good(&feed(&fleet, &["reshard", "--to", "2", "--timeout", "30s"], ""));
    assert_eq!(told, "2 shards, 3 before; shard 2 gets no new messages, and is empty\n");
    let before = published(&fleet);
    fleet.wait_status("two go on", |status| {
        status.published > before.iter().sum::<u64>() + 200
    });
    assert_eq!(published(&fleet)[2], before[2]);
    let text = good(&feed(&fleet, &["status"], ""));
    assert!(text.contains("(no new messages since a reshard)"), "{text}");
    let once_more = json_lines(good(&feed(&fleet, &["push", "--json"], &keyed(0, 60))).as_bytes());
    assert!(once_more.iter().all(|line| line["repeated"] == true), "{once_more:?}");
    let told = good(&feed(&fleet, &["reshard", "--to", "2", "--json"], ""));
    assert_eq!(told, "{\"before\":2,\"in_all\":3,\"shards\":2}\n");

    // A copy that starts later, with the number of the beginning, follows; all that is published is done once.
    let all = all_came_once(&fleet);
    // The copies were told of one shard when they started. What they generate is counted all the same.
    let payload = |line: &Line| line.fields["payload"].as_str().map(str::to_string);
    let generated = fleet
        .lines()
        .iter()
        .filter(|line| line.is("done"))
        .filter_map(payload)
        .collect::<Vec<_>>();
    let counted = generated.iter().filter_map(|text| text.parse().ok());
    let most: u64 = counted.max().expect("some were generated");
    assert!(most < all, "{most}");
    // Each copy, twice: a copy that followed says so a moment after it can be seen.
    let followed = |lines: &[Line]| lines.iter().filter(|line| line.is("resharded")).count();
    fleet.wait_for("each copy says twice that it followed", |lines| followed(lines) >= 6);
    assert_eq!(followed(&fleet.lines()), 6);
}

#[test]
fn a_reshard_that_is_killed_is_done_or_not_and_the_same_command_goes_on() {
    let (_servers, urls) = servers(4);
    let fleet = Fleet::at(urls)
        .env("QUEENRIGHT_SHARDS", "2")
        .args("--interval 1ms --work 0 --error-rate 0")
        .copies(2)
        .start_joined();
    fleet.wait_status("it is under way", |status| status.done > 100);
    for (to, ms) in [(3, 2), (4, 6), (2, 9), (4, 12), (1, 15), (3, 25)] {
        let mut command: Command = fleet.command(&["reshard", "--to", &to.to_string()]);
        let mut child = command
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts");
        std::thread::sleep(Duration::from_millis(ms));
        child.kill().expect("killed");
        child.wait().expect("it ends");
    }
    good(&feed(&fleet, &["reshard", "--to", "4", "--timeout", "30s"], ""));
    wait_all_beyond(&fleet, 0);
    all_came_once(&fleet);
}

fn refused(output: &Output, code: i32) -> String {
    assert_eq!(output.status.code(), Some(code), "{}", said(output));
    let line = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(line.lines().count(), 1, "{line}");
    line
}

#[test]
fn what_cannot_be_resharded_or_followed_is_said_in_one_line() {
    let (servers, urls) = servers(2);
    let fleet = Fleet::at(urls).env("QUEENRIGHT_SHARDS", "1").copies(0).start();
    let reshard = |to: &str| feed(&fleet, &["reshard", "--to", to], "");
    let none = refused(&reshard("2"), 1);
    assert!(none.contains("there is no queue"), "{none}");
    good(&feed(&fleet, &["push", "x"], ""));
    for wrong in ["0", "257", "x"] {
        refused_usage(&reshard(wrong));
    }
    good(&feed(&fleet, &["limit", "500/s"], ""));
    let limited = refused(&reshard("2"), 2);
    assert!(limited.contains("remove it first (queenright limit none)"), "{limited}");
    good(&feed(&fleet, &["limit", "none"], ""));
    assert_eq!(good(&reshard("2")), "2 shards, 1 before\n");
    // Who has the URL of one server only would look for the second shard where it is not.
    let one = ["--url", &servers[0].url(), "--queue", fleet.queue()];
    for command in [&["status"][..], &["push", "y"], &["start", "--no-wait"]] {
        let output = program().args(command).args(one).output().expect("it starts");
        let line = refused(&output, 2);
        assert!(
            line.contains("has its shards over 2 URLs since a reshard, and 1 is given"),
            "{command:?}: {line}"
        );
    }
    // Either number may be given.
    for shards in ["1", "2"] {
        let output = fleet
            .command(&["status", "--shards", shards])
            .output()
            .expect("it starts");
        assert!(output.status.success(), "{}", said(&output));
    }
    let output = fleet.command(&["status", "--shards", "3"]).output().expect("it starts");
    assert!(said(&output).contains("give --shards"), "{}", said(&output));
}

fn refused_usage(output: &Output) {
    assert_eq!(output.status.code(), Some(2), "{}", said(output));
}

#[test]
fn files_are_resharded_each_with_a_file_of_its_own() {
    let directory = tempfile::tempdir().expect("a directory");
    let url = |i: usize| format!("sqlite:{}", directory.path().join(format!("{i}.db")).display());
    let fleet = Fleet::at(format!("{} {}", url(0), url(1)))
        .env("QUEENRIGHT_SHARDS", "1")
        .args("--interval 5ms --work 0 --error-rate 0")
        .copies(2)
        .start_joined();
    fleet.wait_status("it is under way", |status| status.done > 20);
    let many = refused(&feed(&fleet, &["reshard", "--to", "3"], ""), 2);
    assert!(many.contains("each shard needs a file of its own"), "{many}");
    good(&feed(&fleet, &["reshard", "--to", "2", "--timeout", "30s"], ""));
    wait_all_beyond(&fleet, 20);
    all_came_once(&fleet);
}

#[test]
fn what_is_given_up_after_the_grace_is_in_hand_no_more() {
    let (_servers, urls) = servers(2);
    let fleet = Fleet::at(urls)
        .env("QUEENRIGHT_SHARDS", "1")
        .args("--prefer never --work 3s --error-rate 0 -c 3 --grace 100ms")
        .copies(1)
        .start_joined();
    good(&feed(&fleet, &["push", "a", "b", "c"], ""));
    fleet.wait_status("all are in hand", |status| status.in_hand == 3);
    good(&feed(&fleet, &["reshard", "--to", "2", "--timeout", "30s"], ""));
    fleet.wait_through(3);
    fleet.term(0);
    let stopping = |lines: &[Line]| lines.iter().find(|line| line.is("stopping")).cloned();
    fleet.wait_for("it is told to stop", |lines| stopping(lines).is_some());
    let stopping = stopping(&fleet.lines()).expect("it was");
    assert_eq!(stopping.fields["in_hand"], 0);
}

#[test]
fn a_reshard_to_fewer_shards_waits_until_all_copies_have_followed() {
    let (_servers, urls) = servers(3);
    let fleet = Fleet::at(urls)
        .env("QUEENRIGHT_SHARDS", "3")
        .args("--prefer never --work 2s --error-rate 0 -c 2")
        .copies(2)
        .start_joined();
    // Only the first shard has messages: the others are empty from the beginning.
    let is_first = |key: &String| [2, 3].map(|shards| shard_of_group(key, shards)) == [0, 0];
    let keys = (0..100).map(|i| format!("g{i}")).filter(is_first).take(6);
    let lines: Vec<String> = keys
        .map(|key| format!("{{\"payload\":\"p\",\"key\":\"{key}\"}}\n"))
        .collect();
    good(&feed(&fleet, &["push", "--json"], &lines.concat()));
    fleet.wait_status("both are at work", |status| status.in_hand >= 4);
    let told = good(&feed(&fleet, &["reshard", "--to", "2", "--timeout", "30s"], ""));
    assert_eq!(told, "2 shards, 3 before; shard 2 gets no new messages, and is empty\n");
    // A copy says so a moment after it can be seen.
    fleet.wait_for("each has joined again", |lines| {
        lines.iter().filter(|line| line.is("joined")).count() == 4
    });
}

#[test]
fn copies_that_lack_the_right_to_new_shards_wait_for_it() {
    let server = RedisServer::start();
    let user = |keys: &str| {
        let words = ["ACL", "SETUSER", "few", "on", ">secret", "+@all", "&*", keys];
        server.command(&words).expect("a user");
    };
    user("~{qr:*");
    let url = format!("redis://few:secret@127.0.0.1:{}", server.port());
    let mut fleet = Fleet::at(url)
        .args("--interval 5ms --work 0 --error-rate 0")
        .copies(2)
        .start_joined();
    fleet.wait_status("it is under way", |status| status.done > 20);
    let operator = ["reshard", "--to", "2", "--timeout", "1s", "--url", &server.url()];
    let mut operator = program()
        .args(operator)
        .args(["--queue", fleet.queue()])
        .spawn()
        .expect("it starts");
    fleet.wait_for("both say so", |lines| {
        lines.iter().filter(|line| line.is("away")).count() >= 2
    });
    assert_eq!(
        operator.wait().expect("it ends").code(),
        Some(1),
        "not all have followed"
    );
    fleet.nobody_exited_but(&[]);
    user("~{q*");
    wait_all_beyond(&fleet, 20);
}

#[test]
fn copies_follow_also_if_a_shard_goes_away_meanwhile() {
    let (mut servers, urls) = servers(3);
    let fleet = Fleet::at(urls)
        .env("QUEENRIGHT_SHARDS", "3")
        .args("--prefer never --work 1s --error-rate 0 -c 2")
        .copies(2)
        .start_joined();
    let keyed: Vec<String> = (0..30)
        .map(|i| format!("{{\"payload\":\"p{i}\",\"key\":\"k{i}\"}}\n"))
        .collect();
    good(&feed(&fleet, &["push", "--json"], &keyed.concat()));
    fleet.wait_status("both are at work", |status| status.in_hand >= 4);
    let output = feed(&fleet, &["reshard", "--to", "2", "--timeout", "1ms"], "");
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    // They have not followed yet: they finish what they have in hand.
    servers[2].kill();
    fleet.wait_for("all have followed", |lines| {
        lines.iter().filter(|line| line.is("resharded")).count() == 2
    });
    let done = fleet.status().done;
    fleet.wait_status("they go on", |status| status.done > done + 8);
    // A server that only ran empty, and may be gone for good, keeps nobody from stopping the others.
    let paused = feed(&fleet, &["pause"], "");
    assert!(
        said(&paused).contains("shard 2 does not answer, and was left out"),
        "{}",
        said(&paused)
    );
    let status = good(&feed(&fleet, &["status"], ""));
    assert!(status.contains("paused"), "{status}");
    assert!(feed(&fleet, &["resume"], "").status.success());
    let refused = feed(&fleet, &["purge", "--force", "--yes"], "");
    assert_eq!(refused.status.code(), Some(69), "{}", said(&refused));
}

#[test]
fn a_shard_that_runs_empty_and_is_gone_for_good_keeps_nobody_from_another_reshard() {
    let (mut servers, urls) = servers(3);
    let fleet = Fleet::at(urls).env("QUEENRIGHT_SHARDS", "3").copies(0).start();
    good(&feed(&fleet, &["push", "x", "--key", &home_key(3)], ""));
    good(&feed(&fleet, &["reshard", "--to", "2", "--timeout", "10s"], ""));
    servers[2].kill();
    let output = feed(&fleet, &["reshard", "--to", "1", "--timeout", "1s"], "");
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("shard 2 does not answer"), "{}", said(&output));
    let shards = shards(&fleet);
    let retired: Vec<&Value> = shards.iter().map(|shard| &shard["retired"]).collect();
    assert_eq!(retired, [false, true, true], "it is changed all the same");
}

#[test]
fn a_shard_that_is_not_as_the_home_shard_is_named_and_so_is_what_keeps_one_from_running_empty() {
    let (servers, urls) = servers(2);
    let fleet = Fleet::at(urls).env("QUEENRIGHT_SHARDS", "2").copies(0).start();
    good(&feed(&fleet, &["push", "--json"], &keyed(0, 20)));
    good(&feed(&fleet, &["limit", "50/s"], ""));
    // As a pause leaves it that was stopped half-way, and a limit that did not get here.
    let metas = servers[1].command(&["KEYS", "*:meta"]).expect("it answers");
    let metas: Vec<String> = redis::from_redis_value(metas).expect("keys");
    servers[1]
        .command(&["HSET", &metas[0], "paused", "2", "limit", ""])
        .expect("it is set");
    let paused = "shard 1 has handlers paused, and the home shard nothing";
    let limited = "shard 1 has the limit none, and the home shard 50/s";
    for words in [&["status"][..], &["doctor"], &["drain", "--timeout", "100ms"]] {
        let output = feed(&fleet, words, "");
        for (found, fix) in [
            (paused, "repeat queenright pause or resume"),
            (limited, "repeat queenright limit"),
        ] {
            assert!(said(&output).contains(found), "{words:?}: {}", said(&output));
            assert!(said(&output).contains(fix), "{words:?}: {}", said(&output));
        }
    }
    let shards = shards(&fleet);
    let differs: Vec<&Value> = shards.iter().map(|shard| &shard["differs"]).collect();
    assert_eq!(differs, [false, true]);
    assert_eq!(shards[1]["paused"]["handlers"], true);
    good(&feed(&fleet, &["limit", "none"], ""));

    let output = feed(&fleet, &["reshard", "--to", "1", "--timeout", "100ms"], "");
    let waits = "no node is alive, so no shard runs empty before one starts: queenright start";
    for line in [paused, waits] {
        assert!(said(&output).contains(line), "{}", said(&output));
    }
    drop(servers);
}

#[test]
fn a_shard_that_was_left_out_of_a_pause_is_named() {
    let (mut servers, urls) = servers(2);
    let fleet = Fleet::at(urls).env("QUEENRIGHT_SHARDS", "2").copies(0).start();
    good(&feed(&fleet, &["push", "x", "--key", &home_key(2)], ""));
    good(&feed(&fleet, &["reshard", "--to", "1", "--timeout", "10s"], ""));
    servers[1].kill();
    for words in [&["pause"][..], &["resume"], &["limit", "5/s"]] {
        let output = feed(&fleet, words, "");
        let line = "shard 1 does not answer, and was left out: if it comes back, repeat the command";
        assert!(
            output.status.success() && said(&output).contains(line),
            "{}",
            said(&output)
        );
    }
}
