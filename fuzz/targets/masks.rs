#![no_main]

libfuzzer_sys::fuzz_target!(
    init: veilsum_fuzz::seeds(veilsum_fuzz::masks::seeds),
    |data: &[u8]| veilsum_fuzz::masks::run(data)
);
