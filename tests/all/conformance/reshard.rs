//! Another number of shards: a line that only grows, of which whoever knows more tells.

use queenright::engine::{Beat, Engine, Item, Member, Published, Receipt, Renewed, Wake};
use queenright::error::Error;
use queenright::settings::Names;

use super::hive::{done, numbers, whole};
use super::push::push_call;
use super::{Bench, Check, Hive, checks};

checks![
    a_reshard_ends_the_reign_and_who_does_not_know_of_it_is_told_and_not_crowned,
    a_reshard_is_made_once_and_goes_on_from_what_is_there,
    a_look_tells_which_members_have_not_followed_a_reshard,
    whoever_knows_of_a_later_reshard_tells_it_by_joining_beating_or_pushing,
    the_generator_of_several_shards_finds_what_that_of_one_has_left,
    a_push_for_those_that_have_to_be_here_leaves_the_others,
    a_reshard_waits_for_members_that_may_know_of_another,
    a_shard_that_was_left_over_is_taken_over_from_its_members_under_its_key_names,
];

/// The queue has one shard, and then four.
fn later() -> Names {
    Names::default().resharded(4, 1)
}

async fn beat_as<B: Bench>(hive: &Hive<B>, names: &Names, node: &str) -> Member {
    let beat: Beat = Hive::<B>::beat_call(node);
    match hive.bench.beat_with(names, &beat).await.expect("beat") {
        Renewed::Alive(member) => member,
        Renewed::Deposed => panic!("{node} was deposed"),
    }
}

async fn line<B: Bench>(hive: &Hive<B>) -> String {
    hive.state().await.meta.expect("a queue").names
}

async fn a_reshard_ends_the_reign_and_who_does_not_know_of_it_is_told_and_not_crowned<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    hive.publish("a", &[1, 1]).await;
    let packs = hive.take("b", 1).await;
    let late = hive.publish_call("a", &[1]).await;
    hive.bench.hush().await;
    hive.bench.reshard_with(&later(), "s1").await.expect("reshard");
    assert!(hive.rung(Wake::Crown).await, "those who may follow are woken");
    assert_eq!(hive.send(&late).await, Published::Fenced);
    for node in ["a", "b"] {
        let told = hive.beat(node).await;
        assert_eq!((told.generator, told.heir), (false, false), "{node}");
        assert_eq!(told.resharded, Some(later().line()), "{node}");
    }
    // What they have in hand they finish.
    hive.exchange("b", vec![whole(&packs[0], &done())], 1).await;
    assert_eq!(hive.status_as(&later()).await.done, 1);
    // Whoever has opened the queue anew is crowned at once, under the next epoch.
    hive.bench
        .join_with(&later(), &Hive::<B>::join_call("c"))
        .await
        .expect("join");
    let crowned = beat_as(hive, &later(), "c").await;
    assert_eq!((crowned.generator, crowned.epoch, crowned.resharded), (true, 2, None));
    assert!(!hive.beat("a").await.generator);
}

async fn a_look_tells_which_members_have_not_followed_a_reshard<B: Bench>(hive: &Hive<B>) {
    let behind = async |names: &Names| {
        let nodes = hive.status_as(names).await.nodes.into_iter();
        let mut behind: Vec<(String, bool)> = nodes.map(|node| (node.node, node.behind)).collect();
        behind.sort();
        behind
    };
    let told = |nodes: &[(&str, bool)]| {
        nodes
            .iter()
            .map(|(node, behind)| ((*node).into(), *behind))
            .collect::<Vec<_>>()
    };
    hive.found("a", &[]).await;
    assert_eq!(behind(&Names::default()).await, told(&[("a", false)]));
    hive.bench.reshard_with(&later(), "s1").await.expect("reshard");
    let join = Hive::<B>::join_call("b");
    hive.bench.join_with(&later(), &join).await.expect("join");
    // Whoever is told still works by the number of before.
    beat_as(hive, &Names::default(), "a").await;
    assert_eq!(behind(&later()).await, told(&[("a", true), ("b", false)]));
    let next = later().resharded(2, 1);
    hive.bench.reshard_with(&next, "s1").await.expect("again");
    assert_eq!(behind(&next).await, told(&[("a", true), ("b", true)]));
}

