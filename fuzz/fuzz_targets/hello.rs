//! First bytes of a tunnel: read the same in any pieces.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sandbox_runtime::egress::fuzzing::hello;

fuzz_target!(|bytes: &[u8]| hello(bytes));
