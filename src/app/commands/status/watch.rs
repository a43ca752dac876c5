//! `status --watch` on a terminal: the view of the demo, filled in from looks at the store. A store that goes away is
//! waited for, and what was seen last stays on the screen and is called old.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior};

use super::WATCH_EVERY;
use crate::app::args::sources::Resolved;
use crate::app::commands::rate;
use crate::app::exit::Failure;
use crate::app::output::keys::{Key, Keys};
use crate::app::output::screen::{EVENTS_MAX, Event, Node, Screen, Tone, View, counted, grouped, numbered, push};
use crate::app::output::status::{away, paused, role, settled_since, shards_away};
use crate::app::output::time::age;
use crate::engine::{Engine, NodeStatus, Status};
use crate::node::event::escape;

/// How many of the last samples the rate is averaged over.
const RATE_LOOKS: usize = 5;

pub(super) async fn run<E: Engine>(engine: Arc<E>, resolved: &Resolved, first: Status) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::cannot("use the terminal", error);
    let mut keys = Keys::listen(true).map_err(failed)?;
    let mut screen = Screen::open().map_err(failed)?;
    let mut watch = Watch::new(resolved, first);
    let ended = watch.until_quit(&*engine, &mut keys, &mut screen).await;
    ratatui::restore();
    ended
}

struct Watch {
    place: String,
    started: Instant,
    status: Status,
    /// When it was seen.
    seen: Instant,
    /// Why it is old.
    away: Option<String>,
    events: VecDeque<Event>,
    throughput: VecDeque<u64>,
    queue: VecDeque<u64>,
}

impl Watch {
    fn new(resolved: &Resolved, status: Status) -> Self {
        let now = Instant::now();
        let queue = escape(resolved.settings.queue.as_bytes()).into_owned();
        Self {
            place: format!("{queue} on {}", resolved.address),
            started: now,
            status,
            seen: now,
            away: None,
            events: VecDeque::new(),
            throughput: VecDeque::new(),
            queue: VecDeque::new(),
        }
    }

    async fn until_quit<E: Engine>(&mut self, engine: &E, keys: &mut Keys, screen: &mut Screen) -> Result<(), Failure> {
        let mut ticks = tokio::time::interval(WATCH_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            // A terminal that was closed is a reason to end, and none to fail.
            if screen.draw(&self.view()).is_err() {
                return Ok(());
            }
            let look = async {
                ticks.tick().await;
                engine.status().await
            };
            let looked = tokio::select! {
                biased;
                key = keys.next() => Err(key),
                looked = look => Ok(looked),
            };
            match looked {
                Err(Key::Quit) => return Ok(()),
                Err(_) => {}
                Ok(Ok(status)) => self.sees(status),
                Ok(Err(error)) if super::passes(&error) => self.misses(error.to_string()),
                Ok(Err(error)) => return Err(error.into()),
            }
        }
    }

    fn say(&mut self, word: &'static str, text: String) {
        if self.events.len() >= EVENTS_MAX {
            self.events.pop_front();
        }
        let at = self.started.elapsed();
        self.events.push_back(Event { at, word, text });
    }

    fn misses(&mut self, why: String) {
        if self.away.is_none() {
            self.say("away", why.clone());
        }
        self.away = Some(why);
    }

    fn sees(&mut self, status: Status) {
        if self.away.take().is_some() {
            self.say("reconnected", String::new());
        }
        let before = std::mem::replace(&mut self.status, status);
        self.seen = Instant::now();
        let now = &self.status;
        let mut news = Vec::new();
        let name = |node: &NodeStatus| format!("{} on {}", escape(node.node.as_bytes()), escape(node.host.as_bytes()));
        for node in &now.nodes {
            if !before.nodes.iter().any(|other| other.node == node.node) {
                news.push(("joined", name(node)));
            }
        }
        for node in &before.nodes {
            if !now.nodes.iter().any(|other| other.node == node.node) {
                news.push(("gone", name(node)));
            }
        }
        if let Some(generator) = now.generator.as_ref().filter(|_| now.epoch != before.epoch) {
            let text = format!("{}, epoch {}", escape(generator.as_bytes()), now.epoch);
            news.push(("elected", text));
        }
        let errors = now.failed.saturating_sub(before.failed);
        if errors > 0 {
            news.push(("error", format!("in {}", counted(errors, "message"))));
        }
        if now.rewinds > before.rewinds {
            news.push(("rewound", "the store lost acknowledged writes".into()));
        }
        if now.paused != before.paused {
            let what = paused(now.paused);
            news.push(if what.is_empty() {
                ("resumed", "everything".to_string())
            } else {
                ("paused", what.to_string())
            });
        }
        push(&mut self.throughput, settled_since(now, &before));
        push(&mut self.queue, now.queued);
        for (word, text) in news {
            self.say(word, text);
        }
    }

    fn view(&self) -> View<'_> {
        let status = &self.status;
        let first = numbered(&[
            ("published", status.published),
            ("done", status.done),
            ("failed", status.failed),
            ("in hand", status.in_hand),
            ("later", status.later),
        ]);
        let errors = if status.errors == 0 { Tone::Good } else { Tone::Bad };
        let mut second = vec![(format!(" errors waiting {} ", grouped(status.errors)), errors)];
        // A queue that only workers are at never had one.
        if status.generator.is_none() && status.epoch > 0 {
            second.push((" nobody generates ".into(), Tone::Bad));
        }
        if status.nobody_handles() {
            second.push((" nobody handles ".into(), Tone::Bad));
        }
        let still = paused(status.paused);
        if !still.is_empty() {
            second.push((format!(" paused: {still} "), Tone::Warning));
        }
        second.extend(away(&shards_away(status)).map(|text| (format!(" {text} "), Tone::Bad)));
        if let Some(why) = &self.away {
            let old = self.seen.elapsed().max(Duration::from_secs(1)).as_secs();
            second.push((format!(" {old} s old: {why} "), Tone::Bad));
        }
        View {
            title: "queenright",
            place: self.place.clone(),
            age: format!("epoch {}", status.epoch),
            nodes: status.nodes.iter().map(|node| self.node(node)).collect(),
            rate: rate(&self.throughput, RATE_LOOKS, WATCH_EVERY),
            throughput: &self.throughput,
            queued: status.queued,
            queue: &self.queue,
            events: self.events.iter().collect(),
            account: ("queue", vec![first, second]),
            keys: &[("q", "quit")],
        }
    }

    fn node(&self, node: &NodeStatus) -> Node {
        let role = role(&self.status, node);
        let tone = match (self.away.is_some(), role) {
            (true, _) => Tone::Quiet,
            (false, "generator") => Tone::Good,
            (false, "silent") => Tone::Bad,
            (false, _) => Tone::Plain,
        };
        let epoch = if role == "generator" {
            self.status.epoch.to_string()
        } else {
            String::new()
        };
        let doing = match node.in_hand {
            0 if role == "generator" => "generates".into(),
            0 if role == "silent" => format!("silent for {}", age(node.silent_ms)),
            0 => "waits".into(),
            held => format!("{} in hand", grouped(held)),
        };
        Node {
            cells: [
                format!(" {}", escape(node.node.as_bytes())),
                node.pid.to_string(),
                role.to_string(),
                epoch,
                format!("{doing} on {}", escape(node.host.as_bytes())),
                format!("{:>7}", grouped(node.done)),
                format!("{:>6}", grouped(node.failed)),
                format!("{:>6}", age(node.age_ms)),
            ],
            tone,
        }
    }
}
