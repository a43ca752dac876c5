//! Which effects are applied: all of a message, or none.

use std::collections::BTreeMap;

use crate::engine::limits::COUNTER_MAX;
use crate::engine::store::{Kind, Store};
use crate::error::Result;
use crate::message::Effect;

/// What the keys of effects hold, or will hold once the effects admitted so far are applied.
pub(super) type Known = BTreeMap<String, (Kind, Option<Vec<u8>>)>;

/// All effects of one message, or none. Some: why they are refused.
pub(super) fn admit(store: &mut impl Store, known: &mut Known, effects: &[Effect]) -> Result<Option<String>> {
    let mut trial = Known::new();
    for effect in effects {
        // What it publishes is seen to elsewhere.
        let (Some(key), Some(kind)) = (effect.key(), effect.kind()) else {
            continue;
        };
        if store.guard("effect-own") && is_of_a_queue(key) {
            return Ok(Some(format!("key {key} belongs to a queue")));
        }
        let held = match trial.get(key).or_else(|| known.get(key)) {
            Some(held) => Some(held.clone()),
            None => store.stored(key)?,
        };
        if let Some((found, _)) = &held
            && *found != kind
            && store.guard("effect-type")
        {
            let (found, kind) = (found.shown(), kind.shown());
            return Ok(Some(format!("key {key} holds a {found}, not a {kind}")));
        }
        let value = match effect {
            Effect::Add { by, .. } => {
                let text = held.and_then(|(_, value)| value).unwrap_or_else(|| b"0".to_vec());
                let old = match counter(&text) {
                    None if store.guard("effect-number") => {
                        return Ok(Some(format!("key {key} holds no whole number")));
                    }
                    old => old.unwrap_or(0),
                };
                let new = old.saturating_add(*by);
                if by.saturating_abs() > COUNTER_MAX || new.saturating_abs() > COUNTER_MAX {
                    return Ok(Some(format!("key {key} would leave 2^53")));
                }
                Some(new.to_string().into_bytes())
            }
            Effect::Set { value, .. } => Some(value.clone()),
            Effect::SetField { .. } | Effect::Push { .. } | Effect::Publish { .. } | Effect::Result { .. } => None,
        };
        trial.insert(key.to_string(), (kind, value));
    }
    known.append(&mut trial);
    Ok(None)
}

/// Whether a key is one that a queue, this one or another, has in Redis: `{qr:NAME}:…`.
fn is_of_a_queue(key: &str) -> bool {
    let rest = key.strip_prefix("{qr:").and_then(|rest| rest.split_once('}'));
    rest.is_some_and(|(_, after)| after.starts_with(':'))
}

impl Effect {
    /// What its key must hold.
    fn kind(&self) -> Option<Kind> {
        match self {
            Self::Add { .. } | Self::Set { .. } => Some(Kind::Value),
            Self::SetField { .. } => Some(Kind::Hash),
            Self::Push { .. } => Some(Kind::List),
            Self::Publish { .. } | Self::Result { .. } => None,
        }
    }
}

impl Kind {
    fn shown(self) -> &'static str {
        match self {
            Self::Value => "value",
            Self::Hash => "hash",
            Self::List => "list",
        }
    }
}

/// A counter as a store would write it: no sign, zero or space too many.
pub(crate) fn counter(text: &[u8]) -> Option<i64> {
    let value: i64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    (value.saturating_abs() <= COUNTER_MAX && value.to_string().as_bytes() == text).then_some(value)
}
