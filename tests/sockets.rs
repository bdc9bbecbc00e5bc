//! Which Unix sockets can be reached: the sandbox's own, those of the host that are listed.

mod harness;

use std::collections::HashMap;
use std::fs;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use harness::{Ran, Scratch, Srt, probe, run, wait_until};
use nix::sys::socket::{
    AddressFamily, Backlog, MsgFlags, SockFlag, SockType, UnixAddr, bind, listen, recv, socket,
};
use serde_json::{Value, json};

/// Every way to a Unix socket: without a sandbox, then in one, to a socket of the sandbox, of
/// the host, and of the host and listed. `pair` aims one end of a socket pair at a path.
const MATRIX: &str = "
stream    path     connect  ok       ok        EACCES       ok
stream    path     sendto   ENOTSUP  ENOTSUP   ENOTSUP      ENOTSUP
stream    path     sendmsg  ENOTSUP  ENOTSUP   ENOTSUP      ENOTSUP
stream    path     sendmmsg ENOTSUP  ENOTSUP   ENOTSUP      ENOTSUP
stream    path     io_uring ok       ENOSYS    ENOSYS       ENOSYS
stream    abstract connect  ok       ok        ECONNREFUSED ECONNREFUSED
stream    abstract sendto   ENOTSUP  ENOTSUP   ENOTSUP      ENOTSUP
stream    abstract sendmsg  ENOTSUP  ENOTSUP   ENOTSUP      ENOTSUP
stream    abstract sendmmsg ENOTSUP  ENOTSUP   ENOTSUP      ENOTSUP
stream    abstract io_uring ok       ENOSYS    ENOSYS       ENOSYS
stream    pair     connect  EISCONN  EISCONN   EACCES       EISCONN
stream    pair     sendto   EISCONN  EISCONN   EISCONN      EISCONN
stream    pair     sendmsg  EISCONN  EISCONN   EISCONN      EISCONN
stream    pair     sendmmsg EISCONN  EISCONN   EISCONN      EISCONN
stream    pair     io_uring EISCONN  ENOSYS    ENOSYS       ENOSYS
seqpacket path     connect  ok       ok        EACCES       ok
seqpacket path     sendto   ENOTCONN ENOTCONN  ENOTCONN     ENOTCONN
seqpacket path     sendmsg  ENOTCONN ENOTCONN  ENOTCONN     ENOTCONN
seqpacket path     sendmmsg ENOTCONN ENOTCONN  ENOTCONN     ENOTCONN
seqpacket path     io_uring ok       ENOSYS    ENOSYS       ENOSYS
seqpacket abstract connect  ok       ok        ECONNREFUSED ECONNREFUSED
seqpacket abstract sendto   ENOTCONN ENOTCONN  ENOTCONN     ENOTCONN
seqpacket abstract sendmsg  ENOTCONN ENOTCONN  ENOTCONN     ENOTCONN
seqpacket abstract sendmmsg ENOTCONN ENOTCONN  ENOTCONN     ENOTCONN
seqpacket abstract io_uring ok       ENOSYS    ENOSYS       ENOSYS
seqpacket pair     connect  EISCONN  EISCONN   EACCES       EISCONN
seqpacket pair     sendto   ok       ok        ok           ok
seqpacket pair     sendmsg  ok       ok        ok           ok
seqpacket pair     sendmmsg ok       ok        ok           ok
seqpacket pair     io_uring EISCONN  ENOSYS    ENOSYS       ENOSYS
dgram     path     connect  ok       EPERM     EPERM        EPERM
dgram     path     sendto   ok       EPERM     EPERM        EPERM
dgram     path     sendmsg  ok       EPERM     EPERM        EPERM
dgram     path     sendmmsg ok       EPERM     EPERM        EPERM
dgram     path     io_uring ok       ENOSYS    ENOSYS       ENOSYS
dgram     abstract connect  ok       EPERM     EPERM        EPERM
dgram     abstract sendto   ok       EPERM     EPERM        EPERM
dgram     abstract sendmsg  ok       EPERM     EPERM        EPERM
dgram     abstract sendmmsg ok       EPERM     EPERM        EPERM
dgram     abstract io_uring ok       ENOSYS    ENOSYS       ENOSYS
dgram     pair     connect  ok       EPERM     EPERM        EPERM
dgram     pair     sendto   ok       EPERM     EPERM        EPERM
dgram     pair     sendmsg  ok       EPERM     EPERM        EPERM
dgram     pair     sendmmsg ok       EPERM     EPERM        EPERM
dgram     pair     io_uring ok       ENOSYS    ENOSYS       ENOSYS
";

