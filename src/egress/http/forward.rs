//! Plain requests: passed on over a kept or new connection, bodies streamed both ways.

use std::pin::{Pin, pin};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{Either, Full};
use hyper::body::{Body as _, Incoming};
use hyper::client::conn::http1;
use hyper::header::{EXPECT, HOST, HeaderValue};
use hyper::http::uri::{PathAndQuery, Uri};
use hyper::{Request, Response, StatusCode, Version};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::timeout;

use super::super::pool::Sender;
use super::super::record::Op;
use super::super::refusal::{Cause, Failure, Refusal};
use super::super::tunnel;
use super::answer::Problem;
use super::interim::{Broken, Sink, Upstream};
use super::request::plain_target;
use super::{Body, Client, Framed, MAX_HEADERS, headers, reclaim};
use crate::policy::hostname::Target;
use crate::policy::network::Permit;

impl Client {
    pub(super) async fn forward(
        &self,
        mut request: Request<Incoming>,
    ) -> Result<Response<Body>, Problem> {
        let asked = plain_target(&request)?;
        let permit = self.proxy.judge_request(Op::Request, &asked).await?;
        let target = asked.target;
        let websocket = headers::is_websocket(request.headers());
        let near = websocket.then(|| hyper::upgrade::on(&mut request));
        let (to, interim) = unbounded_channel();
        let sink = sink_for(&request, to);
        let request = onward(request, &target, websocket)?;
        let sending = async {
            match websocket {
                true => self
                    .send_on_new(&permit, request, sink)
                    .await
                    .map(|(response, _)| response),
                false => self.send(&permit, request, sink).await,
            }
        };
        let sent = self.pass_interim(interim, pin!(sending)).await;
        let mut response = sent.map_err(|refusal| self.blame(refusal))?;
        let switches = response.status() == StatusCode::SWITCHING_PROTOCOLS;
        match (switches, near) {
            (true, Some(near)) if headers::is_websocket(response.headers()) => {
                let far = hyper::upgrade::on(&mut response);
                self.join(near, far);
            }
            (true, _) => {
                let what = "it switches to a protocol nobody asked for";
                return Err(self.failed(&target, Cause::Other, what).await.into());
            }
            (false, _) => {}
        }
        let mut response = response.map(Either::Left);
        *response.version_mut() = Version::HTTP_11;
        headers::strip(response.headers_mut());
        if switches {
            headers::insert_websocket(response.headers_mut());
        }
        Ok(response)
    }

    /// Waits for the answer, and has those before it written to the client.
    async fn pass_interim<T>(
        &self,
        mut interim: UnboundedReceiver<Bytes>,
        mut sending: Pin<&mut impl Future<Output = T>>,
    ) -> T {
        let sent = loop {
            tokio::select! {
                biased;
                Some(head) = interim.recv() => self.aside.write(head).await,
                sent = &mut sending => break sent,
            }
        };
        while let Ok(head) = interim.try_recv() {
            self.aside.write(head).await;
        }
        sent
    }

    /// Sends over a kept connection if there is one that lives, else over a new one.
    async fn send(
        &self,
        permit: &Permit,
        request: Request<Body>,
        sink: Option<Sink>,
    ) -> Result<Response<Incoming>, Refusal> {
        let target = permit.target();
        let (pool, worker) = (&self.proxy.pool, self.proxy.worker);
        let Some((mut sender, maker)) = pool.take(target, worker) else {
            let (response, sender) = self.send_on_new(permit, request, sink).await?;
            pool.put(target, sender, worker);
            return Ok(response);
        };
        let _found = self.proxy.record_allowed(Op::Request, permit);
        let spare = repeatable(&request);
        sender.interim.by(sink.clone());
        let sent = timeout(self.idle(), sender.requests.try_send_request(request)).await;
        let again = match sent {
            Ok(Ok(response)) => {
                pool.put(target, sender, maker);
                return Ok(response);
            }
            Ok(Err(mut error)) => match Broken::cause_of(error.error()) {
                Some(what) => return Err(self.failed(target, Cause::Other, what).await),
                // The server closed it while the request was on its way.
                None => error.take_message().or(spare),
            },
            Err(_) => None,
        };
        let Some(request) = again else {
            return Err(self.failed(target, Cause::Other, NO_ANSWER).await);
        };
        let stream = self.proxy.dial(Op::Request, permit).await?;
        let (response, sender) = self.send_over(stream, target, request, sink).await?;
        pool.put(target, sender, worker);
        Ok(response)
    }

