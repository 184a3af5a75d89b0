#![no_main]

libfuzzer_sys::fuzz_target!(
    init: veilsum_fuzz::seeds(veilsum_fuzz::statements::seeds),
    |data: &[u8]| veilsum_fuzz::statements::run(data)
);
