//! The variables that are known by name, each with its reason; `docs/environment.md` shows
//! this table and a test compares the two.

use Class::{Base, OtherProxy, Passed, Proxy, Secret, Service, Set};
use Names::{
    Address, At, DBus, Descriptor, Path, PathBefore, Runtime, Server, Unnamed, With, X11, Xsmp,
};

use super::sockets::Names;

/// One variable, or the variables of one pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// A name, or a pattern in which `*` stands for anything.
    pub pattern: &'static str,
    /// Whether there is a `*` in it: every name is held against every row, and to compare names
    /// takes less.
    is_pattern: bool,
    /// What happens to it.
    pub class: Class,
    /// Why.
    pub reason: &'static str,
}

/// What happens to a variable that no setting names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Set for every command, in place of the caller's.
    Set,
    /// Set where the proxies are in use, in place of the caller's.
    Proxy,
    /// Dropped where no packet can get to the caller's proxy.
    OtherProxy,
    /// Dropped unless the socket it leads to is granted.
    Service(Names),
    /// Passed, also where nothing else is inherited.
    Base,
    /// Passed like every other one; listed because it is asked about.
    Passed,
    /// Dropped by the entry `@secrets`. The pattern is compared without case.
    Secret,
}

impl Row {
    /// Tells whether `name` is this row's; for a row of [`SECRETS`] it has to be in upper case.
    pub fn covers(&self, name: &[u8]) -> bool {
        let pattern = self.pattern.as_bytes();
        match self.is_pattern {
            true => super::pattern::matches(pattern, name),
            false => pattern == name,
        }
    }
}

impl std::fmt::Display for Class {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Set => f.write_str("set"),
            Self::Proxy => f.write_str("set with `network.proxyEnv`, else dropped"),
            Self::OtherProxy => f.write_str("dropped"),
            Self::Service(Descriptor) => f.write_str("dropped"),
            Self::Service(With(leader)) => write!(f, "dropped with `{leader}`"),
            Self::Service(names) => write!(f, "dropped unless granted: {names}"),
            Self::Base => f.write_str("passed, also without `env.inherit`"),
            Self::Passed => f.write_str("passed"),
            Self::Secret => f.write_str("dropped by `@secrets`"),
        }
    }
}

// A macro, so that a row stays on a line of its own.
macro_rules! rows {
    ($($pattern:literal: $class:expr, $reason:literal;)*) => {
        &[$(Row {
            pattern: $pattern,
            is_pattern: holds_star($pattern),
            class: $class,
            reason: $reason,
        }),*]
    };
}

const fn holds_star(pattern: &str) -> bool {
    let mut rest = pattern.as_bytes();
    while let [first, after @ ..] = rest {
        if *first == b'*' {
            return true;
        }
        rest = after;
    }
    false
}

/// Every row, sorted by what happens.
pub const TABLE: &[&[Row]] = &[OURS, OTHER_PROXIES, SERVICES, BASE, PASSED, SECRETS];

/// What the command gets from us.
pub const OURS: &[Row] = rows! {
    "SANDBOX_RUNTIME": Set, "`1`: tells programs where they are";
    "TMPDIR": Set, "the caller's if it may be written, else a private directory";
    "HTTP_PROXY": Proxy, "the HTTP proxy inside";
    "http_proxy": Proxy, "the same; most programs read one case only";
    "HTTPS_PROXY": Proxy, "the HTTP proxy inside";
    "https_proxy": Proxy, "the HTTP proxy inside";
    "ALL_PROXY": Proxy, "the HTTP proxy inside";
    "all_proxy": Proxy, "the HTTP proxy inside";
    "GRPC_PROXY": Proxy, "the HTTP proxy inside";
    "grpc_proxy": Proxy, "the HTTP proxy inside";
    "DOCKER_HTTP_PROXY": Proxy, "the HTTP proxy inside";
    "DOCKER_HTTPS_PROXY": Proxy, "the HTTP proxy inside";
    "FTP_PROXY": Proxy, "the SOCKS5 proxy inside, in a build that has it";
    "ftp_proxy": Proxy, "the SOCKS5 proxy inside, in a build that has it";
    "RSYNC_PROXY": Proxy, "the HTTP proxy inside, without a scheme";
    "NO_PROXY": Proxy, "the sandbox's loopback, then the caller's own entries";
    "no_proxy": Proxy, "the same";
    "CLOUDSDK_PROXY_TYPE": Proxy, "`http`";
    "CLOUDSDK_PROXY_ADDRESS": Proxy, "address of the HTTP proxy inside";
    "CLOUDSDK_PROXY_PORT": Proxy, "port of the HTTP proxy inside";
    "NODE_USE_ENV_PROXY": Proxy, "`1`: Node's own clients read the variables above";
};

