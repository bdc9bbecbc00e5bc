//! The SOCKS5 proxy (RFC 1928): CONNECT alone, without authentication.
//!
//! No password tells sandboxes apart: a listener belongs to one sandbox's network namespace.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use socks5_server::auth::NoAuth;
use socks5_server::connection::state::NeedAuthenticate;
use socks5_server::proto::{Address, Error, ProtocolError, Reply, Response};
use socks5_server::{Command, IncomingConnection, Server};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use super::dial::Failure;
use super::{Front, HANDSHAKE_LIMIT, Proxy, tunnel};
use crate::audit::event::{Code, Verdict};
use crate::policy::hostname::{Host, Malformed, Target};

/// A listener that speaks SOCKS5.
pub(super) struct Socks(Server<()>);

impl Socks {
    pub(super) fn new(listener: TcpListener) -> Self {
        Self(Server::new(listener, Arc::new(NoAuth)))
    }
}

type Client = IncomingConnection<(), NeedAuthenticate>;

impl Front for Socks {
    type Client = Client;

    async fn accept(&self) -> io::Result<Client> {
        self.0.accept().await.map(|(client, _)| client)
    }

    async fn serve(proxy: Arc<Proxy>, client: Client) {
        // Latency only: a socket that refuses the option works without it.
        drop(client.get_ref().set_nodelay(true));
        // A client that is gone or says nothing gets no answer.
        let Ok(Ok(request)) = timeout(HANDSHAKE_LIMIT, read_request(client)).await else {
            return;
        };
        if let Request::Connect(stream, address) = request {
            connect(&proxy, stream, address).await;
        } else {
            let reason = "only CONNECT is supported: UDP and BIND do not pass the proxies";
            proxy.record_refusal(None, Code::CommandUnsupported, Verdict::Denied, reason);
            request.refuse(Reply::CommandNotSupported).await;
        }
    }
}

/// What a client asked for, with its connection.
enum Request {
    Connect(TcpStream, Address),
    Other(TcpStream),
}

impl Request {
    async fn refuse(self, reply: Reply) {
        let (Self::Connect(mut stream, _) | Self::Other(mut stream)) = self;
        answer(&mut stream, reply).await;
    }
}

async fn read_request(client: Client) -> Result<Request, Error> {
    let (client, ()) = client.authenticate().await.map_err(|(error, _)| error)?;
    match client.wait().await {
        Ok(Command::Connect(connect, address)) => {
            Ok(Request::Connect(connect.into_inner(), address))
        }
        Ok(Command::Associate(associate, _)) => Ok(Request::Other(associate.into_inner())),
        Ok(Command::Bind(bind, _)) => Ok(Request::Other(bind.into_inner())),
        Err((Error::Protocol(ProtocolError::InvalidCommand { .. }), stream)) => {
            Ok(Request::Other(stream))
        }
        Err((error, mut stream)) => {
            if matches!(
                error,
                Error::Protocol(ProtocolError::InvalidAddressTypeInRequest { .. })
            ) {
                answer(&mut stream, Reply::AddressTypeNotSupported).await;
            }
            Err(error)
        }
    }
}

async fn connect(proxy: &Proxy, mut client: TcpStream, address: Address) {
    let permit =
        match target(address).map(|target| (target.to_string(), proxy.policy.check(target))) {
            Ok((_, Ok(permit))) => permit,
            Ok((target, Err(denial))) => {
                proxy.record_denial(&target, &denial);
                return answer(&mut client, Reply::ConnectionNotAllowed).await;
            }
            Err(Malformed(reason)) => {
                proxy.record_refusal(None, Code::RequestMalformed, Verdict::Denied, reason);
                return answer(&mut client, Reply::ConnectionNotAllowed).await;
            }
        };
    match proxy.dial(&permit).await {
        Ok(upstream) => {
            answer(&mut client, Reply::Succeeded).await;
            // An error of either side has ended both; there is nobody left to tell.
            drop(tunnel::run(&proxy.pipes, client.into(), upstream.into()).await);
        }
        Err(failure) => answer(&mut client, reply(&failure)).await,
    }
}

fn target(address: Address) -> Result<Target, Malformed> {
    match address {
        Address::SocketAddress(socket) => Target::new(Host::from(socket.ip()), socket.port()),
        Address::DomainAddress(name, port) => {
            let name =
                std::str::from_utf8(&name).map_err(|_| Malformed("the name is not ASCII"))?;
            Target::new(Host::parse(name)?, port)
        }
    }
}

/// RFC 1928, 6.
fn reply(failure: &Failure) -> Reply {
    match failure {
        Failure::Denied(_) => Reply::ConnectionNotAllowed,
        Failure::Unresolved(_) => Reply::HostUnreachable,
        Failure::TimedOut => Reply::TtlExpired,
        Failure::Unreachable(error) => match error.kind() {
            io::ErrorKind::ConnectionRefused => Reply::ConnectionRefused,
            io::ErrorKind::NetworkUnreachable => Reply::NetworkUnreachable,
            io::ErrorKind::TimedOut => Reply::TtlExpired,
            _ => Reply::HostUnreachable,
        },
    }
}

/// The bound address is left out: it would tell of the host's network.
async fn answer(stream: &mut TcpStream, reply: Reply) {
    let unspecified = SocketAddr::from(([0, 0, 0, 0], 0));
    let response = Response::new(reply, Address::SocketAddress(unspecified));
    // A client that is gone is noticed by the next call on its connection.
    drop(response.write_to(stream).await);
}
