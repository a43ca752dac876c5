//! A member that gives up its membership, and comes again.

use std::sync::{Arc, Mutex};

use futures_util::FutureExt as _;

use super::*;
use crate::engine::memory::Local;
use crate::node::event::Observer;

/// Writes down who is a member whenever something happens, and asks for the end when it is to.
struct Watch {
    engine: Arc<Local>,
    requests: Arc<Requests>,
    stops_when_deposed: bool,
    seen: Mutex<Vec<(Event, Vec<NodeId>)>>,
}

impl Observer for Watch {
    fn observe(&self, _: &str, events: &[Event]) {
        for event in events {
            let members = members(&self.engine);
            self.seen.lock().expect("whole").push((event.clone(), members));
            if self.stops_when_deposed && matches!(event, Event::Deposed { epoch: None }) {
                self.requests.leave();
            }
        }
    }
}

fn members(engine: &Local) -> Vec<NodeId> {
    let status = engine.status().now_or_never().expect("at once");
    let nodes = status.map_or_else(|_| Vec::new(), |status| status.nodes);
    nodes.into_iter().map(|node| node.node).collect()
}

/// Joins, gives up its membership, and ends by itself or is told to when it has joined again. Returns what was seen, and who is a member at the end.
async fn abandons(stops_when_deposed: bool) -> (Vec<(Event, Vec<NodeId>)>, Vec<NodeId>) {
    let (engine, requests) = (Arc::new(Local::new("jobs")), Arc::new(Requests::default()));
    let watch = Arc::new(Watch {
        engine: engine.clone(),
        requests: requests.clone(),
        stops_when_deposed,
        seen: Mutex::default(),
    });
    let standing = watch::Sender::new(Standing::default());
    let mut told = standing.subscribe();
    let context = Context {
        engine: engine.clone(),
        settings: Arc::default(),
        observer: watch.clone(),
        requests: requests.clone(),
        told: Arc::default(),
        meter: Arc::default(),
        standing: standing.subscribe(),
        shutdown: crate::node::shutdown::channel().1,
        reopening: crate::node::context::Reopening::new(&crate::node::shutdown::channel().1, false),
    };
    let running = tokio::spawn(Membership::new(context, standing, Seat::default()).run());
    let joined = told.wait_for(|standing| !standing.node.is_empty()).await;
    let first = joined.expect("it runs").node.clone();
    requests.abandon(&first);
    if !stops_when_deposed {
        let joined = told.wait_for(|standing| standing.node != first).await;
        joined.expect("it runs");
        // Its first beat comes when the old membership was left.
        while members(&engine).contains(&first) {
            tokio::task::yield_now().await;
        }
        requests.leave();
    }
    running.await.expect("no panic").expect("no error");
    let seen = watch.seen.lock().expect("whole").clone();
    (seen, members(&engine))
}

/// What it has seen counts for as long as it is a member: at no moment is it none.
#[tokio::test]
async fn whoever_gives_up_its_membership_joins_again_before_it_leaves() {
    let (seen, left) = abandons(false).await;
    let joins: Vec<usize> = seen
        .iter()
        .filter(|(event, _)| matches!(event, Event::Joined))
        .map(|(_, members)| members.len())
        .collect();
    assert_eq!(joins, [1, 2], "{seen:?}");
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test]
async fn who_is_to_stop_before_it_has_joined_again_leaves_what_it_gave_up() {
    let (seen, left) = abandons(true).await;
    assert!(left.is_empty(), "{left:?}: {seen:?}");
}
