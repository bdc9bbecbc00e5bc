//! A question for a name: answered in a message that fits, or not at all.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sandbox_runtime::egress::fuzzing::dns;

fuzz_target!(|bytes: &[u8]| dns(bytes));
