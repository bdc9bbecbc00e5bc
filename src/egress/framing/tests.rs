use super::*;

/// Follows `text` in pieces of `size` and returns what was found.
fn found(text: &[u8], size: usize) -> Vec<Found> {
    let mut follower = Follower::new();
    let mut all = Vec::new();
    for piece in text.chunks(size) {
        follower.follow(piece, |found| {
            all.push(match found {
                Found::BrokenBody(_) => Found::BrokenBody(0),
                head => head,
            });
        });
    }
    all
}

fn is_refused(text: &str) -> bool {
    let whole = found(text.as_bytes(), usize::MAX);
    let bytes = found(text.as_bytes(), 1);
    assert_eq!(whole, bytes, "the same however it is cut: {text:?}");
    matches!(whole.as_slice(), [Found::Head(Verdict::Refused(_)), ..])
}

fn sound_heads(text: &str) -> usize {
    for size in [1, 2, 7, usize::MAX] {
        let all = found(text.as_bytes(), size);
        assert!(
            all.iter()
                .all(|found| *found == Found::Head(Verdict::Sound)),
            "{text:?}: {all:?}"
        );
    }
    found(text.as_bytes(), usize::MAX).len()
}

const START: &str = "POST http://a.test/ HTTP/1.1\r\nHost: a.test\r\n";

#[test]
fn every_ambiguous_framing_is_refused() {
    let heads = [
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
        "Content-Length: 5\r\nContent-Length: 5\r\n",
        "Content-Length: 5\r\nContent-Length: 6\r\n",
        "Content-Length: 5, 5\r\n",
        "Content-Length: +5\r\n",
        "Content-Length: -5\r\n",
        "Content-Length: 0x5\r\n",
        "Content-Length: 5 5\r\n",
        "Content-Length:\r\n",
        "Content-Length: 9999999999999999999\r\n",
        "Content-Length : 5\r\n",
        "Transfer-Encoding : chunked\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
        "Transfer-Encoding: identity\r\n",
        "Transfer-Encoding: gzip, chunked\r\n",
        "Transfer-Encoding: chunked, identity\r\n",
        "Transfer-Encoding: xchunked\r\n",
        "Transfer-Encoding: \"chunked\"\r\n",
        "Transfer-Encoding:\x0bchunked\r\n",
        "Transfer-Encoding:\r\n chunked\r\n",
        "X: y\r\n folded\r\n",
        "X: y\r\n\tTransfer-Encoding: chunked\r\n",
        "X: y\rTransfer-Encoding: chunked\r\n",
        "X: y\nTransfer-Encoding: chunked\r\n",
        "X: y\n",
        "X: \0\r\n",
        "no colon\r\n",
        ": empty\r\n",
    ];
    assert_eq!(
        sound_heads(&format!("{START}Content-Length: 5\r\n\r\nhello")),
        1
    );
    for head in heads {
        assert!(is_refused(&format!("{START}{head}\r\n")), "{head:?}");
    }
    assert!(
        is_refused(&format!("{START}\n")),
        "a bare line feed ends the head"
    );
}

#[test]
fn every_odd_request_line_is_refused() {
    let lines = [
        "GET http://a.test/ HTTP/2.0",
        "GET http://a.test/ http/1.1",
        "GET http://a.test/",
        "GET  http://a.test/ HTTP/1.1",
        "GET http://a.test/ HTTP/1.1 ",
        "GET\thttp://a.test/ HTTP/1.1",
        " GET http://a.test/ HTTP/1.1",
        "GET http://a.test/a b HTTP/1.1",
        "G(T http://a.test/ HTTP/1.1",
        "GET http://a.test#@b.test/ HTTP/1.1",
        "GET http://b.test\\@a.test/ HTTP/1.1",
        "GET http://a.test/\x7f HTTP/1.1",
        "PRI * HTTP/2.0",
        "\x16\x03\x01",
    ];
    for line in lines {
        assert!(
            is_refused(&format!("{line}\r\nHost: a.test\r\n\r\n")),
            "{line:?}"
        );
    }
    assert!(is_refused(
        "POST http://a.test/ HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"
    ));
    assert!(is_refused(
        "CONNECT a.test:443 HTTP/1.1\r\nContent-Length: 5\r\n\r\n"
    ));
    assert!(is_refused(
        "CONNECT a.test:443 HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
    ));
    assert!(is_refused("\nGET http://a.test/ HTTP/1.1\r\n\r\n"));
}

#[test]
fn pipelined_requests_are_told_apart_by_their_bodies() {
    let get = "GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n";
    let with_length = format!("{START}Content-Length: {}\r\n\r\n{get}", get.len());
    let chunked = format!(
        "{START}transfer-ENCODING: Chunked\r\n\r\n{:x};a=b\r\n{get}\r\n0\r\nX: y\r\n\r\n",
        get.len()
    );
    assert_eq!(sound_heads(&format!("\r\n\r\n{get}{get}{get}")), 3);
    assert_eq!(sound_heads(&format!("{with_length}{get}")), 2);
    assert_eq!(
        sound_heads(&format!("{chunked}{with_length}{chunked}{get}")),
        4
    );
    assert_eq!(
        sound_heads(&format!("CONNECT a.test:443 HTTP/1.1\r\n\r\n{get}")),
        1
    );
}

#[test]
fn a_body_that_breaks_its_framing_is_cut_there() {
    let bodies = [
        "5\nhello\r\n0\r\n\r\n",
        "0x5\r\nhello\r\n0\r\n\r\n",
        "+5\r\nhello\r\n0\r\n\r\n",
        "5\r\nhello0\r\n\r\n",
        "5\r\nhelloXX0\r\n\r\n",
        "\r\n",
        "-1\r\n",
        "10000000000000000\r\n",
        "5 x\r\nhello\r\n0\r\n\r\n",
        "5;a=\x01\r\nhello\r\n",
        "0\r\nX\r\n\r\n",
        "0\r\nX: y\n\r\n",
    ];
    for body in bodies {
        let text = format!("{START}Transfer-Encoding: chunked\r\n\r\n{body}");
        for size in [1, 3, usize::MAX] {
            let all = found(text.as_bytes(), size);
            let expected = [Found::Head(Verdict::Sound), Found::BrokenBody(0)];
            assert_eq!(all, expected, "{body:?} in pieces of {size}");
        }
    }
}

#[test]
fn a_head_ends_at_64_kib_and_may_have_hundreds_of_lines() {
    let fill = |length: usize| format!("{START}X: {}\r\n\r\n", "a".repeat(length));
    let longest = head::LIMIT - START.len() - "X: \r\n\r\n".len();
    assert_eq!(sound_heads(&fill(longest)), 1);
    let all = found(fill(longest + 1).as_bytes(), usize::MAX);
    assert_eq!(all, [Found::Head(Verdict::Refused(Fault::TooLarge))]);
    assert_eq!(
        sound_heads(&format!("{START}{}\r\n", "X: y\r\n".repeat(300))),
        1
    );
}
