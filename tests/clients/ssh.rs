//! Secure shells: a server of the test, and git over it with a key that stays out of reach.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::Site;
use super::harness::{Killed, Ran, Srt, run, skip, wait_until};
use super::world::{Answer, World, in_a_world};

const SSHD: &str = "/usr/sbin/sshd";
const PORT: u16 = 2222;

#[test]
fn git_pushes_over_ssh_by_an_agent_with_the_key_out_of_reach() {
    let test = "ssh::git_pushes_over_ssh_by_an_agent_with_the_key_out_of_reach";
    if super::outside(&format!("test -x {SSHD} && ssh -V")).status != 0 {
        return skip("no server for secure shells is installed");
    }
    in_a_world(test, |world| {
        let site = Site::start(world);
        let shell = Shell::start(&site);
        let script = shell.script();
        assert!(is_done(&site.outside("outside", &script)), "the control");
        assert_eq!(shell.sessions(), 1);
        let srt = |by_proxy: bool| {
            let srt = Srt::new(&world.scratch).allow_host("ssh.test:2222");
            let srt = srt.set("network.proxyEnv", by_proxy.into());
            srt.env("SSH_AUTH_SOCK", &shell.agent)
        };
        for by_proxy in [true, false] {
            let before = shell.sessions();
            let allowed = srt(by_proxy).allow_socket(&shell.agent);
            let ran = site.inside(&format!("allowed-{by_proxy}"), allowed, &script);
            assert!(is_done(&ran), "{ran:?}");
            assert_eq!(shell.sessions(), before + 1);
        }
        // Without the agent there is no key: the same server lets nobody in.
        let ran = site.inside("no-agent", srt(true), &script);
        assert!(ran.shows("Permission denied"), "{ran:?}");
        // Without the host no connection comes about.
        let before = shell.connections();
        let refused = Srt::new(&world.scratch).env("SSH_AUTH_SOCK", &shell.agent);
        let refused = refused.allow_socket(&shell.agent);
        let ran = site.inside("refused", refused, &script).fails();
        assert!(!is_done(&ran));
        assert_eq!(shell.connections(), before);
        // The key itself cannot be read, by the rule that always holds.
        let read = format!("cat {}", shell.key.display());
        let ran = site.inside("key", srt(true), &read).fails();
        assert!(!ran.shows("PRIVATE KEY"), "{ran:?}");
        let outside = super::outside(&read).succeeds();
        assert!(outside.shows("PRIVATE KEY"), "the control");
    });
}

fn is_done(ran: &Ran) -> bool {
    ran.status == 0 && ran.stdout.ends_with("1\nword of git\n")
}

/// A server in the farther namespace, and an agent in the nearer one that has the key.
struct Shell<'s> {
    site: &'s Site<'s>,
    key: PathBuf,
    agent: PathBuf,
    log: PathBuf,
    _server: Killed,
    _agent: Killed,
}

impl<'s> Shell<'s> {
    fn start(site: &'s Site<'s>) -> Self {
        let world = site.world;
        world
            .dns
            .add("ssh.test", Answer::addresses(&["192.0.2.20"]));
        let key = world.scratch.dir("home/.ssh").join("id_ed25519");
        let host_key = world.scratch.path("host-key");
        for path in [&key, &host_key] {
            let mut keygen = Command::new("ssh-keygen");
            keygen.args(["-q", "-t", "ed25519", "-N", "", "-f"]);
            run(keygen.arg(path)).succeeds();
        }
        let (server, log) = Self::server(site, &key, &host_key);
        let (agent_process, agent) = Self::agent(world, &key);
        Self {
            site,
            key,
            agent,
            log,
            _server: server,
            _agent: agent_process,
        }
    }

    /// Starts the server as an ordinary user of a namespace of its own, which it takes for the
    /// whole machine: as root it would want to become others.
    fn server(site: &Site<'_>, key: &Path, host_key: &Path) -> (Killed, PathBuf) {
        let scratch = &site.world.scratch;
        let log = scratch.file("sshd.log", "");
        let config = format!(
            "Port {PORT}\nHostKey {}\nAuthorizedKeysFile {}.pub\nStrictModes no\nUsePAM no\n\
             PidFile none\nLogLevel VERBOSE\n",
            host_key.display(),
            key.display()
        );
        let config = scratch.file("sshd.conf", config);
        let home = scratch.dir("shell");
        let users = format!("git:x:1000:1000::{}:/bin/sh\n", home.display());
        let users = scratch.file("passwd", users);
        let script = "mount --bind \"$1\" /etc/passwd && exec \"$2\" -D -e -f \"$3\"";
        let mut command = Command::new("unshare");
        command.args(["--user", "--mount", "--map-user=1000", "--map-group=1000"]);
        command.args(["--keep-caps", "sh", "-c", script, "sh"]);
        command.arg(users).arg(SSHD).arg(config);
        let stderr = fs::File::create(&log).expect("the directory is ours");
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(stderr);
        let spawn = move || command.spawn().expect("unshare is installed");
        let server = Killed(site.world.there(spawn));
        let is_up = || fs::read_to_string(&log).is_ok_and(|text| text.contains("listening on"));
        let up = wait_until(is_up);
        assert!(up, "{}", fs::read_to_string(&log).unwrap_or_default());
        (server, log)
    }

    fn agent(world: &World, key: &Path) -> (Killed, PathBuf) {
        let socket = world.scratch.path("agent");
        let mut agent = Command::new("ssh-agent");
        agent.arg("-D").arg("-a").arg(&socket).stdout(Stdio::null());
        let agent = Killed(agent.spawn().expect("it comes with ssh"));
        assert!(wait_until(|| socket.exists()), "the agent does not come up");
        let mut add = Command::new("ssh-add");
        run(add.arg("-q").arg(key).env("SSH_AUTH_SOCK", &socket)).succeeds();
        (agent, socket)
    }

    /// Clones, commits and pushes with what the agent has, and nothing else.
    fn script(&self) -> String {
        let repository = self.site.repository();
        format!(
            "export GIT_CONFIG_GLOBAL=/dev/null SSH_AUTH_SOCK=${{SSH_AUTH_SOCK-{}}}
export GIT_SSH_COMMAND='ssh -F none -o BatchMode=yes -o IdentityFile=none \
    -o StrictHostKeyChecking=no -o UserKnownHostsFile=known -o ConnectTimeout=10'
url=ssh://git@ssh.test:{PORT}{}
git clone -q $url clone && cd clone
branch=$(basename $(dirname $PWD))
git -c user.name=t -c user.email=t@example.org commit -q --allow-empty -m second
git push -q origin HEAD:refs/heads/$branch
git ls-remote origin refs/heads/$branch | grep -c $(git rev-parse HEAD)
cat file",
            self.agent.display(),
            repository.display()
        )
    }

    fn sessions(&self) -> usize {
        self.logged("Accepted publickey") / 3
    }

    fn connections(&self) -> usize {
        self.logged("Connection from")
    }

    fn logged(&self, text: &str) -> usize {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        log.lines().filter(|line| line.contains(text)).count()
    }
}
