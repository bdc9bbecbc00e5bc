//! A WebSocket server that sends back what it gets.

use std::io::{self, BufRead, Write};
use std::net::TcpStream;
use std::process::Command;

/// Accepts the upgrade and echoes short frames until one closes the connection.
pub(super) fn echo(key: &str, reader: &mut impl BufRead, client: &mut TcpStream) -> io::Result<()> {
    let accept = Command::new("python3").args(["-c", ACCEPT, key]).output()?;
    let accept = String::from_utf8_lossy(&accept.stdout).into_owned();
    write!(
        client,
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Accept: {}\r\n\r\n",
        accept.trim()
    )?;
    loop {
        let mut head = [0; 6];
        reader.read_exact(&mut head)?;
        let [operation, length, mask @ ..] = head;
        let mut text = vec![0; usize::from(length & 0x7f)];
        reader.read_exact(&mut text)?;
        for (byte, mask) in text.iter_mut().zip(mask.iter().cycle()) {
            *byte ^= mask;
        }
        client.write_all(&[&[operation, length & 0x7f], &text[..]].concat())?;
        if operation & 0xf == CLOSE {
            return Err(io::Error::other("closed"));
        }
    }
}

const CLOSE: u8 = 8;

/// What a server answers a key with: the hash that RFC 6455 gives.
const ACCEPT: &str = "
import base64, hashlib, sys
text = sys.argv[1] + '258EAFA5-E914-47DA-95CA-C5AB0DC85B11'
print(base64.b64encode(hashlib.sha1(text.encode()).digest()).decode())
";
