//! Several servers: behind sentinels, and as a cluster. What one plain Redis is asked elsewhere holds here, too, whoever the
//! primary is.

use std::collections::{BTreeMap, BTreeSet};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use queenright::app::lab::proxy::Proxy;
use queenright::app::lab::topology::{Failover, Fsync, Kind, Topology};

use super::checks::is_in_the_docs;
use super::push::{feed, good};
use crate::fleet::{Ends, Fleet, PATIENCE, said, within};
use crate::server::{RedisServer, free_port, redis_server};

const ARGS: &str = "--interval 5ms --work 0 --error-rate 0";

struct Bed {
    servers: Topology,
    _directory: tempfile::TempDir,
}

fn bed(kind: Kind, replicas: usize) -> Bed {
    let directory = tempfile::tempdir().expect("a directory");
    let servers = Topology::start(kind, replicas, directory.path(), Fsync::Never).expect("servers");
    Bed {
        servers,
        _directory: directory,
    }
}

/// Work goes on; and no number has two payloads.
fn goes_on(fleet: &mut Fleet) {
    fleet.wait_for_more("published", 50);
    fleet.wait_for_more("done", 50);
    fleet.nobody_exited_but(&[]);
    let mut payloads = BTreeMap::new();
    for line in fleet
        .lines()
        .iter()
        .filter(|line| line.is("done") || line.is("published"))
    {
        let before = payloads.insert(line.number, line.payload.clone());
        assert!(before.is_none_or(|before| before == line.payload), "{line:?}");
    }
}

fn relocations(fleet: &Fleet) -> usize {
    fleet.lines().iter().filter(|line| line.is("relocated")).count()
}

#[test]
fn behind_sentinels_work_goes_on_after_every_failover() {
    let mut bed = bed(Kind::Sentinel, 2);
    let mut fleet = Fleet::at(bed.servers.url()).copies(3).args(ARGS).start_led();
    goes_on(&mut fleet);
    for how in [Failover::Asked, Failover::Killed] {
        let before = relocations(&fleet);
        bed.servers.fail_over(fleet.queue(), how).expect("a failover");
        fleet.wait_for("all say where it is", |lines| {
            lines.iter().filter(|line| line.is("relocated")).count() >= before + 3
        });
        goes_on(&mut fleet);
    }
    // Two of three are enough, and a new copy finds its way.
    bed.servers.kill_sentinel(0);
    fleet.add(ARGS);
    goes_on(&mut fleet);
    assert!(feed(&fleet, &["push"], "by hand\n").status.success());
    fleet.wait_for("what was pushed is done", |lines| {
        lines.iter().any(|line| line.is("done") && line.payload == "by hand")
    });
}

#[test]
fn a_slow_sentinel_and_a_silent_one_hold_nobody_up() {
    let mut bed = bed(Kind::Sentinel, 1);
    let url = bed.servers.url();
    let (before, rest) = url.split_once('@').expect("a password");
    let (hosts, after) = rest.split_once('/').expect("a name");
    let before_all = |host: &str| Proxy::start(host.parse().expect("an address")).expect("a proxy");
    let proxies: Vec<Proxy> = hosts.split(',').map(before_all).collect();
    // Longer than the others are waited for once one has answered.
    proxies[0].black_hole(true);
    proxies[1].delay(Duration::from_millis(400));
    proxies[2].delay(Duration::from_millis(150));
    let hosts: Vec<String> = proxies.iter().map(|proxy| proxy.address().to_string()).collect();
    let url = format!("{before}@{}/{after}", hosts.join(","));
    let mut fleet = Fleet::at(url).copies(3).args(ARGS).start_led();
    goes_on(&mut fleet);
    for how in [Failover::Asked, Failover::Killed] {
        bed.servers.fail_over(fleet.queue(), how).expect("a failover");
        goes_on(&mut fleet);
    }
    // The one that is left is the slow one.
    proxies[2].black_hole(true);
    bed.servers
        .fail_over(fleet.queue(), Failover::Asked)
        .expect("a failover");
    goes_on(&mut fleet);
    fleet.add(ARGS);
    fleet.wait_for("it has joined", |lines| {
        lines.iter().any(|line| line.copy == 3 && line.is("joined"))
    });
}

/// Fails over to a replica that lacks what the primary acknowledged last, twice.
fn lose_the_tail_twice(kind: Kind, args: &str) -> (Fleet, Bed) {
    lose_the_tail_twice_and(kind, args, |_, _| {})
}

