//! Who is a member: join, leave, and the reaping of nodes whose lease has run out.

use super::cancel::{Runs, settled};
use super::clock::{advance, hive};
use super::endings::note;
use super::groups::{ended, set_rules};
use super::reshard::heed_line;
use crate::engine::limits::{REAP_BYTES_MAX, REAP_FAILED_MAX, REAP_PACKS_MAX, UNHEARD_STEP_MS};
use crate::engine::store::{About, Asked, Lane, Lessee, Line, Meta, StepCounts, Store};
use crate::engine::{Ended, Ending, Failed, Join, Joined, LAYOUT, NodeId, Reap, Reaped, Seen, Wake};
use crate::error::{Error, Result};

/// Becomes a member; creates the queue if there is none.
pub fn join(store: &mut impl Store, wall_ms: u64, join: &Join) -> Result<Joined> {
    let mut found = store.meta()?;
    if let Some(meta) = &mut found {
        let newer = store.guard("layout") && meta.layout > LAYOUT;
        let other = store.guard("names") && meta.names != store.names().line();
        if newer || other {
            heed_line(store, meta)?;
            store.set_meta(meta)?;
        }
        if meta.layout < LAYOUT && store.guard("layout-older") {
            found = adopt(store)?;
        }
    }
    // A late copy of the join of a node that was given up meanwhile does not bring it back.
    let dead = store.guard("join-dead") && store.dead()?.contains(&join.node);
    let known = dead || store.lease(Lessee::Node, &join.node)?.is_some();
    if known && store.guard("join-token") && store.about(&join.node)?.is_none_or(|about| about.token != join.token) {
        return Ok(Joined::Taken);
    }
    let step = StepCounts::of(join.lease_ms);
    let mut meta =
        found.unwrap_or_else(|| Meta::new(store.names(), &join.token, wall_ms, step).from(store.first_number()));
    advance(store, &mut meta, wall_ms);
    let purged = is_purged(store, &meta, wall_ms, &join.seen)?;
    // What was seen of a queue that was removed says nothing about this one.
    let seen = if purged { Seen::default() } else { join.seen.clone() };
    let mut rewound = lacks(store, &meta, &seen);
    if rewound.is_some() {
        let reigns = !meta.generator.is_empty() && meta.crown > meta.clock && seen.epoch <= meta.epoch;
        match leaves_hole(store, &mut meta, reigns, seen.seq)? {
            Some(passed) => rewound = rewound.filter(|_| passed),
            None if store.guard("rewind-join") => {
                raise(&mut meta, &seen);
                meta.rewinds += 1;
            }
            None => {}
        }
    }
    if !known {
        if meta.steps.least().is_none() {
            meta.step = step;
        }
        if store.guard("step-join") {
            meta.step = meta.step.min(step);
        }
        meta.steps.add(step);
        let about = About {
            host: join.host.clone(),
            pid: join.pid,
            version: join.version.clone(),
            concurrency: join.concurrency,
            deliveries_max: join.deliveries_max,
            reshards: store.names().reshards(),
            joined: meta.clock,
            token: join.token.clone(),
            step,
            ..About::default()
        };
        store.set_about(&join.node, &about)?;
        for lane in 0..join.lanes {
            store.set_lane(&join.node, lane, &Lane::default())?;
        }
        set_rules(store, join)?;
        store.set_lease(Lessee::Node, &join.node, meta.clock + join.lease_ms)?;
    }
    store.set_meta(&meta)?;
    Ok(Joined::Ok {
        birth: meta.birth,
        rewound,
        purged,
    })
}

/// Takes the queue over from an older program. Its members are deposed: they would misread what is stored from now on. At
/// their next join they are told that the layout is newer.
fn adopt(store: &mut impl Store) -> Result<Option<Meta>> {
    for (node, _) in store.leases(Lessee::Node)? {
        depose(store, &node)?;
    }
    let mut meta = store.meta()?;
    if let Some(meta) = &mut meta {
        (meta.layout, meta.steps, meta.clearing) = (LAYOUT, StepCounts::default(), 0);
        (meta.server, meta.waited, meta.waited_at) = (String::new(), 0, 0);
        store.set_meta(meta)?;
    }
    Ok(meta)
}

/// Ends a membership in good order.
pub fn leave(store: &mut impl Store, node: &str) -> Result<()> {
    if store.lease(Lessee::Node, node)?.is_none() {
        return Ok(());
    }
    let (held, reigned) = depose(store, node)?;
    if held == 0 {
        store.remove_dead(node)?;
        store.forget(node)?;
    }
    if reigned {
        store.ring(Wake::Crown)?;
    }
    Ok(())
}

