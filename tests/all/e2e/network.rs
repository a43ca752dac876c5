//! The generator's network fails in the cruel ways: nothing is closed, and nothing comes back.

use queenright::app::lab::proxy::Proxy;

use super::checks::{self, Lines};
use super::failover::{highest_epoch, wait_for_successor};
use crate::fleet::Fleet;
use crate::server::RedisServer;

#[test]
fn another_copy_takes_over_when_the_generator_gets_no_replies_although_its_requests_arrive() {
    cut_off(Proxy::half_open);
}

#[test]
fn another_copy_takes_over_when_the_generator_sends_into_a_black_hole() {
    cut_off(Proxy::black_hole);
}

fn cut_off(fault: fn(&Proxy, bool)) {
    let server = RedisServer::start();
    let mut fleet = Fleet::on(&server)
        .copies(0)
        .args("--interval 20ms --messages 250 --lease 1s --work 0..20ms --error-rate 0.2")
        .start();
    let mut proxies = Vec::new();
    for _ in 0..3 {
        let proxy = Proxy::start(([127, 0, 0, 1], server.port()).into()).expect("a proxy");
        fleet.add(&format!("--url redis://{}", proxy.address()));
        proxies.push(proxy);
    }
    let joined = |fleet: &Fleet, copy: usize| {
        let lines = fleet.lines();
        let of_copy = lines.iter().filter(|line| line.copy == copy);
        of_copy.filter(|line| line.is("joined")).count()
    };
    fleet.wait_for("all have joined", |lines| {
        let joined = |copy| lines.iter().any(|line| line.copy == copy && line.is("joined"));
        (0..3).all(joined)
    });
    fleet.wait_for_more("published", 10);
    let (old, epoch) = (fleet.generator(), highest_epoch(&fleet));
    let (node, times) = (fleet.node(old), joined(&fleet, old));

    fault(&proxies[old], true);
    wait_for_successor(&fleet, old, epoch);
    fleet.wait_for("it is given up", |lines| {
        lines.iter().any(|line| line.fields["victim"] == node.as_str())
    });
    fault(&proxies[old], false);

    fleet.wait_for("it is back", |lines| {
        let of_old = lines.iter().filter(|line| line.copy == old);
        of_old.filter(|line| line.is("joined")).count() > times
    });
    assert_ne!(fleet.node(old), node, "under another name");
    fleet.wait_through(250);
    fleet.nobody_exited_but(&[]);
    checks::everything(&fleet, 250, Lines::SomeLost);
}

#[test]
fn copies_tell_that_redis_came_back_with_half_of_its_log_and_use_no_number_again() {
    let mut server = RedisServer::durable();
    let proxy = Proxy::start(([127, 0, 0, 1], server.port()).into()).expect("a proxy");
    let mut fleet = Fleet::through(&proxy)
        .copies(3)
        .args("--interval 10ms --messages 150 --work 0..20ms --error-rate 0.2")
        .start_led();
    fleet.wait_for("it has published some", |lines| {
        lines.iter().filter(|line| line.is("published")).count() >= 50
    });
    server.kill();
    let log = server.log();
    let half = RedisServer::on_log(&log[..log.len() / 2]);
    proxy.upstream(([127, 0, 0, 1], half.port()).into());
    proxy.cut();

    fleet.wait_for("it tells of it", |lines| lines.iter().any(|line| line.is("rewound")));
    let end = fleet.wait_status("what is left is worked off", |status| {
        status.published == 150 && status.queued == 0 && status.in_hand == 0
    });
    assert!(end.settled() < 150, "numbers that were lost have no outcome: {end:?}");
    fleet.nobody_exited_but(&[]);
    checks::one_voice(&fleet.lines(), 150, Lines::SomeLost);
}
