//! Questions put to this program and to the one whose settings format it reads, version 0.0.83:
//! what they answer differently must stand in docs/compatibility.md, with its reason.
//!
//! `make test-reference` runs it. The package comes from npm; SRT_TEST_SEED repeats a run.

#[path = "reference/addresses.rs"]
mod addresses;
#[path = "reference/draw.rs"]
mod draw;
#[path = "reference/examples.rs"]
mod examples;
mod harness;
#[path = "reference/hosts.rs"]
mod hosts;
#[path = "reference/ledger.rs"]
mod ledger;
#[path = "reference/lists.rs"]
mod lists;
#[path = "reference/ours.rs"]
mod ours;
#[path = "reference/package.rs"]
mod package;
#[path = "reference/paths.rs"]
mod paths;
#[path = "reference/proxies.rs"]
mod proxies;
