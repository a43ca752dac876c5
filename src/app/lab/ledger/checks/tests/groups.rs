//! Messages of a group that come out of order.

use super::*;

/// Two messages of a group, taken at these times by these copies.
fn grouped(first: (usize, u64), second: (usize, u64)) -> Run {
    let mut run = Run::new();
    for (number, (book, ms)) in [(10, first), (11, second)] {
        run.observed.pushes.push(Push {
            group: Some(7),
            ..push(number, b"pushed", 800)
        });
        run.takes(book, number, 1, 1, 2, ms);
        run.starts_with(HANDLER, number, 1, "pushed");
        run.does(HANDLER, number, 1, What::Done, 2900);
        add(run.observed.effects.as_mut().expect("there are some"), number);
    }
    run.observed.remains.published = 12;
    run.observed.done = 10;
    run
}

#[test]
fn a_group_that_is_out_of_order_is_found() {
    grouped((HANDLER, 900), (HANDLER, 901)).finds(&[]);
    grouped((HANDLER, 901), (GENERATOR, 900)).finds(&["taken before an earlier message of its group"]);
    // One that was killed may have written late what it took early.
    grouped((DEAD, 901), (GENERATOR, 900)).finds(&[]);
}

#[test]
fn a_group_is_in_order_before_and_after_a_time_that_the_store_forgot() {
    let forgetful = |first, second, gap| {
        let mut run = grouped((HANDLER, first), (HANDLER, second));
        run.history.ledger.forgot = vec![gap];
        run.judge()
    };
    let early = |verdict: &Verdict| {
        verdict
            .findings
            .iter()
            .filter(|line| line.starts_with("taken before"))
            .count()
    };
    // What was taken then was taken again.
    assert_eq!(early(&forgetful(901, 900, (880, 950))), 0);
    assert_eq!(early(&forgetful(901, 900, (10_000, 10_100))), 1);
    let well = forgetful(900, 901, (10_000, 10_100));
    assert_eq!((early(&well), well.in_order), (0, 1));
    // Of two eras nothing can be said.
    let verdict = forgetful(9000, 900, (1000, 2000));
    assert_eq!((early(&verdict), verdict.in_order), (0, 0));
}
