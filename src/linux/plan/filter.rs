//! tmp
/// tmp
#[derive(Debug)]
pub struct Filter {
    /// n
    pub name: &'static str,
}
impl Filter {
    pub(crate) fn program(&self) -> Vec<libc::sock_filter> {
        vec![libc::sock_filter {
            code: 6,
            jt: 0,
            jf: 0,
            k: 0x7fff0000,
        }]
    }
}
pub(crate) fn for_caller(_root: bool) -> Vec<Filter> {
    vec![Filter { name: "x" }]
}
