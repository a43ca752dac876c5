//! Chains that break, fork, or follow from what is not done.

use super::*;

/// A run in which message 15 begins a chain; `links` are its numbers and payloads.
fn chained(links: &[(u64, &str)]) -> Run {
    let mut run = Run::new();
    run.does(GENERATOR, 10, 6, What::Publish { epoch: 2 }, 3000);
    for (number, payload) in (10..16).map(|number| (number, number.to_string())) {
        run.takes(HANDLER, number, 1, 1, 2, 3100);
        run.starts_with(HANDLER, number, 1, &payload);
    }
    // The first link is confirmed by nobody: its node was killed right then.
    for (number, payload) in links {
        run.takes(HANDLER, *number, 1, 1, 2, 3100);
        run.starts_with(HANDLER, *number, 1, payload);
    }
    for (number, _) in links.iter().skip(1) {
        run.write(
            HANDLER,
            &Record::Confirmed(
                Entry {
                    first: *number,
                    count: 1,
                    what: What::Chain { cause: number - 1 },
                },
                3200,
            ),
        );
    }
    let all = 16 + links.len() as u64;
    run.does(HANDLER, 10, all - 10, What::Done, 3300);
    run.observed.remains.published = all;
    run.observed.done = all - 2;
    for number in 10..all {
        add(run.observed.effects.as_mut().unwrap(), number);
    }
    run
}

#[test]
fn a_chain_that_breaks_forks_or_follows_from_what_is_not_done() {
    let all = [(16, "chain 15 1"), (17, "chain 15 2"), (18, "chain 15 3")];
    assert_eq!(chained(&all).finds(&[]).chains, 1);
    chained(&all[..1]).finds(&["a chain broke: message 16 is done, and nothing follows it"]);
    chained(&[]).finds(&["a chain broke: message 15 is done, and nothing follows it"]);
    let forked = [
        (16, "chain 15 1"),
        (17, "chain 15 1"),
        (18, "chain 15 2"),
        (19, "chain 15 3"),
    ];
    chained(&forked).finds(&["a chain forked: message 15 was followed by [16, 17]"]);
    let mut run = chained(&[(16, "chain 15 1")]);
    run.observed.remains.unsettled = Numbers::of([(15, 1)]);
    let findings = run.judge().findings;
    assert!(
        findings.contains(&"a chain goes on behind message 15, which is not done".to_string()),
        "{findings:?}"
    );
    // What nobody published, and is no link, is found as ever.
    let mut run = chained(&all);
    run.observed.remains.published = 20;
    run.does(HANDLER, 19, 1, What::Done, 3300);
    run.observed.done += 1;
    add(run.observed.effects.as_mut().unwrap(), 19);
    run.finds(&["in the queue, and published by nobody: 19"]);
}
