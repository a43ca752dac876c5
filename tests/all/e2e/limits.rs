//! `limit`: how fast a fleet takes messages.

use super::push::{feed, good};
use crate::fleet::{Fleet, said};
use crate::server::RedisServer;

fn run(fleet: &Fleet, args: &str) -> String {
    let args: Vec<&str> = args.split_whitespace().collect();
    good(&feed(fleet, &args, ""))
}

#[test]
fn a_limit_is_shown_set_and_removed() {
    let server = RedisServer::start();
    let fleet = Fleet::on(&server).copies(0).start();
    run(&fleet, "push one");
    assert_eq!(run(&fleet, "limit"), "nothing is limited\n");
    assert_eq!(run(&fleet, "limit 500/s"), "limit 500/s, 50 at once\n");
    assert_eq!(
        run(&fleet, "limit 30/m --burst 7 --group 10/s"),
        "limit 30/m, 7 at once; 10/s of each group\n"
    );
    let json = "{\"rate\":\"30/m\",\"burst\":7,\"group\":\"10/s\"}\n";
    assert_eq!(run(&fleet, "limit --json"), json);
    assert!(run(&fleet, "status").contains("limit      30/m, 7 at once; 10/s of each group\n"));
    assert_eq!(run(&fleet, "limit none --group 5/d"), "limit 5/d of each group\n");
    assert_eq!(run(&fleet, "limit none"), "nothing is limited\n");
    for wrong in [
        "limit 5",
        "limit 0/s",
        "limit 5/y",
        "limit none --burst 5",
        "limit 5/s --group 1001/s",
        "limit --burst 5",
    ] {
        let args: Vec<&str> = wrong.split_whitespace().collect();
        let output = feed(&fleet, &args, "");
        assert_eq!(output.status.code(), Some(2), "{wrong}: {}", said(&output));
    }
    assert_eq!(
        run(&fleet, "limit"),
        "nothing is limited\n",
        "what is wrong changes nothing"
    );
}

#[test]
fn a_fleet_waits_for_its_limit_and_goes_on_at_once_when_it_is_removed() {
    let server = RedisServer::start();
    let mut fleet = Fleet::on(&server)
        .copies(3)
        .args("--interval 0 --messages 300 --work 0 --error-rate 0 --limit 5/h --limit-burst 20")
        .start();
    fleet.wait_status("the burst is done", |status| status.done == 20);
    assert!(run(&fleet, "limit").contains("5/h, 20 at once"));
    assert_eq!(fleet.status().done, 20);
    run(&fleet, "limit none");
    fleet.wait_through(300);
    for copy in 0..3 {
        fleet.term(copy);
        assert_eq!(fleet.wait_exit(copy).code(), Some(0));
    }
}
