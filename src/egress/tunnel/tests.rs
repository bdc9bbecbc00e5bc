use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::time::{Instant, sleep};

use super::*;
use crate::policy::hostname::Target;
use crate::policy::network::{Denial, Network};

fn permit(target: &str) -> Permit {
    let network = Network::allowing(&[target]);
    network.check(Target::parse(target, None).unwrap()).unwrap()
}

async fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap());
    let (client, accepted) = tokio::join!(client, listener.accept());
    (client.unwrap(), accepted.unwrap().0)
}

/// A tunnel to `target`: the client's end, the server's, and how it ended.
async fn tunnel(
    target: &str,
) -> (
    TcpStream,
    TcpStream,
    tokio::task::JoinHandle<Option<Denial>>,
) {
    let ((client, near), (far, server)) = (pair().await, pair().await);
    let permit = permit(target);
    let run = async move {
        let near = End {
            stream: near,
            read: Bytes::new(),
        };
        let means = (&Pipes::default(), Network::allowing(&[]).limits());
        let (mismatch, near) = run_confirmed(near, far, &permit, means).await.err()?;
        let denial = mismatch.denial.clone();
        mismatch.turn_away(near).await;
        Some(denial)
    };
    (client, server, tokio::spawn(run))
}

/// Returns what the server heard, and whether the tunnel was refused.
async fn say(target: &str, bytes: &[u8]) -> (Vec<u8>, bool) {
    let (mut client, mut server, run) = tunnel(target).await;
    client.write_all(bytes).await.unwrap();
    client.shutdown().await.unwrap();
    let mut heard = Vec::new();
    server.read_to_end(&mut heard).await.unwrap();
    drop(server);
    client.read_to_end(&mut Vec::new()).await.unwrap();
    drop(client);
    (heard, run.await.unwrap().is_some())
}

#[tokio::test]
async fn on_port_443_nothing_but_tls_with_the_name_gets_through() {
    let request = b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n";
    assert_eq!(say("a.test:80", request).await, (request.to_vec(), false));
    assert_eq!(say("a.test:443", request).await, (Vec::new(), true));
    let other = b"GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n";
    assert_eq!(say("a.test:80", other).await, (Vec::new(), true));
    assert_eq!(
        say("a.test:443", b"SSH-2.0-x\r\n").await,
        (Vec::new(), true)
    );
    // Nothing was said that could be meant for another.
    assert_eq!(say("a.test:443", b"").await, (Vec::new(), false));
    let broken = [22, 3, 1, 0];
    assert_eq!(say("a.test:443", &broken).await, (Vec::new(), true));
    assert_eq!(say("a.test:80", &broken).await, (Vec::new(), true));
}

#[tokio::test(start_paused = true)]
async fn a_hello_that_does_not_end_is_given_up_after_ten_seconds() {
    let (mut client, mut server, run) = tunnel("a.test:443").await;
    let begun = Instant::now();
    sleep(Duration::from_secs(600)).await;
    client.write_all(&[22, 3, 1]).await.unwrap();
    let denial = run.await.unwrap().unwrap();
    assert!(
        denial.message().contains("did not come whole"),
        "{}",
        denial.message()
    );
    let took = begun.elapsed();
    assert!(
        took > Duration::from_secs(609) && took < Duration::from_secs(613),
        "{took:?}"
    );
    assert_eq!(server.read(&mut [0; 8]).await.unwrap(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_tunnel_that_speaks_now_and_then_lives_and_a_silent_one_ends_after_an_hour() {
    let (mut client, mut server, run) = tunnel("a.test:22").await;
    for _ in 0..5 {
        sleep(Duration::from_secs(3500)).await;
        client.write_all(b"x").await.unwrap();
        assert_eq!(server.read_u8().await.unwrap(), b'x');
        sleep(Duration::from_secs(3500)).await;
        server.write_all(b"y").await.unwrap();
        assert_eq!(client.read_u8().await.unwrap(), b'y');
    }
    let begun = Instant::now();
    assert!(run.await.unwrap().is_none());
    let took = begun.elapsed();
    assert!(
        took.abs_diff(Duration::from_secs(3600)) < Duration::from_secs(1),
        "{took:?}"
    );
    for end in [&mut client, &mut server] {
        let error = end.read_u8().await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
    }
}
