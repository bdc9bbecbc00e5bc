//! Closes a connection so that its last answer arrives.

use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Ends our side, then reads what the peer still sends.
///
/// Closing with bytes unread makes the kernel send RST, which destroys the answer in the peer's
/// buffer; see RFC 9112, 9.6.
pub(super) async fn linger(mut stream: TcpStream) {
    let ended = rustix::net::shutdown(&stream, rustix::net::Shutdown::Write);
    let drain = async {
        let mut scratch = [0; 4096];
        while let Ok(1..) = stream.read(&mut scratch).await {}
    };
    if ended.is_ok() {
        // A peer that sends for ever is cut off, whatever becomes of the answer.
        let _drained = timeout(PATIENCE, drain).await;
    }
}

const PATIENCE: Duration = Duration::from_secs(2);
