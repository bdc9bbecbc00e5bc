//! Servers that remember what reached them.

use std::io::BufReader;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use super::http;

/// Which namespace a server is in: that of the launcher, or the farther one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    Near,
    Far,
}

/// One request, or a connection that ended without.
#[derive(Debug, Clone)]
pub struct Request {
    pub place: Place,
    /// Where it was sent.
    pub to: SocketAddr,
    /// Where it came from.
    pub from: SocketAddr,
    /// The first lines up to the empty one; what there was of them.
    pub head: String,
}

impl Request {
    /// Tells whether it was for this name, by its header.
    pub fn is_for(&self, name: &str) -> bool {
        let host = self.header("host").unwrap_or_default();
        host.split(':').next() == Some(name)
    }

    /// Returns the value of a header, if there is one of that name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        http::header(&self.head, name)
    }
}

/// All requests so far, in the order of their arrival.
#[derive(Debug, Default)]
pub struct Requests(Mutex<Vec<Request>>);

impl Requests {
    pub fn count(&self) -> usize {
        self.0.lock().expect("nothing panics with it").len()
    }

    pub fn since(&self, count: usize) -> Vec<Request> {
        self.0.lock().expect("nothing panics with it")[count..].to_vec()
    }

    fn add(&self, request: Request) {
        self.0.lock().expect("nothing panics with it").push(request);
    }
}

/// Speaks HTTP on a socket, in threads that end with the test.
pub(super) fn serve(listener: TcpListener, place: Place, requests: &Arc<Requests>) {
    let requests = Arc::clone(requests);
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let requests = Arc::clone(&requests);
            std::thread::spawn(move || converse(client, place, &requests));
        }
    });
}

/// Answers one connection until it ends. What never asked for anything is a request as well:
/// a test that denies wants no connection either.
fn converse(client: TcpStream, place: Place, requests: &Requests) {
    let (Ok(from), Ok(to)) = (client.peer_addr(), client.local_addr()) else {
        return;
    };
    let [from, to] = [from, to].map(canonical);
    let mut asked = false;
    let Ok(reader) = client.try_clone() else {
        return;
    };
    let (mut reader, mut client) = (BufReader::new(reader), client);
    loop {
        let head = http::read_head(&mut reader);
        if head.is_empty() && asked {
            return;
        }
        asked = true;
        let ended = !head.ends_with("\r\n\r\n");
        requests.add(Request {
            place,
            to,
            from,
            head: head.clone(),
        });
        if ended || http::answer(&head, &mut reader, &mut client).is_err() {
            return;
        }
    }
}

/// Sockets of both families show IPv4 inside IPv6.
fn canonical(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V6(v6) => v6.to_canonical(),
        v4 => v4,
    };
    SocketAddr::new(ip, address.port())
}