#[test]
fn every_way_to_a_unix_socket_ends_as_the_table_says() {
    let scratch = Scratch::new("matrix");
    let directory = scratch.dir("cwd");
    let host = Sockets::bind(&directory, &format!("{}-host", scratch.marker()), "host");
    let listed = Sockets::bind(
        &directory,
        &format!("{}-allowed", scratch.marker()),
        "allowed",
    );
    let program = probe("sockets.py");
    let words = [
        "python3".as_ref(),
        program.as_os_str(),
        directory.as_os_str(),
        scratch.marker().as_ref(),
    ];
    let native = run(Command::new(words[0]).args(&words[1..])).succeeds();
    for (line, row) in lines(&native) {
        assert_eq!(answer(&line), row[3], "without a sandbox: {line}");
    }
    // One connection, and one by a ring; three datagrams to a path, by a pair too.
    assert_eq!(host.reached(), ["2 2 6", "2 2 3"]);
    assert_eq!(listed.reached(), ["2 2 6", "2 2 3"]);

    let mut srt = Srt::new(&scratch).allow_write(&directory);
    for kind in ["stream", "seqpacket", "dgram"] {
        srt = srt.allow_socket(directory.join(format!("allowed-{kind}.sock")));
    }
    let ran = srt.run(&words).succeeds();
    assert_eq!(lines(&ran).len(), 135);
    for (line, row) in lines(&ran) {
        let expected = match line.split_whitespace().nth(2) {
            Some("inside") => row[4],
            Some("host") => row[5],
            _ => row[6],
        };
        assert_eq!(answer(&line), expected, "in a sandbox: {line}");
    }
    assert_eq!(host.reached(), ["0 0 0", "0 0 0"]);
    assert_eq!(listed.reached(), ["1 1 0", "0 0 0"]);
}

/// Pairs each line of the probe with the row of [`MATRIX`] that speaks of it.
fn lines(ran: &Ran) -> Vec<(String, Vec<&'static str>)> {
    let rows: HashMap<_, Vec<&str>> = MATRIX
        .lines()
        .map(|row| row.split_whitespace().collect::<Vec<_>>())
        .filter(|row| !row.is_empty())
        .map(|row| ((row[0], row[1], row[2]), row))
        .collect();
    let row_of = |line: &str| {
        let words: Vec<_> = line.split_whitespace().collect();
        rows[&(words[0], words[1], words[3])].clone()
    };
    let lines = ran.stdout.lines();
    lines.map(|line| (line.to_owned(), row_of(line))).collect()
}

fn answer(line: &str) -> &str {
    line.split_whitespace().last().unwrap_or_default()
}

/// Connects inside in every form a program may, and prints what the kernel answered.
const FORMS: &str = r#"
import ctypes, errno, os, socket, struct, sys, tempfile
libc = ctypes.CDLL(None, use_errno=True)
def raw(sock, address, length=None):
    fd = sock if isinstance(sock, int) else sock.fileno()
    buffer = ctypes.create_string_buffer(address, max(len(address), 1)) if address is not None else None
    if libc.connect(fd, buffer, ctypes.c_int(len(address) if length is None else length)):
        raise OSError(ctypes.get_errno(), 'connect')
