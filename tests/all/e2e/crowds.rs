//! Many copies, and many slots.

use super::checks::{self, Lines};
use crate::fleet::Fleet;
use crate::server::RedisServer;

#[test]
fn fifty_copies_at_once_have_one_generator_and_settle_everything_once() {
    let server = RedisServer::start();
    let mut fleet = Fleet::on(&server)
        .copies(50)
        .args("--interval 5ms --messages 500 --work 0..100ms --error-rate 0.15 --lease 20s")
        .start();
    let status = fleet.wait_status("all are there", |status| status.nodes.len() == 50);
    assert_eq!(
        status.nodes.iter().filter(|node| node.role == "generator").count(),
        1,
        "{status:?}"
    );
    assert_eq!(
        status
            .nodes
            .iter()
            .find(|node| node.role == "generator")
            .map(|node| &node.node),
        status.generator.as_ref()
    );
    fleet.wait_through(500);
    fleet.nobody_exited_but(&[]);
    checks::everything(&fleet, 500, Lines::All);
}

#[test]
fn one_copy_works_on_a_thousand_messages_at_once() {
    let server = RedisServer::start();
    let mut fleet = Fleet::on(&server)
        .args("--interval 0 --messages 3000 --work 0..1s --error-rate 0.15 --lease 20s")
        .start_led();
    fleet.add("--concurrency 1000");
    fleet.wait_status("a thousand are in hand", |status| status.in_hand >= 900);
    checks::everything(&fleet, 3000, Lines::All);
}
