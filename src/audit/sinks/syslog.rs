//! A syslog daemon: RFC 5424, over a Unix socket, UDP (RFC 5426) or TCP (RFC 6587).

use std::fmt;
use std::io::{self, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs, UdpSocket};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::super::recorder::Line;
use super::local::{self, Unsent};
use super::said::Said;
use super::{Written, cannot};
use crate::error::Result;

const SOCKET: &str = "/dev/log";

/// Messages of user-level programs; see RFC 5424, section 6.2.1.
const FACILITY: u8 = 1;

/// Longest that a connection, or a write to one, takes.
const PATIENCE: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(super) struct Syslog {
    name: String,
    /// HOSTNAME and what follows it up to PROCID.
    sender: String,
    transport: Transport,
}

#[derive(Debug)]
enum Transport {
    Local(PathBuf, UnixDatagram),
    Udp(String, Option<UdpSocket>),
    Tcp(String, Option<TcpStream>),
}

impl Syslog {
    pub(super) fn local(path: Option<&Path>) -> Result<Self> {
        let path = path.unwrap_or(Path::new(SOCKET)).to_owned();
        let name = format!("syslog at {}", path.display());
        let socket = local::connected(&path).map_err(|error| {
            let error = cannot(&name).call("connect", error);
            error.with_hint(local::REMEDY)
        })?;
        Ok(Self::new(name, Transport::Local(path, socket)))
    }

    /// Nothing is looked up or sent before there is something to send.
    pub(super) fn remote(address: &str) -> Result<Self> {
        let name = format!("syslog at {address}");
        let transport = match address.split_once("://") {
            Some(("udp", host)) if has_port(host) => Transport::Udp(host.to_owned(), None),
            Some(("tcp", host)) if has_port(host) => Transport::Tcp(host.to_owned(), None),
            _ => {
                return Err(
                    cannot(name).with_hint("an address is udp://host:port or tcp://host:port")
                );
            }
        };
        Ok(Self::new(name, transport))
    }

    fn new(name: String, transport: Transport) -> Self {
        let host = nix::unistd::gethostname().unwrap_or_default();
        let host: String = host
            .to_string_lossy()
            .chars()
            .filter(char::is_ascii_graphic)
            .collect();
        let host = if host.is_empty() { "-" } else { &host };
        Self {
            name,
            sender: format!("{host} srt {}", std::process::id()),
            transport,
        }
    }

    pub(super) fn write(&mut self, lines: &[Arc<Line>], written: &Written) -> io::Result<()> {
        local::each(lines, written, |line| {
            let message = message(&self.sender, line)?;
            self.transport.send(&message)
        })
    }
}

impl fmt::Display for Syslog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl Transport {
    fn send(&mut self, message: &str) -> Result<(), Unsent> {
        match self {
            Self::Local(path, socket) => {
                let message = message.as_bytes();
                local::send(socket, path, |socket| socket.send(message).map(drop))?;
            }
            Self::Udp(host, socket) => {
                let socket = match socket {
                    Some(socket) => socket,
                    None => socket.insert(udp(host)?),
                };
                match socket.send(message.as_bytes()) {
                    // It is one sent before that nobody took: it counts as this one does not.
                    Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                        socket.send(message.as_bytes())?;
                        return Err(Unsent::This(error));
                    }
                    result => drop(result?),
                }
            }
            Self::Tcp(host, stream) => {
                let mut open = match stream.take_if(|stream| is_open(stream)) {
                    Some(open) => open,
                    None => tcp(host)?,
                };
                // By length: a line end in a message could not begin another one.
                let framed = format!("{} {message}", message.len());
                open.write_all(framed.as_bytes())?;
                // Dropped where that failed: what follows half a message is none.
                *stream = Some(open);
            }
        }
        Ok(())
    }
}

/// Makes the message of an event, whose text is the event itself: JSON has no control
/// character, and structured data would need an enterprise number.
fn message(sender: &str, line: &Line) -> io::Result<String> {
    let said = Said::of(line)?;
    let priority = FACILITY * 8 + said.severity() as u8;
    let (time, code) = (&said.time, &said.code);
    Ok(format!(
        "<{priority}>1 {time} {sender} {code} - {}",
        line.text
    ))
}

pub(super) fn has_port(host: &str) -> bool {
    let found = host.rsplit_once(':');
    found.is_some_and(|(host, port)| {
        let is_plain = !host.is_empty() && !host.contains(['/', '@', ' ']);
        is_plain && port.parse::<u16>().is_ok_and(|port| port > 0)
    })
}

fn udp(host: &str) -> io::Result<UdpSocket> {
    let mut failed = io::Error::from(io::ErrorKind::NotFound);
    for address in host.to_socket_addrs()? {
        let any: SocketAddr = match address {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let socket = UdpSocket::bind(any).and_then(|socket| {
            socket.connect(address)?;
            socket.set_write_timeout(Some(PATIENCE))?;
            Ok(socket)
        });
        match socket {
            Ok(socket) => return Ok(socket),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

fn tcp(host: &str) -> io::Result<TcpStream> {
    let mut failed = io::Error::from(io::ErrorKind::NotFound);
    for address in host.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, PATIENCE) {
            Ok(stream) => {
                stream.set_write_timeout(Some(PATIENCE))?;
                return Ok(stream);
            }
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

/// Tells whether the other side has closed: what is written then is lost without a word.
fn is_open(stream: &TcpStream) -> bool {
    let look = || {
        stream.set_nonblocking(true)?;
        let found = stream.peek(&mut [0]);
        stream.set_nonblocking(false)?;
        found
    };
    match look() {
        Ok(0) => false,
        Ok(_) => true,
        Err(error) => error.kind() == io::ErrorKind::WouldBlock,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::event::Code;

    #[test]
    fn every_code_is_a_message_id() {
        for code in Code::ALL {
            assert!(code.name().len() <= 32, "{}", code.name());
        }
    }

    #[test]
    fn an_address_is_a_scheme_a_host_and_a_port() {
        for address in [
            "udp://127.0.0.1:514",
            "tcp://log.example.org:601",
            "tcp://[::1]:601",
        ] {
            assert!(Syslog::remote(address).is_ok(), "{address}");
        }
        for address in [
            "",
            "127.0.0.1:514",
            "udp://x",
            "udp://:514",
            "udp://x:0",
            "tls://x:6514",
        ] {
            assert!(Syslog::remote(address).is_err(), "{address}");
        }
    }
}