def say(what, act):
    try: print(what, act() or 'ok')
    except OSError as error: print(what, errno.errorcode[error.errno])
def unix(kind=socket.SOCK_STREAM): return socket.socket(socket.AF_UNIX, kind)
def path(address): return lambda: unix().connect(address)
def family(number): return struct.pack('=H', number)
os.makedirs('d/e', exist_ok=True); os.chdir('d')
here = os.getcwd()
server = unix(); server.bind('s'); server.listen(64)
open('file', 'w').close(); os.symlink('s', 'link'); os.symlink(here, 'up'); os.symlink('loop', 'loop')
os.symlink('/proc/self/cwd/s', 'through-proc'); os.symlink('e/../../d/s', 'e/../winding')
dead = unix(); dead.bind('dead'); dead.listen(1); dead.close()
unheard = unix(); unheard.bind('unheard')
directory = os.open('.', os.O_RDONLY)
for name in ['s', './s', 'e/../s', '../d/s', '//' + here + '/./s', 'link', 'up/s', here + '/up/link', 'winding',
             '/proc/self/cwd/s', f'/proc/self/fd/{directory}/s', '/proc/thread-self/cwd/s', 'through-proc',
             f'/dev/fd/{directory}/s', f'/proc/{os.getpid()}/cwd/s', f'/proc/self/root{here}/s',
             's/', 's/x', 'e', 'file', 'file/', 'missing', 'missing/s', 'loop', 'dead', 'unheard', '/', '.', '/proc/self/exe',
             '/proc/self/nothing', '/dev/null']:
    say(name.replace(here, 'HERE').replace(str(os.getpid()), 'PID').replace(f'/{directory}/', '/N/'), path(name))
long = unix(); longest = ctypes.create_string_buffer(family(1) + b'x' * 108, 110)
print('bound', libc.bind(long.fileno(), longest, 110)); long.listen(1)
say('108 bytes', lambda: raw(unix(), family(1) + b'x' * 108))
say('109 bytes', lambda: raw(unix(), family(1) + b'x' * 109))
say('a name that is cut off', lambda: raw(unix(), family(1) + b'sX', 3))
say('bytes after the name', lambda: raw(unix(), family(1) + b's\0garbage'))
for length in (-1, 0, 1, 2, 129, 1 << 30): say(f'length {length}', lambda: raw(unix(), family(1) + b's', length))
say('no address', lambda: raw(unix(), None, 20))
say('no descriptor', lambda: raw(-1, family(1) + b's'))
say('a file', lambda: raw(directory, family(1) + b's'))
say('another family', lambda: raw(unix(), family(2) + bytes(14)))
say('no family', lambda: raw(unix(), family(0) + bytes(14)))
say('another type', lambda: unix(socket.SOCK_SEQPACKET).connect('s'))
def twice():
    client = unix(); client.connect('s'); client.connect('s')
say('twice', twice)
def full():
    busy = unix(); busy.bind('busy'); busy.listen(0)
    clients = [unix() for _ in range(3)]
    for client in clients: client.setblocking(False); client.connect('busy')
say('a full queue', full)
tcp = socket.socket(); tcp.bind(('127.0.0.1', 0)); tcp.listen(4)
port = tcp.getsockname()[1]
say('tcp', lambda: socket.create_connection(('127.0.0.1', port)).close())
say('tcp, nobody there', lambda: socket.create_connection(('127.0.0.1', 1)))
def at_once():
    client = socket.socket(); client.setblocking(False); client.connect(('127.0.0.1', port))
say('tcp without waiting', at_once)
say('a Unix address for tcp', lambda: raw(socket.socket(), family(1) + b's'))
def udp():
    client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); client.connect(('127.0.0.1', port))
    raw(client, family(0) + bytes(14)); return str(client.getsockname()[1])
say('udp, and back', udp)
say('netlink', lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0).connect((0, 0)))
"#;

