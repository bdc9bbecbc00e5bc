//! The HTTP proxy: CONNECT tunnels, and requests in absolute form, forwarded one by one.

mod answer;
mod request;

use std::convert::Infallible;
use std::io;
use std::sync::Arc;

use hyper::body::Incoming;
use hyper::client::conn::http1 as client;
use hyper::header::{CONNECTION, HeaderValue};
use hyper::server::conn::http1 as server;
use hyper::service::service_fn;
use hyper::upgrade::OnUpgrade;
use hyper::{Method, Request, Response, StatusCode, Version};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};

use super::framing::{self, Framed, Verdicts};
use super::pool::Sender;
use super::tunnel::{self, End};
use super::{Front, HANDSHAKE_LIMIT, Proxy, dial};
use crate::audit::event::{self, Code};
use crate::policy::network::Permit;
use answer::Body;
use request::Refusal;

/// A listener that speaks HTTP/1.
pub(super) struct Http(pub(super) TcpListener);

/// Header fields of one request; the bytes of a head are bounded as well.
const MAX_HEADERS: usize = 256;

/// Bytes hyper buffers of a connection: a whole head fits.
const BUFFER: usize = framing::HEAD_LIMIT + 16 * 1024;

impl Front for Http {
    type Client = TcpStream;

    async fn accept(&self) -> io::Result<TcpStream> {
        self.0.accept().await.map(|(client, _)| client)
    }

    async fn serve(proxy: Arc<Proxy>, client: TcpStream) {
        // Latency only: a socket that refuses the option works without it.
        drop(client.set_nodelay(true));
        let (framed, verdicts) = Framed::new(client);
        let service = service_fn(move |request| {
            let proxy = Arc::clone(&proxy);
            let verdicts = verdicts.clone();
            async move { Ok::<_, Infallible>(handle(&proxy, &verdicts, request).await) }
        });
        let connection = server::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HANDSHAKE_LIMIT)
            .max_headers(MAX_HEADERS)
            .max_buf_size(BUFFER)
            .half_close(true)
            .serve_connection(TokioIo::new(framed), service)
            .with_upgrades();
        // What ends a connection early is the client's doing; hyper has answered it.
        drop(connection.await);
    }
}

