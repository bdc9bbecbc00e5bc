//! The HTTP proxy: plain requests and CONNECT, one decision a request.

mod answer;
mod connect;
mod forward;
mod headers;
mod request;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1::Builder;
use hyper::service::service_fn;
use hyper::upgrade::Upgraded;
use hyper::{Method, Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use super::Proxy;
use super::accept::Slot;
use super::framing::{Framed, Verdict, Verdicts};
use super::record::Op;
use super::tunnel;
use crate::audit::event::Code;

pub(super) use answer::BUSY;
use answer::Problem;

/// A body that passes through, or one of ours.
pub(super) type Body = Either<Incoming, Full<Bytes>>;

/// The connection of one client.
#[derive(Clone)]
struct Client {
    proxy: Arc<Proxy>,
    verdicts: Verdicts,
    slot: Arc<Slot>,
}

/// Serves one connection until either side ends it. A tunnel lives on in a task of its own.
pub(super) async fn serve(stream: TcpStream, proxy: Arc<Proxy>, slot: Slot) {
    // An answer is often two small writes; a socket that refuses the option still works.
    let _set = stream.set_nodelay(true);
    let limits = proxy.network.limits();
    let (stream, verdicts) = Framed::new(stream, limits.rate);
    let moved = stream.moved();
    let client = Client {
        proxy,
        verdicts,
        slot: Arc::new(slot),
    };
    let service = service_fn(|request| {
        let client = client.clone();
        async move { Ok::<_, Infallible>(client.answer(request).await) }
    });
    let serving = Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head)
        .max_headers(MAX_HEADERS)
        .max_buf_size(MAX_BUFFER)
        .half_close(true)
        .preserve_header_case(true)
        .auto_date_header(false)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    let served = tokio::select! {
        served = serving => served,
        // Behind what is said to a client whose server is silent for as long.
        () = moved.idle(limits.idle + GRACE) => return,
    };
    if let Err(error) = served
        && error.is_parse()
    {
        let reason = "the head cannot be parsed";
        client
            .proxy
            .record_unjudged(Op::Request, Code::RequestMalformed, "", reason);
    }
}

impl Client {
    async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        let op = match *request.method() {
            Method::CONNECT => Op::Connect,
            _ => Op::Request,
        };
        let uri = request.uri().clone();
        let answer = match (self.verdicts.next(), op) {
            (Verdict::Refused(fault), _) => Err(fault.into()),
            (Verdict::Sound, Op::Connect) => self.connect(request).await,
            (Verdict::Sound, Op::Request) => self.forward(request).await,
        };
        answer.unwrap_or_else(|problem| {
            if let Problem::Unjudged { code, reason, .. } = &problem {
                let asked = uri.authority().map_or("", |authority| authority.as_str());
                self.proxy.record_unjudged(op, *code, asked, reason);
            }
            problem.into_response(op)
        })
    }
}

/// Gets the bare connection out of hyper, with what it has read ahead.
fn reclaim<T>(upgraded: Upgraded, bare: impl Fn(T) -> TcpStream) -> Option<tunnel::End>
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let parts = upgraded.downcast::<TokioIo<T>>().ok()?;
    Some(tunnel::End {
        stream: bare(parts.io.into_inner()),
        // Nothing read ahead holds the whole buffer all the same.
        read: match parts.read_buf.is_empty() {
            true => Bytes::new(),
            false => parts.read_buf,
        },
    })
}

/// What an answer of ours may take longer than the limit that it is about.
const GRACE: Duration = Duration::from_secs(1);
const MAX_HEADERS: usize = 512;

/// What hyper reads ahead; a little above the longest head, so that the limit is the head's.
const MAX_BUFFER: usize = super::framing::MAX_HEAD + 16 * 1024;