#[test]
fn a_connection_inside_ends_as_without_a_sandbox_in_every_form() {
    let (native, inside) = (Scratch::new("forms-native"), Scratch::new("forms"));
    let words = ["python3", "-c", FORMS];
    let native = run(Command::new(words[0])
        .args(&words[1..])
        .current_dir(native.dir("cwd")))
    .succeeds();
    assert!(
        native
            .stdout
            .lines()
            .filter(|line| line.ends_with(" ok"))
            .count()
            > 15
    );
    let ran = Srt::new(&inside)
        .allow_write(inside.dir("cwd"))
        .run(&words)
        .succeeds();
    assert_eq!(ran.stdout, native.stdout);
}

/// Prints names and credentials as both ends see them, but for process ids.
const NAMES: &str = r#"
import os, socket, struct
for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET):
    for number, name in enumerate((os.getcwd() + '/full', 'relative', './dotted', '\0' + os.getcwd(), '')):
        name = name and name + str(int(kind))
        server = socket.socket(socket.AF_UNIX, kind)
        server.bind(name); server.listen(1)
        for own in (None, f'client{number}-{int(kind)}', '\0client' + os.getcwd()):
            client = socket.socket(socket.AF_UNIX, kind)
            if own: client.bind(own)
            client.connect(server.getsockname())
            accepted, address = server.accept()
            _, *seen = struct.unpack('3i', accepted.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
            pid, *sees = struct.unpack('3i', client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
            names = [accepted.getsockname(), accepted.getpeername(), client.getsockname(), client.getpeername(), address]
            if not name: names = [len(n) for n in names]
            print(number, names, seen, sees, pid == os.getpid())
            if own and own[0] != '\0': os.unlink(own)
"#;

#[test]
fn names_and_credentials_are_those_of_a_direct_connection() {
    let scratch = Scratch::new("names");
    let cwd = scratch.dir("cwd");
    // Outside, abstract names are the machine's: the path makes them the test's own.
    let script = NAMES.replace("os.getcwd()", &format!("{cwd:?}"));
    let words = ["python3", "-c", &script];
    let native = run(Command::new(words[0]).args(&words[1..]).current_dir(&cwd)).succeeds();
    for socket in fs::read_dir(&cwd).expect("it is ours").flatten() {
        fs::remove_file(socket.path()).expect("it is ours");
    }
    let ran = Srt::new(&scratch).allow_write(&cwd).run(&words).succeeds();
    assert_eq!(ran.stdout, native.stdout);
    assert_eq!(ran.stdout.lines().count(), 30);
}

#[test]
fn a_server_inside_sees_the_executor_as_its_peer() {
    let scratch = Scratch::new("peer");
    let script = r"
import os, socket, struct
server = socket.socket(socket.AF_UNIX); server.bind('s'); server.listen(1)
client = socket.socket(socket.AF_UNIX); client.connect('s')
accepted, _ = server.accept()
peer, = struct.unpack_from('i', accepted.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
print(peer != os.getpid(), open(f'/proc/{peer}/comm').read().strip(), os.listdir('/proc').count(str(peer)))
try: os.kill(peer, 9)
except PermissionError: print('cannot be signalled')
try: open(f'/proc/{peer}/environ')
except PermissionError: print('cannot be looked into')
client = socket.socket(socket.AF_UNIX); client.connect('s'); print('still connects')
";
    let ran = Srt::new(&scratch)
        .allow_write(scratch.dir("cwd"))
        .run(&["python3", "-c", script])
        .succeeds();
    assert_eq!(
        ran.stdout,
        "True srt 1\ncannot be signalled\ncannot be looked into\nstill connects\n"
    );
}

/// Connects to each path that is given, and prints what the kernel answered.
const CONNECT: &str = r"
import errno, os, socket, sys
for path in sys.argv[1:]:
    try: socket.socket(socket.AF_UNIX).connect(path); print('ok')
    except OSError as error: print(errno.errorcode[error.errno])
";

fn connect(srt: Srt, paths: &[&Path]) -> String {
    let mut words = vec!["python3".as_ref(), "-c".as_ref(), CONNECT.as_ref()];
    words.extend(paths.iter().map(|path| path.as_os_str()));
    srt.run(&words).succeeds().stdout
}

#[test]
fn a_listed_socket_or_directory_of_the_host_is_reached_and_nothing_beside_it() {
    let scratch = Scratch::new("listed");
    let at = |name: &str| {
        let path = scratch.dir("x/dir/deep").join(name);
        (arrivals(&path), path)
    };
    let [listed, other, below, linked, relative] = [
        at("../../listed"),
        at("../../other"),
        at("below"),
        at("../../linked"),
        at("../../relative"),
    ];
    let link = scratch.path("link");
    symlink(&linked.1, &link).expect("the name is free");
    let start = || {
        Srt::new(&scratch)
            .allow_socket(scratch.path("x/listed"))
            .allow_socket(format!("{}/x/dir/", scratch.marker()))
            .allow_socket(&link)
            .allow_socket("../x/relative")
    };
    let paths = [&listed.1, &below.1, &linked.1, &link, &relative.1, &other.1];
    let answers = connect(start(), &paths.map(PathBuf::as_path));
    assert_eq!(answers, "ok\nok\nok\nok\nok\nEACCES\n");
    let counts = [&listed, &below, &linked, &relative, &other].map(|(socket, _)| arrived(socket));
    assert_eq!(counts, [1, 1, 2, 1, 0]);
    // The control: nothing but the settings kept the last one out of reach.
    let answers = connect(start().allow_socket(&other.1), &[&other.1]);
    assert_eq!((answers.as_str(), arrived(&other.0)), ("ok\n", 1));
}

fn arrivals(path: &Path) -> OwnedFd {
    bound(SockType::Stream, &UnixAddr::new(path).expect("short"))
}

#[test]
fn a_socket_that_comes_later_is_reached_if_its_path_is_listed() {
    let scratch = Scratch::new("later");
    let directory = scratch.dir("x");
    let (ready, path, unlisted) = (
        scratch.dir("cwd").join("ready"),
        directory.join("late"),
        directory.join("unlisted"),
    );
    let script = format!(
        "
import os, time
open('ready', 'w').close()
while not os.path.exists({unlisted:?}): time.sleep(0.01)
{CONNECT}"
    );
    let srt = Srt::new(&scratch)
        .allow_write(scratch.dir("cwd"))
        .allow_socket(&path);
    let words = [
        "python3",
        "-c",
        &script,
        path.to_str().expect("ASCII"),
        unlisted.to_str().expect("ASCII"),
    ];
    let mut command = srt.into_command(&words);
    let (ran, [late, refused]) = std::thread::scope(|scope| {
        let ran = scope.spawn(|| run(&mut command));
        assert!(wait_until(|| ready.exists()));
        let sockets = [arrivals(&path), arrivals(&unlisted)];
        (ran.join().expect("it ran"), sockets)
    });
    assert_eq!(ran.succeeds().stdout, "ok\nEACCES\n");
    assert_eq!([arrived(&late), arrived(&refused)], [1, 0]);
}

#[test]
fn a_refused_socket_is_an_event_that_names_the_entry_to_add() {
    let scratch = Scratch::new("event");
    let path = scratch.dir("x").join("agent");
    let _agent = arrivals(&path);
    let events = scratch.path("events");
    let answers = connect(Srt::new(&scratch).events(&events), &[&path]);
    assert_eq!(answers, "EACCES\n");
    let text = fs::read_to_string(&events).expect("it was written");
    let found = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("one object a line"))
        .find(|event| event["kind"] == "socket")
        .expect("the refusal is recorded");
    assert_eq!(found["op"], "connect");
    assert_eq!(found["target"], path.to_str().expect("ASCII"));
    assert_eq!(found["verdict"], "denied");
    assert_eq!(found["code"], "socket.path.unlisted");
    assert_eq!(
        found["suggest"],
        json!({ "key": "network.allowUnixSockets", "add": path })
    );
}

#[test]
fn opening_all_unix_sockets_opens_paths_and_no_abstract_name_and_is_reported() {
    let scratch = Scratch::new("all");
    let directory = scratch.dir("cwd");
    let host = Sockets::bind(&directory, &format!("{}-host", scratch.marker()), "host");
    let events = scratch.path("events");
    let program = probe("sockets.py");
    let words = [
        "python3".as_ref(),
        program.as_os_str(),
        directory.as_os_str(),
        scratch.marker().as_ref(),
    ];
    let srt = Srt::new(&scratch).allow_write(&directory);
    let ran = srt
        .set("network.allowAllUnixSockets", json!(true))
        .events(&events)
        .run(&words)
        .succeeds();
    assert_eq!(host.reached(), ["1 1 6", "0 0 0"]);
    assert!(ran.stderr.contains("`network.allowAllUnixSockets`"));
    let text = fs::read_to_string(&events).expect("it was written");
    assert!(text.contains(r#""code":"weakening.sockets.all""#), "{text}");
}

#[test]
fn an_entry_that_a_command_could_retarget_is_refused() {
    let scratch = Scratch::new("retarget");
    let cwd = scratch.dir("cwd");
    let path = scratch.dir("x").join("agent");
    let _agent = arrivals(&path);
    symlink(&path, cwd.join("link")).expect("the name is free");
    let start = || Srt::new(&scratch).allow_socket(cwd.join("link"));
    assert_eq!(connect(start(), &[&path]), "ok\n");
    start()
        .allow_write(&cwd)
        .run(&["true"])
        .is_refused("is a link in a writable directory");
}

/// Sockets of the host: stream, seqpacket and dgram, by path and by abstract name.
struct Sockets {
    paths: Vec<OwnedFd>,
    abstracts: Vec<OwnedFd>,
}

impl Sockets {
    fn bind(directory: &Path, name: &str, side: &str) -> Self {
        let kinds = [
            ("stream", SockType::Stream),
            ("seqpacket", SockType::SeqPacket),
            ("dgram", SockType::Datagram),
        ];
        let paths = kinds.map(|(word, kind)| {
            let path = directory.join(format!("{side}-{word}.sock"));
            bound(kind, &UnixAddr::new(&path).expect("short"))
        });
        let abstracts = kinds.map(|(word, kind)| {
            let name = format!("{name}-{word}");
            bound(
                kind,
                &UnixAddr::new_abstract(name.as_bytes()).expect("short"),
            )
        });
        Self {
            paths: paths.into(),
            abstracts: abstracts.into(),
        }
    }

    /// Counts what has arrived since the last time, by kind: at the paths, at the names.
    fn reached(&self) -> [String; 2] {
        [&self.paths, &self.abstracts].map(|sockets| {
            let counts: Vec<_> = sockets
                .iter()
                .map(|socket| arrived(socket).to_string())
                .collect();
            counts.join(" ")
        })
    }
}

fn bound(kind: SockType, address: &UnixAddr) -> OwnedFd {
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let fd = socket(AddressFamily::Unix, kind, flags, None).expect("a Unix socket");
    bind(fd.as_raw_fd(), address).expect("the name is free");
    if kind != SockType::Datagram {
        listen(&fd, Backlog::new(64).expect("small")).expect("it is bound");
    }
    fd
}

/// Takes every connection or datagram that waits, and counts them.
fn arrived(socket: &OwnedFd) -> usize {
    let accepted = std::iter::from_fn(|| nix::sys::socket::accept(socket).ok());
    let received =
        std::iter::from_fn(|| recv(socket.as_raw_fd(), &mut [0; 8], MsgFlags::empty()).ok());
    accepted.count() + received.count()
}