/// The same, and does something to the primary that is cut off.
fn lose_the_tail_twice_and(kind: Kind, args: &str, harm: impl Fn(&Topology, usize)) -> (Fleet, Bed) {
    let mut bed = bed(kind, 1);
    let mut fleet = Fleet::at(bed.servers.url()).copies(3).args(ARGS).args(args).start_led();
    for _ in 0..2 {
        goes_on(&mut fleet);
        let old = bed.servers.detach(fleet.queue()).expect("cut off");
        harm(&bed.servers, old);
        let before = fleet.lines().len();
        fleet.wait_for("publishing waits, and says so", |lines| {
            let says =
                |line: &&crate::fleet::Line| line.is("away") && line.fields.to_string().contains("replicas have");
            lines[before..].iter().find(says).is_some()
        });
        bed.servers.kill(old);
        bed.servers.replaced(fleet.queue(), old).expect("replaced");
        bed.servers.restart(old).expect("back");
        bed.servers.attach().expect("together");
        bed.servers.agreed(fleet.queue()).expect("in step");
    }
    goes_on(&mut fleet);
    (fleet, bed)
}

/// What was told as published is done, and no outcome was told twice.
fn nothing_told_is_lost(fleet: &Fleet) {
    let told = |event: &str, lines: &[crate::fleet::Line]| -> Vec<u64> {
        let lines = lines.iter().filter(|line| line.is(event));
        lines.filter_map(|line| line.number).collect()
    };
    let published: BTreeSet<u64> = told("published", &fleet.lines()).into_iter().collect();
    fleet.wait_for("all that was told as published is done", |lines| {
        let done: BTreeSet<u64> = told("done", lines).into_iter().collect();
        published.is_subset(&done)
    });
    let done = told("done", &fleet.lines());
    let once: BTreeSet<&u64> = done.iter().collect();
    assert_eq!(once.len(), done.len(), "an outcome was told twice");
    // Nor has any number gone astray: the generator reigned on, and published again what the new primary lacked.
    let lines = fleet.lines();
    let of_nodes: Vec<&crate::fleet::Line> = lines.iter().filter(|line| line.number.is_none()).collect();
    assert_eq!(
        lines.iter().filter(|line| line.is("elected")).count(),
        1,
        "{of_nodes:#?}"
    );
    assert!(lines.iter().any(|line| line.is("replayed")), "{of_nodes:#?}");
    assert_eq!(published.len() as u64, published.last().expect("some") + 1);
}

#[test]
fn with_replicas_nothing_that_was_told_is_lost_by_a_failover_behind_sentinels() {
    let (fleet, _bed) = lose_the_tail_twice(Kind::Sentinel, "--replicas 1 --lease 30s");
    nothing_told_is_lost(&fleet);
}

#[test]
fn with_replicas_nothing_that_was_told_is_lost_by_a_failover_in_a_cluster() {
    let (fleet, _bed) = lose_the_tail_twice(Kind::Cluster, "--replicas 1 --lease 30s");
    nothing_told_is_lost(&fleet);
}

/// As a server that evicts what expires does when its memory is full.
#[test]
fn with_replicas_nothing_that_was_told_is_lost_where_marks_are_removed() {
    let (fleet, _bed) = lose_the_tail_twice_and(Kind::Sentinel, "--replicas 1 --lease 30s", |servers, primary| {
        let marks: Vec<String> = servers.ask(primary, &["KEYS", "*:replicated:*"]).expect("names");
        assert!(!marks.is_empty(), "calls leave marks");
        let remove: Vec<&str> = ["DEL"].into_iter().chain(marks.iter().map(String::as_str)).collect();
        servers.ask::<u64>(primary, &remove).expect("removed");
    });
    nothing_told_is_lost(&fleet);
}

/// A replica that is promoted waits for the members that it knows of before anyone numbers messages there. So nobody is a member before a
/// replica knows of it.
#[test]
fn with_too_few_replicas_a_copy_waits_before_it_joins() {
    let bed = bed(Kind::Sentinel, 1);
    let args = format!("{ARGS} --replicas 1");
    let mut fleet = Fleet::at(bed.servers.url()).copies(2).args(&args).start_led();
    goes_on(&mut fleet);
    bed.servers.detach(fleet.queue()).expect("cut off");
    fleet.add(&args);
    fleet.wait_for("it says what it waits for", |lines| {
        let says = |line: &&crate::fleet::Line| line.fields.to_string().contains("0 of 1 replicas");
        lines
            .iter()
            .any(|line| line.copy == 2 && line.is("away") && says(&line))
    });
    let joined = |lines: &[crate::fleet::Line]| lines.iter().any(|line| line.copy == 2 && line.is("joined"));
    assert!(!joined(&fleet.lines()));
    bed.servers.attach().expect("together");
    fleet.wait_for("it has joined", joined);
    goes_on(&mut fleet);
}

