//! The SOCKS5 proxy: CONNECT without authentication, everything else refused by its code.

use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use socks5_proto::{Address, Error, ProtocolError, Reply, Response};
use socks5_server::auth::NoAuth;
use socks5_server::connection::state::NeedAuthenticate;
use socks5_server::{Command, IncomingConnection, Server};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use super::Proxy;
use super::accept::Slot;
use super::close::linger;
use super::record::Op;
use super::refusal::{Cause, Refusal};
use super::tunnel;
use crate::audit::event::Code;
use crate::policy::hostname::{Host, Malformed, Target};

pub(super) type Connection = IncomingConnection<(), NeedAuthenticate>;

/// Wraps a listener. Who may connect is settled by the namespace it listens in.
pub(super) fn server(listener: TcpListener) -> Server<()> {
    Server::new(listener, Arc::new(NoAuth))
}

/// Serves one connection to its end.
pub(super) async fn serve(connection: Connection, proxy: Arc<Proxy>, slot: Slot) {
    let Ok(asked) = timeout(proxy.network.limits().head, ask(connection)).await else {
        return;
    };
    match asked {
        Ok(Command::Connect(connect, address)) => {
            let (stream, asked) = (connect.into_inner(), address);
            self::connect(stream, &asked, &proxy).await;
        }
        Ok(Command::Bind(bind, address)) => {
            unsupported(bind.into_inner(), &address.to_string(), "BIND", &proxy).await;
        }
        Ok(Command::Associate(associate, address)) => {
            let stream = associate.into_inner();
            unsupported(stream, &address.to_string(), "UDP ASSOCIATE", &proxy).await;
        }
        Err((error, stream)) => reject(stream, &error, &proxy).await,
    }
    drop(slot);
}

async fn ask(connection: Connection) -> Result<Command, (Error, TcpStream)> {
    let (connection, ()) = connection.authenticate().await?;
    connection.wait().await
}

async fn connect(mut stream: TcpStream, asked: &Address, proxy: &Proxy) {
    let target = match target(asked) {
        Ok(target) => target,
        Err(Malformed(reason)) => {
            let asked = asked.to_string();
            let recorded =
                proxy.record_unjudged(Op::Connect, Code::RequestMalformed, &asked, reason);
            recorded.attributed().await;
            return refuse(stream, Reply::ConnectionNotAllowed).await;
        }
    };
    let opened = async {
        let permit = proxy.judge(Op::Connect, &target).await?;
        Ok::<_, Refusal>((proxy.connect(&permit).await?, permit))
    };
    let (far, permit) = match opened.await {
        Ok(opened) => opened,
        Err(refusal) => return refuse(stream, reply_to(&refusal)).await,
    };
    // The address we connect from is this host's, and none of the client's business.
    if answer(&mut stream, Reply::Succeeded).await.is_ok() {
        let near = tunnel::End {
            stream,
            read: bytes::Bytes::new(),
        };
        proxy.carry(near, far, &permit).await;
    }
}

pub(super) fn target(asked: &Address) -> Result<Target, Malformed> {
    match asked {
        Address::SocketAddress(address) => Target::new(Host::from(address.ip()), address.port()),
        Address::DomainAddress(name, port) => {
            let name = std::str::from_utf8(name)
                .map_err(|_| Malformed("the host is not ASCII; write its `xn--` form"))?;
            // Some clients send an address as if it were a name, and here it has no brackets.
            let host = match name.parse::<Ipv6Addr>() {
                Ok(address) => Host::from(IpAddr::V6(address)),
                Err(_) => Host::parse(name)?,
            };
            Target::new(host, *port)
        }
    }
}

fn reply_to(refusal: &Refusal) -> Reply {
    match refusal {
        Refusal::Denied(_) => Reply::ConnectionNotAllowed,
        Refusal::Failed(failure) => match failure.cause {
            Cause::Refused => Reply::ConnectionRefused,
            Cause::Name | Cause::HostUnreachable => Reply::HostUnreachable,
            Cause::NetworkUnreachable => Reply::NetworkUnreachable,
            Cause::TimedOut => Reply::TtlExpired,
            Cause::Other => Reply::GeneralFailure,
        },
    }
}

async fn unsupported(stream: TcpStream, asked: &str, command: &str, proxy: &Proxy) {
    let recorded = proxy.record_unjudged(Op::Connect, Code::CommandUnsupported, asked, command);
    recorded.attributed().await;
    refuse(stream, Reply::CommandNotSupported).await;
}

/// Answers a hand-shake that failed. Bytes that are not SOCKS5 at all get no answer.
async fn reject(stream: TcpStream, error: &Error, proxy: &Proxy) {
    match error {
        Error::Protocol(ProtocolError::InvalidCommand { .. }) => {
            unsupported(stream, "", "unknown command", proxy).await;
        }
        Error::Protocol(ProtocolError::InvalidAddressTypeInRequest { .. }) => {
            let reason = "unknown address type";
            let recorded = proxy.record_unjudged(Op::Connect, Code::RequestMalformed, "", reason);
            recorded.attributed().await;
            refuse(stream, Reply::AddressTypeNotSupported).await;
        }
        // The refusal of the methods has been sent.
        Error::Protocol(ProtocolError::NoAcceptableHandshakeMethod { .. }) => {
            linger(stream).await;
        }
        _ => {}
    }
}

async fn refuse(mut stream: TcpStream, reply: Reply) {
    if answer(&mut stream, reply).await.is_ok() {
        linger(stream).await;
    }
}

async fn answer(stream: &mut TcpStream, reply: Reply) -> io::Result<()> {
    Response::new(reply, Address::unspecified())
        .write_to(stream)
        .await
}
