//! What a node writes down, a line each. Runs of messages keep a book small at full speed.

use std::fmt::Write as _;

use crate::node::event::{Entry, Event, What, escape};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Record {
    /// Is about to ask the store for it.
    Intends(Entry),
    /// The store has said so, at this time (milliseconds since 1970).
    Confirmed(Entry, u64),
    /// The store has refused what was asked last.
    Refused,
    /// The handler's code is about to start.
    Started {
        number: u64,
        deliveries: u16,
        /// See [`print_of`].
        payload: u64,
    },
    Joined {
        node: String,
    },
    Elected {
        epoch: u64,
    },
    /// Lost the crown, or (without an epoch) its membership.
    Deposed {
        epoch: Option<u64>,
    },
    Reaped {
        victim: String,
        redelivered: u64,
        failed: u64,
    },
    Away {
        reason: String,
    },
    Reconnected,
    /// The store was found to have gone back in time.
    Rewound {
        next_number: u64,
    },
    Left,
}

/// A print of a payload, so that two payloads under one number show. Zero for the number itself in digits, which is what is
/// generated unless something else is asked for: so books stay small.
pub fn print_of(number: u64, payload: &[u8]) -> u64 {
    if payload == number.to_string().as_bytes() {
        return 0;
    }
    hash_of(payload).max(1)
}

