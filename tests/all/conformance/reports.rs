//! What nodes tell of themselves, and what is kept of it.

use queenright::engine::history::{Bucket, REIGNS_MAX};
use queenright::engine::memory::State;
use queenright::engine::{Engine, Figures, Gauges, History, LastReport, Live, NodeStatus, Range, Report, Reported};
use queenright::error::Error;

use super::hive::{CROWN_MS, LEASE_MS};
use super::{Bench, Check, Hive, checks};

checks![
    what_a_member_tells_of_itself_is_shown,
    what_several_tell_is_added_up,
    a_report_of_a_stranger_is_ignored,
    a_report_that_comes_twice_counts_once,
    a_report_renews_no_lease,
    with_a_member_goes_its_report,
    history_never_grows_beyond_its_rings,
    a_clock_that_is_set_back_leaves_history_in_order,
    a_look_is_asked_for_once_a_step,
    reigns_are_remembered_with_the_gaps_between_them,
    only_the_last_reigns_are_remembered,
    with_the_queue_goes_its_history,
];

fn report(node: &str, number: u64, done: u64) -> Report {
    let mut figures = Figures {
        published: 7,
        done,
        failed: 1,
        retried: 2,
        ..Figures::default()
    };
    figures.handle.counts[3] = done;
    figures.handle.sum_us = 100 * done;
    figures.wait.counts[22] = 5;
    Report {
        node: node.into(),
        number,
        live: Live {
            generates: true,
            started_ms: 1_699_999_999_999,
            in_hand: 3,
            rate_milli: 2500,
            published: 70,
            done: 10 * done,
            failed: 10,
            retried: 20,
        },
        figures,
        gauges: None,
    }
}

async fn tell<B: Bench>(hive: &Hive<B>, report: &Report) -> bool {
    match hive.engine().report(report).await.expect("report") {
        Reported::Stored { look } => look,
        Reported::Stranger => panic!("{} is a member", report.node),
    }
}

async fn history<B: Bench>(hive: &Hive<B>, range: Range) -> History {
    hive.engine().history(range).await.expect("history")
}

async fn shown<B: Bench>(hive: &Hive<B>, node: &str) -> NodeStatus {
    let nodes = hive.status().await.nodes;
    nodes.into_iter().find(|each| each.node == node).expect("a member")
}

async fn what_a_member_tells_of_itself_is_shown<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    assert_eq!(shown(hive, "b").await.report, None);
    let told = report("b", 1, 4);
    tell(hive, &told).await;
    let time_ms = hive.wall_ms();
    hive.jump(300).await;
    let kept = LastReport {
        number: 1,
        time_ms,
        live: told.live,
    };
    assert_eq!(shown(hive, "b").await.report, Some(kept));
    assert_eq!(shown(hive, "a").await.report, None);
    assert_eq!(hive.status().await.time_ms, time_ms + 300);
    // Leases are shown by the time of day.
    assert_eq!(shown(hive, "a").await.lease_in_ms, LEASE_MS - 300);
}

async fn what_several_tell_is_added_up<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    tell(hive, &report("a", 1, 4)).await;
    tell(hive, &report("b", 1, 30)).await;
    let gauges = Gauges {
        queued: 9,
        in_hand: 8,
        later: 7,
        errors: 6,
    };
    let looked = Report {
        gauges: Some(gauges),
        ..report("b", 2, 500)
    };
    tell(hive, &looked).await;
    tell(hive, &report("a", 2, 1)).await;
    let mut figures = Figures {
        published: 4 * 7,
        done: 535,
        failed: 4,
        retried: 8,
        ..Figures::default()
    };
    figures.handle.counts[3] = 535;
    figures.handle.sum_us = 53_500;
    figures.wait.counts[22] = 20;
    for range in Range::ALL {
        let history = history(hive, range).await;
        assert_eq!(history.now_ms, hive.wall_ms());
        let bucket = Bucket {
            index: hive.wall_ms() / range.step_ms(),
            figures: figures.clone(),
            gauges: Some(gauges),
        };
        assert_eq!(history.buckets, [bucket], "{range:?}");
    }
}

