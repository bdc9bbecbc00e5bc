//! Closes a connection so that its last answer arrives.

use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::timeout;

use super::reading;

/// Ends our side, then reads what the peer still sends.
///
/// Closing with bytes unread makes the kernel send RST, which destroys the answer in the peer's
/// buffer; see RFC 9112, 9.6.
pub(super) async fn linger(stream: TcpStream) {
    let ended = rustix::net::shutdown(&stream, rustix::net::Shutdown::Write);
    let drain = async { while let Ok(1..) = reading::next(&stream, <[u8]>::len).await {} };
    if ended.is_ok() {
        // A peer that sends for ever is cut off, whatever becomes of the answer.
        let _drained = timeout(PATIENCE, drain).await;
    }
}

const PATIENCE: Duration = Duration::from_secs(2);
