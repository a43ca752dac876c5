//! What commands and copies do that come to a queue after its number of shards was changed: with the old number or the new one, with more URLs, and with URLs in another order.

use std::process::{Command, Output};

use queenright::engine::sharded::shard_of_group;
use serde_json::Value;

use super::push::{feed, good};
use crate::fleet::{Fleet, json_lines, program, said};
use crate::server::RedisServer;

fn url_of(servers: &[RedisServer]) -> String {
    let urls: Vec<String> = servers.iter().map(RedisServer::url).collect();
    urls.join(" ")
}

fn refused(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(2), "{}", said(output));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// How many messages were put into each shard, as the whole queue tells.
fn published(fleet: &Fleet) -> Vec<u64> {
    let output = fleet.command(&["status", "--json"]).output().expect("it starts");
    assert!(output.status.success(), "{}", said(&output));
    let status: Value = json_lines(&output.stdout).remove(0);
    let shards = status["shards"].as_array().expect("shards");
    let of = |shard: &Value| shard["published"].as_u64().expect("a count");
    shards.iter().map(of).collect()
}

/// What gets no new messages is not empty soon: nobody handles it.
fn reshard(fleet: &Fleet, to: &str) {
    let output = feed(fleet, &["reshard", "--to", to, "--timeout", "100ms"], "");
    let code = output.status.code();
    assert!(
        code == Some(0) || said(&output).contains("left in shard"),
        "{}",
        said(&output)
    );
}

fn with_shards(fleet: &Fleet, shards: &str, words: &[&str]) -> Command {
    let mut command = fleet.command(words);
    command.args(["--shards", shards]);
    command
}

#[test]
fn a_push_with_any_number_of_shards_that_there_ever_was_is_put_in_where_it_is_looked_for() {
    let server = RedisServer::start();
    let fleet = Fleet::on(&server).env("QUEENRIGHT_SHARDS", "3").copies(0).start();
    good(&feed(&fleet, &["push", "x"], ""));
    let mut all = 1;
    for to in ["5", "8", "2"] {
        reshard(&fleet, to);
        for shards in ["3", "5", "8", "2"]
            .iter()
            .take_while(|shards| **shards != to)
            .chain([&to])
        {
            for _ in 0..4 {
                let output = with_shards(&fleet, shards, &["push", "y"]).output().expect("it starts");
                good(&output);
                all += 1;
            }
            assert_eq!(published(&fleet).iter().sum::<u64>(), all, "{shards} after {to}");
        }
    }
    let metas = server.command(&["KEYS", "{q*}:meta"]).expect("it answers");
    let metas: Vec<String> = redis::from_redis_value(metas).expect("keys");
    assert_eq!(metas.len(), 8, "no other shard was made: {metas:?}");
}

#[test]
fn files_are_pushed_to_with_a_number_of_shards_from_in_between() {
    let directory = tempfile::tempdir().expect("a directory");
    let url = |i: usize| format!("sqlite:{}", directory.path().join(format!("{i}.db")).display());
    let urls: Vec<String> = (0..8).map(url).collect();
    let fleet = Fleet::at(urls.join(" "))
        .env("QUEENRIGHT_SHARDS", "3")
        .copies(0)
        .start();
    good(&feed(&fleet, &["push", "x"], ""));
    for to in ["5", "8"] {
        good(&feed(&fleet, &["reshard", "--to", to], ""));
    }
    for _ in 0..8 {
        good(&with_shards(&fleet, "5", &["push", "y"]).output().expect("it starts"));
    }
    assert_eq!(published(&fleet).iter().sum::<u64>(), 9);
}

#[test]
fn all_queues_are_shown_whatever_number_is_given_also_after_a_reshard() {
    let server = RedisServer::start();
    let fleet = Fleet::on(&server).env("QUEENRIGHT_SHARDS", "3").copies(0).start();
    good(&feed(&fleet, &["push", "x"], ""));
    good(&feed(&fleet, &["reshard", "--to", "5"], ""));
    for shards in ["1", "3", "4", "5"] {
        let mut queues = program();
        queues.args(["queues", "--json", "--shards", shards, "--url", &server.url()]);
        let listed = good(&queues.output().expect("it starts"));
        assert!(listed.contains("\"queued\":1"), "{shards}: {listed}");
    }
    let refused = feed(&fleet, &["status", "--shards", "4"], "");
    assert!(
        said(&refused).contains("has 5 shards: give --shards 5"),
        "{}",
        said(&refused)
    );
}