/// What leads to a proxy of the caller's network and would be taken before the variables above.
pub const OTHER_PROXIES: &[Row] = rows! {
    "CLOUDSDK_PROXY_PASSWORD": OtherProxy, "a secret for another proxy";
    "CLOUDSDK_PROXY_RDNS": OtherProxy, "how another proxy is asked";
    "CLOUDSDK_PROXY_USERNAME": OtherProxy, "a name for another proxy";
    "CARGO_HTTP_PROXY": OtherProxy, "cargo takes it before `HTTPS_PROXY`";
    "GLOBAL_AGENT_*_PROXY": OtherProxy, "Node programs take it before `HTTPS_PROXY`";
    "NPM_CONFIG_HTTPS_PROXY": OtherProxy, "npm takes it before `HTTPS_PROXY`";
    "NPM_CONFIG_PROXY": OtherProxy, "npm takes it before `HTTP_PROXY`";
    "PIP_PROXY": OtherProxy, "pip takes it before `HTTPS_PROXY`";
    "SOCKS_PROXY": OtherProxy, "address of another proxy";
    "SOCKS_SERVER": OtherProxy, "address of another proxy";
    "YARN_HTTPS_PROXY": OtherProxy, "yarn takes it before `HTTPS_PROXY`";
    "YARN_HTTP_PROXY": OtherProxy, "yarn takes it before `HTTP_PROXY`";
    "npm_config_https_proxy": OtherProxy, "npm takes it before `HTTPS_PROXY`";
    "npm_config_proxy": OtherProxy, "npm takes it before `HTTP_PROXY`";
};

