//! Bytes of our own that go to a client between the messages hyper writes.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::{Buf, Bytes};
use tokio::sync::oneshot;

/// What is to be written, one piece at a time.
#[derive(Debug, Clone, Default)]
pub(in crate::egress) struct Aside(Arc<Mutex<Piece>>);

#[derive(Debug, Default)]
struct Piece {
    left: Bytes,
    /// Told once all of it is written.
    written: Option<oneshot::Sender<()>>,
}

impl Aside {
    /// Has `bytes` written behind everything hyper has written so far, and waits until they are.
    pub(in crate::egress) async fn write(&self, bytes: Bytes) {
        let (tell, written) = oneshot::channel();
        *self.lock() = Piece {
            left: bytes,
            written: Some(tell),
        };
        // It fails where the connection is gone, and so is who would write on.
        let _told = written.await;
    }

    /// Returns what is still to be written.
    pub(super) fn left(&self) -> Option<Bytes> {
        let piece = self.lock();
        (!piece.left.is_empty()).then(|| piece.left.clone())
    }

    /// Takes note of bytes that are written.
    pub(super) fn wrote(&self, count: usize) {
        let mut piece = self.lock();
        piece.left.advance(count);
        if piece.left.is_empty()
            && let Some(written) = piece.written.take()
        {
            // Who waited may be gone.
            let _told = written.send(());
        }
    }

    fn lock(&self) -> MutexGuard<'_, Piece> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
