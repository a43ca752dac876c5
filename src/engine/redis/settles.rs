//! What an exchange settles, as its script is given it: MessagePack, which Redis' Lua reads natively.

use crate::engine::record::{array, boolean, int, nothing, text, uint};
use crate::engine::{DELAY_MS_MAX, Run, Settle};
use crate::message::{Effect, Outcome};

/// The piece and the count of a settle that says only: done, from its start on.
pub(super) fn plain(settle: &Settle) -> Option<(u64, u32)> {
    match settle.runs.as_slice() {
        [run] if run.from == 0 && run.outcome.is_plain() => Some((settle.piece, run.count)),
        _ => None,
    }
}

/// All other settles, and the keys that their effects touch. What effects publish comes behind them, and [`publishing`] behind all.
pub(super) fn encode(settles: &[Settle]) -> (Vec<u8>, Vec<&str>) {
    let (mut out, mut keys) = (Vec::new(), Vec::new());
    let rest = || settles.iter().filter(|settle| plain(settle).is_none());
    let count = rest().count();
    if count == 0 {
        return (out, keys);
    }
    array(&mut out, count);
    for settle in rest() {
        array(&mut out, 2);
        uint(&mut out, settle.piece);
        array(&mut out, settle.runs.len());
        for run in &settle.runs {
            encode_run(&mut out, run, &mut keys);
        }
    }
    (out, keys)
}

fn encode_run<'a>(out: &mut Vec<u8>, run: &'a Run, keys: &mut Vec<&'a str>) {
    let mut open = |len, outcome| {
        array(out, len);
        uint(out, run.from.into());
        uint(out, run.count.into());
        uint(out, outcome);
    };
    match &run.outcome {
        Outcome::Done(effects) if effects.is_empty() => open(3, 0),
        Outcome::Done(effects) => {
            let links = || effects.iter().filter(|effect| effect.publishes());
            let (count, result) = (links().count(), run.outcome.result());
            let len = match (count, result) {
                (_, Some(_)) => 6,
                (0, None) => 4,
                (_, None) => 5,
            };
            open(len, 0);
            array(out, effects.iter().filter(|effect| effect.key().is_some()).count());
            for effect in effects {
                if let Some(key) = effect.key() {
                    encode_effect(out, effect, key, keys);
                }
            }
            if count > 0 {
                array(out, count);
                links().for_each(|effect| encode_publish(out, effect));
            }
            if let Some(result) = result {
                if count == 0 {
                    nothing(out);
                }
                text(out, result);
            }
        }
        Outcome::Error(error) => {
            open(4, 1);
            text(out, error.as_bytes());
        }
        Outcome::Return => open(3, 2),
        Outcome::Retry { after_ms, .. } => {
            open(4, 3);
            uint(out, (*after_ms).min(DELAY_MS_MAX));
        }
    }
}

/// What effects that publish need to know: how many messages may wait, and which server this is.
pub(super) fn publishing(out: &mut Vec<u8>, backlog_max: u64, server: &str) {
    array(out, 2);
    uint(out, backlog_max);
    text(out, server.as_bytes());
}

/// Behind all: the keys of outcomes that are asked for are given.
pub(super) fn asked(out: &mut Vec<u8>, publishes: bool) {
    if !publishes {
        nothing(out);
    }
    boolean(out, true);
}

fn encode_publish(out: &mut Vec<u8>, effect: &Effect) {
    if let Effect::Publish { payload, delay_ms, .. } = effect {
        let envelope = effect.envelope().encode();
        array(out, if envelope.is_empty() { 2 } else { 3 });
        uint(out, (*delay_ms).min(DELAY_MS_MAX));
        text(out, payload);
        if !envelope.is_empty() {
            text(out, &envelope);
        }
    }
}

fn encode_effect<'a>(out: &mut Vec<u8>, effect: &'a Effect, key: &'a str, keys: &mut Vec<&'a str>) {
    let index = keys.iter().position(|other| *other == key).unwrap_or_else(|| {
        keys.push(key);
        keys.len() - 1
    });
    let mut open = |kind: &str, len| {
        array(out, len);
        text(out, kind.as_bytes());
        uint(out, index as u64 + 1);
    };
    match effect {
        Effect::Add { by, .. } => {
            open("add", 3);
            int(out, *by);
        }
        Effect::Set { value, .. } => {
            open("set", 3);
            text(out, value);
        }
        Effect::SetField { field, value, .. } => {
            open("field", 4);
            text(out, field.as_bytes());
            text(out, value);
        }
        Effect::Push { value, .. } => {
            open("push", 3);
            text(out, value);
        }
        Effect::Publish { .. } | Effect::Result { .. } => {}
    }
}