/// What leads to a service of the host.
pub const SERVICES: &[Row] = rows! {
    // Display and session.
    "DISPLAY": Service(X11), "X server: sees and types everywhere";
    "XAUTHORITY": Service(With("DISPLAY")), "file with the key to the X server";
    "WAYLAND_DISPLAY": Service(Runtime("")), "Wayland compositor";
    "WAYLAND_SOCKET": Service(Descriptor), "connection to a Wayland compositor";
    "SWAYSOCK": Service(Path), "sway: starts programs";
    "I3SOCK": Service(Path), "i3: starts programs";
    "NIRI_SOCKET": Service(Path), "niri: starts programs";
    "HYPRLAND_INSTANCE_SIGNATURE": Service(Runtime("hypr")), "Hyprland: starts programs";
    "BSPWM_SOCKET": Service(Path), "bspwm: starts programs";
    "WAYFIRE_SOCKET": Service(Path), "Wayfire: starts programs";
    "SESSION_MANAGER": Service(Xsmp), "X session manager: starts programs at log-in";
    "ICEAUTHORITY": Service(With("SESSION_MANAGER")), "file with the key to it";
    // Message buses.
    "XDG_RUNTIME_DIR": Service(Path), "directory of the session's sockets, read-only here";
    "DBUS_SESSION_BUS_ADDRESS": Service(DBus), "session bus: starts programs, keyrings";
    "DBUS_SESSION_BUS_PID": Service(With("DBUS_SESSION_BUS_ADDRESS")), "the bus's process";
    "DBUS_SESSION_BUS_WINDOWID": Service(With("DBUS_SESSION_BUS_ADDRESS")), "the bus's window";
    "DBUS_SYSTEM_BUS_ADDRESS": Service(DBus), "system bus: services that run as root";
    "DBUS_STARTER_ADDRESS": Service(DBus), "the bus that started the caller";
    "DBUS_STARTER_BUS_TYPE": Service(With("DBUS_STARTER_ADDRESS")), "says which bus it is";
    "DBUS_LAUNCHD_SESSION_BUS_SOCKET": Service(Path), "session bus on macOS";
    "AT_SPI_BUS_ADDRESS": Service(DBus), "accessibility bus: reads and drives windows";
    "IBUS_ADDRESS": Service(DBus), "input method: sees what is typed";
    "UPSTART_SESSION": Service(DBus), "session init: starts programs";
    "GNOME_TERMINAL_*": Service(With("DBUS_SESSION_BUS_ADDRESS")), "the terminal on the bus";
    "KONSOLE_DBUS_*": Service(With("DBUS_SESSION_BUS_ADDRESS")), "types into the terminal";
    "TERMINATOR_DBUS_*": Service(With("DBUS_SESSION_BUS_ADDRESS")), "opens terminals";
    // Agents that hold keys.
    "SSH_AUTH_SOCK": Service(Path), "ssh-agent: signs with the caller's keys";
    "SSH_AGENT_PID": Service(With("SSH_AUTH_SOCK")), "the agent's process";
    "GPG_AGENT_INFO": Service(PathBefore(b':')), "gpg-agent: signs and decrypts";
    "GNOME_KEYRING_CONTROL": Service(Path), "directory of the keyring's sockets";
    "GNOME_KEYRING_PID": Service(With("GNOME_KEYRING_CONTROL")), "the keyring's process";
    "PCSCLITE_CSOCK_NAME": Service(Path), "smart cards: signs with the caller's keys";
    "P11_KIT_SERVER_ADDRESS": Service(DBus), "signs with the caller's keys";
    "SPIFFE_ENDPOINT_SOCKET": Service(Address), "hands out the machine's identity";
    "VAULT_ADDR": Service(Server), "hands out secrets";
    "VAULT_AGENT_ADDR": Service(Server), "hands out secrets";
    "CONSUL_HTTP_ADDR": Service(Server), "changes settings of services";
    "NOMAD_ADDR": Service(Server), "starts programs outside";
    // Multiplexers and terminals: they type into other windows.
    "TMUX": Service(PathBefore(b',')), "tmux server: types into other panes";
    "TMUX_PANE": Service(With("TMUX")), "the pane in that server";
    "STY": Service(Unnamed), "screen session: types into other windows";
    "ZELLIJ": Service(Unnamed), "zellij session: types into other panes";
    "ZELLIJ_PANE_ID": Service(With("ZELLIJ")), "the pane in that session";
    "ZELLIJ_SESSION_NAME": Service(With("ZELLIJ")), "name of that session";
    "KITTY_LISTEN_ON": Service(Address), "kitty: types into other windows";
    "WEZTERM_UNIX_SOCKET": Service(Path), "wezterm: types into other windows";
    "WEZTERM_PANE": Service(With("WEZTERM_UNIX_SOCKET")), "the pane in that terminal";
    "ALACRITTY_SOCKET": Service(Path), "alacritty: opens terminals";
    "ABDUCO_SOCKET": Service(Path), "abduco session: types into it";
    "YDOTOOL_SOCKET": Service(Path), "ydotool: types and clicks everywhere";
    // Editors: they open files and run code outside.
    "VSCODE_IPC_HOOK*": Service(Path), "VS Code: opens files, runs its commands";
    "VSCODE_GIT_IPC_HANDLE": Service(Path), "VS Code: asks for git credentials";
    "VSCODE_GIT_ASKPASS_*": Service(With("VSCODE_GIT_IPC_HANDLE")), "the program that does";
    "GIT_ASKPASS": Service(With("VSCODE_GIT_IPC_HANDLE")), "the program that does";
    "REMOTE_CONTAINERS_IPC": Service(Path), "VS Code outside the container";
    "REMOTE_CONTAINERS_SOCKETS": Service(Unnamed), "agents outside the container";
    "REMOTE_CONTAINERS_DISPLAY_SOCK": Service(Path), "display outside the container";
    "NVIM": Service(Address), "Neovim: runs code in the editor";
    "NVIM_LISTEN_ADDRESS": Service(Address), "Neovim: runs code in the editor";
    "EMACS_SOCKET_NAME": Service(Runtime("emacs")), "Emacs: runs code in the editor";
    "VIM_SERVERNAME": Service(With("DISPLAY")), "Vim: runs code in the editor";
    "kak_session": Service(Runtime("kakoune")), "Kakoune: runs code in the editor";
    // Daemons that run things for others.
    "DOCKER_HOST": Service(Server), "Docker: root on the host";
    "CONTAINER_HOST": Service(Server), "Podman: starts programs outside";
    "CONTAINERD_ADDRESS": Service(Address), "containerd: root on the host";
    "BUILDKIT_HOST": Service(Server), "BuildKit: starts programs outside";
    "CONTAINER_RUNTIME_ENDPOINT": Service(Address), "container runtime: root on the host";
    "IMAGE_SERVICE_ENDPOINT": Service(Address), "container runtime: root on the host";
    "LXD_DIR": Service(Path), "directory of LXD's socket: root on the host";
    "LXD_SOCKET": Service(Path), "LXD: root on the host";
    "INCUS_DIR": Service(Path), "directory of Incus' socket: root on the host";
    "INCUS_SOCKET": Service(Path), "Incus: root on the host";
    "NIX_DAEMON_SOCKET_PATH": Service(Path), "Nix daemon: builds outside";
    "NIX_REMOTE": Service(Server), "Nix daemon: builds outside";
    "GUIX_DAEMON_SOCKET": Service(Address), "Guix daemon: builds outside";
    "SCCACHE_SERVER_UDS": Service(Path), "sccache: starts compilers outside";
    "WATCHMAN_SOCK": Service(Path), "watchman: starts programs outside";
    "BUILDKITE_AGENT_JOB_API_SOCKET": Service(Path), "CI agent: changes the job";
    "WSL_INTEROP": Service(Path), "starts Windows programs";
    // Sound.
    "PULSE_SERVER": Service(Server), "sound server: records";
    "PULSE_RUNTIME_PATH": Service(Path), "directory of the sound server's socket";
    "PIPEWIRE_REMOTE": Service(Runtime("")), "sound and screen server: records";
    "PIPEWIRE_RUNTIME_DIR": Service(Path), "directory of that server's socket";
    "MPD_HOST": Service(Server), "music player";
    // What a service manager or parent hands to one process.
    "NOTIFY_SOCKET": Service(Path), "service manager: takes reports of the service's state";
    "WATCHDOG_PID": Service(With("NOTIFY_SOCKET")), "who has to report there";
    "WATCHDOG_USEC": Service(With("NOTIFY_SOCKET")), "how often";
    "LISTEN_FDS": Service(Descriptor), "count of sockets the command does not inherit";
    "LISTEN_FDNAMES": Service(Descriptor), "names of those sockets";
    "LISTEN_PID": Service(Descriptor), "process they are for";
    "LISTEN_PIDFDID": Service(Descriptor), "process they are for";
    "NODE_CHANNEL_FD": Service(Descriptor), "pipe to a Node parent, which is not inherited";
    "NODE_CHANNEL_SERIALIZATION_MODE": Service(Descriptor), "how that pipe is written";
    "JOURNAL_STREAM": Service(At("/run/systemd/journal/socket")), "the system's log";
};

