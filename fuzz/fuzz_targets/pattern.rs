//! An entry of `allowedDomains` and a target, held against a model.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sandbox_runtime::policy::network::fuzzing::pattern;

fuzz_target!(|bytes: &[u8]| pattern(bytes));
