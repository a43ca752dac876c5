//! One call on its way: the same until it is answered.

use std::time::Duration;

use tokio::time::Instant;

use super::stretch::Finished;
use crate::engine::{Engine, Exchange, Exchanged, TAKE_CUT_BYTES, TAKE_PACKS_MAX, Ticket, take_cut};
use crate::error::{Error, Result};
use crate::message::Pack;
use crate::mutants::guard;
use crate::node::backoff::Backoff;
use crate::node::context::Context;
use crate::node::event::Event;

/// A call that was sent so often without an answer is sent once more to give back what it took: its answer does not get
/// through to this node, and others can do the work.
const TRIES_MAX: u32 = 3;

/// A call, what it settles, and how many messages it asked for at first.
pub(super) struct Call {
    pub exchange: Exchange,
    pub finished: Vec<Finished>,
    pub asked: u32,
    /// How many words of a limit had been heard when it was made.
    pub heard: u64,
}

/// A call that came to its end.
pub(super) struct Landed {
    pub call: Call,
    /// None: the membership ended before the store had answered.
    pub answer: Option<Said>,
    /// How often it was sent in vain.
    pub lost: u32,
}

/// The store's answer.
pub(super) struct Said {
    pub exchanged: Exchanged,
    /// What tells when replicas have it.
    pub ticket: Option<Ticket>,
    /// How long the copy of the call took that was answered; none, if it had waited for the bell.
    pub took: Option<Duration>,
}

/// Sends it until it is answered, or the membership ends.
pub(super) async fn send<E: Engine>(context: &Context<E>, mut call: Call) -> Result<Landed> {
    let (mut told, mut lost, mut backoff) = (false, 0, Backoff::new(&context.settings));
    loop {
        let sent = Instant::now();
        let exchange = &mut call.exchange;
        let error = match context.engine.exchange_ahead(exchange).await {
            // Nothing was written. Another server waits for what members have seen.
            Ok((Exchanged::Unheard, _)) => {
                context.requests.beat_now();
                backoff.wait().await;
                if context.standing.borrow().node != exchange.node {
                    break;
                }
                continue;
            }
            Ok((exchanged, ticket)) => {
                let took = Some(sent.elapsed());
                let answer = Some(Said {
                    exchanged,
                    ticket,
                    took,
                });
                return Ok(Landed { call, answer, lost });
            }
            Err(error) if error.may_be_mended() => error,
            Err(error) => return Err(error),
        };
        lost += 1;
        // The beat tells of a store that is away; this is for what only the lane meets.
        if backoff.is_long() && !told {
            told = true;
            let reason = error.to_string();
            context.tell(&exchange.node, Event::Away { reason });
            // What the store cannot make sense of may be in this node's hand: under another id it holds nothing.
            if matches!(error, Error::Protocol { .. }) {
                break;
            }
        }
        // Another server may wait for what this node has seen.
        if backoff.is_fresh() {
            context.requests.beat_now();
        }
        backoff.wait().await;
        // From here on no copy of this call brings messages, so a late one can take none away from this node.
        if lost >= TRIES_MAX {
            exchange.want = 0;
        }
        if !guard("same-call") {
            exchange.call += 1;
        }
        if context.standing.borrow().node != exchange.node {
            break;
        }
    }
    let answer = None;
    Ok(Landed { call, answer, lost })
}

/// Whether the take got everything that was queued. A take may end early at a message that was delivered
/// before; at a pack that does not fit once there is enough; and at its limits of packs and bytes.
pub(super) fn is_dry(exchange: &Exchange, packs: &[Pack]) -> bool {
    let total: usize = packs.iter().map(Pack::count).sum();
    take_cut(total as u64, exchange.want.into()) > 0
        && bytes(packs) < TAKE_CUT_BYTES.min(exchange.want_bytes as usize / 2)
        && packs.len() < TAKE_PACKS_MAX
        && packs.iter().all(|pack| pack.deliveries() == 1)
}

pub(super) fn bytes(packs: &[Pack]) -> usize {
    packs.iter().map(|pack| pack.bytes().len()).sum()
}