async fn a_report_of_a_stranger_is_ignored<B: Bench>(hive: &Hive<B>) {
    let stranger = report("stranger", 1, 4);
    assert_eq!(hive.engine().report(&stranger).await, Ok(Reported::Stranger));
    assert_eq!(hive.state().await.meta, None, "no queue comes of it");
    hive.found("a", &["b"]).await;
    hive.publish("a", &[1]).await;
    hive.take("b", 1).await;
    hive.engine().leave(&"b".into()).await.expect("leave");
    let before = hive.state().await;
    for node in ["stranger", "b"] {
        assert_eq!(hive.engine().report(&report(node, 1, 4)).await, Ok(Reported::Stranger));
    }
    assert_eq!(hive.state().await, before);
}

async fn a_report_that_comes_twice_counts_once<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    let (first, second) = (report("b", 1, 4), report("b", 2, 5));
    assert!(tell(hive, &first).await);
    tell(hive, &second).await;
    let before = hive.state().await;
    assert!(!tell(hive, &second).await, "a lost reply");
    assert!(!tell(hive, &first).await, "a late copy");
    assert_eq!(hive.state().await, before);
    assert_eq!(history(hive, Range::Hour).await.buckets[0].figures.done, 9);
}

async fn a_report_renews_no_lease<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    let leases = hive.state().await.nodes;
    hive.jump(50).await;
    tell(hive, &report("b", 1, 4)).await;
    let after = hive.state().await;
    assert_eq!(after.nodes, leases);
    assert_eq!(
        after.meta.expect("a queue").clock,
        hive.state().await.meta.expect("a queue").clock
    );
}

async fn with_a_member_goes_its_report<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b", "c"]).await;
    hive.publish("a", &[1]).await;
    hive.take("c", 1).await;
    for node in ["b", "c"] {
        tell(hive, &report(node, 1, 4)).await;
    }
    // One leaves with empty hands, one dies and still holds something.
    hive.engine().leave(&"b".into()).await.expect("leave");
    hive.engine().leave(&"c".into()).await.expect("leave");
    let state = hive.state().await;
    assert!(state.taken.contains_key("c"), "what it holds is still there");
    assert!(state.taken.values().all(|taken| taken.report.is_none()));
    assert_eq!(
        history(hive, Range::Day).await.buckets[0].figures.done,
        8,
        "what they did stays"
    );
}

async fn history_never_grows_beyond_its_rings<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &[]).await;
    let before = hive.wall_ms();
    for number in 1..=130 {
        tell(hive, &report("a", number, 1)).await;
        // Not a beat in between: leases run on another clock.
        hive.jump(5_000).await;
    }
    let kept: u64 = Range::ALL.iter().map(|range| range.steps()).sum();
    assert!(hive.state().await.history.len() as u64 <= kept);
    let minutes = history(hive, Range::Minutes).await;
    // The step that begins now has nothing in it yet.
    assert_eq!(minutes.buckets.len(), 59);
    let indices: Vec<u64> = minutes.buckets.iter().map(|bucket| bucket.index).collect();
    assert!(indices.is_sorted_by(|a, b| a + 1 == *b), "{indices:?}");
    assert!(minutes.buckets.iter().all(|bucket| bucket.figures.done == 1));
    let hour = history(hive, Range::Hour).await;
    assert_eq!(hour.buckets.iter().map(|bucket| bucket.figures.done).sum::<u64>(), 130);
    // A fleet that slept for a day finds nothing old in the places of the new.
    hive.jump(86_400_000).await;
    assert_eq!(history(hive, Range::Day).await.buckets, []);
    tell(hive, &report("a", 131, 9)).await;
    for range in Range::ALL {
        let history = history(hive, range).await;
        let done: Vec<u64> = history.buckets.iter().map(|bucket| bucket.figures.done).collect();
        assert_eq!(done, [9], "{range:?}");
        assert!(history.buckets[0].index > before / range.step_ms());
    }
}