/// What a program needs to find things, to speak and to print.
pub const BASE: &[Row] = rows! {
    "PATH": Base, "where programs are";
    "HOME": Base, "where settings and caches are";
    "USER": Base, "who calls";
    "LOGNAME": Base, "who calls";
    "SHELL": Base, "what to start as a shell";
    "PWD": Base, "the working directory by the name the caller uses";
    "TERM": Base, "what the terminal can do";
    "COLORTERM": Base, "what the terminal can do";
    "COLUMNS": Base, "size of the terminal";
    "LINES": Base, "size of the terminal";
    "NO_COLOR": Base, "whether to print in colour";
    "FORCE_COLOR": Base, "whether to print in colour";
    "CLICOLOR": Base, "whether to print in colour";
    "CLICOLOR_FORCE": Base, "whether to print in colour";
    "LANG": Base, "language and encoding";
    "LANGUAGE": Base, "language";
    "LC_*": Base, "language, encoding and formats";
    "TZ": Base, "time zone";
    "SSL_CERT_FILE": Base, "whom TLS trusts: without it nothing is reached where that matters";
    "SSL_CERT_DIR": Base, "as above";
    "CURL_CA_BUNDLE": Base, "as above";
    "REQUESTS_CA_BUNDLE": Base, "as above";
    "NODE_EXTRA_CA_CERTS": Base, "as above";
    "PIP_CERT": Base, "as above";
    "GIT_SSL_CAINFO": Base, "as above";
    "CARGO_HTTP_CAINFO": Base, "as above";
    "AWS_CA_BUNDLE": Base, "as above";
    "NIX_SSL_CERT_FILE": Base, "as above";
    "DENO_CERT": Base, "as above";
    "CI": Base, "nobody is there to answer: without it programs may wait";
};