/// Of two primaries at once, each with a fleet, at most one can tell anything: no other has all replicas.
#[test]
fn two_primaries_do_not_both_tell_when_all_replicas_are_waited_for() {
    let bed = bed(Kind::Sentinel, 1);
    let old = bed.servers.agreed("q").expect("a primary");
    let args = format!("{ARGS} --replicas 1");
    // This fleet knows nothing of sentinels: it stays where it is.
    let mut here = Fleet::at(bed.servers.url_of(old)).copies(2).args(&args).start_led();
    goes_on(&mut here);
    bed.servers.freeze(old, true);
    bed.servers.replaced(here.queue(), old).expect("another primary");
    let there = Fleet::at(bed.servers.url())
        .queue(here.queue())
        .copies(2)
        .args(&args)
        .start();
    bed.servers.freeze(old, false);
    let published = |fleet: &Fleet| -> BTreeSet<u64> {
        let lines = fleet.lines();
        lines
            .iter()
            .filter(|line| line.is("published"))
            .filter_map(|line| line.number)
            .collect()
    };
    // The frozen one works on as a primary until the sentinels find it, and its fleet with it.
    here.wait_for("it publishes, and may not say so", |lines| {
        let says = |line: &&crate::fleet::Line| line.is("away") && line.fields.to_string().contains("0 of 1 replicas");
        lines.iter().any(|line| says(&line))
    });
    bed.servers.agreed(here.queue()).expect("one primary");
    there.wait_for_more("published", 50);
    let both: Vec<u64> = published(&here).intersection(&published(&there)).copied().collect();
    assert!(both.is_empty(), "told by both: {both:?}");
}

#[test]
fn in_a_cluster_work_goes_on_after_every_failover_and_while_its_slot_moves() {
    let mut bed = bed(Kind::Cluster, 1);
    let mut fleet = Fleet::at(bed.servers.url()).copies(3).args(ARGS).start_led();
    goes_on(&mut fleet);
    for how in Failover::ALL {
        bed.servers.fail_over(fleet.queue(), how).expect("a failover");
        goes_on(&mut fleet);
    }
    bed.servers.migrate(fleet.queue()).expect("the slot moves");
    goes_on(&mut fleet);
    fleet.wait_status("three members", |status| status.nodes.len() == 3);
}

#[test]
fn a_plain_url_of_any_server_of_a_cluster_leads_to_the_queue() {
    let mut bed = bed(Kind::Cluster, 1);
    let mut fleet = Fleet::at(bed.servers.url_of(0)).copies(2).args(ARGS).start_led();
    goes_on(&mut fleet);
    let owner = bed.servers.agreed(fleet.queue()).expect("an owner");
    for server in 0..bed.servers.len() {
        let fleet = Fleet::at(bed.servers.url_of(server))
            .queue(fleet.queue())
            .copies(0)
            .start();
        assert_eq!(fleet.status().nodes.len(), 2, "asked at {server}, it is at {owner}");
    }
    // The server of the URL may be gone for good: the others were heard of.
    bed.servers.kill(0);
    goes_on(&mut fleet);
}

/// A URL names several servers so that any one of them is enough.
#[test]
fn of_all_servers_that_a_url_names_one_is_enough() {
    let mut cluster = bed(Kind::Cluster, 1);
    let url = cluster.servers.url_of(5);
    let (scheme, last) = url.split_once('@').expect("a password");
    let gone = format!(
        "{}@127.0.0.1:1,127.0.0.1:2,{last}",
        scheme.replace("redis:", "redis+cluster:")
    );
    let mut fleet = Fleet::at(gone).copies(3).args(ARGS).start_led();
    goes_on(&mut fleet);
    // Those that were heard of count as if they had been named.
    for how in [Failover::Killed, Failover::Forced] {
        cluster.servers.fail_over(fleet.queue(), how).expect("a failover");
        goes_on(&mut fleet);
    }

    let mut behind = bed(Kind::Sentinel, 1);
    let mut fleet = Fleet::at(behind.servers.url()).copies(3).args(ARGS).start_led();
    behind.servers.kill_sentinel(0);
    behind
        .servers
        .fail_over(fleet.queue(), Failover::Asked)
        .expect("a failover");
    goes_on(&mut fleet);
    behind.servers.kill_sentinel(1);
    fleet.add(ARGS);
    fleet.wait_for("it has joined", |lines| {
        lines.iter().any(|line| line.copy == 3 && line.is("joined"))
    });
    goes_on(&mut fleet);
}

