//! How namespaces are found from what belongs to them.

/// What is asked of a socket or of a namespace; see ioctl_nsfs(2), linux/sockios.h.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Related {
    /// SIOCGSKNS: the network namespace of a socket.
    NetworkOfSocket = 0x894c,
    /// NS_GET_USERNS: the user namespace that a namespace belongs to.
    Owner = 0xb701,
    /// NS_GET_PARENT: the user namespace above another.
    Parent = 0xb702,
}
