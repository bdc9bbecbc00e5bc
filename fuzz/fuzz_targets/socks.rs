//! A greeting and a request of SOCKS5.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sandbox_runtime::egress::fuzzing::socks;

fuzz_target!(|bytes: &[u8]| socks(bytes));