#[test]
fn the_queues_of_all_servers_of_a_cluster_are_listed() {
    let mut bed = bed(Kind::Cluster, 1);
    let mut owners = BTreeSet::new();
    let mut names = BTreeSet::new();
    // Until each of the three primaries has one.
    for number in 0.. {
        let name = format!("queue-{number}");
        let fleet = Fleet::at(bed.servers.url()).queue(&name).copies(0).start();
        assert!(feed(&fleet, &["push", "hello"], "").status.success());
        owners.insert(bed.servers.primary(&name));
        names.insert(name);
        if owners.len() == 3 {
            break;
        }
    }
    let listed = |url: String| {
        let fleet = Fleet::at(url).copies(0).start();
        let output = fleet.command(&["queues", "--json"]).output().expect("it runs");
        let lines = crate::fleet::json_lines(&output.stdout);
        let listed: BTreeSet<String> = lines
            .iter()
            .map(|line| line["queue"].as_str().expect("a name").to_string())
            .collect();
        (listed, said(&output))
    };
    for url in [bed.servers.url(), bed.servers.url_of(0), bed.servers.url_of(5)] {
        let (listed, said) = listed(url);
        assert!(listed == names && !said.contains("may be more"), "{said}");
    }
    // One without a replica that could take its place.
    let gone = bed.servers.primary("queue-0").expect("an owner");
    let replica = bed.servers.replica_of(gone).expect("a replica");
    bed.servers.kill(replica);
    bed.servers.kill(gone);
    let (listed, said) = listed(bed.servers.url());
    assert!(!listed.contains("queue-0") && said.contains("may be more"), "{said}");
}

#[test]
fn a_sentinel_that_speaks_resp2_only_is_asked_where_the_primary_is() {
    let (server, directory) = (RedisServer::start(), tempfile::tempdir().expect("a directory"));
    let (port, file) = (free_port(), directory.path().join("sentinel.conf"));
    let settings = format!(
        "port {port}\nbind 127.0.0.1\nrequirepass honey\nrename-command HELLO \"\"\n\
         sentinel monitor queen 127.0.0.1 {} 1\n",
        server.port()
    );
    std::fs::write(&file, settings).expect("written");
    let sentinel = Command::new(redis_server())
        .arg(&file)
        .arg("--sentinel")
        .stdout(Stdio::null())
        .spawn();
    let _sentinel = Ends(sentinel.expect("it starts"));
    within(PATIENCE, || TcpStream::connect(("127.0.0.1", port)).ok()).expect("it listens");
    let plan = Fleet::at(format!("redis+sentinel://127.0.0.1:{port}/queen")).copies(0);
    let fleet = plan.env("REDIS_SENTINEL_PASS", "honey").start();
    assert_eq!(good(&feed(&fleet, &["push", "x"], "")), "0\n");
}

#[test]
fn what_is_no_primary_is_called_what_it_is() {
    let sentinel = bed(Kind::Sentinel, 2);
    let cluster = bed(Kind::Cluster, 1);
    let replica = (0..3)
        .find(|at| sentinel.servers.primary("q") != Some(*at))
        .expect("a replica");
    let wrong_name = sentinel.servers.url().replace("/queen/", "/king/");
    let no_sentinel = format!(
        "redis+sentinel://{}/queen",
        cluster.servers.url_of(0).rsplit_once('@').expect("a host").1
    );
    let no_pass = sentinel.servers.url().split('?').next().expect("a part").to_string();
    for (url, code, words) in [
        (sentinel.servers.url_of_a_sentinel(), 1, "it is a sentinel"),
        (sentinel.servers.url_of(replica), 69, "it is a replica"),
        (wrong_name, 1, "it watches: queen"),
        (no_sentinel, 1, "password"),
        (no_pass, 1, "REDIS_SENTINEL_PASS"),
        (format!("{}/1", cluster.servers.url_of(0)), 1, "database 0 only"),
    ] {
        let fleet = Fleet::at(url.clone()).copies(0).start();
        let output = fleet.command(&["--no-wait"]).output().expect("it runs");
        let said = said(&output);
        assert_eq!(output.status.code(), Some(code), "{url}: {said}");
        let lines: Vec<&str> = said.lines().filter(|line| line.contains("queenright: ")).collect();
        assert!(lines.len() == 1 && lines[0].contains(words), "{url}: {said}");
        if ["it is a", "database 0"].iter().any(|shown| words.starts_with(shown)) {
            is_in_the_docs(lines[0]);
        }
    }
}