/// Of all members, or of one node: whether its connection is seen.
pub fn connected(store: &mut impl Store, of: Option<&NodeId>) -> Result<Vec<(NodeId, bool)>> {
    let nodes = match of {
        Some(node) => vec![node.clone()],
        None => store.leases(Lessee::Node)?.into_iter().map(|(node, _)| node).collect(),
    };
    let mut looked = Vec::with_capacity(nodes.len());
    for node in nodes {
        let connected = store.is_connected(&node)?;
        looked.push((node, connected));
    }
    Ok(looked)
}

/// Gives up a member whose lease has run out, or whose connection was closed, and hands on what it held.
pub fn reap(store: &mut impl Store, wall_ms: u64, reap: &Reap) -> Result<Reaped> {
    let victim = &reap.victim;
    let Some(meta) = store.meta()? else {
        return Ok(Reaped::default());
    };
    let clock = hive(store, &meta, wall_ms);
    let gone = reap.gone && !(store.guard("reap-look") && store.is_connected(victim)?);
    let deposed = match store.lease(Lessee::Node, victim)? {
        Some(until) if until > clock && !gone && store.guard("reap-expired") => return Ok(Reaped::default()),
        Some(_) => {
            depose(store, victim)?;
            true
        }
        None if store.dead()?.contains(victim) => false,
        None => return Ok(Reaped::default()),
    };
    let (redelivered, over, readied) = hand_on(store, wall_ms, reap)?;
    let failed = over.iter().map(|(_, count)| count).sum();
    // Deposing has changed it.
    let mut meta = store.meta()?.unwrap_or(meta);
    meta.failed += failed;
    if store.guard("cancel-reaped") {
        settled(store, &mut meta, clock, &over, &[]);
    }
    if redelivered > 0 {
        meta.again = true;
    }
    if redelivered > 0 || readied {
        store.ring(Wake::Bell)?;
    }
    store.set_meta(&meta)?;
    let more = !store.pieces(victim, 1, 0)?.is_empty();
    if more {
        let mut about = store.about(victim)?.unwrap_or_default();
        about.held = about.held.map(|held| held.saturating_sub(redelivered + failed));
        store.set_about(victim, &about)?;
    } else {
        store.remove_dead(victim)?;
        store.forget(victim)?;
    }
    Ok(Reaped {
        redelivered,
        failed,
        more,
        deposed,
    })
}

/// Hands on what the victim holds, as much as one step may move. How many messages were handed on, which had been
/// delivered too often and became errors, as runs, and whether a group may go on by that.
fn hand_on(store: &mut impl Store, wall_ms: u64, reap: &Reap) -> Result<(u64, Runs, bool)> {
    let (victim, time_ms) = (&reap.victim, store.time_ms(wall_ms));
    let most = store.about(victim)?.unwrap_or_default().deliveries_max;
    let (mut redelivered, mut failed, mut bytes, mut readied) = (0, 0, 0, false);
    let (mut asked, mut over) = (Vec::new(), Vec::new());
    for _ in 0..REAP_PACKS_MAX {
        let Some(pack) = store.pieces(victim, 1, 0)?.pop() else {
            break;
        };
        bytes += pack.bytes().len();
        let first = redelivered + failed == 0;
        if !first && (failed >= REAP_FAILED_MAX || bytes > REAP_BYTES_MAX) {
            break;
        }
        store.remove_piece(victim, pack.first())?;
        if store.guard("deliveries") && pack.deliveries() >= most {
            let text = format!("delivered {} times without an outcome", pack.deliveries());
            for index in 0..pack.count() {
                store.add_failed(&Failed::of(&pack, index, time_ms, victim, &text))?;
            }
            if pack.is_asked() && store.guard("ending-reaped") {
                let ending = Ending::of(&pack, time_ms, victim, Ended::Failed(text.into_bytes()));
                asked.push((pack.first(), Asked::Ended(ending)));
            }
            if let Some(group) = pack.holds_up()
                && store.guard("group-reaped")
            {
                readied |= ended(store, group)?;
            }
            failed += pack.count() as u64;
            over.push((pack.first(), pack.count() as u64));
        } else {
            redelivered += pack.count() as u64;
            store.push_back(Line::Again, &pack.next_attempt())?;
        }
    }
    note(store, time_ms, &asked)?;
    Ok((redelivered, over, readied))
}

