//! Everything that can go wrong, in one enum; each message says what to do.

/// What a call into queenright can fail with.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The store cannot be reached or cannot answer yet. The same call may be repeated.
    #[error("{store} {}: {reason}", absence.verdict())]
    Away {
        store: String,
        absence: Absence,
        reason: String,
    },
    /// The store refuses us: credentials, rights. Repeating does not help.
    #[error("{store} refuses: {reason}; {fix}")]
    Refused {
        store: String,
        refusal: Refusal,
        reason: String,
        fix: &'static str,
    },
    /// The server lacks what the scripts need.
    #[error("{store} runs {found}, which is too old: queenright needs Redis 6.2 or newer, or Valkey")]
    OldServer { store: String, found: String },
    /// The server may throw keys of the queue away.
    #[error(
        "{store} has maxmemory set with the eviction policy {policy}, which may delete queued messages: \
         set maxmemory-policy to noeviction (or a volatile-* policy)"
    )]
    Evicts { store: String, policy: String },
    /// The queue was made by a newer version.
    #[error(
        "queue {queue:?} was written by a newer queenright (layout {found}, this one knows {known}): upgrade this program"
    )]
    NewerLayout { queue: String, found: u64, known: u64 },
    /// The queue has other names for its keys.
    #[error(
        "queue {queue:?} was created with the key names {recorded}, but this node has {given}: \
         use the same names (errors, bell, crown) everywhere"
    )]
    OtherNames {
        queue: String,
        recorded: String,
        given: String,
    },
    /// The queue has another number of shards.
    #[error("queue {queue:?} has {recorded} shards, and this node works on {given}: open it with as many as it has")]
    OtherShards { queue: String, recorded: u32, given: u32 },
    /// The number of shards was changed since the queue was opened. A queue that is opened with all of its shards follows by itself.
    #[error("queue {queue:?} has {shards} shards since a reshard: open it again")]
    Resharded {
        queue: String,
        shards: usize,
        /// What is recorded of its names and shards ([`Names::line`](crate::settings::Names::line)).
        line: String,
    },
    /// Another shard of the queue is stored here.
    #[error(
        "shard {recorded} of queue {queue:?} is where shard {given} was looked for: name the stores in the order in which the queue was made"
    )]
    OtherShard { queue: String, recorded: u32, given: u32 },
    /// Something else is stored where the queue would be.
    #[error("the key {key:?} already holds something else (a {found}): choose another queue or key name, or remove it")]
    ForeignKey { key: String, found: String },
    /// There is no such queue.
    #[error("there is no queue {queue:?} yet: it is created when the first node starts or someone pushes")]
    NoQueue { queue: String },
    /// The queue is full, or the shard of a message is. Nothing was put in of the step that was refused, in which a push ends
    /// ([`push_with`](crate::push::push_with)); what it has told before is in.
    #[error("queue {queue:?} has no room: at most {most} messages may wait; push again later, or raise backlog_max")]
    Full { queue: String, most: u64 },
    /// A payload, or a generator's cursor, is larger than a store takes.
    #[error(
        "the {what}{} has {bytes} bytes, and at most {most} are allowed: keep the data elsewhere, and send where it is",
        of(*number)
    )]
    TooLarge {
        what: &'static str,
        /// The message, if it has a number already.
        number: Option<u64>,
        bytes: usize,
        most: usize,
    },
    /// A value that cannot be: of the [setting](crate::Settings) of this name, or of a part of a call.
    #[error("{setting}: {reason}")]
    Setting { setting: &'static str, reason: String },
    /// Two parts of the program disagree about the protocol: a bug, or a key changed by hand.
    #[error("unexpected answer from the store: {detail}")]
    Protocol { detail: String },
    /// A part of this process panicked or could not start. What it held goes to others when its lease has run out.
    #[error("{what} crashed: restart this process, and report what it printed before")]
    Crashed { what: String },
}

/// How a store is [away](Error::Away).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Absence {
    /// It cannot be reached, or does not answer.
    Silent,
    /// It answers that it cannot do this now: its memory or disk is full, it is locked, loading or read-only.
    Unable,
    /// Something answers, but the queue is not there: another server of a cluster has it, or this is no Redis, or none with
    /// (or without) TLS. A node that was at work waits, in case it comes back; at the start it is a wrong address.
    Elsewhere,
}

/// What a store [refuses](Error::Refused).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// The user or the password.
    Credentials,
    /// A command that the user has no right to.
    Command,
    /// A key that the user has no right to.
    Key,
    /// Keys that are in different slots of a cluster.
    Slot,
    /// Anything else, such as a file that is no database.
    Other,
}

impl Absence {
    fn verdict(self) -> &'static str {
        match self {
            Self::Silent | Self::Unable => "is away",
            Self::Elsewhere => "is the wrong address",
        }
    }
}

impl Error {
    /// Whether waiting and repeating the same call can help.
    #[must_use]
    pub fn is_away(&self) -> bool {
        matches!(self, Self::Away { .. })
    }

    /// Whether a process that has just been started can expect the same call to help later.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::Away { absence, .. } if *absence != Absence::Elsewhere)
    }

    /// Whether the store answers that it cannot do this now.
    pub(crate) fn is_unable(&self) -> bool {
        matches!(
            self,
            Self::Away {
                absence: Absence::Unable,
                ..
            }
        )
    }

    /// Whether another password could help.
    pub(crate) fn is_about_credentials(&self) -> bool {
        matches!(
            self,
            Self::Refused {
                refusal: Refusal::Credentials,
                ..
            }
        )
    }

    /// Whether a node that is at work waits, and makes the same call again: the store is away; or someone has taken a right away or
    /// written into the queue, and can set that right. To end would not help, and the whole fleet would end.
    pub(crate) fn may_be_mended(&self) -> bool {
        match self {
            Self::Away { .. } | Self::ForeignKey { .. } | Self::Protocol { .. } => true,
            Self::Refused { refusal, .. } => !matches!(refusal, Refusal::Credentials | Refusal::Slot),
            _ => false,
        }
    }

    /// The name of the setting that the message speaks of, if there is one: a field of [`Settings`](crate::Settings), or
    /// what [`Error::Setting`] names. A command line can add its flag for it.
    #[must_use]
    pub fn setting(&self) -> Option<&'static str> {
        match self {
            Self::Setting { setting, .. } => Some(setting),
            Self::Full { .. } => Some("backlog_max"),
            Self::OtherNames { .. } => Some("names"),
            _ => None,
        }
    }
}

fn of(number: Option<u64>) -> String {
    number.map_or(String::new(), |number| format!(" of message {number}"))
}

/// What can go wrong here is an [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;
