//! Operators beside a reshard: each call of one of them is held once until the other has ended.

use std::cell::RefCell;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use queenright::engine::memory::{Local, State};
use queenright::engine::rules::{Link, Steps};
use queenright::engine::sharded::{Sharded, shard_of_group};
use queenright::engine::{Engine, Item, Limits, PausedGroup, StoreInfo, Wake};
use queenright::error::{Error, Result};
use queenright::settings::Names;
use tokio::sync::Notify;

use crate::conformance::push::push_call;

/// Holds one call of all that go through.
struct Gate {
    held: usize,
    calls: AtomicUsize,
    reached: Notify,
    opened: Notify,
}

impl Gate {
    fn before(call: usize) -> Arc<Self> {
        Arc::new(Self {
            held: call,
            calls: AtomicUsize::new(0),
            reached: Notify::new(),
            opened: Notify::new(),
        })
    }

    async fn pass(&self) {
        if self.calls.fetch_add(1, Ordering::Relaxed) == self.held {
            self.reached.notify_one();
            self.opened.notified().await;
        }
    }
}

/// A shard in memory, behind a gate.
struct Gated {
    local: Local,
    gate: Arc<Gate>,
}

impl Steps for Gated {
    type Store<'a> = State;

    async fn step<A, T, F>(&self, link: Link, args: &A, verb: F) -> Result<T>
    where
        A: ToOwned<Owned: Send> + Sync + ?Sized + 'static,
        T: Send + 'static,
        F: FnOnce(&mut State, u64, &A) -> Result<T> + Send + 'static,
    {
        self.gate.pass().await;
        Steps::step(&self.local, link, args, verb).await
    }

    async fn listen(&self, wake: Wake, at_most: Duration) -> Result<bool> {
        Steps::listen(&self.local, wake, at_most).await
    }

    async fn store_info(&self) -> Result<StoreInfo> {
        Ok(StoreInfo::default())
    }
}

type Queue = Sharded<Gated>;

/// The queue as a process has it that was told of so many shards.
fn queue(stores: &[Local], shards: usize, gate: Arc<Gate>) -> Queue {
    let (names, stores) = (Names::default().of_shard(0, shards), stores.to_vec());
    let open = move |names: &Names| {
        Ok(Gated {
            local: stores[names.shard as usize].named(names),
            gate: gate.clone(),
        })
    };
    Sharded::open(&names, open).expect("a few shards")
}

/// Runs two operators on a queue with so many shards, once for each call of the first, which is held until the second has ended.
async fn in_each_order(
    shards: usize,
    before: impl AsyncFn(&Queue),
    held: impl AsyncFn(&Queue),
    other: impl AsyncFn(&Queue),
    check: impl AsyncFn(&Queue, &[Local], usize),
) {
    let mut call = 0;
    loop {
        let stores: Vec<Local> = (0..4).map(|_| Local::new("jobs")).collect();
        let open = |gate| queue(&stores, shards, gate);
        let plain = open(Gate::before(usize::MAX));
        plain
            .push(&push_call("one", vec![Item::new("x")]))
            .await
            .expect("pushed");
        before(&plain).await;
        let gate = Gate::before(call);
        let first = open(gate.clone());
        let mut running = pin!(held(&first));
        tokio::select! {
            () = &mut running => break,
            () = gate.reached.notified() => {}
        }
        other(&open(Gate::before(usize::MAX))).await;
        gate.opened.notify_one();
        running.await;
        check(&open(Gate::before(usize::MAX)), &stores, call).await;
        call += 1;
    }
    assert!(call > 2, "it has several calls: {call}");
}

async fn all_agree(queue: &Queue, call: usize) {
    let shards = queue.status().await.expect("a look").shards;
    assert!(shards.iter().all(|shard| !shard.differs), "{call}: {shards:?}");
}

#[tokio::test(start_paused = true)]
async fn a_pause_beside_a_reshard_counts_in_all_shards() {
    let before = async |_: &Queue| {};
    let pause = async |queue: &Queue| {
        queue.pause(None, Some(true)).await.expect("paused");
    };
    let reshard = async |queue: &Queue| {
        queue.reshard_to(4).await.expect("it is made");
    };
    let check = async |queue: &Queue, _: &[Local], call: usize| {
        all_agree(queue, call).await;
        let status = queue.status().await.expect("a look");
        assert_eq!((status.paused.handlers, status.shards.len()), (true, 4), "{call}");
    };
    in_each_order(2, before, reshard, pause, check).await;
    in_each_order(2, before, pause, reshard, check).await;
}