/// Ends a membership. What the node still holds is to be handed on by whoever reaps it. Returns how many messages that are,
/// and whether the node had the crown.
fn depose(store: &mut impl Store, node: &str) -> Result<(u64, bool)> {
    let mut meta = store.meta()?.ok_or_else(|| Error::Protocol {
        detail: "a member without a queue".into(),
    })?;
    let mut held = 0i64;
    for lane in store.lanes(node)? {
        meta.done += lane.done;
        meta.failed += lane.failed;
        held += lane.held;
    }
    let held = u64::try_from(held).unwrap_or(0);
    let mut about = store.about(node)?.unwrap_or_default();
    if store.guard("depose-lanes") {
        store.close_lanes(node)?;
        about.suspects = 0;
        about.alone = 0;
    }
    about.held = Some(held);
    store.set_about(node, &about)?;
    store.drop_report(node)?;
    store.end_lease(Lessee::Node, node)?;
    store.add_dead(node)?;
    meta.heirs.retain(|other| other != node);
    if store.guard("step-leave") {
        meta.steps.remove(about.step);
    }
    let reigned = meta.generator == node;
    if reigned {
        meta.generator = NodeId::new();
        meta.crown = 0;
    }
    store.set_meta(&meta)?;
    Ok((held, reigned))
}

/// Whether the queue that a node knew was removed on purpose.
fn is_purged(store: &mut impl Store, meta: &Meta, wall_ms: u64, seen: &Seen) -> Result<bool> {
    if seen.birth.is_empty() || seen.birth == meta.birth || !store.guard("purged") {
        return Ok(false);
    }
    let (until_ms, births) = store.purged()?;
    Ok(until_ms > store.time_ms(wall_ms) && births.contains(&seen.birth))
}

/// How many numbers a store lacks that has gone back in time behind what a node has seen. None: it has not.
pub(super) fn lacks(store: &impl Store, meta: &Meta, seen: &Seen) -> Option<u64> {
    let made = store.guard("rewind-made") && seen.made > meta.made;
    let behind = seen.seq > meta.seq || seen.epoch > meta.epoch || made;
    behind.then(|| seen.seq.saturating_sub(meta.seq))
}

/// Another server than before, or another run of it, may lack the last writes: all members are to speak to it before anyone
/// numbers messages.
pub(super) fn notice_server(store: &mut impl Store, meta: &mut Meta, wall_ms: u64, server: &str) -> Result<()> {
    if server.is_empty() || meta.server == server {
        return Ok(());
    }
    if !meta.server.is_empty() {
        let members: Vec<NodeId> = store.leases(Lessee::Node)?.into_iter().map(|(node, _)| node).collect();
        store.set_unheard(&members)?;
        (meta.waited, meta.waited_at) = (0, store.time_ms(wall_ms));
    }
    meta.server = server.to_string();
    Ok(())
}

/// Whether members may have seen numbers that this server does not know of, and have not said so yet. One that does not speak for
/// its lease, while someone wants to number messages, is dead.
pub(super) fn awaits_members(store: &mut impl Store, meta: &mut Meta, wall_ms: u64, server: &str) -> Result<bool> {
    notice_server(store, meta, wall_ms, server)?;
    let unheard = store.unheard()?;
    if unheard.is_empty() {
        return Ok(false);
    }
    let time_ms = store.time_ms(wall_ms);
    meta.waited += time_ms.saturating_sub(meta.waited_at).min(UNHEARD_STEP_MS);
    meta.waited_at = time_ms;
    let mut waits = false;
    for node in &unheard {
        // Who has left, or was given up, has nothing more to say.
        waits |= store.lease(Lessee::Node, node)?.is_some();
    }
    waits &= meta.waited < meta.steps.longest_lease_ms();
    if !waits {
        store.set_unheard(&[])?;
    }
    Ok(waits)
}

/// A failover may leave a server without the numbers that someone has seen. A generator that waits for replicas has kept what they
/// lack, and publishes it again while it reigns: then nothing is rewound. Numbers go on behind what was seen, and the generator may fill
/// those between. None: it is not so; otherwise whether numbers were passed over.
pub(super) fn leaves_hole(
    store: &mut impl Store,
    meta: &mut Meta,
    reigns: bool,
    seen_seq: u64,
) -> Result<Option<bool>> {
    let mut replay = store.replay()?;
    if !(reigns && replay.epoch == meta.epoch) && store.guard("replays") {
        return Ok(None);
    }
    if seen_seq <= meta.seq {
        return Ok(Some(false));
    }
    let open = replay.hole.filter(|(_, to)| *to == meta.seq);
    replay.hole = Some((open.map_or(meta.seq, |(from, _)| from), seen_seq));
    store.set_replay(replay)?;
    meta.skipped += seen_seq - meta.seq;
    meta.rewinds += 1;
    meta.seq = seen_seq;
    Ok(Some(true))
}

/// Brings a store that went back in time up to what was seen: no number and no epoch is ever used twice.
pub(super) fn raise(meta: &mut Meta, seen: &Seen) {
    meta.skipped += seen.seq.saturating_sub(meta.seq);
    meta.seq = meta.seq.max(seen.seq);
    meta.epoch = meta.epoch.max(seen.epoch);
    meta.made = meta.made.max(seen.made);
    meta.generator = NodeId::new();
    meta.crown = 0;
}