/// What a reader may look for here; nothing happens to these, nor to others not listed.
pub const PASSED: &[Row] = rows! {
    "LD_PRELOAD": Passed, "what it loads is confined like the command";
    "LD_LIBRARY_PATH": Passed, "as above";
    "LD_AUDIT": Passed, "as above";
    "LD_ORIGIN_PATH": Passed, "as above";
    "GLIBC_TUNABLES": Passed, "as above";
    "GCONV_PATH": Passed, "as above";
    "LOCPATH": Passed, "as above";
    "NLSPATH": Passed, "as above";
    "MALLOC_*": Passed, "as above";
    "BASH_ENV": Passed, "`srt` starts no shell but for a shell string";
    "ENV": Passed, "as above";
    "BASH_FUNC_*": Passed, "functions of the caller's shell";
    "NODE_OPTIONS": Passed, "the tool reads it inside";
    "JAVA_TOOL_OPTIONS": Passed, "as above; nothing is added to it";
    "PYTHONPATH": Passed, "as above";
    "PYTHONSTARTUP": Passed, "as above";
    "PERL5OPT": Passed, "as above";
    "PERL5LIB": Passed, "as above";
    "RUBYOPT": Passed, "as above";
    "RUSTC_WRAPPER": Passed, "as above";
    "MAKEFLAGS": Passed, "as above; the job server it names is passed too";
    "GIT_SSH_COMMAND": Passed, "as above; nothing is added to it";
    "GIT_*": Passed, "as above; `git.safeDirectories` continues `GIT_CONFIG_COUNT`";
    "EDITOR": Passed, "as above";
    "PAGER": Passed, "as above";
    "BROWSER": Passed, "a program, started inside";
    "SSH_ASKPASS": Passed, "a program, started inside";
    "SSH_CONNECTION": Passed, "two addresses; nothing can be reached by it";
    "SSH_CLIENT": Passed, "as above";
    "SSH_TTY": Passed, "name of a terminal; the host's are not in `/dev`";
    "GPG_TTY": Passed, "as above";
    "XDG_SESSION_*": Passed, "says what kind of session it is, leads nowhere";
    "XDG_SEAT": Passed, "as above";
    "XDG_VTNR": Passed, "as above";
    "WINDOWID": Passed, "number of a window; useless without the X server";
    "INVOCATION_ID": Passed, "number of a service's run, leads nowhere";
    "CREDENTIALS_DIRECTORY": Passed, "a directory: `filesystem.denyRead` hides it";
    "KUBECONFIG": Passed, "a file, hidden as a store of secrets";
};