/// FNV-1a: the same in every version of this program.
pub fn hash_of(payload: &[u8]) -> u64 {
    let mixed = |print: u64, byte: &u8| (print ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    payload.iter().fold(0xcbf2_9ce4_8422_2325, mixed)
}

impl Record {
    /// What a ledger keeps of an event. Those of single messages are entries already.
    pub fn of(node: &str, event: &Event) -> Option<Self> {
        Some(match event {
            Event::Started {
                number,
                deliveries,
                payload,
                ..
            } => Self::Started {
                number: *number,
                deliveries: *deliveries,
                payload: print_of(*number, payload),
            },
            Event::Joined => Self::Joined { node: node.to_string() },
            Event::Elected { epoch, .. } => Self::Elected { epoch: *epoch },
            Event::Deposed { epoch } => Self::Deposed { epoch: *epoch },
            Event::Reaped {
                victim,
                redelivered,
                failed,
            } => Self::Reaped {
                victim: victim.clone(),
                redelivered: *redelivered,
                failed: *failed,
            },
            Event::Away { reason } => Self::Away { reason: reason.clone() },
            Event::Reconnected => Self::Reconnected,
            Event::Rewound { next_number, .. } => Self::Rewound {
                next_number: *next_number,
            },
            Event::Left => Self::Left,
            _ => return None,
        })
    }

    /// Appends the line.
    pub fn write(&self, out: &mut String) {
        // Writing to a String cannot fail.
        let _ = match self {
            Self::Intends(entry) => write!(out, "? {}", line(entry)),
            Self::Confirmed(entry, ms) => write!(out, "! {} {ms}", line(entry)),
            Self::Refused => write!(out, "refused"),
            Self::Started {
                number,
                deliveries,
                payload: 0,
            } => write!(out, "s {number} {deliveries}"),
            Self::Started {
                number,
                deliveries,
                payload,
            } => write!(out, "s {number} {deliveries} {payload}"),
            Self::Joined { node } => write!(out, "joined {}", escape(node.as_bytes())),
            Self::Elected { epoch } => write!(out, "elected {epoch}"),
            Self::Deposed { epoch: Some(epoch) } => write!(out, "deposed {epoch}"),
            Self::Deposed { epoch: None } => write!(out, "deposed"),
            Self::Reaped {
                victim,
                redelivered,
                failed,
            } => write!(out, "reaped {redelivered} {failed} {}", escape(victim.as_bytes())),
            Self::Away { reason } => write!(out, "away {}", escape(reason.as_bytes())),
            Self::Reconnected => write!(out, "reconnected"),
            Self::Rewound { next_number } => write!(out, "rewound {next_number}"),
            Self::Left => write!(out, "left"),
        };
        out.push('\n');
    }

    /// Reads a line back; none if it is no such line.
    pub fn read(text: &str) -> Option<Self> {
        let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
        Some(match word {
            "?" => Self::Intends(entry(rest)?.0),
            "!" => {
                let (entry, ms) = entry(rest)?;
                Self::Confirmed(entry, ms?)
            }
            "refused" => Self::Refused,
            "s" => {
                let mut parts = rest.split(' ');
                Self::Started {
                    number: parts.next()?.parse().ok()?,
                    deliveries: parts.next()?.parse().ok()?,
                    payload: parts.next().map_or(Some(0), |print| print.parse().ok())?,
                }
            }
            "joined" => Self::Joined { node: rest.to_string() },
            "elected" => Self::Elected {
                epoch: rest.parse().ok()?,
            },
            "deposed" if rest.is_empty() => Self::Deposed { epoch: None },
            "deposed" => Self::Deposed {
                epoch: Some(rest.parse().ok()?),
            },
            "reaped" => {
                let mut parts = rest.splitn(3, ' ');
                Self::Reaped {
                    redelivered: parts.next()?.parse().ok()?,
                    failed: parts.next()?.parse().ok()?,
                    victim: parts.next()?.to_string(),
                }
            }
            "away" => Self::Away {
                reason: rest.to_string(),
            },
            "reconnected" => Self::Reconnected,
            "rewound" => Self::Rewound {
                next_number: rest.parse().ok()?,
            },
            "left" => Self::Left,
            _ => return None,
        })
    }
}

fn line(entry: &Entry) -> String {
    let Entry { first, count, what } = entry;
    match what {
        What::Publish { epoch } => format!("p {first} {count} {epoch}"),
        What::Chain { cause } => format!("c {first} {count} {cause}"),
        What::Take { deliveries, epoch } => format!("t {first} {count} {deliveries} {epoch}"),
        What::Done => format!("d {first} {count} 0"),
        What::Error => format!("e {first} {count} 0"),
        What::Return => format!("r {first} {count} 0"),
    }
}

/// An entry, and the time that may stand behind it.
fn entry(text: &str) -> Option<(Entry, Option<u64>)> {
    let (word, rest) = text.split_once(' ')?;
    let mut numbers = rest.split(' ').map(str::parse::<u64>);
    let mut next = || numbers.next()?.ok();
    let (first, count, detail) = (next()?, next()?, next()?);
    let what = match word {
        "p" => What::Publish { epoch: detail },
        "c" => What::Chain { cause: detail },
        "t" => What::Take {
            deliveries: detail.try_into().ok()?,
            epoch: next()?,
        },
        "d" => What::Done,
        "e" => What::Error,
        "r" => What::Return,
        _ => return None,
    };
    Some((Entry { first, count, what }, next()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_what_is_read() {
        let entry = |what| Entry {
            first: 7,
            count: 3,
            what,
        };
        for record in [
            Record::Intends(entry(What::Publish { epoch: 2 })),
            Record::Confirmed(
                entry(What::Take {
                    deliveries: 3,
                    epoch: 2,
                }),
                9,
            ),
            Record::Confirmed(entry(What::Chain { cause: 5 }), 9),
            Record::Confirmed(entry(What::Done), 9),
            Record::Intends(entry(What::Error)),
            Record::Confirmed(entry(What::Return), 9),
            Record::Refused,
            Record::Started {
                number: 8,
                deliveries: 2,
                payload: 0,
            },
            Record::Started {
                number: 8,
                deliveries: 2,
                payload: print_of(8, b"pushed 1"),
            },
            Record::Joined { node: "abc".into() },
            Record::Elected { epoch: 4 },
            Record::Deposed { epoch: Some(4) },
            Record::Deposed { epoch: None },
            Record::Reaped {
                victim: "abc".into(),
                redelivered: 1,
                failed: 0,
            },
            Record::Away {
                reason: "gone away".into(),
            },
            Record::Reconnected,
            Record::Rewound { next_number: 5 },
            Record::Left,
        ] {
            let mut out = String::new();
            record.write(&mut out);
            assert_eq!(Record::read(out.trim_end()), Some(record), "{out}");
        }
        for torn in ["", "!", "! d 7", "! d 7 3 0", "nonsense 1"] {
            assert_eq!(Record::read(torn), None, "{torn}");
        }
    }
}
