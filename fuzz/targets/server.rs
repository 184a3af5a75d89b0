#![no_main]

libfuzzer_sys::fuzz_target!(
    init: veilsum_fuzz::seeds(veilsum_fuzz::server::seeds),
    |data: &[u8]| veilsum_fuzz::server::run(data)
);
