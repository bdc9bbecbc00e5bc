//! A seeded part of what `make fuzz` does, so that every test run does some of it.

use std::time::{Duration, Instant};

use crate::policy::network::fuzzing::pattern;

/// Rounds of one target where `SRT_FUZZ_SECONDS` does not say for how long.
const ROUNDS: u64 = 4000;

struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % bound as u64).unwrap()
    }

    fn pick<'a, T: ?Sized>(&mut self, all: &[&'a T]) -> &'a T {
        all[self.below(all.len())]
    }

    /// Changes a few places of `bytes`, with words that mean something where it is read.
    fn change(&mut self, bytes: &mut Vec<u8>, words: &[&[u8]]) {
        for _ in 0..=self.below(5) {
            let at = self.below(bytes.len() + 1);
            match self.below(4) {
                0 if at < bytes.len() => bytes[at] = self.below(256).to_le_bytes()[0],
                1 => {
                    let end = (at + self.below(8)).min(bytes.len());
                    bytes.drain(at..end);
                }
                2 => {
                    let end = (at + self.below(64)).min(bytes.len());
                    let part = bytes[at..end].to_vec();
                    bytes.splice(at..at, part);
                }
                _ => drop(bytes.splice(at..at, self.pick(words).iter().copied())),
            }
        }
    }
}

/// Calls `target` with what changes make of `samples`.
#[allow(
    clippy::disallowed_methods,
    reason = "says how long a test takes, not what is done"
)]
fn fuzz(target: impl Fn(&[u8]), samples: &[&[u8]], words: &[&[u8]]) {
    let setting = |name| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let seconds = setting("SRT_FUZZ_SECONDS").map(Duration::from_secs);
    let seed = setting("SRT_TEST_SEED").unwrap_or(1);
    let begun = Instant::now();
    let mut round = 0;
    while seconds.map_or(round < ROUNDS, |limit| begun.elapsed() < limit) {
        let mut random = Random((seed + round).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let mut bytes = random.pick(samples).to_vec();
        random.change(&mut bytes, words);
        let held = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| target(&bytes)));
        assert!(
            held.is_ok(),
            "SRT_TEST_SEED={} fails: {bytes:?}",
            seed + round
        );
        round += 1;
    }
}

#[test]
fn any_bytes_as_http_are_followed_alike_in_any_pieces() {
    let samples: [&[u8]; 4] = [
        b"GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\nGET / HTTP/1.0\r\n\r\n",
        b"POST http://a.test/ HTTP/1.1\r\nContent-Length: 5\r\n\r\nhelloGET / HTTP/1.1\r\n\r\n",
        b"PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n0\r\nX: y\r\n\r\n",
        b"CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\r\n\r\n\x16\x03\x01",
    ];
    let words: [&[u8]; 9] = [
        b"\r\n",
        b"\n",
        b"\r",
        b" ",
        b"\0",
        b"Content-Length: 1\r\n",
        b"0\r\n\r\n",
        b": ",
        b"Transfer-Encoding: chunked\r\n",
    ];
    fuzz(super::head, &samples, &words);
}

#[test]
fn any_bytes_as_a_hello_are_read_alike_in_any_pieces() {
    let recorded = crate::egress::hello::tests::samples();
    let samples: Vec<&[u8]> = recorded.iter().map(Vec::as_slice).collect();
    let words: [&[u8]; 6] = [
        &[22, 3, 1, 0, 1],
        &[0, 0],
        &[0xfe, 0x0d],
        b"name.example.test",
        &[0, 0, 0, 6, 0, 4, 0],
        &[1, 0, 0, 1],
    ];
    fuzz(super::hello, &samples, &words);
}

#[cfg(feature = "socks")]
#[test]
fn any_bytes_as_socks_are_taken_or_refused() {
    let samples: [&[u8]; 3] = [
        &[5, 1, 0, 5, 1, 0, 1, 192, 0, 2, 1, 1, 187],
        b"\x05\x02\x00\x02\x05\x01\x00\x03\x06a.test\x01\xbb",
        &[
            5, 1, 0, 5, 1, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 127, 0, 0, 1, 0, 80,
        ],
    ];
    let words: [&[u8]; 7] = [
        b"[::1]",
        b"::ffff:1.2.3.4",
        b"0x7f.1",
        b".",
        b"xn--bcher-kva",
        &[255],
        &[5, 1, 0],
    ];
    fuzz(super::socks, &samples, &words);
}

#[test]
fn any_bytes_as_a_question_are_answered_in_a_message_or_not() {
    let samples: [&[u8]; 4] = [
        b"\0\x01\x01\0\0\x01\0\0\0\0\0\0\x01a\x04test\0\0\x01\0\x01",
        b"\0\x02\x01\x20\0\x01\0\0\0\0\0\x01\x01a\x04test\0\0\x1c\0\x01\0\0\x29\x04\xd0\0\0\x80\0\0\0",
        b"\0\x03\x01\0\0\x01\0\0\0\0\0\0\x011\x010\x010\x03127\x07in-addr\x04arpa\0\0\x0c\0\x01",
        b"\0\x04\x01\0\0\x02\0\x01\0\0\0\0\x01a\x04test\0\0\x01\0\x01\xc0\x0c\0\x10\0\x01\xc0\x0c\0\x01\0\x01\0\0\0\x3c\0\x04\x7f\0\0\x01",
    ];
    let words: [&[u8]; 7] = [
        &[0xc0, 12],
        &[63],
        b"\x04test\0",
        &[0, 0, 41, 16, 0, 0, 0, 0, 0, 0, 0],
        &[0, 255, 0, 1],
        b"\x03ip6\x04arpa",
        &[0],
    ];
    fuzz(super::dns, &samples, &words);
}

#[test]
fn any_pattern_decides_as_its_model() {
    let samples: [&[u8]; 7] = [
        b"a.test\na.test:443",
        b"*.a.test\nb.a.test:443",
        b"*.a.test\na.test:443",
        b"a.test:443\nA.Test.:443",
        b"a.test:1-9\na.test:9",
        b"*.a.test:80\nc.b.a.test:80",
        b"localhost\nb.localhost:1",
    ];
    let words: [&[u8]; 11] = [
        b"*", b"*.", b".", b":", b"a", b"test", b"-", b"\n", b"443", b"A", b"_",
    ];
    fuzz(pattern, &samples, &words);
}
