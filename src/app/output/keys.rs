//! Keys and signals, as one stream.

use std::io;

use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::app) enum Key {
    KillGenerator,
    KillHandler,
    Freeze,
    Add,
    Remove,
    Errors,
    /// The window has another size.
    Redraw,
    Quit,
}

pub(in crate::app) struct Keys(UnboundedReceiver<Key>);

impl Keys {
    pub(in crate::app) fn listen(watched: bool) -> io::Result<Self> {
        let (sender, receiver) = unbounded_channel();
        for kind in [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()] {
            let mut signals = signal(kind)?;
            let sender = sender.clone();
            tokio::spawn(async move {
                while signals.recv().await.is_some() {
                    let _ = sender.send(Key::Quit);
                }
            });
        }
        if watched {
            std::thread::Builder::new()
                .name("keys".into())
                .spawn(move || read(&sender))?;
        }
        Ok(Self(receiver))
    }

    pub(in crate::app) async fn next(&mut self) -> Key {
        match self.0.recv().await {
            Some(key) => key,
            None => std::future::pending().await,
        }
    }
}

/// Until the terminal is closed, which is a wish to quit.
fn read(sender: &UnboundedSender<Key>) {
    loop {
        let key = match event::read() {
            Ok(Event::Key(key)) if key.kind == KeyEventKind::Release => None,
            Ok(Event::Key(key)) => match (key.code, key.modifiers.contains(KeyModifiers::CONTROL)) {
                (KeyCode::Char('c'), true) => Some(Key::Quit),
                (_, true) => None,
                (KeyCode::Char('q') | KeyCode::Esc, _) => Some(Key::Quit),
                (KeyCode::Char('k'), _) => Some(Key::KillGenerator),
                (KeyCode::Char('h'), _) => Some(Key::KillHandler),
                (KeyCode::Char('s'), _) => Some(Key::Freeze),
                (KeyCode::Char('+' | '='), _) => Some(Key::Add),
                (KeyCode::Char('-'), _) => Some(Key::Remove),
                (KeyCode::Char('e'), _) => Some(Key::Errors),
                _ => None,
            },
            Ok(Event::Resize(..)) => Some(Key::Redraw),
            Ok(_) => None,
            Err(_) => {
                let _ = sender.send(Key::Quit);
                return;
            }
        };
        if let Some(key) = key
            && sender.send(key).is_err()
        {
            return;
        }
    }
}