fn limits() -> Limits {
    Limits {
        rate: Some("100/s".parse().expect("a rate")),
        burst: 48,
        group: None,
    }
}

#[tokio::test(start_paused = true)]
async fn a_limit_beside_a_reshard_is_that_of_the_whole_queue() {
    for (shards, to) in [(2, 4), (4, 2), (1, 3)] {
        let refused = RefCell::new(false);
        let before = async |_: &Queue| {};
        let limit = async |queue: &Queue| queue.limit(&limits()).await.expect("limited");
        let reshard = async |queue: &Queue| {
            let told = queue.reshard_to(to).await;
            *refused.borrow_mut() = matches!(told, Err(Error::Setting { .. }));
            assert!(told.is_ok() || *refused.borrow(), "{told:?}");
        };
        let check = async |queue: &Queue, _: &[Local], call: usize| {
            let status = queue.status().await.expect("a look");
            let (is_refused, has_changed) = (*refused.borrow(), status.shards.iter().any(|shard| shard.retired));
            // With fewer shards nobody can tell whether the limit is that of before: it is said.
            if !(is_refused && has_changed) {
                all_agree(queue, call).await;
                assert_eq!(status.limits, limits(), "{shards} to {to}, {call}");
            }
        };
        in_each_order(shards, before, reshard, limit, check).await;
        in_each_order(shards, before, limit, reshard, check).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_group_that_is_paused_or_resumed_beside_a_reshard_is_so_where_its_messages_go() {
    let moves = |group: &String| shard_of_group(group, 2) == 0 && shard_of_group(group, 4) == 2;
    let group = (0..100).map(|i| format!("g{i}")).find(moves).expect("one of them");
    for paused in [true, false] {
        let set = async |queue: &Queue, paused: bool| {
            let told = queue.pause_group(&group, paused).await;
            assert!(matches!(told, Ok(PausedGroup::Ok { .. })), "{told:?}");
        };
        let before = async |queue: &Queue| set(queue, !paused).await;
        let change = async |queue: &Queue| set(queue, paused).await;
        let reshard = async |queue: &Queue| {
            queue.reshard_to(4).await.expect("it is made");
        };
        let check = async |_: &Queue, stores: &[Local], call: usize| {
            for shard in [0, 2] {
                let turn = stores[shard].state().turns.get(&group).is_some_and(|turn| turn.paused);
                assert_eq!(turn, paused, "shard {shard}, {call}");
            }
        };
        in_each_order(2, before, reshard, change, check).await;
        in_each_order(2, before, change, reshard, check).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_push_that_stands_still_between_its_rounds_is_given_up() {
    let stores: Vec<Local> = (0..4).map(|_| Local::new("jobs")).collect();
    let plain = queue(&stores, 2, Gate::before(usize::MAX));
    plain
        .push(&push_call("one", vec![Item::new("x")]))
        .await
        .expect("pushed");
    plain.reshard_to(4).await.expect("it is made");
    let mut given_up = 0;
    for call in 0..20 {
        let gate = Gate::before(call);
        let frozen = queue(&stores, 2, gate.clone());
        let moves = |key: &String| shard_of_group(key, 2) == 1 && shard_of_group(key, 4) == 3;
        let key = (0..10_000).map(|i| format!("k{i}")).filter(moves).nth(call);
        let push = push_call(
            &format!("call {call}"),
            vec![Item::new("x").key(key.expect("one of them"))],
        );
        let thaws = async {
            gate.reached.notified().await;
            tokio::time::sleep(Duration::from_secs(40)).await;
            gate.opened.notify_one();
        };
        let pushed = tokio::select! {
            pushed = async { tokio::join!(frozen.push(&push), thaws).0 } => pushed,
            // It has fewer calls than this.
            () = tokio::time::sleep(Duration::from_secs(90)) => break,
        };
        given_up += usize::from(pushed.is_err_and(|error| error.is_away()));
    }
    assert!(given_up > 0, "it may be late in a later round");
}
