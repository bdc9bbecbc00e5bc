//! The keys of `network`.

use super::super::schema::{Effect, Form, Key, Relation, Shape, Support};
use super::{LOOSE, MACOS, STRICT, choice, list, section, switch, text};

pub(super) static KEYS: &[Key] = &[
    section("network", "Which hosts may be reached."),
    choice(
        "network.mode",
        &["filtered", "open"],
        "\"filtered\"",
        "`filtered`: through the proxies alone; `open`: the host's network, unfiltered.",
    )
    .effect(Effect::Switch("\"filtered\"")),
    list(
        "network.allowedDomains",
        Form::Host,
        "Hosts that may be reached, each with any port or `:port`.",
    )
    .effect(Effect::Grant(Relation::Hosts))
    .flag("--allow-domain"),
    list(
        "network.deniedDomains",
        Form::Host,
        "Hosts that may not be reached, whatever else says so.",
    )
    .effect(Effect::Deny)
    .flag("--deny-domain"),
    Key::new(
        "network.deniedDomainReasons",
        Shape::Map(Form::Any),
        "Text to show when this entry of `deniedDomains` refuses.",
    )
    .default("{}"),
    switch(
        "network.strictAllowlist",
        "false",
        "Whether nothing but `allowedDomains` can allow a host.",
    )
    .effect(STRICT),
    list(
        "network.deniedResolvedAddresses",
        Form::Network,
        "Addresses that an allowed name must not lead to.",
    )
    .effect(Effect::Deny),
    switch(
        "network.requireHostMatch",
        "true",
        "Whether requests and TLS must name the host they were allowed for.",
    )
    .effect(STRICT),
    switch(
        "network.allowPrivateNetworks",
        "false",
        "Whether allowed names may lead to private addresses.",
    )
    .effect(LOOSE),
    Key::new(
        "network.allowHostPorts",
        Shape::Numbers(1, 65535),
        "Ports of the host's loopback that may be reached.",
    )
    .default("[]")
    .effect(Effect::Grant(Relation::Same))
    .support(Support::Unbuilt),
    switch(
        "network.transparent",
        "true",
        "Whether programs that know no proxy are served too.",
    ),
    switch(
        "network.proxyEnv",
        "true",
        "Whether the proxy variables are set.",
    ),
    section("network.limits", "Bounds of the proxies."),
    Key::new(
        "network.limits.connections",
        Shape::Int(1, 65536),
        "Connections to the proxies open at once.",
    )
    .default("1024")
    .effect(Effect::Limit),
    Key::new(
        "network.limits.headerSeconds",
        Shape::Int(1, 3600),
        "Seconds a request or a TLS hello may take to be complete.",
    )
    .default("10")
    .effect(Effect::Limit),
    Key::new(
        "network.limits.idleSeconds",
        Shape::Int(1, 604_800),
        "Seconds in which nothing may move on a connection before it is closed.",
    )
    .default("3600")
    .effect(Effect::Limit),
    Key::new(
        "network.limits.bytesPerSecond",
        Shape::Int(0, u64::MAX),
        "Bytes a second in each direction of a connection, 0 for no bound.",
    )
    .default("0"),
    list(
        "network.allowUnixSockets",
        Form::Path,
        "Unix sockets of the host that may be reached, or directories of such.",
    )
    .effect(Effect::Grant(Relation::Paths)),
    switch(
        "network.allowAllUnixSockets",
        "false",
        "Whether every Unix socket of the host may be reached.",
    )
    .effect(LOOSE),
    switch(
        "network.allowLocalBinding",
        "false",
        "Whether local ports may be bound.",
    )
    .effect(LOOSE)
    .support(Support::Ignored(
        "the loopback inside is the sandbox's own and open to it",
    )),
    list(
        "network.allowMachLookup",
        Form::Service,
        "Mach services that may be looked up.",
    )
    .effect(Effect::Grant(Relation::Same))
    .support(MACOS),
    Key::new(
        "network.httpProxyPort",
        Shape::Int(1, 65535),
        "Port of an HTTP proxy on the host's loopback to use instead.",
    )
    .effect(Effect::Open)
    .support(Support::Unbuilt),
    Key::new(
        "network.socksProxyPort",
        Shape::Int(1, 65535),
        "Port of a SOCKS proxy on the host's loopback to use instead.",
    )
    .effect(Effect::Open)
    .support(Support::Unbuilt),
    Key::new(
        "network.mitmProxy",
        Shape::Asked,
        "Proxy on a Unix socket that some hosts are sent to.",
    )
    .effect(Effect::Open)
    .support(Support::Unbuilt),
    text("network.mitmProxy.socketPath", Form::Path, "Its socket."),
    Key::new(
        "network.mitmProxy.domains",
        Shape::List(Form::Host),
        "The hosts, without ports.",
    ),
    section("network.parentProxy", "Proxy that the proxies go through."),
    text("network.parentProxy.http", Form::Url, "For plain requests.")
        .effect(Effect::Open)
        .support(Support::Unbuilt),
    text(
        "network.parentProxy.https",
        Form::Url,
        "For tunnels; without it the one for plain requests.",
    )
    .effect(Effect::Open)
    .support(Support::Unbuilt),
    text(
        "network.parentProxy.noProxy",
        Form::Free,
        "Hosts to reach without it, separated by commas.",
    )
    .effect(Effect::Open)
    .support(Support::Unbuilt),
    Key::new(
        "network.tlsTerminate",
        Shape::Asked,
        "Ends TLS at the proxy, so that requests can be judged.",
    )
    .effect(Effect::Open)
    .support(Support::Unbuilt),
    text(
        "network.tlsTerminate.caCertPath",
        Form::Path,
        "Certificate of an authority of your own.",
    ),
    text(
        "network.tlsTerminate.caKeyPath",
        Form::Path,
        "Its private key.",
    ),
    list(
        "network.tlsTerminate.excludeDomains",
        Form::Host,
        "Hosts whose TLS is passed on as it is, without ports.",
    ),
    list(
        "network.tlsTerminate.extraCaCertPaths",
        Form::Path,
        "Further certificates to trust inside.",
    ),
    Key::new(
        "network.tlsTerminate.maxTunnels",
        Shape::Int(1, 65536),
        "Tunnels open at once.",
    )
    .default("256"),
    Key::new(
        "network.tlsTerminate.handshakeTimeoutMs",
        Shape::Int(100, 600_000),
        "Milliseconds a hand-shake may take.",
    )
    .default("10000"),
    Key::new(
        "network.filterRequest",
        Shape::Never("it is a function, which a file cannot hold"),
        "A function of programs that embed the library.",
    ),
    switch(
        "network.allowPlaintextHeaderSet",
        "false",
        "Whether request rules may set headers without TLS.",
    )
    .effect(LOOSE)
    .support(Support::Unbuilt),
    list(
        "network.stripResponseHeaders",
        Form::Header,
        "Headers taken out of answers.",
    )
    .effect(Effect::Deny)
    .support(Support::Unbuilt),
    switch(
        "network.refuseOpaqueTunnels",
        "false",
        "Whether tunnels that cannot be looked into are refused.",
    )
    .effect(STRICT)
    .support(Support::Unbuilt),
    choice(
        "network.ambiguousRequestTarget",
        &["refuse", "asSpelled", "normalize"],
        "\"refuse\"",
        "What becomes of a request whose target can be read in two ways.",
    )
    .effect(Effect::Switch("\"refuse\""))
    .support(Support::Unbuilt),
];
