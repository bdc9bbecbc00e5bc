//! The HTTP proxy: plain requests and CONNECT, one decision a request.

mod answer;
mod connect;
mod forward;
mod headers;
mod interim;
mod opening;
mod request;

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
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
use tokio::time::{Instant, sleep_until, timeout_at};

use super::Proxy;
use super::accept::Slot;
use super::framing::{Aside, Framed, Verdict, Verdicts};
use super::record::Op;
use super::refusal::Refusal;
use super::{reading, tunnel};
use crate::audit::event::Code;

pub(super) use answer::BUSY;
use answer::Problem;
pub(super) use interim::Wanted;

/// A body that passes through, or one of ours.
pub(super) type Body = Either<Incoming, Full<Bytes>>;

/// The connection of one client.
#[derive(Clone)]
struct Client {
    proxy: Arc<Proxy>,
    verdicts: Verdicts,
    aside: Aside,
    slot: Arc<Slot>,
    /// Why its first CONNECT is refused, where that is known.
    refused: Arc<Mutex<Option<Refusal>>>,
}

/// Serves one connection until either side ends it. A tunnel that hyper has read of lives on in a
/// task of its own.
pub(super) async fn serve(stream: TcpStream, proxy: Arc<Proxy>, slot: Slot) {
    let head = proxy.network.limits().head;
    let mut late = Instant::now() + head;
    let Ok(Ok(first)) = timeout_at(late, reading::next(&stream, <[u8]>::to_vec)).await else {
        return;
    };
    let first = Bytes::from(first);
    let (stream, refused) = match opening::connect(&first) {
        Some(opening) => match connect::serve(stream, &proxy, opening).await {
            Ok(()) => return,
            Err((stream, refusal)) => {
                // The head is whole; the time went by in connecting.
                late = Instant::now() + head;
                (stream, Some(refusal))
            }
        },
        None if first.is_empty() => return,
        None => (stream, None),
    };
    // Apart, so that a tunnel does not take the room of all this.
    Box::pin(serve_requests(
        (stream, first),
        late,
        refused,
        (proxy, slot),
    ))
    .await;
}

/// Has hyper read the requests of a client, of which some bytes were read and the head of the
/// first has to come whole before it is `late`.
async fn serve_requests(
    (stream, first): (TcpStream, Bytes),
    late: Instant,
    refused: Option<Refusal>,
    (proxy, slot): (Arc<Proxy>, Slot),
) {
    let limits = proxy.network.limits();
    let (stream, verdicts) = Framed::new(stream, first, limits.rate);
    let (moved, aside) = (stream.moved(), stream.aside());
    let client = Client {
        proxy,
        verdicts,
        aside,
        slot: Arc::new(slot),
        refused: Arc::new(Mutex::new(refused)),
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
        () = client.begins_late(late) => return,
    };
    if let Err(error) = served
        && error.is_parse()
    {
        let reason = "the head cannot be parsed";
        // hyper has answered it.
        let proxy = &client.proxy;
        let _found = proxy.record_unjudged(Op::Request, Code::RequestMalformed, "", reason);
    }
}

impl Client {
    /// Waits until the first head is late.
    async fn begins_late(&self, late: Instant) {
        sleep_until(late).await;
        if self.verdicts.have_begun() {
            std::future::pending().await
        }
    }

    fn take_refused(&self) -> Option<Refusal> {
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        refused.take()
    }

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
        let problem = match answer {
            Ok(response) => return response,
            Err(problem) => problem,
        };
        if let Problem::Unjudged { code, reason, .. } = &problem {
            let asked = uri.authority().map_or("", |authority| authority.as_str());
            let recorded = self.proxy.record_unjudged(op, *code, asked, reason);
            recorded.attributed().await;
        }
        problem.into_response(op)
    }
}

/// Gets the bare connection out of hyper, with what was read ahead of it.
fn reclaim<T>(upgraded: Upgraded, bare: impl Fn(T) -> (TcpStream, Bytes)) -> Option<tunnel::End>
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let parts = upgraded.downcast::<TokioIo<T>>().ok()?;
    let (stream, rest) = bare(parts.io.into_inner());
    // Nothing read ahead holds the whole buffer all the same.
    let read = match (parts.read_buf.is_empty(), rest.is_empty()) {
        (true, _) => rest,
        (false, true) => parts.read_buf,
        (false, false) => [parts.read_buf, rest].concat().into(),
    };
    Some(tunnel::End { stream, read })
}

/// What an answer of ours may take longer than the limit that it is about.
const GRACE: Duration = Duration::from_secs(1);
const MAX_HEADERS: usize = 512;

/// What hyper reads ahead; a little above the longest head, so that the limit is the head's.
const MAX_BUFFER: usize = super::framing::MAX_HEAD + 16 * 1024;