async fn a_reshard_is_made_once_and_goes_on_from_what_is_there<B: Bench>(hive: &Hive<B>) {
    let none = hive.bench.reshard_with(&later(), "s1").await;
    assert!(matches!(none, Err(Error::NoQueue { .. })), "{none:?}");
    hive.found("a", &[]).await;
    hive.bench.reshard_with(&later(), "s1").await.expect("reshard");
    let before = hive.state().await;
    hive.bench.reshard_with(&later(), "s1").await.expect("again");
    assert_eq!(hive.state().await.meta, before.meta);
    // One that was made for what was there before comes too late, and is told what there is.
    let other = Names::default().resharded(7, 1);
    let refused = hive.bench.reshard_with(&other, "s1").await;
    assert!(matches!(&refused, Err(Error::OtherNames { .. })), "{refused:?}");
    let behind = hive.bench.reshard_with(&Names::default(), "s1").await;
    assert!(
        matches!(&behind, Err(Error::Resharded { line, .. }) if *line == later().line()),
        "{behind:?}"
    );
    let next = later().resharded(2, 3);
    hive.bench.reshard_with(&next, "s1").await.expect("a second one");
    assert_eq!(line(hive).await, next.line());
    // Who has missed both is told both.
    let status = hive.engine().status().await;
    assert!(
        matches!(&status, Err(Error::Resharded { line, .. }) if *line == next.line()),
        "{status:?}"
    );
    let join = hive.engine().join(&Hive::<B>::join_call("b")).await;
    assert!(
        matches!(&join, Err(Error::Resharded { line, .. }) if *line == next.line()),
        "{join:?}"
    );
    let push = hive.engine().push(&push_call("p", vec![Item::new("x")])).await;
    assert!(
        matches!(&push, Err(Error::Resharded { line, .. }) if *line == next.line()),
        "{push:?}"
    );
}

async fn whoever_knows_of_a_later_reshard_tells_it_by_joining_beating_or_pushing<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &[]).await;
    let mut names = later();
    hive.bench
        .join_with(&names, &Hive::<B>::join_call("b"))
        .await
        .expect("join");
    assert_eq!(line(hive).await, names.line());
    assert!(hive.beat("a").await.resharded.is_some());
    // As after a failover to a replica that had not heard of it.
    names = names.resharded(6, 1);
    assert_eq!(beat_as(hive, &names, "b").await.resharded, None);
    assert_eq!(line(hive).await, names.line());
    names = names.resharded(3, 2);
    hive.bench
        .push_with(&names, &push_call("p", vec![Item::new("x")]))
        .await
        .expect("push");
    assert_eq!(line(hive).await, names.line());
    assert_eq!(beat_as(hive, &later(), "b").await.resharded, Some(names.line()));
    // A look tells nobody anything.
    let before = hive.state().await;
    assert_eq!(hive.status_as(&names.resharded(9, 1)).await.published, 1);
    assert_eq!(hive.state().await, before);
}

async fn the_generator_of_several_shards_finds_what_that_of_one_has_left<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &[]).await;
    let mut call = hive.publish_call("a", &[3]).await;
    call.cursor = Some("line 3".into());
    hive.send(&call).await;
    hive.bench.reshard_with(&later(), "s1").await.expect("reshard");
    let record = hive.state().await.cursor;
    let mut expected = vec![1];
    expected.extend(1_u64.to_le_bytes());
    expected.extend(3_u64.to_le_bytes());
    expected.extend(6_u32.to_le_bytes());
    expected.extend(b"line 3");
    expected.extend([[0; 4], [0; 4], 1_u32.to_le_bytes()].concat());
    expected.extend(1_u64.to_le_bytes());
    expected.extend(3_u64.to_le_bytes());
    assert_eq!(record, expected);
    // It is one already.
    hive.bench
        .reshard_with(&later().resharded(2, 1), "s1")
        .await
        .expect("again");
    assert_eq!(hive.state().await.cursor, expected);
}

