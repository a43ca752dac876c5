//! Who generates and who handles: what comes with the program, or other programs.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;

use crate::api::cron::Scheduled;
use crate::app::args::program::{Program, Source};
use crate::app::args::sources::{Builtin, Generating, Handling, Resolved, Work as WorkTime};
use crate::app::exit::Failure;
use crate::app::lab::ledger::{chains, effects};
use crate::app::otel::Traces;
use crate::app::output::log::Log;
use crate::app::output::time::utc_short;
use crate::app::outside::{Child, Each, GenerateEach, Http, Lines, Make, Secrets, Tell, Work};
use crate::engine::redis::keys::Keys;
use crate::engine::sharded::shard_of;
use crate::message::Message;
use crate::node::generate::{Draft, Election, Generate, Made, Next};
use crate::node::handle::{Handle, Handled};
use crate::settings::Settings;

/// Who generates.
pub(super) fn generator(
    resolved: &Resolved,
    secrets: &Secrets,
    traces: Option<Arc<Traces>>,
    log: &Arc<Log>,
) -> Result<Generator, Failure> {
    let queue = &resolved.settings.queue;
    let json = resolved.generate_json;
    let make: Box<dyn Make> = match &resolved.generate {
        Generating::Builtin(builtin) => {
            let generator = Generator::Builtin(*builtin, Digits::default());
            if resolved.cron.is_none() {
                return Ok(generator);
            }
            Box::new(generator)
        }
        Generating::Lines(source) => {
            if let Source::Program(program) = source {
                find("--generate", program)?;
            }
            Box::new(Lines::new(source.clone(), queue, json, tell(secrets, log)))
        }
        Generating::Each(program) => {
            find("--generate-each", program)?;
            let timeout = resolved.settings.timeout;
            Box::new(GenerateEach::new(
                program.clone(),
                queue,
                json,
                timeout,
                tell(secrets, log),
            ))
        }
    };
    Ok(match &resolved.cron {
        None => Generator::Outside(make, traces),
        Some((cron, missed)) => {
            let log = log.clone();
            let scheduled = Scheduled::new(cron.clone(), *missed, Generator::Outside(make, None));
            Generator::Outside(Box::new(scheduled.telling(move |line| log.note(line))), traces)
        }
    })
}

/// Who handles.
pub(super) fn handler(
    resolved: &Resolved,
    secrets: &Secrets,
    traces: Option<Arc<Traces>>,
    log: &Arc<Log>,
) -> Result<Handler, Failure> {
    let settings = &resolved.settings;
    if resolved.workers.is_some() && !matches!(resolved.handle, Handling::Child(_)) {
        return Err(Failure::usage(
            "--workers: this is about processes that live on: give one with --handle COMMAND",
        ));
    }
    let outside: Option<Box<dyn Work>> = match &resolved.handle {
        Handling::Builtin => None,
        Handling::Child(program) => {
            find("--handle", program)?;
            let tell = tell(secrets, log);
            let child = Child::new(program, workers(resolved), &settings.queue, settings.timeout, &tell);
            Some(Box::new(child))
        }
        Handling::Each(program) => {
            find("--handle-each", program)?;
            Some(Box::new(Each {
                program: program.clone(),
                queue: settings.queue.clone(),
                timeout: settings.timeout,
                tell: tell(secrets, log),
            }))
        }
        Handling::Http(url) => {
            let http = Http::new(url.clone(), &settings.queue, settings.timeout, secrets.clone());
            let http = http.map_err(|error| {
                Failure::failed(format!(
                    "--handle: cannot use https: {error}; install the ca-certificates of this system"
                ))
            })?;
            Some(Box::new(http))
        }
    };
    let is_idle =
        outside.is_none() && resolved.work.is_zero() && resolved.error_rate <= 0.0 && resolved.effects.is_none();
    Ok(Handler {
        outside,
        is_idle,
        time: resolved.work,
        error_rate: resolved.error_rate,
        effects: resolved
            .effects
            .as_ref()
            .map(|prefix| effect_prefixes(settings, prefix)),
        secrets: secrets.clone(),
        traces,
    })
}

