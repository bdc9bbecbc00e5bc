//! CONNECT: a judged connection, then a tunnel.

use bytes::Bytes;
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use hyper::{Request, Response};

use super::super::record::Op;
use super::super::refusal::Refusal;
use super::super::{Proxy, dial, tunnel};
use super::answer::Problem;
use super::request::connect_target;
use super::{Body, Client, Framed, reclaim};
use crate::policy::hostname::Target;
use crate::policy::network::Permit;

impl Client {
    pub(super) async fn connect(
        &self,
        mut request: Request<Incoming>,
    ) -> Result<Response<Body>, Problem> {
        let target = connect_target(&request)?;
        let stream = self.proxy.open(target).await?;
        let upgrade = hyper::upgrade::on(&mut request);
        let client = self.clone();
        tokio::spawn(async move {
            let Ok(upgraded) = upgrade.await else { return };
            let Some(near) = reclaim(upgraded, Framed::into_inner) else {
                return;
            };
            let far = tunnel::End {
                stream,
                read: Bytes::new(),
            };
            tunnel::run(near, far, &client.proxy.pipes).await;
            drop(client.slot);
        });
        Ok(Response::new(Either::Right(Full::default())))
    }
}

impl Proxy {
    /// Judges a target, connects to it, and records how that went, once.
    pub(in crate::egress) async fn open(
        &self,
        target: Target,
    ) -> Result<tokio::net::TcpStream, Refusal> {
        let permit = self.judge(Op::Connect, &target)?;
        let stream = self.dial(Op::Connect, &permit).await?;
        self.record_allowed(Op::Connect, &permit);
        Ok(stream)
    }

    /// Asks the policy, and records a refusal.
    pub(super) fn judge(&self, op: Op, target: &Target) -> Result<Permit, Refusal> {
        self.network.check(target.clone()).map_err(|denial| {
            let refusal = Refusal::Denied(denial);
            self.record_refusal(op, target, &refusal);
            refusal
        })
    }

    /// Connects, and records a failure.
    pub(super) async fn dial(
        &self,
        op: Op,
        permit: &Permit,
    ) -> Result<tokio::net::TcpStream, Refusal> {
        let attempt = self.attempt(op, permit);
        let dialled = dial::dial(permit).await;
        attempt.settle();
        if let Err(refusal) = &dialled {
            self.record_refusal(op, permit.target(), refusal);
        }
        dialled
    }
}