#[test]
fn servers_in_another_order_are_refused_after_a_reshard_too() {
    let servers = [RedisServer::start(), RedisServer::start()];
    let fleet = Fleet::at(url_of(&servers))
        .env("QUEENRIGHT_SHARDS", "1")
        .copies(0)
        .start();
    good(&feed(&fleet, &["push", "x"], ""));
    good(&feed(&fleet, &["reshard", "--to", "2"], ""));
    let swapped = format!("{} {}", servers[1].url(), servers[0].url());
    for command in [&["push", "y"][..], &["status"], &["start", "--no-wait"]] {
        for shards in ["1", "2", "3"] {
            let output = fleet
                .command_at(&swapped, command)
                .args(["--shards", shards])
                .output()
                .expect("it starts");
            let line = refused(&output);
            assert!(
                line.contains("give the URLs in the order in which the queue was made"),
                "{command:?}: {line}"
            );
        }
    }
    assert_eq!(published(&fleet).iter().sum::<u64>(), 1);
}

#[test]
fn a_queue_on_servers_of_its_own_gets_more_servers_again_and_again() {
    let servers: Vec<RedisServer> = (0..3).map(|_| RedisServer::start()).collect();
    let begin = Fleet::at(url_of(&servers[..2]))
        .env("QUEENRIGHT_SHARDS", "1")
        .args("--interval 2ms --work 0 --error-rate 0")
        .copies(2)
        .start_joined();
    begin.wait_status("it is under way", |status| status.done > 20);
    good(&feed(&begin, &["reshard", "--to", "2", "--timeout", "30s"], ""));
    let queue = begin.queue().to_string();
    // Copies are restarted with one more.
    drop(begin);
    let all = Fleet::at(url_of(&servers))
        .queue(&queue)
        .env("QUEENRIGHT_SHARDS", "1")
        .args("--interval 2ms --work 0 --error-rate 0")
        .copies(2)
        .start_joined();
    assert_eq!(
        good(&feed(&all, &["reshard", "--to", "3", "--timeout", "30s"], "")),
        "3 shards, 2 before\n"
    );
    let before = published(&all);
    all.wait_status("the third one is used", |status| {
        status.done > before.iter().sum::<u64>() + 100
    });
    assert!(published(&all)[2] > 10, "{:?}", published(&all));
    // With fewer, shards would be looked for where they are not.
    for fewer in [&servers[..2], &servers[..1]] {
        let output = program()
            .args(["status", "--queue", &queue, "--shards", "1"])
            .args(fewer.iter().flat_map(|server| ["--url".to_string(), server.url()]))
            .output()
            .expect("it starts");
        let line = refused(&output);
        assert!(line.contains("has its shards over 3 URLs since a reshard"), "{line}");
    }
}

#[test]
fn a_queue_in_files_gets_more_files_again_and_again() {
    let directory = tempfile::tempdir().expect("a directory");
    let url = |i: usize| format!("sqlite:{}", directory.path().join(format!("{i}.db")).display());
    let fleet = |urls: &[String]| {
        let plan = Fleet::at(urls.join(" ")).queue("jobs").copies(0);
        plan.env("QUEENRIGHT_SHARDS", "1").start()
    };
    let urls: Vec<String> = (0..3).map(url).collect();
    let two = fleet(&urls[..2]);
    good(&feed(&two, &["push", "x"], ""));
    good(&feed(&two, &["reshard", "--to", "2"], ""));
    let three = fleet(&urls);
    good(&feed(&three, &["push", "y"], ""));
    assert_eq!(
        good(&feed(&three, &["reshard", "--to", "3"], "")),
        "3 shards, 2 before\n"
    );
    good(&feed(&three, &["push", "z"], ""));
    assert_eq!(published(&three).iter().sum::<u64>(), 3);
    let line = refused(&feed(&two, &["status"], ""));
    assert!(
        line.contains("has its shards over 3 URLs") || line.contains("needs a file of its own"),
        "{line}"
    );
}

#[test]
fn a_push_needs_the_earlier_shards_of_its_key_or_group_and_no_others() {
    let mut servers: Vec<RedisServer> = (0..2).map(|_| RedisServer::start()).collect();
    let fleet = Fleet::at(url_of(&servers))
        .env("QUEENRIGHT_SHARDS", "2")
        .copies(0)
        .start();
    good(&feed(&fleet, &["push", "x"], ""));
    reshard(&fleet, "1");
    let of = |shard| {
        let mut groups = (0..100).map(|i| format!("g{i}"));
        groups
            .find(|group| shard_of_group(group, 2) == shard)
            .expect("one of them")
    };
    servers[1].kill();
    for words in [
        &["push", "y"][..],
        &["push", "y", "--key", &of(0)],
        &["push", "y", "--group", &of(0)],
    ] {
        good(&feed(&fleet, words, ""));
    }
    // Each waits for a while whether the server comes back: both at the same time.
    std::thread::scope(|scope| {
        for option in ["--key", "--group"] {
            let (fleet, group) = (&fleet, of(1));
            scope.spawn(move || {
                let refused = feed(fleet, &["push", "y", option, &group], "");
                assert_eq!(refused.status.code(), Some(69), "{}", said(&refused));
            });
        }
    });
}
