//! Makes what one publish carries.

use bytes::Bytes;
use tokio::time::Instant;

use super::progress::Progress;
use crate::engine::{CURSOR_BYTES_MAX, PUBLISH_PACKS_MAX};
use crate::error::{Error, Result};
use crate::message::{Envelope, Headers, PACK_MESSAGES_MAX, PAYLOAD_BYTES_MAX, Pack, PackBuilder, wrong_group};
use crate::mutants::guard;
use crate::node::generate::{Draft, Generate, Made, Next};
use crate::node::membership::Reign;
use crate::settings::Settings;

/// The most messages that one publish carries. Whole packs: with a smaller one at the end, every take would have to cut one.
pub(super) const PUBLISH_MESSAGES_MAX: usize = 8 * PACK_MESSAGES_MAX;
/// And the most bytes, about.
pub(super) const PUBLISH_BYTES_MAX: usize = 256 * 1024;

/// Messages to be published, and the cursor that the last of them left.
pub(super) struct Batch {
    pub packs: Vec<Pack>,
    pub cursor: Bytes,
    /// The generator has no more messages in this reign, or no more are wanted.
    pub is_last: bool,
}

/// Where a batch begins.
#[derive(Clone)]
pub(super) struct Start {
    pub at: Progress,
    /// How many messages the store has confirmed, in all reigns.
    pub confirmed: u64,
}

/// The next packs: one message a tick, or as many as a publish carries. No packs if no more numbers are wanted. `now_ms` is the
/// store's time of day.
pub(super) async fn make<G: Generate>(
    settings: &Settings,
    generate: &mut G,
    builder: &mut PackBuilder,
    reign: &Reign,
    start: Start,
    now_ms: u64,
) -> Result<Batch> {
    let Start { at, confirmed } = start;
    let (first, cursor) = (at.seq, at.cursor);
    let flat_out = if settings.interval.is_zero() { at.most as u64 } else { 1 };
    let wanted = settings.messages.map_or(u64::MAX, |last| last.saturating_sub(first));
    let room = if guard("fits-backlog") {
        settings.backlog_max
    } else {
        u64::MAX
    };
    let most = flat_out.min(wanted).min(room);
    let wall_ms = |at: Instant| reign.wall_ms + crate::settings::ms(at.saturating_duration_since(reign.told));
    let due_ms = if settings.interval.is_zero() {
        now_ms
    } else {
        wall_ms(at.due)
    };
    let mut is_last = most == 0;
    let (mut packs, mut bytes, mut number) = (Vec::new(), 0, first);
    let mut draft = Draft {
        payload: Vec::new(),
        cursor: cursor.to_vec(),
        group: None,
        expires: None,
        headers: Headers::new(),
    };
    let pack = |builder: &mut PackBuilder, end: u64| {
        let published_ms = wall_ms(Instant::now());
        builder.build(end - builder.count() as u64, reign.epoch, published_ms)
    };
    builder.clear();
    while number - first < most && packs.len() < PUBLISH_PACKS_MAX && bytes < PUBLISH_BYTES_MAX {
        draft.payload.clear();
        let next = Next {
            number,
            epoch: reign.epoch,
            made: at.made + (number - first),
            confirmed,
            others_wait: number > first,
            due_ms,
        };
        match generate.generate(next, &mut draft).await {
            Made::Message => {}
            Made::Nothing => break,
            Made::End => {
                is_last = true;
                break;
            }
        }
        let payload = &draft.payload;
        if draft.cursor.len() > CURSOR_BYTES_MAX || payload.len() > PAYLOAD_BYTES_MAX {
            return Err(too_large(number, &draft));
        }
        if draft.group.is_some() || draft.expires.is_some() || !draft.headers.is_empty() {
            // A message with an envelope is a pack of its own.
            if !builder.is_empty() {
                packs.push(pack(builder, number));
            }
            let pack = enveloped(&draft, number, reign.epoch, wall_ms(Instant::now()))?;
            bytes += pack.bytes().len();
            packs.push(pack);
            number += 1;
            (draft.group, draft.expires, draft.headers) = (None, None, Headers::new());
            continue;
        }
        if !builder.has_room(payload.len()) {
            packs.push(pack(builder, number));
        }
        bytes += payload.len();
        builder.push(payload);
        number += 1;
        if builder.count() as u64 >= at.grain {
            packs.push(pack(builder, number));
        }
    }
    if !builder.is_empty() {
        packs.push(pack(builder, number));
    }
    let cursor = if draft.cursor == cursor {
        cursor
    } else {
        draft.cursor.into()
    };
    Ok(Batch { packs, cursor, is_last })
}

fn enveloped(draft: &Draft, number: u64, epoch: u64, published_ms: u64) -> Result<Pack> {
    let wrong = |setting, why: String| {
        let reason = format!("of message {number} {why}");
        Err(Error::Setting { setting, reason })
    };
    if let Some(why) = draft.group.as_deref().and_then(wrong_group) {
        return wrong("group", why);
    }
    if let Some(why) = draft.headers.wrong() {
        return wrong("headers", why);
    }
    let envelope = Envelope {
        group: draft.group.clone(),
        asked: false,
        expires_ms: draft.expires.map(crate::settings::ms),
        headers: draft.headers.clone(),
    };
    Ok(Pack::of_one(&envelope, &draft.payload, number, epoch, published_ms))
}

#[cold]
fn too_large(number: u64, draft: &Draft) -> Error {
    let (what, bytes, most) = if draft.cursor.len() > CURSOR_BYTES_MAX {
        ("cursor", draft.cursor.len(), CURSOR_BYTES_MAX)
    } else {
        ("payload", draft.payload.len(), PAYLOAD_BYTES_MAX)
    };
    Error::TooLarge {
        what,
        number: Some(number),
        bytes,
        most,
    }
}

/// Makes what one publish carries, flat out and without a store: for measuring what that costs.
#[cfg(feature = "cli")]
pub(crate) async fn batch<G: Generate>(generate: &mut G, builder: &mut PackBuilder) -> Result<Vec<Pack>> {
    let settings = Settings {
        interval: std::time::Duration::ZERO,
        ..Settings::default()
    };
    let now = Instant::now();
    let reign = Reign {
        epoch: 1,
        seq: 1_000_000,
        made: 1_000_000,
        made_before: None,
        grain: PACK_MESSAGES_MAX as u64,
        cursor: Bytes::new(),
        due: now,
        wall_ms: 1,
        told: now,
    };
    let progress = Progress {
        most: PACK_MESSAGES_MAX,
        ..Progress::of(&reign)
    };
    let start = progress.start(&std::sync::atomic::AtomicU64::new(1_000_000));
    Ok(make(&settings, generate, builder, &reign, start, 1).await?.packs)
}