/// Effects are in the slot of their shard: there, its tag stands for that of the home shard.
fn effect_prefixes(settings: &Settings, prefix: &str) -> Vec<String> {
    let shards = settings.names.shards as usize;
    let tag = |shard| {
        Keys::new(&settings.queue, &settings.names.of_shard(shard, shards))
            .tag()
            .to_string()
    };
    (0..shards).map(|shard| prefix.replace(&tag(0), &tag(shard))).collect()
}

/// As many as there are cores, unless told otherwise; more than there are messages at once would never have one.
fn workers(resolved: &Resolved) -> usize {
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    let workers = resolved.workers.map_or_else(cores, |workers| workers as usize);
    workers.min(resolved.settings.concurrency as usize)
}

fn find(flag: &str, program: &Program) -> Result<(), Failure> {
    program
        .find()
        .map_err(|reason| Failure::usage(format!("{flag}: {reason}")))
}

/// Writes what children print on stderr, and how they end, to the log.
fn tell(secrets: &Secrets, log: &Arc<Log>) -> Tell {
    let log = log.clone();
    let say = move |event: &str, text: &str| log.say(event == "child", event, &[("message", text)]);
    Tell::new(secrets.clone(), say)
}

pub enum Generator {
    Builtin(Builtin, Digits),
    Outside(Box<dyn Make>, Option<Arc<Traces>>),
}

impl Generator {
    /// What is generated unless something else is asked for.
    pub fn counter() -> Self {
        Self::Builtin(Builtin::Counter, Digits::default())
    }
}

impl Generate for Generator {
    // Flat out this is called millions of times a second: what is built in is done at once, and leaves nothing to its future.
    fn generate(&mut self, next: Next, draft: &mut Draft) -> impl Future<Output = Made> + Send {
        if let Self::Builtin(builtin, digits) = self {
            write(*builtin, digits, next, &mut draft.payload);
        }
        async move {
            match self {
                Self::Builtin(..) => Made::Message,
                Self::Outside(make, traces) => {
                    let outcome = make.make(next, draft).await;
                    if let Some(traces) = traces {
                        traces.made(&mut draft.headers);
                    }
                    outcome
                }
            }
        }
    }

    fn elected(&mut self, election: &Election) {
        match self {
            Self::Builtin(_, digits) => digits.counts_made = election.shards > 1,
            Self::Outside(make, _) => make.elected(election),
        }
    }

    fn deposed(&mut self, confirmed: u64) {
        if let Self::Outside(make, _) = self {
            make.deposed(confirmed);
        }
    }
}

/// The generators that come with the program.
#[inline]
fn write(builtin: Builtin, digits: &mut Digits, next: Next, payload: &mut Vec<u8>) {
    use std::io::Write;
    // Writing to a Vec cannot fail.
    let _ = match builtin {
        Builtin::Counter if digits.counts_made => payload.write_all(digits.of(next.made)),
        Builtin::Counter => payload.write_all(digits.of(next.number)),
        Builtin::Text => write!(payload, "{} epoch={} number={}", words(), next.epoch, next.number),
        Builtin::Tick => write!(payload, "{}", utc_short(next.due_ms)),
    };
}

/// A number in digits. The next one is counted on as on paper: writing every digit anew was a third of the work of a generator.
#[derive(Default)]
pub struct Digits {
    number: u64,
    text: Vec<u8>,
    /// Where there are shards numbers say nothing of the order, so it is the messages of the generator that are counted: by what the queue is in this reign,
    /// however many shards this copy was told of when it was started.
    counts_made: bool,
}

impl Digits {
    fn of(&mut self, number: u64) -> &[u8] {
        let is_next = self.number.checked_add(1) == Some(number);
        if !(is_next && self.count_on()) {
            self.text = number.to_string().into();
        }
        self.number = number;
        &self.text
    }

    /// False, if the next number has a digit more.
    fn count_on(&mut self) -> bool {
        for digit in self.text.iter_mut().rev() {
            if *digit < b'9' {
                *digit += 1;
                return true;
            }
            *digit = b'0';
        }
        false
    }
}

