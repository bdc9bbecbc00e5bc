//! CONNECT: a judged connection, then a tunnel.

use bytes::Bytes;
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use hyper::{Request, Response};
use tokio::net::TcpStream;

use super::super::record::Op;
use super::super::refusal::Refusal;
use super::super::{Proxy, dial, tunnel};
use super::answer::Problem;
use super::request::{Asked, connect_target, hosts};
use super::{Body, Client, Framed, reclaim};
use crate::policy::hostname::Target;
use crate::policy::network::Permit;

impl Client {
    pub(super) async fn connect(
        &self,
        mut request: Request<Incoming>,
    ) -> Result<Response<Body>, Problem> {
        let asked = connect_target(request.uri(), hosts(&request))?;
        let (far, permit) = match self.take_refused() {
            Some(refusal) => return Err(refusal.into()),
            None => self.proxy.open(&asked).await?,
        };
        let upgrade = hyper::upgrade::on(&mut request);
        let client = self.clone();
        tokio::spawn(async move {
            let Ok(upgraded) = upgrade.await else { return };
            let Some(near) = reclaim(upgraded, Framed::into_inner) else {
                return;
            };
            client.proxy.carry(near, far, &permit).await;
            drop(client.slot);
        });
        Ok(Response::new(Either::Right(Full::default())))
    }
}

/// Connects to where a client that `asked` wants to go, says so and runs the tunnel; `first` is
/// what it sent behind that. A refusal leaves the connection to be answered on.
pub(super) async fn serve(
    stream: TcpStream,
    proxy: &Proxy,
    (asked, first): (Asked, Bytes),
) -> Result<(), (TcpStream, Refusal)> {
    let (far, permit) = match proxy.open(&asked).await {
        Ok(opened) => opened,
        Err(refusal) => return Err((stream, refusal)),
    };
    if tunnel::write(&stream, CONNECTED).await.is_ok() {
        let near = tunnel::End {
            stream,
            read: first,
        };
        proxy.carry(near, far, &permit).await;
    }
    Ok(())
}

impl Proxy {
    async fn open(&self, asked: &Asked) -> Result<(TcpStream, Permit), Refusal> {
        let permit = self.judge_request(Op::Connect, asked).await?;
        Ok((self.connect(&permit).await?, permit))
    }

    /// Asks the policy about where a request goes, and whether its `Host` says the same.
    pub(super) async fn judge_request(&self, op: Op, asked: &Asked) -> Result<Permit, Refusal> {
        let permit = self.judge(op, &asked.target).await?;
        let confirmed = match &asked.host {
            Some(host) => permit.confirm_host(host),
            None => Ok(()),
        };
        match confirmed {
            Ok(()) => Ok(permit),
            Err(denial) => Err(self
                .refuse(op, &asked.target, Refusal::Denied(denial))
                .await),
        }
    }

    /// Connects for a tunnel, and records how that went, once.
    pub(in crate::egress) async fn connect(&self, permit: &Permit) -> Result<TcpStream, Refusal> {
        let stream = self.dial(Op::Connect, permit).await?;
        // What was let through waits for nobody.
        let _found = self.record_allowed(Op::Connect, permit);
        Ok(stream)
    }

    /// Runs the tunnel between a client and what it was connected to, and records where it turns
    /// out to mean another host.
    pub(in crate::egress) async fn carry(
        &self,
        near: tunnel::End,
        far: TcpStream,
        permit: &Permit,
    ) {
        let means = (&*self.pipes, self.network.limits());
        if let Err((mismatch, near)) = tunnel::run_confirmed(near, far, permit, means).await {
            let denial = &mismatch.denial;
            let recorded = self.record_denied(Op::Connect, permit.target(), denial);
            recorded.attributed().await;
            mismatch.turn_away(near).await;
        }
    }

    /// Asks the policy, and records a refusal.
    pub(in crate::egress) async fn judge(
        &self,
        op: Op,
        target: &Target,
    ) -> Result<Permit, Refusal> {
        match self.network.check(target.clone()) {
            Ok(permit) => Ok(permit),
            Err(denial) => Err(self.refuse(op, target, Refusal::Denied(denial)).await),
        }
    }

    /// Records a refusal while the client waits for it.
    pub(super) async fn refuse(&self, op: Op, target: &Target, refusal: Refusal) -> Refusal {
        self.record_refusal(op, target, &refusal).attributed().await;
        refusal
    }

    /// Connects, and records a failure.
    pub(super) async fn dial(&self, op: Op, permit: &Permit) -> Result<TcpStream, Refusal> {
        let attempt = self.attempt(op, permit);
        let dialled = dial::dial(permit).await;
        attempt.settle();
        match dialled {
            Ok(stream) => Ok(stream),
            Err(refusal) => Err(self.refuse(op, permit.target(), refusal).await),
        }
    }
}

/// As hyper says it.
const CONNECTED: &[u8] = b"HTTP/1.1 200 OK\r\n\r\n";
