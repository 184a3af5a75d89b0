#![no_main]

libfuzzer_sys::fuzz_target!(
    init: veilsum_fuzz::seeds(veilsum_fuzz::notes::seeds),
    |data: &[u8]| veilsum_fuzz::notes::run(data)
);
