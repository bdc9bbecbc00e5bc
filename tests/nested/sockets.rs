//! The broker and callers whose namespaces, roots and numbers are of their own making.

use std::os::unix::net::UnixListener;
use std::path::Path;

use super::harness::{Scratch, Srt};
use super::{GRADES, graded, python_in};

/// What every script starts with: two servers inside, and how a connection is answered.
const START: &str = r"
import errno, os, socket, sys, threading
import uncover as u
def answer(address, family=socket.AF_UNIX):
    client = socket.socket(family)
    try: client.connect(address); return 'ok'
    except OSError as error: return errno.errorcode[error.errno]
def serve(address, family=socket.AF_UNIX):
    server = socket.socket(family); server.bind(address); server.listen(8)
    threading.Thread(target=lambda: [server.accept() for _ in range(99)], daemon=True).start()
def in_child(act):
    sys.stdout.flush()
    if os.fork() == 0:
        try: act()
        except OSError as error: print(error)
        sys.stdout.flush(); os._exit(0)
    os.wait()
serve('own'); serve('\0own')
";

/// Expects what `script` prints, and that the host's socket `host` is never connected to.
fn expect(grade: &str, script: &str, expected: &str) {
    let scratch = Scratch::new("broker");
    let cwd = scratch.dir("cwd");
    let bound = |name: &str| {
        let listener = UnixListener::bind(cwd.join(name)).expect("the name is free");
        listener.set_nonblocking(true).expect("a socket");
        listener
    };
    let (host, listed) = (bound("host"), bound("listed"));
    let control = std::os::unix::net::UnixStream::connect(cwd.join("host"));
    assert!(control.is_ok() && host.accept().is_ok());
    let srt: Srt = graded(&scratch, grade).allow_write(&cwd);
    let srt = srt.allow_socket(cwd.join("listed"));
    let ran = python_in(srt, &format!("{START}{script}"), &[Path::new(&cwd)]);
    assert_eq!(ran.succeeds().stdout, expected, "{grade}");
    assert!(host.accept().is_err(), "{grade}");
    drop(listed);
}

#[test]
fn callers_in_a_user_namespace_are_judged_like_any() {
    let script = r"
def act():
    u.enter(u.NEWUSER)
    print(os.getuid(), answer('own'), answer('\0own'), answer('host'), answer('listed'))
    print(answer('/proc/self/cwd/own'), answer('/proc/self/cwd/host'))
    print(answer('/proc/self/root' + os.getcwd() + '/host'))
in_child(act)
";
    for grade in GRADES {
        expect(grade, script, "0 ok ok EACCES ok\nok EACCES\nEACCES\n");
    }
}

#[test]
fn callers_in_a_pid_namespace_are_themselves_in_proc() {
    let script = r"
def act():
    u.enter(u.NEWUSER | u.NEWPID)
    in_child(lambda: print(os.getpid(), answer('/proc/self/cwd/own'), answer('/proc/thread-self/cwd/own'),
                           answer('own'), answer('host'), answer('/proc/self/cwd/host')))
in_child(act)
";
    for grade in GRADES {
        expect(grade, script, "1 ok ok ok EACCES EACCES\n");
    }
}

#[test]
fn a_path_is_looked_up_from_the_root_of_the_caller() {
    let script = r"
def act():
    u.enter(u.NEWUSER); os.chroot('.'); os.chdir('/')
    print(answer('/own'), answer('/../own'), answer('/host'), answer('/listed'))
    print(answer('/../../../../' + sys.argv[1] + '/own'), answer(sys.argv[1] + '/host'))
in_child(act)
";
    // The name of what is listed is another one for who has another root.
    for grade in GRADES {
        expect(grade, script, "ok ok EACCES ok\nENOENT ENOENT\n");
    }
}

#[test]
fn a_network_of_the_commands_own_has_its_own_sockets_and_no_way_out() {
    let script = r"
def act():
    u.enter(u.NEWUSER | u.NEWNET)
    os.system('ip link set lo up')
    serve('nested'); serve('\0nested'); serve(('127.0.0.1', 8000), socket.AF_INET)
    print(answer('nested'), answer('\0nested'), answer(('127.0.0.1', 8000), socket.AF_INET))
    print(answer('own'), answer('\0own'), answer('host'))
    print(answer(('127.0.0.1', 3128), socket.AF_INET), answer(('192.0.2.1', 80), socket.AF_INET))
in_child(act)
print(answer('nested'), answer('\0nested'))
";
    let expected = "\
ok ok ok
ok ECONNREFUSED EACCES
ECONNREFUSED ENETUNREACH
ECONNREFUSED ECONNREFUSED
";
    for grade in GRADES {
        expect(grade, script, expected);
    }
}

#[test]
fn where_numbers_of_inodes_say_little_sockets_are_asked_across_networks() {
    // A tmpfs may come to a number again.
    let script = r"
serve('/dev/shm/own')
def act():
    u.enter(u.NEWUSER | u.NEWNET)
    serve('/dev/shm/nested')
    print(answer('/dev/shm/own'), answer('/dev/shm/nested'), answer('host'))
in_child(act)
";
    for grade in GRADES {
        expect(grade, script, "ok ok EACCES\n");
    }
}

#[test]
fn a_socket_of_the_sandbox_goes_with_its_owner_into_a_namespace() {
    // What is open stays of the network it was made in.
    let script = r"
def act():
    before = socket.socket(socket.AF_UNIX)
    u.enter(u.NEWUSER | u.NEWNET)
    before.connect('\0own'); print('ok')
in_child(act)
";
    for grade in GRADES {
        expect(grade, script, "ok\n");
    }
}

#[test]
fn mounts_of_the_command_lead_to_no_socket_of_the_host() {
    let script = r"
def act():
    u.enter()
    point = u.place()
    for name in ('h', 'o'): open(f'{point}/{name}', 'w').close()
    u.mount('host', f'{point}/h', None, u.BIND); u.mount('own', f'{point}/o', None, u.BIND)
    print(answer(f'{point}/o'), answer(f'{point}/h'))
    print(answer('listed')); u.mount('host', 'listed', None, u.BIND); print(answer('listed'))
    serve(f'{point}/new'); print(answer(f'{point}/new'))
    for name in ('upper', 'work', 'merged'): os.mkdir(f'{point}/{name}')
    layers = f'lowerdir={os.getcwd()},upperdir={point}/upper,workdir={point}/work,userxattr'
    u.mount('none', f'{point}/merged', 'overlay', 0, layers)
    print(answer(f'{point}/merged/host'))
def pivoted():
    u.enter()
    parent = os.open('.', os.O_PATH)
    u.leave_tree(); os.mkdir('/run')
    serve('/run/s'); print(answer('/run/s'), answer('/old' + sys.argv[1] + '/host'))
    u.umount('/old', u.DETACH); os.fchdir(parent)
    print(answer('own'), answer('host'))
in_child(act); in_child(pivoted)
";
    let expected = "\
ok EACCES
ok
EACCES
ok
EACCES
ok EACCES
ok EACCES
";
    expect("mounts", script, expected);
}

#[test]
fn a_caller_may_come_from_many_networks_one_after_the_other() {
    let script = r"
def act():
    u.enter(u.NEWUSER | u.NEWNET)
    if os.path.exists('nested'): os.unlink('nested')
    serve('nested'); print(answer('nested'), answer('host'))
for _ in range(40): in_child(act)
";
    for grade in GRADES {
        expect(grade, script, &"ok EACCES\n".repeat(40));
    }
}
