//! What programs outside the fleet push.

use std::collections::BTreeMap;

use super::endings::note;
use super::limit::ring;
use super::membership::awaits_members;
use super::no_queue;
use super::numbering::Numbering;
use super::reshard::heed_line;
use crate::engine::limits::CALL_MS;
use crate::engine::store::{Asked, Line, Meta, Store};
use crate::engine::{Item, LAYOUT, Push, Pushed, Receipt};
use crate::error::Result;

/// Whether messages of its group wait here or are in flight.
fn is_in_line(store: &mut impl Store, item: &Item) -> Result<bool> {
    let Some(group) = item.group.as_deref().filter(|_| store.guard("only-known")) else {
        return Ok(!store.guard("only-known"));
    };
    Ok(store.line_length(group)? > 0 || store.turn(group)?.in_flight > 0)
}

/// Puts in messages from outside; creates the queue if there is none, unless it is not to.
pub fn push(store: &mut impl Store, wall_ms: u64, push: &Push) -> Result<Pushed> {
    let mut found = store.meta()?;
    if found.is_none() && push.birth.is_empty() && store.guard("push-creates") {
        return Err(no_queue(store));
    }
    if let Some(meta) = &mut found {
        let newer = store.guard("push-layout") && meta.layout > LAYOUT;
        let other = store.guard("push-names") && meta.names != store.names().line();
        if newer || other {
            heed_line(store, meta)?;
            store.set_meta(meta)?;
        }
    }
    let call = format!("c{}", push.call);
    if store.guard("push-repeat")
        && let Some((_, receipts)) = store.once(&call)?
    {
        return Ok(Pushed::Ok(receipts));
    }
    let time_ms = store.time_ms(wall_ms);
    let is_new = found.is_none();
    let mut meta = found
        .unwrap_or_else(|| Meta::new(store.names(), &push.birth, wall_ms, push.step_ms).from(store.first_number()));
    let unheard = awaits_members(store, &mut meta, wall_ms, &push.server)? && store.guard("push-unheard");
    if !is_new {
        store.set_meta(&meta)?;
    }
    if unheard {
        return Ok(Pushed::Unheard);
    }
    let (mut plan, mut answers) = (Numbering::new(&meta, time_ms), Vec::new());
    let mut seen: BTreeMap<&str, u64> = BTreeMap::new();
    let (mut remembered, mut asked) = (Vec::new(), Vec::new());
    for item in &push.items {
        let mut number = plan.seq;
        let mut repeated = false;
        if let Some(key) = &item.key {
            let kept = store.once(&format!("k{key}"))?;
            let lives = kept.filter(|(until_ms, _)| *until_ms > time_ms || !store.guard("once-until"));
            let was = seen.get(key.as_str()).copied();
            let was = was.or_else(|| lives.and_then(|(_, receipts)| receipts.first().map(|receipt| receipt.number)));
            if let Some(was) = was
                && store.guard("once")
            {
                (number, repeated) = (was, true);
            }
            if !repeated && push.only_known && !is_in_line(store, item)? {
                answers.push(Receipt::NOT_HERE);
                continue;
            }
            seen.insert(key, number);
            if !repeated {
                remembered.push((key, number));
            }
        } else if push.only_known && !is_in_line(store, item)? {
            answers.push(Receipt::NOT_HERE);
            continue;
        }
        if !repeated {
            plan.add_with(&item.envelope(), &item.payload, item.delay_ms);
            if item.asked {
                let due_ms = if item.delay_ms > 0 { time_ms + item.delay_ms } else { 0 };
                asked.push((number, Asked::Waits { due_ms }));
            }
        }
        answers.push(Receipt { number, repeated });
    }
    plan.close();
    if !plan.packs.is_empty() && plan.seq - meta.head > push.backlog_max {
        let head = store.front(Line::Queue)?.map_or(meta.seq, |pack| pack.first());
        if store.guard("push-full") && plan.seq - head > push.backlog_max {
            return Ok(Pushed::Full);
        }
        meta.head = head;
    }
    let grouped = plan.grouped.len() as u64;
    if grouped > 0 && store.grouped_count()? + grouped > push.backlog_max && store.guard("push-full") {
        return Ok(Pushed::Full);
    }

    plan.write(store, &mut meta)?;
    store.set_meta(&meta)?;
    if store.guard("ending-pushed") {
        note(store, time_ms, &asked)?;
    }
    // Each push forgets more than it remembers: so what is kept never exceeds what was pushed within the time.
    store.forget_once(time_ms, 2 * (remembered.len() + 1) + 2)?;
    for (key, number) in remembered {
        let receipt = Receipt {
            number,
            repeated: false,
        };
        store.set_once(&format!("k{key}"), time_ms + push.keep_ms, &[receipt])?;
    }
    store.set_once(&call, time_ms + CALL_MS, &answers)?;
    if !plan.packs.is_empty() || grouped > 0 {
        ring(store, &meta, wall_ms)?;
    }
    Ok(Pushed::Ok(answers))
}
