//! A server whose name leads elsewhere after a failover, as managed services do it.

use std::io;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;

use super::push::{feed, good};
use crate::fleet::{Fleet, PATIENCE, Plan, left_out, within};
use crate::server::RedisServer;

const NAME: &str = "queen.test";
/// The program sees another `/etc/hosts` than others do, in a place of its own.
const WITH_HOSTS: &str = r#"mount --bind "$1" /etc/hosts && shift && exec "$@""#;

/// Whether this machine lets us have a place of our own.
fn may_mount() -> bool {
    let tried = Command::new("unshare")
        .args(["--map-root-user", "--mount", "true"])
        .output();
    tried.is_ok_and(|tried| tried.status.success())
}

/// The same file, with another address in it: who has it open, or mounted, sees that.
fn name_is_at(hosts: &Path, address: &str) {
    std::fs::write(hosts, format!("{address} {NAME}\n")).expect("written");
}

/// Passes on everything between this address and a server.
fn forward(listener: TcpListener, to: u16) {
    let pass = |mut from: TcpStream, mut to: TcpStream| {
        std::thread::spawn(move || {
            let _ = io::copy(&mut from, &mut to);
            let _ = from.shutdown(Shutdown::Both);
            let _ = to.shutdown(Shutdown::Both);
        });
    };
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let (Ok(client), Ok(server)) = (client, TcpStream::connect(("127.0.0.1", to))) else {
                continue;
            };
            pass(
                client.try_clone().expect("the same"),
                server.try_clone().expect("the same"),
            );
            pass(server, client);
        }
    });
}

fn named(port: u16, hosts: &Path) -> Plan {
    let hosts = hosts.display().to_string();
    let command = [
        "unshare",
        "--map-root-user",
        "--mount",
        "sh",
        "-c",
        WITH_HOSTS,
        "sh",
        &hosts,
    ];
    Fleet::at(format!("redis://{NAME}:{port}")).within(&command)
}

#[test]
fn work_goes_on_where_the_name_leads_after_a_failover() {
    if !may_mount() {
        left_out("names of hosts", "there are no namespaces");
        return;
    }
    let (mut first, second) = (RedisServer::start(), RedisServer::start());
    let follow = |server: &RedisServer, primary: &RedisServer| {
        let port = primary.port().to_string();
        server.command(&["REPLICAOF", "127.0.0.1", &port]).expect("a replica");
        let linked = || {
            let said: String = redis::from_redis_value(server.command(&["INFO", "replication"]).ok()?).ok()?;
            said.contains("master_link_status:up").then_some(())
        };
        within(PATIENCE, linked).expect("in step");
    };
    follow(&second, &first);
    // One port, two addresses.
    let (one, port) = within(PATIENCE, || {
        let one = TcpListener::bind("127.0.0.2:0").ok()?;
        let port = one.local_addr().ok()?.port();
        Some((one, port))
    })
    .expect("a free port");
    let other = TcpListener::bind(("127.0.0.3", port)).expect("nobody else is there");
    forward(one, first.port());
    forward(other, second.port());
    let directory = tempfile::tempdir().expect("a directory");
    let hosts = directory.path().join("hosts");
    name_is_at(&hosts, "127.0.0.2");
    let mut fleet = named(port, &hosts)
        .copies(3)
        .args("--interval 5ms --work 0 --error-rate 0")
        .start_led();
    fleet.wait_for_more("done", 20);

    // The old primary is a replica now, and its connections stay: they lead nowhere.
    second.command(&["REPLICAOF", "NO", "ONE"]).expect("promoted");
    follow(&first, &second);
    name_is_at(&hosts, "127.0.0.3");
    fleet.wait_for_more("done", 100);
    good(&feed(&fleet, &["push", "by name"], ""));
    fleet.nobody_exited_but(&[]);

    // And back again, by a server that is gone.
    first.command(&["REPLICAOF", "NO", "ONE"]).expect("promoted");
    name_is_at(&hosts, "127.0.0.2");
    second.command(&["SHUTDOWN", "NOSAVE"]).expect_err("it is gone");
    fleet.wait_for_more("done", 100);
    fleet.nobody_exited_but(&[]);
    first.kill();
}
