//! Cosignatures: real ones, the example of the text, and what is refused.

use super::common::{Signer, strict};
use veilsum_attestation::note::{Note, NoteError, NoteKey};
use veilsum_attestation::tlog::CosignerKey;

const ARCHE: &str = include_str!("../vectors/tlog/arche.txt");
const COACH: &str = include_str!("../vectors/tlog/coach.txt");
const ARCHE_KEY: &str =
    "arche2025h1.staging.ct.transparency.dev+ba2f06c0+AU0vHmlGCS/PdN8b2OaGmKprLI8HKM+dJ472xgFYh15f";
const WITNESSES: [&str; 4] = [
    "remora.n621.de+da77ade7+BOvN63jn/bLvkieywe8R6UYAtVtNbZpXh34x7onlmtw2",
    "witness.stagemole.eu+67f7aea0+BEqSG3yu9YrmcM3BHvQYTxwFj3uSWakQepafafpUqklv",
    "transparency.dev/DEV:witness-little-garden+d8042a87+BCtusOxINQNUTN5Oj8HObRkh2yHf/MwYaGX4CPdiVEPM",
    "witness1.smartit.nu/witness1+a48c820f+BPSFWg9G6KPiO7QPryYO5Xq4oYJJ+kAvLKLSimDhoxMO",
];
const NAVIGLI: &str =
    "witness.navigli.sunlight.geomys.org+a3e00fe2+BNy/co4C1Hn1p+INwJrfUlgz7W55dSZReusH/GhUhJ/G";

#[test]
fn real_cosignatures_hold() {
    let note = Note::parse(ARCHE.as_bytes()).unwrap();
    assert_eq!(note.to_string(), ARCHE);
    let log: NoteKey = ARCHE_KEY.parse().unwrap();
    note.verify(&[log], &strict).unwrap();
    for vkey in WITNESSES {
        let key: CosignerKey = vkey.parse().unwrap();
        assert_eq!(key.to_string(), vkey);
        // 2026-05-23, the same second for all four: they were asked at once.
        assert_eq!(key.time_on(&note, &strict), Ok(Some(1_779_573_024)), "{vkey}");
    }
    let note = Note::parse(COACH.as_bytes()).unwrap();
    let key: CosignerKey = NAVIGLI.parse().unwrap();
    assert_eq!(key.time_on(&note, &strict), Ok(Some(1_785_704_691)));
    assert_eq!(
        key.time_on(&Note::parse(ARCHE.as_bytes()).unwrap(), &strict),
        Ok(None)
    );
}

#[test]
fn a_changed_head_or_time_is_refused() {
    let key: CosignerKey = WITNESSES[0].parse().unwrap();
    let bad = Err(NoteError::BadSignature("remora.n621.de".into()));
    let changed = ARCHE.replace("1432088532", "1432088533");
    let note = Note::parse(changed.as_bytes()).unwrap();
    assert_eq!(key.time_on(&note, &strict), bad);
    // Another second in the line, and a line cut short.
    for (from, to) in [("2net5wAAAABqEiEg", "2net5wAAAABqEiEh"), ("AWfBw==", "")] {
        let note = Note::parse(ARCHE.replace(from, to).as_bytes());
        if let Ok(note) = note {
            assert_eq!(key.time_on(&note, &strict), bad, "{from}");
        }
    }
    // An extension line is part of what is signed.
    let extended = ARCHE.replace("C4Ro=\n\n", "C4Ro=\nextension\n\n");
    let note = Note::parse(extended.as_bytes()).unwrap();
    assert_eq!(key.time_on(&note, &strict), bad);
}

#[test]
fn the_example_of_the_text_parses() {
    // C2SP tlog-cosignature; its keys are not published.
    let text = "example.com/behind-the-sofa\n20852163\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n\n\
        \u{2014} example.com/behind-the-sofa Az3grlgtzPICa5OS8npVmf1Myq/5IZniMp+ZJurmRDeOoRDe4URYN7u5/Zhcyv2q1gGzGku9nTo+zyWE+xeMcTOAYQ8=\n\
        \u{2014} witness.example.com/w1 jWbPPwAAAABkGFDLEZMHwSRaJNiIDoe9DYn/zXcrtPHeolMI5OWXEhZCB9dlrDJsX3b2oyin1nPZqhf5nNo0xUe+mbIUBkBIfZ+qnA==\n";
    let note = Note::parse(text.as_bytes()).unwrap();
    let line = &note.signatures()[1];
    let (time, signature) = line.signature.split_first_chunk::<8>().unwrap();
    assert_eq!((u64::from_be_bytes(*time), signature.len()), (1_679_315_147, 64));
}

#[test]
fn what_is_cosigned_is_the_documented_message() {
    let signer = Signer::new(7);
    let key = signer.cosigner("w.example/1");
    let text = "o\n1\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n";
    let line = key.cosign(text, 1_679_315_147, &|message| {
        assert_eq!(
            message,
            format!("cosignature/v1\ntime 1679315147\n{text}").as_bytes()
        );
        signer.sign(message)
    });
    assert_eq!(line.signature.len(), 72);
    let mut note = Note::new(text).unwrap();
    note.add(line).unwrap();
    assert_eq!(key.time_on(&note, &strict), Ok(Some(1_679_315_147)));
    // Times of 2^63 and more are none.
    let mut late = Note::new(text).unwrap();
    late.add(key.cosign(text, 1 << 63, &|message| signer.sign(message)))
        .unwrap();
    assert!(key.time_on(&late, &strict).is_err());
    // One key of two names has two ids; a plain signature of the key is no cosignature.
    assert_ne!(key.id(), signer.cosigner("w.example/2").id());
    assert_ne!(key.id(), signer.log_key("w.example/1").id());
    assert!(signer.log_key("w").to_string().parse::<CosignerKey>().is_err());
    for at in 0..WITNESSES[0].len() {
        let mut bytes = WITNESSES[0].as_bytes().to_vec();
        bytes[at] ^= 1;
        assert!(
            String::from_utf8(bytes).unwrap().parse::<CosignerKey>().is_err(),
            "byte {at}"
        );
    }
}
