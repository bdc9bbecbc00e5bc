//! Bytes of an HTTP connection: followed the same in any pieces.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sandbox_runtime::egress::fuzzing::head;

fuzz_target!(|bytes: &[u8]| head(bytes));