async fn handle(
    proxy: &Arc<Proxy>,
    verdicts: &Verdicts,
    request: Request<Incoming>,
) -> Response<Body> {
    let is_connect = request.method() == Method::CONNECT;
    let mut response = respond(proxy, verdicts, request).await;
    if is_connect && !response.status().is_success() {
        // What follows a CONNECT is no request, so that nothing more can be read here.
        response
            .headers_mut()
            .insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

async fn respond(
    proxy: &Arc<Proxy>,
    verdicts: &Verdicts,
    request: Request<Incoming>,
) -> Response<Body> {
    let target = match request::target(&request, verdicts.next()) {
        Ok(target) => target,
        Err(refusal) => return refuse(proxy, &refusal),
    };
    let permit = match proxy.policy.check(target.clone()) {
        Ok(permit) => permit,
        Err(denial) => {
            proxy.record_denial(&target.to_string(), &denial);
            return answer::denied(&denial);
        }
    };
    if request.method() == Method::CONNECT {
        connect(proxy, &permit, request).await
    } else {
        forward(proxy, verdicts, &permit, request).await
    }
}

fn refuse(proxy: &Proxy, refusal: &Refusal) -> Response<Body> {
    let verdict = event::Verdict::Denied;
    proxy.record_refusal(None, Code::RequestMalformed, verdict, refusal.reason);
    answer::refused(refusal)
}

async fn connect(
    proxy: &Arc<Proxy>,
    permit: &Permit,
    request: Request<Incoming>,
) -> Response<Body> {
    match proxy.dial(permit).await {
        Ok(upstream) => {
            let proxy = Arc::clone(proxy);
            let client = hyper::upgrade::on(request);
            tokio::spawn(async move {
                if let Some(client) = client_end(client).await {
                    // An error of either side has ended both; there is nobody left to tell.
                    drop(tunnel::run(&proxy.pipes, client, upstream.into()).await);
                }
            });
            Response::new(answer::empty())
        }
        Err(failure) => answer::failed(&failure),
    }
}

/// Takes the client's connection back from hyper, with what it has read ahead.
async fn client_end(upgrade: OnUpgrade) -> Option<End> {
    let parts = upgrade.await.ok()?.downcast::<TokioIo<Framed>>().ok()?;
    let stream = parts.io.into_inner().into_inner();
    Some(End {
        stream,
        read: parts.read_buf,
    })
}

async fn upstream_end(upgrade: OnUpgrade) -> Option<End> {
    let parts = upgrade.await.ok()?.downcast::<TokioIo<TcpStream>>().ok()?;
    Some(End {
        stream: parts.io.into_inner(),
        read: parts.read_buf,
    })
}

async fn forward(
    proxy: &Arc<Proxy>,
    verdicts: &Verdicts,
    permit: &Permit,
    mut request: Request<Incoming>,
) -> Response<Body> {
    let client = request::wants_websocket(&request).then(|| hyper::upgrade::on(&mut request));
    let target = permit.target();
    let outgoing = match request::outgoing(request, target, client.is_some()) {
        Ok(outgoing) => outgoing,
        Err(refusal) => return refuse(proxy, &refusal),
    };
    let (sender, response) = match send(proxy, permit, outgoing).await {
        Ok(answered) => answered,
        Err(Unanswered::Dial(failure)) => return answer::failed(&failure),
        Err(Unanswered::Broken) if verdicts.body_is_broken() => {
            return refuse(
                proxy,
                &Refusal::bad_request("the body breaks its own framing"),
            );
        }
        Err(Unanswered::Broken) => {
            let reason = "the connection broke before an answer came";
            let verdict = event::Verdict::Failed;
            let host = target.to_string();
            proxy.record_refusal(Some(&host), Code::UpstreamFailed, verdict, reason);
            return answer::bad_gateway(reason);
        }
    };
    match client {
        Some(client) if response.status() == StatusCode::SWITCHING_PROTOCOLS => {
            switch(proxy, client, response)
        }
        _ => {
            proxy.upstreams.put(target, sender);
            answer::forwarded(response)
        }
    }
}

/// Why a request got no answer.
enum Unanswered {
    Dial(dial::Failure),
    Broken,
}

/// Sends on a kept connection if there is one, else on a new one. A kept one that the server
/// has closed in the meantime gives the request back, and the next is tried.
async fn send(
    proxy: &Proxy,
    permit: &Permit,
    mut request: Request<Incoming>,
) -> Result<(Sender, Response<Incoming>), Unanswered> {
    while let Some(mut kept) = proxy.upstreams.take(permit.target()) {
        match kept.try_send_request(request).await {
            Ok(response) => {
                proxy.record_permit(permit);
                return Ok((kept, response));
            }
            Err(mut error) => request = error.take_message().ok_or(Unanswered::Broken)?,
        }
    }
    let stream = proxy.dial(permit).await.map_err(Unanswered::Dial)?;
    let handshake = client::Builder::new().handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = handshake.map_err(|_| Unanswered::Broken)?;
    tokio::spawn(connection.with_upgrades());
    let response = sender
        .send_request(request)
        .await
        .map_err(|_| Unanswered::Broken)?;
    Ok((sender, response))
}

/// Passes a 101 on, and from then on the bytes behind it.
fn switch(
    proxy: &Arc<Proxy>,
    client: OnUpgrade,
    mut response: Response<Incoming>,
) -> Response<Body> {
    let upstream = hyper::upgrade::on(&mut response);
    let proxy = Arc::clone(proxy);
    tokio::spawn(async move {
        let ends = tokio::join!(client_end(client), upstream_end(upstream));
        if let (Some(client), Some(upstream)) = ends {
            drop(tunnel::run(&proxy.pipes, client, upstream).await);
        }
    });
    let mut answer = Response::new(answer::empty());
    *answer.status_mut() = response.status();
    *answer.headers_mut() = std::mem::take(response.headers_mut());
    answer.headers_mut().remove(CONNECTION);
    answer.headers_mut().insert(CONNECTION, answer::upgrade());
    answer
}

/// The version every message of ours has, whatever the other side speaks.
const VERSION: Version = Version::HTTP_11;
