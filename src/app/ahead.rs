//! What is read before it is wanted, between who reads it and who uses it: bounded in bytes and in number, since one line may have
//! megabytes.

use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

/// So many bytes are read ahead, unless it is one piece.
pub(super) const AHEAD_BYTES: usize = 4 * 1024 * 1024;
/// And so many pieces: a small one takes more memory than it has bytes.
const AHEAD: usize = 2048;

/// Nobody wants more.
pub(super) struct Unwanted;

type Piece<T> = (T, OwnedSemaphorePermit);

pub(super) struct Sender<T> {
    pieces: mpsc::Sender<Piece<T>>,
    room: Arc<Semaphore>,
    runtime: Handle,
}

pub(super) struct Receiver<T>(mpsc::Receiver<Piece<T>>);

/// To be called where a runtime runs: a thread that reads waits on it.
pub(super) fn channel<T>() -> (Sender<T>, Receiver<T>) {
    let (pieces, receiver) = mpsc::channel(AHEAD);
    let sender = Sender {
        pieces,
        room: Arc::new(Semaphore::new(AHEAD_BYTES)),
        runtime: Handle::current(),
    };
    (sender, Receiver(receiver))
}

impl<T> Sender<T> {
    /// Waits for room for a piece of so many bytes.
    pub async fn send(&self, piece: T, bytes: usize) -> Result<(), Unwanted> {
        let bytes = u32::try_from(bytes.clamp(1, AHEAD_BYTES)).map_err(|_| Unwanted)?;
        let room = tokio::select! {
            room = self.room.clone().acquire_many_owned(bytes) => room.map_err(|_| Unwanted)?,
            () = self.pieces.closed() => return Err(Unwanted),
        };
        self.pieces.send((piece, room)).await.map_err(|_| Unwanted)
    }

    /// The same on a thread that may block.
    pub fn blocking_send(&self, piece: T, bytes: usize) -> Result<(), Unwanted> {
        self.runtime.block_on(self.send(piece, bytes))
    }

    /// Until nobody wants more.
    pub async fn closed(&self) {
        self.pieces.closed().await;
    }
}

impl<T> Receiver<T> {
    /// None: there will be no more.
    pub async fn recv(&mut self) -> Option<T> {
        self.0.recv().await.map(|(piece, _)| piece)
    }

    pub fn try_recv(&mut self) -> Result<T, mpsc::error::TryRecvError> {
        self.0.try_recv().map(|(piece, _)| piece)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_piece_that_is_larger_than_all_room_waits_for_all_of_it_and_then_goes() {
        let (sender, mut receiver) = channel();
        let sending = tokio::spawn(async move {
            for (piece, bytes) in [("small", 1), ("large", 10 * AHEAD_BYTES), ("last", 1)] {
                let _ = sender.send(piece, bytes).await;
            }
        });
        let mut got = Vec::new();
        while let Some(piece) = receiver.recv().await {
            got.push(piece);
        }
        sending.await.expect("no panic");
        assert_eq!(got, ["small", "large", "last"]);
    }

    #[tokio::test]
    async fn who_waits_for_room_is_told_that_nobody_wants_more() {
        let (sender, receiver) = channel();
        assert!(sender.send((), AHEAD_BYTES).await.is_ok());
        let reading = tokio::task::spawn_blocking(move || sender.blocking_send((), 1));
        drop(receiver);
        assert!(reading.await.expect("no panic").is_err());
    }
}