    async fn send_on_new(
        &self,
        permit: &Permit,
        request: Request<Body>,
        sink: Option<Sink>,
    ) -> Result<(Response<Incoming>, Sender), Refusal> {
        let stream = self.proxy.dial(Op::Request, permit).await?;
        // Before the first byte leaves: what was sent is on record, whatever comes back.
        let _found = self.proxy.record_allowed(Op::Request, permit);
        self.send_over(stream, permit.target(), request, sink).await
    }

    async fn send_over(
        &self,
        stream: TcpStream,
        target: &Target,
        request: Request<Body>,
        sink: Option<Sink>,
    ) -> Result<(Response<Incoming>, Sender), Refusal> {
        let mut builder = http1::Builder::new();
        builder.max_headers(MAX_HEADERS).preserve_header_case(true);
        let (stream, interim) = Upstream::new(stream);
        let exchange = async {
            let (requests, connection) = builder.handshake(TokioIo::new(stream)).await?;
            tokio::spawn(connection.with_upgrades());
            interim.by(sink);
            let mut sender = Sender { requests, interim };
            let answer = timeout(self.idle(), sender.requests.send_request(request)).await;
            Ok::<_, hyper::Error>(match answer {
                Ok(answer) => Some((answer?, sender)),
                Err(_) => None,
            })
        };
        let (cause, what) = match exchange.await {
            Ok(Some(answered)) => return Ok(answered),
            Ok(None) => (Cause::TimedOut, LATE),
            Err(error) => (Cause::Other, Broken::cause_of(&error).unwrap_or(NO_ANSWER)),
        };
        Err(self.failed(target, cause, what).await)
    }

    fn idle(&self) -> Duration {
        self.proxy.network.limits().idle
    }

    async fn failed(&self, target: &Target, cause: Cause, what: &str) -> Refusal {
        let refusal = Refusal::Failed(Failure::new(target, cause, what));
        self.proxy.refuse(Op::Request, target, refusal).await
    }

    /// Puts a failure down to the client where its own body was the reason.
    fn blame(&self, refusal: Refusal) -> Problem {
        match self.verdicts.body_is_broken() {
            true => Problem::malformed("the body breaks its own framing"),
            false => refusal.into(),
        }
    }

    fn join(&self, near: hyper::upgrade::OnUpgrade, far: hyper::upgrade::OnUpgrade) {
        let client = self.clone();
        tokio::spawn(async move {
            let Ok((near, far)) = tokio::try_join!(near, far) else {
                return;
            };
            let near = reclaim(near, Framed::into_inner);
            let far = reclaim(far, Upstream::into_inner);
            if let (Some(near), Some(far)) = (near, far) {
                let limits = client.proxy.network.limits();
                tunnel::run(near, far, (&client.proxy.pipes, limits)).await;
            }
            drop(client.slot);
        });
    }
}

/// Returns where interim answers go. HTTP/1.0 has none (RFC 9110, 15.2), and hyper says itself
/// that a client who waits for that may go on.
fn sink_for(request: &Request<Incoming>, to: UnboundedSender<Bytes>) -> Option<Sink> {
    let expects = request.headers().contains_key(EXPECT);
    (request.version() == Version::HTTP_11).then(|| Sink::new(to, expects))
}

/// Turns a request to a proxy into one to a server.
fn onward(
    mut request: Request<Incoming>,
    target: &Target,
    websocket: bool,
) -> Result<Request<Body>, Problem> {
    let path = request.uri().path_and_query().cloned();
    *request.uri_mut() = Uri::from(path.unwrap_or(PathAndQuery::from_static("/")));
    *request.version_mut() = Version::HTTP_11;
    let host = match target.port {
        80 => target.host.to_string(),
        _ => target.to_string(),
    };
    let headers = request.headers_mut();
    headers::strip(headers);
    let host = HeaderValue::from_str(&host);
    headers.insert(
        HOST,
        host.map_err(|_| Problem::malformed("the host is not ASCII"))?,
    );
    if websocket {
        headers::insert_websocket(headers);
    }
    Ok(request.map(Either::Left))
}

/// Returns a copy of a request that may be sent twice (RFC 9110, 9.2.2) and has no body.
fn repeatable(request: &Request<Body>) -> Option<Request<Body>> {
    if !request.method().is_idempotent() || !request.body().is_end_stream() {
        return None;
    }
    let mut copy = Request::new(Either::Right(Full::default()));
    *copy.method_mut() = request.method().clone();
    *copy.uri_mut() = request.uri().clone();
    *copy.headers_mut() = request.headers().clone();
    Some(copy)
}

const LATE: &str = "no answer within the seconds of network.limits.idleSeconds";
const NO_ANSWER: &str = "the connection ended before an answer came";