/// What usually holds a secret.
pub const SECRETS: &[Row] = rows! {
    "*TOKEN": Secret, "bearer tokens: `GITHUB_TOKEN`, `GH_TOKEN`, `NPM_TOKEN`, `AWS_SESSION_TOKEN`";
    "*_TOKENS": Secret, "lists of them";
    "*_TOKEN_FILE": Secret, "files that hold one, as `AWS_WEB_IDENTITY_TOKEN_FILE`";
    "*SECRET": Secret, "`CLIENT_SECRET` and the like";
    "*SECRETS": Secret, "lists of them";
    "*_SECRET_*": Secret, "`AWS_SECRET_ACCESS_KEY`";
    "SECRET_*": Secret, "`SECRET_KEY_BASE`";
    "*PASSWORD": Secret, "also `PGPASSWORD`";
    "*PASSWD": Secret, "another spelling";
    "*_PASS": Secret, "another spelling";
    "*PASSPHRASE": Secret, "what opens a private key";
    "MYSQL_PWD": Secret, "password of the MySQL client";
    "BW_SESSION": Secret, "opens a password store";
    "OP_SESSION_*": Secret, "opens a password store";
    "SSHPASS": Secret, "password of sshpass";
    "*API_KEY": Secret, "`OPENAI_API_KEY`, `ANTHROPIC_API_KEY`";
    "*APIKEY": Secret, "another spelling";
    "*AUTH_KEY": Secret, "keys that let a machine join";
    "*AUTHKEY": Secret, "another spelling";
    "*ACCESS_KEY": Secret, "`AWS_SECRET_ACCESS_KEY` and stores alike";
    "*ACCESS_KEY_ID": Secret, "`AWS_ACCESS_KEY_ID`: names the account";
    "*SECRET_KEY": Secret, "signing keys";
    "*SIGNING_KEY": Secret, "signing keys";
    "*PRIVATE_KEY": Secret, "keys written out";
    "*ENCRYPTION_KEY": Secret, "keys written out";
    "*MASTER_KEY": Secret, "`RAILS_MASTER_KEY`";
    "*_STORAGE_KEY": Secret, "`AZURE_STORAGE_KEY`";
    "*ACCOUNT_KEY": Secret, "keys of storage accounts";
    "*CREDENTIAL": Secret, "credentials, or the file that holds them";
    "*CREDENTIALS": Secret, "`GOOGLE_APPLICATION_CREDENTIALS`";
    "*_CREDS": Secret, "another spelling";
    "AWS_CONTAINER_*": Secret, "where the credentials of a container's role are fetched";
    "ACTIONS_ID_TOKEN_REQUEST_*": Secret, "fetches an identity of the CI job";
    "*_JWT": Secret, "signed tokens";
    "CI_JOB_JWT*": Secret, "identity of the CI job";
    "*_PAT": Secret, "personal access tokens";
    "*_SAS": Secret, "shared access signatures";
    "*COOKIE": Secret, "sessions";
    "*_AUTH": Secret, "user and password in one: `REDISCLI_AUTH`";
    "NPM_CONFIG_*AUTH*": Secret, "registry credentials of npm";
    "DOCKER_AUTH_CONFIG": Secret, "registry credentials of Docker";
    "*CONNECTION_STRING": Secret, "addresses with the password in them";
    "*DATABASE_URL": Secret, "addresses with the password in them";
    "*_DSN": Secret, "addresses with the password in them";
    "MONGODB_URI": Secret, "addresses with the password in them";
    "MONGO_URL": Secret, "addresses with the password in them";
    "REDIS_URL": Secret, "addresses with the password in them";
    "AMQP_URL": Secret, "addresses with the password in them";
    "*WEBHOOK_URL": Secret, "whoever has the address may post";
};
