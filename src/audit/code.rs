//! Every code an event may carry, and what it means: messages, events and documents share it.

use serde::{Serialize, Serializer};

macro_rules! codes {
    ($($variant:ident = $name:literal: $meaning:literal;)*) => {
        /// Why, as `kind.subject.cause`. Never renamed.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Code {
            $(#[doc = $meaning] $variant,)*
        }

        impl Code {
            /// All of them, in the order of the documents.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// Returns what events say.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            /// Returns what it means, in one sentence.
            pub fn meaning(self) -> &'static str {
                match self {
                    $(Self::$variant => $meaning,)*
                }
            }
        }
    };
}

codes! {
    RunStart = "lifecycle.run.start":
        "The sandbox stands and the command is about to start.";
    RunRefused = "lifecycle.run.refused":
        "The command did not run.";
    RunEnd = "lifecycle.run.end":
        "The command ended.";
    EventsDropped = "lifecycle.events.dropped":
        "Events were lost: more came than could be kept.";
    HostListed = "net.host.listed":
        "The host is listed and the address passed.";
    HostUnlisted = "net.host.unlisted":
        "No entry of `network.allowedDomains` matches.";
    HostDenied = "net.host.denied":
        "An entry of `network.deniedDomains` matches.";
    RequestMalformed = "net.request.malformed":
        "The host or the request cannot be understood in one way only.";
    AddressDenied = "net.address.denied":
        "The name leads to an address that is out of bounds.";
    HostMismatch = "net.host.mismatch":
        "What is said inside the connection names another host, or none that can be told.";
    UpstreamFailed = "net.upstream.failed":
        "The host is allowed and could not be reached.";
    CommandUnsupported = "net.command.unsupported":
        "The request needs something the proxies do not do: UDP, BIND.";
    ConnectionLimit = "net.connection.limit":
        "As many connections are open as `network.limits.connections` allows.";
    NameUnlisted = "dns.name.unlisted":
        "No entry of `network.allowedDomains` matches the name that was asked for.";
    NameDenied = "dns.name.denied":
        "An entry of `network.deniedDomains` matches the name that was asked for.";
    QueryMalformed = "dns.query.malformed":
        "The question is for what is not a host's name.";
    QueryType = "dns.query.type":
        "The question is for other records than addresses.";
    SocketListed = "socket.path.listed":
        "An entry of `network.allowUnixSockets` covers the socket.";
    SocketUnlisted = "socket.path.unlisted":
        "No entry of `network.allowUnixSockets` covers the socket.";
    SocketRaw = "socket.raw.refused":
        "A raw socket of IP was asked for; nothing opens one.";
    SocketPacket = "socket.packet.refused":
        "A socket for packets of the link layer was asked for; nothing opens one.";
    SocketUdp = "socket.udp.refused":
        "A datagram was sent beyond the loopback; UDP reaches no host.";
    WriteUnlisted = "file.write.unlisted":
        "No entry of `filesystem.allowWrite` covers the path.";
    WriteDenied = "file.write.denied":
        "An entry of `filesystem.denyWrite` covers the path.";
    WriteProtected = "file.write.protected":
        "The path has a protected name; `filesystem.allowProtected` opens it.";
    ReadDenied = "file.read.denied":
        "An entry of `filesystem.denyRead` hides the path.";
    ReadSecret = "file.read.secret":
        "The path is a store of secrets.";
    ProgramStarted = "exec.program.started":
        "A program was started.";
    RunTime = "limit.run.time":
        "The command ran for as long as `limits.seconds` allows, and was ended.";
    MemoryExceeded = "limit.memory.exceeded":
        "Processes were killed: they used more than `limits.memory` together.";
    ProcessesExceeded = "limit.processes.exceeded":
        "Processes or threads were refused: `limits.processes` were there.";
    CpuExceeded = "limit.cpu.exceeded":
        "A process was ended: it used as much processor time as `limits.cpuSeconds` allows.";
    FileSizeExceeded = "limit.filesize.exceeded":
        "A process was ended: it wrote a file of more than `limits.fileSize`.";
    SocketsAll = "weakening.sockets.all":
        "`network.allowAllUnixSockets` opens every socket.";
    NetworkOpen = "weakening.network.open":
        "`network.mode` shares the host's network.";
    NetworkPrivate = "weakening.network.private":
        "`network.allowPrivateNetworks` lets names lead to private addresses.";
    HostsUnmatched = "weakening.network.hostmatch":
        "`network.requireHostMatch` is off: requests may name another host than was judged.";
    FilesOpen = "weakening.filesystem.disabled":
        "`filesystem.disabled` switches the rules for files off.";
    SecretsShown = "weakening.filesystem.secrets":
        "`filesystem.protectSecrets` shows the stores of secrets.";
    FilesOfOthers = "weakening.filesystem.owners":
        "`filesystem.keepFileCapabilities` lets a command of user 0 act on files of every user.";
    NestingUserns = "weakening.nesting.userns":
        "`allowNestedUserNamespaces` lets user namespaces be made, without mounts.";
    NestingMounts = "weakening.nesting.mounts":
        "`allowNestedUserNamespaces` lets mounts be made; Landlock leaves files alone.";
    NestedInner = "weakening.nested.inner":
        "A run inside a sandbox, without namespaces of its own.";
}

impl Code {
    /// Returns the code with a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|code| code.name() == name)
    }
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}
