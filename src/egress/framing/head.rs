//! One request head, line by line: which body follows, and whether that is beyond doubt.

/// What is wrong with a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::egress) enum Fault {
    /// It can be read in more than one way, or in none.
    Malformed(&'static str),
    /// It is longer than [`LIMIT`].
    TooLarge,
}

/// The judgement on one head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::egress) enum Verdict {
    /// Its framing is beyond doubt.
    Sound,
    /// It must be answered with a refusal, and the connection closed.
    Refused(Fault),
}

/// What follows the head.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Body {
    None,
    Length(u64),
    Chunked,
    Tunnel,
}

/// What has been read of a head.
#[derive(Debug, Default)]
pub(super) struct Head {
    read: usize,
    connect: bool,
    version: Version,
    length: Option<u64>,
    chunked: bool,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum Version {
    /// The request line has not been read yet.
    #[default]
    Unread,
    Http10,
    Http11,
}

/// Longest head, in bytes.
pub(in crate::egress) const LIMIT: usize = 64 * 1024;

impl Head {
    /// Returns how many bytes the next line may have.
    pub(super) fn room(&self) -> usize {
        LIMIT - self.read
    }

    /// Takes the next line, without its end; the empty one completes the head.
    pub(super) fn line(&mut self, line: &[u8]) -> Result<Option<Body>, Fault> {
        self.read += line.len() + 2;
        match (self.version == Version::Unread, line.is_empty()) {
            // RFC 9112, 2.2: empty lines before the request line are skipped.
            (true, true) => Ok(None),
            (true, false) => self.request_line(line).map(|()| None),
            (false, true) => self.body().map(Some),
            (false, false) => self.header(line).map(|()| None),
        }
    }

    fn request_line(&mut self, line: &[u8]) -> Result<(), Fault> {
        let mut parts = line.split(|byte| *byte == b' ');
        let (Some(method), Some(target), Some(version), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(Fault::Malformed(
                "the request line is not method, target and version",
            ));
        };
        if method.is_empty() || !method.iter().all(|byte| is_token(*byte)) {
            return Err(Fault::Malformed("the method is not a token"));
        }
        // A fragment is never sent, and some parsers take `\` for `/`: both move the end of
        // the host to another place than where it is read here.
        let odd = |byte: &u8| matches!(byte, 0..=0x20 | 0x7f | b'#' | b'\\');
        if target.is_empty() || target.iter().any(odd) {
            return Err(Fault::Malformed(
                "the request target holds a character it must not",
            ));
        }
        self.connect = method == b"CONNECT";
        self.version = match version {
            b"HTTP/1.1" => Version::Http11,
            b"HTTP/1.0" => Version::Http10,
            _ => return Err(Fault::Malformed("the version is not HTTP/1.0 or HTTP/1.1")),
        };
        Ok(())
    }

    fn header(&mut self, line: &[u8]) -> Result<(), Fault> {
        let (name, value) = field(line)?;
        if name.eq_ignore_ascii_case(b"content-length") {
            if self.length.is_some() {
                return Err(Fault::Malformed("there is more than one content-length"));
            }
            self.length = Some(length(value)?);
        }
        if name.eq_ignore_ascii_case(b"transfer-encoding") {
            if self.chunked {
                return Err(Fault::Malformed("there is more than one transfer-encoding"));
            }
            if !value.eq_ignore_ascii_case(b"chunked") {
                return Err(Fault::Malformed(
                    "the transfer-encoding is not `chunked` alone",
                ));
            }
            self.chunked = true;
        }
        Ok(())
    }

    fn body(&self) -> Result<Body, Fault> {
        match (self.chunked, self.length) {
            (true, Some(_)) => Err(Fault::Malformed(
                "there is a content-length beside transfer-encoding",
            )),
            (true, None) if self.version == Version::Http10 => {
                Err(Fault::Malformed("HTTP/1.0 has no transfer-encoding"))
            }
            (true, None) | (false, Some(1..)) if self.connect => {
                Err(Fault::Malformed("CONNECT has no body"))
            }
            (true, None) => Ok(Body::Chunked),
            _ if self.connect => Ok(Body::Tunnel),
            (false, Some(length)) => Ok(Body::Length(length)),
            (false, None) => Ok(Body::None),
        }
    }
}

/// Splits a header line; its name must be a token up to the colon, its value free of controls.
/// A line that begins with a blank (obsolete folding) has no token there.
pub(in crate::egress) fn field(line: &[u8]) -> Result<(&[u8], &[u8]), Fault> {
    let colon = line
        .iter()
        .position(|byte| *byte == b':')
        .ok_or(Fault::Malformed("a header line has no colon"))?;
    let (name, value) = (&line[..colon], &line[colon + 1..]);
    if name.is_empty() || !name.iter().all(|byte| is_token(*byte)) {
        return Err(Fault::Malformed("a header name is not a token"));
    }
    if value
        .iter()
        .any(|byte| matches!(byte, 0..=8 | 10..=31 | 0x7f))
    {
        return Err(Fault::Malformed("a header value holds a control character"));
    }
    Ok((name, value.trim_ascii()))
}

fn length(value: &[u8]) -> Result<u64, Fault> {
    const BAD: Fault = Fault::Malformed("the content-length is not a number");
    if !(1..=18).contains(&value.len()) || !value.iter().all(u8::is_ascii_digit) {
        return Err(BAD);
    }
    std::str::from_utf8(value)
        .ok()
        .and_then(|text| text.parse().ok())
        .ok_or(BAD)
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}
