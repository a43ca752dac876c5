//! Messages of groups: one at a time and in order within each.

use super::measure::{GENERATOR, HANDLER, HANDLERS, compared, drain_of, through};
use super::raw::float;
use super::row::Row;
use super::row::Target::AtLeast;
use super::session::Session;
use super::{Load, Rows};

/// A million messages in a hundred thousand groups, published and handled at once, and drained from a backlog; and few groups, each of which is
/// busy most of the time. Beside the first, the same messages without groups.
pub(super) fn groups(session: &Session, load: Load) -> Rows {
    let (messages, many) = load.of((1_000_000, 100_000), (20_000, 2_000));
    let generator = |groups: u64| format!("bench-node {GENERATOR} --groups {groups}");
    let rounds = load.rounds.min(3);
    let ours = || through(session, messages, &generator(many), (HANDLERS, HANDLER));
    let plain = || Ok(through(session, messages, GENERATOR, (HANDLERS, HANDLER))?.0);
    let row = compared(&format!("groups {many}"), rounds, ours, plain)?;
    let mut rows = vec![row.target(AtLeast(20_000.0)).note("baseline: the same without groups")];
    let (mut rates, mut costs) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let (rate, cost) = drain_of(session, messages, &generator(many))?;
        rates.push(rate);
        costs.push(cost);
    }
    let cost = super::cost::typical(&costs);
    let note = format!("{:.0} bytes of Redis for each message in line", cost.queued_bytes);
    let row = Row::new("groups, a backlog", "messages/s", rates).cost(cost);
    rows.push(row.target(AtLeast(20_000.0)).note(note));
    let few = load.of(200_000, 2_000);
    let (rate, cost) = through(session, few, &generator(10), (HANDLERS, HANDLER))?;
    let row = Row::new("groups 10", "messages/s", vec![rate]).cost(cost);
    let micros = 10.0 * 1e6 / rate.max(float(1));
    rows.push(row.note(format!(
        "a message of a group every {micros:.0} us: a call each, and the way there"
    )));
    Ok(rows)
}