fn words() -> String {
    const WORDS: [&str; 32] = [
        "amber", "bloom", "brood", "cell", "clover", "comb", "dance", "drone", "field", "flight", "garden", "heather",
        "hive", "honey", "hum", "lavender", "linden", "meadow", "nectar", "orchard", "pollen", "propolis", "queen",
        "royal", "scout", "smoke", "summer", "swarm", "thyme", "wax", "willow", "wing",
    ];
    [(); 4].map(|()| WORDS[fastrand::usize(..WORDS.len())]).join(" ")
}

/// The handler of the task, which takes a while and fails now and then, or one of another program.
pub struct Handler {
    pub(super) outside: Option<Box<dyn Work>>,
    time: WorkTime,
    error_rate: f64,
    /// It takes no time, never fails and writes nothing.
    is_idle: bool,
    /// The prefixes of the counters that `verify` looks at, one for each shard.
    effects: Option<Vec<String>>,
    secrets: Secrets,
    traces: Option<Arc<Traces>>,
}

/// What comes of a message.
enum Answer<'a> {
    /// Done, without an effect.
    Done,
    Later(BoxFuture<'a, Handled>),
}

impl Future for Answer<'_> {
    type Output = Handled;

    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Handled> {
        match self.get_mut() {
            Self::Done => Poll::Ready(Ok(Vec::new())),
            Self::Later(answer) => answer.poll_unpin(context),
        }
    }
}

impl Handle for Handler {
    // Flat out this is called millions of times a second: a handler that does nothing leaves its future nothing to carry. The rest is on the heap, for no
    // message is to pay for the size of a future that waits.
    #[inline]
    fn handle(&self, message: Message) -> impl Future<Output = Handled> + Send {
        match &self.traces {
            Some(traces) if Traces::follows(&message) => {
                Answer::Later(traces.handle(message, |message| self.work(message)).boxed())
            }
            _ if self.is_idle => Answer::Done,
            _ => Answer::Later(self.work(message).boxed()),
        }
    }
}

impl Handler {
    /// Takes no time and never fails.
    #[must_use]
    pub fn idle() -> Self {
        Self {
            outside: None,
            time: WorkTime {
                low: Duration::ZERO,
                high: Duration::ZERO,
            },
            error_rate: 0.0,
            is_idle: true,
            effects: None,
            secrets: Secrets::default(),
            traces: None,
        }
    }

    async fn work(&self, message: Message) -> Handled {
        if let Some(outside) = &self.outside {
            return outside
                .work(message)
                .await
                .map_err(|failure| self.secrets.hide_failure(failure));
        }
        if !self.time.is_zero() {
            tokio::time::sleep(self.time.sample()).await;
        }
        if self.error_rate > 0.0 && fastrand::f64() < self.error_rate {
            return Err("the handler failed, as it is told to now and then (--error-rate)".into());
        }
        Ok(match &self.effects {
            None => Vec::new(),
            Some(prefixes) => {
                let next = chains::next(message.number, &message.payload, prefixes.len());
                let prefix = prefixes.get(shard_of(message.number));
                let effect = prefix.map(|prefix| effects::effect(prefix, message.number));
                effect.into_iter().chain(next).collect()
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_queue_says_what_is_counted_however_a_copy_was_started() {
        let mut generator = Generator::counter();
        let (number, made) = (10_000_000_000_007, 5);
        for (shards, expected) in [(1, "10000000000007"), (3, "5"), (1, "10000000000007")] {
            let election = Election {
                number,
                epoch: 1,
                made,
                made_before: None,
                cursor: bytes::Bytes::new(),
                shards,
            };
            Generate::elected(&mut generator, &election);
            let next = Next {
                number,
                epoch: 1,
                made,
                confirmed: 0,
                others_wait: false,
                due_ms: 0,
            };
            let mut draft = Draft::default();
            generator.generate(next, &mut draft).await;
            assert_eq!(draft.payload, expected.as_bytes(), "{shards} shards");
        }
    }

    #[test]
    fn digits_are_written_as_they_are_printed() {
        let mut digits = Digits::default();
        let jumps = [
            5,
            5,
            4,
            7,
            u64::MAX - 1,
            u64::MAX,
            0,
            1,
            999_999,
            1_000_000,
            1_234_567_890,
        ];
        for number in (0..1200).chain(jumps).chain(99_990..100_010) {
            assert_eq!(digits.of(number), number.to_string().as_bytes());
        }
    }
}