async fn a_push_for_those_that_have_to_be_here_leaves_the_others<B: Bench>(hive: &Hive<B>) {
    let push = |call: &str, only_known: bool, items: &[Item]| queenright::engine::Push {
        only_known,
        ..push_call(call, items.to_vec())
    };
    let items = [
        Item::new("keyed").key("k"),
        Item::new("grouped").group("g"),
        Item::new("unknown").key("u"),
        Item::new("elsewhere").group("e"),
        Item::new("free"),
    ];
    let receipts = async |push: &queenright::engine::Push| match hive.engine().push(push).await.expect("push") {
        queenright::engine::Pushed::Ok(receipts) => receipts,
        other => panic!("{other:?}"),
    };
    receipts(&push("one", false, &items[..2])).await;
    let looked = push("two", true, &items);
    let told = receipts(&looked).await;
    let number = |number, repeated| Receipt { number, repeated };
    let elsewhere = Receipt::NOT_HERE;
    assert_eq!(
        told,
        [number(0, true), number(2, false), elsewhere, elsewhere, elsewhere]
    );
    assert_eq!(hive.status().await.queued, 3);
    // What was answered is, whatever there is by then.
    hive.found("a", &["b"]).await;
    let packs = hive.take("b", 9).await;
    assert_eq!(numbers(&packs), [1, 0], "one of the group");
    assert_eq!(receipts(&looked).await, told);
    let in_flight = receipts(&push("three", true, &items[1..2])).await;
    assert_eq!(in_flight, [number(3, false)], "some wait, and one is in flight");
}

async fn a_reshard_waits_for_members_that_may_know_of_another<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &[]).await;
    let (knows, other) = (later(), Names::default().resharded(2, 1));
    // The server is another one since the members last spoke: it may lack a reshard that they know of.
    assert!(!hive.bench.reshard_with(&other, "s2").await.expect("reshard"));
    assert_eq!(line(hive).await, Names::default().line());
    let beat = Beat {
        server: "s2".into(),
        ..Hive::<B>::beat_call("a")
    };
    hive.bench.beat_with(&knows, &beat).await.expect("beat");
    let refused = hive.bench.reshard_with(&other, "s2").await;
    assert!(matches!(&refused, Err(Error::OtherNames { .. })), "{refused:?}");
    assert_eq!(line(hive).await, knows.line());
    assert!(
        hive.bench
            .reshard_with(&knows.resharded(2, 1), "s2")
            .await
            .expect("all have spoken")
    );
}

async fn a_shard_that_was_left_over_is_taken_over_from_its_members_under_its_key_names<B: Bench>(hive: &Hive<B>) {
    // Two reshards were given up before the step in the home shard, or it has lost them: both have made shard 2, in Redis under the same keys.
    let (open, two) = (hive.bench.opener(), Names::default().of_shard(0, 2));
    let names = [9, 11].map(|to| two.resharded(to, 1).in_shard(2));
    let [nine, eleven] = [0, 1].map(|at| open(&names[at]).expect("it opens"));
    let others = Names {
        errors: "dead-letters".into(),
        ..names[1].clone()
    };
    let others = open(&others).expect("it opens");
    let nothing = |call: &str| push_call(call, Vec::new());
    nine.join(&Hive::<B>::join_call("a")).await.expect("join");
    let refused = others.push(&nothing("other")).await;
    assert!(matches!(refused, Err(Error::OtherShards { .. })), "{refused:?}");

    eleven.push(&nothing("push")).await.expect("taken over");
    let state = B::dump(&eleven).await;
    assert_eq!(state.meta.expect("a queue").names, names[1].line());
    assert!(state.nodes.is_empty(), "who was there has nothing to do with it");
    let late = nine.beat(&Hive::<B>::beat_call("a")).await;
    assert!(matches!(late, Ok(Renewed::Deposed)), "{late:?}");

    eleven.join(&Hive::<B>::join_call("b")).await.expect("join");
    nine.join(&Hive::<B>::join_call("c")).await.expect("taken over");
    let members: Vec<String> = B::dump(&nine).await.nodes.into_keys().collect();
    assert_eq!(members, ["c"]);

    assert!(eleven.reshard("s1").await.expect("taken over"));
    let state = B::dump(&eleven).await;
    assert_eq!(
        (state.meta.expect("a queue").names, state.nodes.len()),
        (names[1].line(), 0)
    );
    // It is used: nobody takes it over any more.
    eleven
        .push(&push_call("used", vec![Item::new("x")]))
        .await
        .expect("pushed");
    let refused = nine.join(&Hive::<B>::join_call("d")).await;
    assert!(matches!(refused, Err(Error::OtherShards { .. })), "{refused:?}");
    // Whoever looks at the queue of this check finds nothing else.
    eleven.purge(true).await.expect("removed");
}
