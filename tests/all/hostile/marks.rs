//! Someone removes the marks by which it is found out what replicas have, as a server does that evicts what expires.

use std::time::Duration;

use queenright::engine::redis::keys::Keys;
use queenright::engine::redis::{RedisEngine, Server};
use queenright::engine::{Beat, Engine, Publish, Published, Renewed, Ticket};
use queenright::error::Error;
use queenright::settings::Names;

use super::damage::until;
use crate::conformance::{Hive, RedisBench, packs};
use crate::fleet::signal;
use crate::server::RedisServer;

const QUEUE: &str = "marks";

/// A generator on a primary with a replica, for which it waits.
struct Bed {
    primary: RedisServer,
    replica: RedisServer,
    engine: RedisEngine,
    epoch: u64,
    made: u64,
}

impl Bed {
    async fn new() -> Self {
        let (primary, replica) = (RedisServer::start(), RedisServer::start());
        let follow = ["REPLICAOF", "127.0.0.1", &primary.port().to_string()];
        replica.command(&follow).expect("a replica");
        let server = Server {
            replicas: 1,
            answer_timeout: Duration::from_secs(1),
            ..primary.server()
        };
        let engine = RedisEngine::new(&server, Keys::new(QUEUE, &Names::default())).expect("an engine");
        let join = Hive::<RedisBench>::join_call("a");
        until("the replica follows", async || engine.join(&join).await.is_ok()).await;
        let beat = Beat {
            lease_ms: 60_000,
            crown_ms: 60_000,
            replays: Some(0),
            ..Hive::<RedisBench>::beat_call("a")
        };
        let Ok(Renewed::Alive(member)) = engine.beat(&beat).await else {
            panic!("a member");
        };
        Self {
            primary,
            replica,
            engine,
            epoch: member.epoch,
            made: 0,
        }
    }

    /// One more message. The ticket tells when the replica has it.
    async fn publish(&mut self) -> Ticket {
        let publish = Publish {
            node: "a".into(),
            epoch: self.epoch,
            made: self.made,
            first: self.made,
            messages: None,
            backlog_max: 1_000_000,
            interval_ms: 0,
            cursor: None,
            server: "s1".into(),
            again: false,
            packs: packs(self.made, self.epoch, 1, &[1]),
        };
        self.made += 1;
        match self.engine.publish_ahead(&publish).await {
            Ok((Published::Ok { .. }, Some(ticket))) => ticket,
            other => panic!("{other:?}"),
        }
    }

    fn remove_marks(&self) {
        let remove = "for _, mark in ipairs(redis.call('KEYS', '*:replicated:*')) do redis.call('DEL', mark) end";
        self.primary.command(&["EVAL", remove, "0"]).expect("removed");
    }

    /// Whether the replica has it, once it can be said.
    async fn is_kept(&self, ticket: &Ticket) -> bool {
        let mut kept = None;
        until("it is known", async || {
            kept = self.engine.kept(ticket).await.ok();
            kept.is_some()
        })
        .await;
        kept.expect("known")
    }
}

#[tokio::test]
async fn what_was_known_of_a_mark_that_is_gone_says_nothing_of_later_calls() {
    let mut bed = Bed::new().await;
    for _ in 0..5 {
        let ticket = bed.publish().await;
        assert!(bed.is_kept(&ticket).await);
    }
    bed.remove_marks();
    signal(bed.replica.pid(), "STOP");
    let tickets = [bed.publish().await, bed.publish().await];
    for ticket in &tickets {
        let kept = bed.engine.kept(ticket).await;
        assert!(
            kept.as_ref().is_err_and(Error::is_away),
            "the replica lacks it: {kept:?}"
        );
    }
    signal(bed.replica.pid(), "CONT");
    for ticket in &tickets {
        assert!(bed.is_kept(ticket).await);
    }
}

#[tokio::test]
async fn what_waits_for_replicas_is_told_though_its_mark_is_gone() {
    let mut bed = Bed::new().await;
    signal(bed.replica.pid(), "STOP");
    let waiting = [bed.publish().await, bed.publish().await];
    bed.remove_marks();
    for ticket in &waiting {
        let kept = bed.engine.kept(ticket).await;
        assert!(
            kept.as_ref().is_err_and(Error::is_away),
            "the replica lacks it: {kept:?}"
        );
    }
    signal(bed.replica.pid(), "CONT");
    for ticket in &waiting {
        assert!(bed.is_kept(ticket).await);
    }
    // A server that was a replica meanwhile may have lost the call.
    let lost = bed.publish().await;
    for to in [["127.0.0.1", "1"], ["NO", "ONE"]] {
        bed.primary.command(&["REPLICAOF", to[0], to[1]]).expect("followed");
    }
    bed.remove_marks();
    assert!(!bed.is_kept(&lost).await);
}