async fn a_clock_that_is_set_back_leaves_history_in_order<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &[]).await;
    tell(hive, &report("a", 1, 1)).await;
    hive.jump(-3_600_000).await;
    assert_eq!(history(hive, Range::Hour).await.buckets, [], "the future is not told");
    tell(hive, &report("a", 2, 2)).await;
    for range in Range::ALL {
        let buckets = history(hive, range).await.buckets;
        let done: Vec<u64> = buckets.iter().map(|bucket| bucket.figures.done).collect();
        assert_eq!(done, [2], "{range:?}");
    }
    hive.jump(3_600_000).await;
    tell(hive, &report("a", 3, 4)).await;
    let kept: u64 = Range::ALL.iter().map(|range| range.steps()).sum();
    assert!(hive.state().await.history.len() as u64 <= kept);
    let buckets = history(hive, Range::Day).await.buckets;
    assert!(buckets.is_sorted_by_key(|bucket| bucket.index));
    assert_eq!(buckets.last().expect("now").figures.done, 5);
}

async fn a_look_is_asked_for_once_a_step<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    assert!(tell(hive, &report("a", 1, 1)).await);
    assert!(!tell(hive, &report("b", 1, 1)).await, "one is enough");
    let into_step = hive.wall_ms() % 5_000;
    hive.jump((5_000 - into_step).cast_signed()).await;
    let looked = Report {
        gauges: Some(Gauges::default()),
        ..report("a", 2, 1)
    };
    assert!(!tell(hive, &looked).await, "who has looked is not asked to");
    assert!(!tell(hive, &report("b", 2, 1)).await);
    hive.jump(5_000).await;
    assert!(tell(hive, &report("b", 3, 1)).await);
}

async fn reigns_are_remembered_with_the_gaps_between_them<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    let began = hive.wall_ms();
    hive.pass(100, &["a", "b"]).await;
    let last = hive.wall_ms();
    // The generator falls silent.
    hive.pass(CROWN_MS, &["b"]).await;
    let history = history(hive, Range::Minutes).await;
    assert_eq!(history.reigns.len(), 2);
    let (first, second) = (&history.reigns[0], &history.reigns[1]);
    assert_eq!((first.epoch, first.node.as_str(), first.began_ms), (1, "a", began));
    assert_eq!(first.last_ms, last);
    assert_eq!((second.epoch, second.node.as_str()), (2, "b"));
    assert_eq!(first.gap_ms, Some(second.began_ms - last));
    assert_eq!((second.last_ms, second.gap_ms), (hive.wall_ms(), None));
}

async fn only_the_last_reigns_are_remembered<B: Bench>(hive: &Hive<B>) {
    hive.found("a", &["b"]).await;
    for reign in 0..REIGNS_MAX + 5 {
        let next = if reign % 2 == 0 { "b" } else { "a" };
        hive.engine().handover(Some(next)).await.expect("handover");
        assert!(hive.beat(next).await.generator);
    }
    assert_eq!(hive.state().await.reigns.len(), REIGNS_MAX);
    let history = history(hive, Range::Minutes).await;
    let epochs: Vec<u64> = history.reigns.iter().map(|reign| reign.epoch).collect();
    assert_eq!(epochs, (7..=REIGNS_MAX as u64 + 6).collect::<Vec<_>>());
}

async fn with_the_queue_goes_its_history<B: Bench>(hive: &Hive<B>) {
    assert!(matches!(
        hive.engine().history(Range::Day).await,
        Err(Error::NoQueue { .. })
    ));
    hive.found("a", &[]).await;
    tell(hive, &report("a", 1, 1)).await;
    hive.engine().purge(true).await.expect("purged");
    let after = hive.state().await;
    assert_eq!(after.history.len() + after.reigns.len() + after.taken.len(), 0);
    assert_eq!(after.meta, State::new(&after.queue_name, &after.names).meta);
}
