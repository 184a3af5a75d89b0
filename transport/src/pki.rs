//! The consortium's certificate authority, small enough to read.
//!
//! What it is for: a federation that has no PKI of its own (and every demo and test) makes one authority, issues one certificate
//! per server and client, and gives each party its certificate, its key and the authority's certificate. A consortium with a PKI of
//! its own needs none of this: any X.509 v3 chain under one root works with [`TlsIdentity`](crate::TlsIdentity) and
//! [`TrustRoots`](crate::TrustRoots).
//!
//! Private keys. [`ConsortiumCa::issue`] makes the key for the subject and hands it back once; it keeps no copy. Whoever wants the
//! key never to leave its machine makes a request there ([`KeyRequest`]) and has it signed ([`ConsortiumCa::sign`]). The
//! authority's key can certify anybody: keep it off the server, offline between enrolments, readable by its owner only.
//!
//! Time is an argument. Certificates start [`BACKDATE`] before `now`, so that a clock a few minutes slow does not refuse them.

use crate::error::TransportError;
use crate::link::PeerId;
use crate::tls;
use base64::Engine;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateSigningRequestParams, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose, PublicKeyData, SerialNumber,
};
use rustls_pki_types::CertificateDer;
use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use zeroize::{Zeroize, Zeroizing};

/// What a certificate is for. A server's certificate does not open a client's door, nor the other way round.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IssueKind {
    /// A server, reached under these DNS names or IP addresses (subject alternative names; the first is also the common name).
    Server {
        /// Names and addresses; at least one.
        names: Vec<String>,
    },
    /// A client, under this name (common name; for people, nothing is decided by it).
    Client {
        /// For example `acme-depot-3`.
        name: String,
    },
}

/// The authority of one consortium: an Ed25519 key and its self-signed certificate.
pub struct ConsortiumCa {
    cert_pem: String,
    key: KeyPair,
}

impl ConsortiumCa {
    /// Makes a new authority.
    ///
    /// # Errors
    /// [`PkiError`] if the name or the times cannot be written into a certificate, or the system has no randomness.
    pub fn generate(name: &str, validity: Duration, now: SystemTime) -> Result<Self, PkiError> {
        let key = new_key()?;
        let mut params = params(name, validity, now)?;
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.serial_number = Some(serial(&key, now));
        let cert_pem = params.self_signed(&key)?.pem();
        Ok(Self { cert_pem, key })
    }

    /// Reads an authority back from the two PEM texts.
    ///
    /// # Errors
    /// [`PkiError`] if one cannot be read, is not an authority's, or the key is not the certificate's.
    pub fn from_pem(cert_pem: &str, key_pem: &str) -> Result<Self, PkiError> {
        let key = KeyPair::from_pem(key_pem)?;
        let facts = CertificateFacts::of_pem(cert_pem)?;
        if !facts.is_authority {
            return Err(PkiError::NotAnAuthority { name: facts.name });
        }
        if facts.peer_id != PeerId::of_spki(&key.subject_public_key_info()) {
            return Err(PkiError::WrongKey { name: facts.name });
        }
        Ok(Self {
            cert_pem: cert_pem.to_owned(),
            key,
        })
    }

    /// The authority's certificate. Public; every party needs it.
    #[must_use]
    pub fn cert_pem(&self) -> &str {
        &self.cert_pem
    }

    /// The authority's private key, PKCS#8 PEM. Secret: it can certify anybody.
    #[must_use]
    pub fn key_pem(&self) -> Zeroizing<String> {
        private_pem(&self.key)
    }

    /// Makes a key and a certificate for it.
    ///
    /// # Errors
    /// [`PkiError`] if a name is not usable or the times cannot be written.
    pub fn issue(&self, kind: &IssueKind, validity: Duration, now: SystemTime) -> Result<Issued, PkiError> {
        let mut key = new_key()?;
        let issued = self.certify(kind, validity, now, &key);
        let key_pem = private_pem(&key);
        key.zeroize();
        let (cert_pem, peer_id) = issued?;
        Ok(Issued {
            cert_pem,
            key_pem,
            peer_id,
        })
    }

    /// Certifies a key that stays where it was made. Only the public key is taken from the request; names and purpose are ours.
    /// Returns the certificate and the peer id of the key.
    ///
    /// # Errors
    /// [`PkiError`] if the request is unreadable or its signature wrong, or as for [`issue`](Self::issue).
    pub fn sign(
        &self,
        request_pem: &str,
        kind: &IssueKind,
        validity: Duration,
        now: SystemTime,
    ) -> Result<(String, PeerId), PkiError> {
        let request = CertificateSigningRequestParams::from_pem(request_pem)?;
        self.certify(kind, validity, now, &request.public_key)
    }

    fn certify(
        &self,
        kind: &IssueKind,
        validity: Duration,
        now: SystemTime,
        key: &impl PublicKeyData,
    ) -> Result<(String, PeerId), PkiError> {
        let (common_name, names, purpose) = match kind {
            IssueKind::Server { names } => {
                let first = names.first().ok_or(PkiError::NoName)?;
                (first.as_str(), names.clone(), ExtendedKeyUsagePurpose::ServerAuth)
            }
            IssueKind::Client { name } if name.is_empty() => return Err(PkiError::NoName),
            IssueKind::Client { name } => (name.as_str(), Vec::new(), ExtendedKeyUsagePurpose::ClientAuth),
        };
        let mut params = params(common_name, validity, now)?;
        params.subject_alt_names = CertificateParams::new(names)?.subject_alt_names;
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![purpose];
        params.use_authority_key_identifier_extension = true;
        params.serial_number = Some(serial(key, now));
        let issuer = Issuer::from_ca_cert_pem(&self.cert_pem, &self.key)?;
        let cert_pem = params.signed_by(key, &issuer)?.pem();
        Ok((cert_pem, PeerId::of_spki(&key.subject_public_key_info())))
    }
}

impl Drop for ConsortiumCa {
    fn drop(&mut self) {
        self.key.zeroize();
    }
}

/// A certificate with its private key, fresh from the authority.
pub struct Issued {
    /// The certificate. Public.
    pub cert_pem: String,
    /// The private key, PKCS#8 PEM. Secret: belongs in one file, readable by its owner only. Zeroised when dropped.
    pub key_pem: Zeroizing<String>,
    /// How others will know this party.
    pub peer_id: PeerId,
}

impl fmt::Debug for Issued {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Issued({}, key redacted)", self.peer_id)
    }
}

/// A key that stays on its machine, and the request that may leave it.
pub struct KeyRequest {
    /// PKCS#10 request for [`ConsortiumCa::sign`]. Public.
    pub request_pem: String,
    /// The private key, PKCS#8 PEM. Secret; zeroised when dropped.
    pub key_pem: Zeroizing<String>,
    /// How others will know this party once it is certified.
    pub peer_id: PeerId,
}

impl KeyRequest {
    /// Makes an Ed25519 key and a request for it.
    ///
    /// # Errors
    /// [`PkiError`] if the system has no randomness.
    pub fn generate() -> Result<Self, PkiError> {
        let mut key = new_key()?;
        let request = CertificateParams::default()
            .serialize_request(&key)
            .and_then(|request| request.pem());
        let key_pem = private_pem(&key);
        let peer_id = PeerId::of_spki(&key.subject_public_key_info());
        key.zeroize();
        Ok(Self {
            request_pem: request?,
            key_pem,
            peer_id,
        })
    }
}

/// What a certificate says, for `doctor`, `inspect` and enrolment.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CertificateFacts {
    /// SHA-256 of its public key.
    pub peer_id: PeerId,
    /// Its common name, cleaned for printing; empty if it has none.
    pub name: String,
    /// First second at which it is valid.
    pub not_before: SystemTime,
    /// Last second at which it is valid.
    pub not_after: SystemTime,
    /// Whether it may certify others.
    pub is_authority: bool,
}

impl CertificateFacts {
    /// Reads the first certificate of a PEM text.
    ///
    /// # Errors
    /// [`PkiError::Unreadable`].
    pub fn of_pem(pem: &str) -> Result<Self, PkiError> {
        let chain = tls::certificates(pem.as_bytes(), "the certificate")?;
        chain
            .first()
            .ok_or(PkiError::NoName)
            .and_then(|der| Self::of_der(der))
    }

    /// Reads a DER certificate.
    ///
    /// # Errors
    /// [`PkiError::Unreadable`].
    pub fn of_der(der: &[u8]) -> Result<Self, PkiError> {
        let peer_id = peer_id_of_der(der)?;
        let (_, parsed) = x509_parser::parse_x509_certificate(der).map_err(|error| PkiError::Unreadable {
            detail: error.to_string(),
        })?;
        let name = parsed
            .subject()
            .iter_common_name()
            .next()
            .map(|name| crate::error::clean(name.as_slice()));
        let time = |seconds: i64| {
            let seconds = u64::try_from(seconds).unwrap_or(0);
            UNIX_EPOCH + Duration::from_secs(seconds)
        };
        Ok(Self {
            peer_id,
            name: name.unwrap_or_default(),
            not_before: time(parsed.validity().not_before.timestamp()),
            not_after: time(parsed.validity().not_after.timestamp()),
            is_authority: parsed.is_ca(),
        })
    }
}

/// The peer id of the first certificate in a PEM text.
///
/// # Errors
/// [`PkiError::Unreadable`].
pub fn peer_id_of_pem(pem: &str) -> Result<PeerId, PkiError> {
    Ok(CertificateFacts::of_pem(pem)?.peer_id)
}

/// The peer id of a DER certificate.
///
/// # Errors
/// [`PkiError::Unreadable`].
pub fn peer_id_of_der(der: &[u8]) -> Result<PeerId, PkiError> {
    Ok(tls::peer_of(&CertificateDer::from(der))?)
}

/// Why a certificate could not be made or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PkiError {
    /// A certificate needs a name.
    #[error(
        "a certificate needs a name: give a server at least one DNS name or address, a client a name that is not empty"
    )]
    NoName,
    /// The bytes are no certificate.
    #[error("the certificate cannot be read: {detail}")]
    Unreadable {
        /// The parser's words.
        detail: String,
    },
    /// The certificate is not an authority's.
    #[error("`{name}` is not an authority: use the certificate and key that were made with the consortium")]
    NotAnAuthority {
        /// Its common name.
        name: String,
    },
    /// The private key belongs to another certificate.
    #[error("the private key does not belong to the authority `{name}`")]
    WrongKey {
        /// Its common name.
        name: String,
    },
    /// The validity does not fit into a certificate.
    #[error(
        "the validity ends beyond the year 9999 or begins before 1970: use a shorter one and check the clock"
    )]
    BadTime,
    /// The certificate library refused.
    #[error("the certificate library refused: {detail}")]
    Library {
        /// Its words.
        detail: String,
    },
}

impl From<rcgen::Error> for PkiError {
    fn from(error: rcgen::Error) -> Self {
        Self::Library {
            detail: error.to_string(),
        }
    }
}

impl From<TransportError> for PkiError {
    fn from(error: TransportError) -> Self {
        Self::Unreadable {
            detail: error.to_string(),
        }
    }
}

/// How long before `now` a certificate begins: what we allow a peer's clock to be slow.
pub const BACKDATE: Duration = Duration::from_mins(5);

fn new_key() -> Result<KeyPair, PkiError> {
    Ok(KeyPair::generate_for(&rcgen::PKCS_ED25519)?)
}

/// The private key as PKCS#8 version 1. ring writes version 2 (RFC 5958, with the public key appended), which OpenSSL does not read.
fn private_pem(key: &KeyPair) -> Zeroizing<String> {
    let Some(seed) = key
        .serialized_der()
        .strip_prefix(PKCS8_V2_ED25519)
        .and_then(<[u8]>::first_chunk::<32>)
    else {
        return Zeroizing::new(key.serialize_pem());
    };
    let der = Zeroizing::new([PKCS8_V1_ED25519, seed.as_slice()].concat());
    let text = Zeroizing::new(base64::engine::general_purpose::STANDARD.encode(&*der));
    Zeroizing::new(format!(
        "-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n",
        *text
    ))
}

fn params(common_name: &str, validity: Duration, now: SystemTime) -> Result<CertificateParams, PkiError> {
    let now = now.duration_since(UNIX_EPOCH).map_err(|_| PkiError::BadTime)?;
    let end = now
        .checked_add(validity)
        .filter(|end| end.as_secs() < END_OF_9999)
        .ok_or(PkiError::BadTime)?;
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, common_name);
    params.not_before = epoch + Duration::from_secs(now.saturating_sub(BACKDATE).as_secs());
    params.not_after = epoch + Duration::from_secs(end.as_secs());
    Ok(params)
}

/// A serial number from the key and the time: two certificates for one key differ, and nothing has to be remembered.
fn serial(key: &impl PublicKeyData, now: SystemTime) -> SerialNumber {
    let mut seed = key.subject_public_key_info();
    let nanos = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    seed.extend_from_slice(&nanos.to_le_bytes());
    // Sixteen bytes with the top bit clear: positive, and within RFC 5280's twenty.
    let [first, rest @ ..] = PeerId::of_spki(&seed).0;
    let mut bytes = vec![first & 0x7f | 0x40];
    bytes.extend(rest.into_iter().take(15));
    SerialNumber::from(bytes)
}

/// RFC 8410 section 7: everything before the 32 bytes of the key, 48 bytes in all and so one line of PEM.
const PKCS8_V1_ED25519: &[u8] = &[
    0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
];

/// The same in version 2; the public key follows.
const PKCS8_V2_ED25519: &[u8] = &[
    0x30, 0x51, 0x02, 0x01, 0x01, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
];

/// 9999-12-31T23:59:59Z, the last time X.509 can write (RFC 5280 section 4.1.2.5).
const END_OF_9999: u64 = 253_402_300_799;

#[cfg(test)]
mod tests {
    use super::*;

    /// Made with OpenSSL 3.0: `openssl genpkey -algorithm ed25519 -out k.pem`, then
    /// `openssl req -x509 -new -key k.pem -subj "/CN=golden spki" -days 36500 -out c.pem`; the hash is
    /// `openssl x509 -in c.pem -pubkey -noout | openssl pkey -pubin -outform der | sha256sum`.
    const OPENSSL_ED25519: (&str, &str) = (
        "-----BEGIN CERTIFICATE-----\n\
MIIBQjCB9aADAgECAhRFRqXSXnB8fquh1e5GHacvV7a7ozAFBgMrZXAwFjEUMBIG\n\
A1UEAwwLZ29sZGVuIHNwa2kwIBcNMjYxMTI5MjEyMzQxWhgPMjEyNjExMDUyMTIz\n\
NDFaMBYxFDASBgNVBAMMC2dvbGRlbiBzcGtpMCowBQYDK2VwAyEAHaRlEUjgXS6I\n\
4BYJx1jbILxsbVI61lWeNlBw/TfSXv6jUzBRMB0GA1UdDgQWBBRo5OV14vRoSUaV\n\
gSzUVBdtaQrIIzAfBgNVHSMEGDAWgBRo5OV14vRoSUaVgSzUVBdtaQrIIzAPBgNV\n\
HRMBAf8EBTADAQH/MAUGAytlcANBAEsagV0LwB61U04cusw6LcrcoG3CewXzR4VB\n\
yThggieCyIGJn+i5oHcWm4zeIJQlnpr6y1cawElV+KZmIXybnAE=\n\
-----END CERTIFICATE-----",
        "373b630fd3a93fd536268dda886395f41515ca20c3ad2c3ce8c4d365d6a2f732",
    );

    /// As above with `openssl ecparam -name prime256v1 -genkey -noout -out k.pem`: the hash covers the algorithm's parameters too.
    const OPENSSL_P256: (&str, &str) = (
        "-----BEGIN CERTIFICATE-----\n\
MIIBgjCCASmgAwIBAgIUMA/tJbqigsEGw7EjaDmlaDch524wCgYIKoZIzj0EAwIw\n\
FjEUMBIGA1UEAwwLZ29sZGVuIHAyNTYwIBcNMjYxMTI5MjEyMzQxWhgPMjEyNjEx\n\
MDUyMTIzNDFaMBYxFDASBgNVBAMMC2dvbGRlbiBwMjU2MFkwEwYHKoZIzj0CAQYI\n\
KoZIzj0DAQcDQgAEA4gSo8+IVrFfyWwMjv74jdajvEykFQ4GHEjKEv3Ej1rLp1j5\n\
eraUG51BQ2o7UySt+obIDVuWhYkULrFdoftQjqNTMFEwHQYDVR0OBBYEFCgOr4qi\n\
rkkuFHHuOS1eEJC0JymLMB8GA1UdIwQYMBaAFCgOr4qirkkuFHHuOS1eEJC0JymL\n\
MA8GA1UdEwEB/wQFMAMBAf8wCgYIKoZIzj0EAwIDRwAwRAIgN5uOo4h098n6cIQo\n\
wVbdCqy1iBVDvyxtUPOEoGb1eCMCIDVnwyL9jhIZlp6baT1lWVFKL7+p22W3bqjh\n\
wZBP8M5s\n\
-----END CERTIFICATE-----",
        "beda0e9bf454aab899b0ccd8574b4c72783075274057298df6a610c865134c7c",
    );

    const YEAR: Duration = Duration::from_hours(365 * 24);

    fn noon() -> SystemTime {
        UNIX_EPOCH + Duration::from_hours(500_000)
    }

    #[test]
    fn a_peer_id_is_what_openssl_says() {
        for (pem, hash) in [OPENSSL_ED25519, OPENSSL_P256] {
            assert_eq!(peer_id_of_pem(pem).unwrap().to_hex(), hash);
        }
        let facts = CertificateFacts::of_pem(OPENSSL_ED25519.0).unwrap();
        assert_eq!((facts.name.as_str(), facts.is_authority), ("golden spki", true));
    }

    #[test]
    fn an_issued_certificate_says_what_was_asked() {
        let ca = ConsortiumCa::generate("test consortium", YEAR, noon()).unwrap();
        let names = vec!["aggregator.example".to_owned(), "127.0.0.1".to_owned()];
        let issued = ca.issue(&IssueKind::Server { names }, YEAR, noon()).unwrap();
        let facts = CertificateFacts::of_pem(&issued.cert_pem).unwrap();
        assert_eq!(facts.peer_id, issued.peer_id);
        assert_eq!(facts.name, "aggregator.example");
        assert_eq!(facts.not_before, noon() - BACKDATE);
        assert_eq!(facts.not_after, noon() + YEAR);
        assert!(!facts.is_authority);
        crate::TlsIdentity::from_pem(issued.cert_pem.as_bytes(), issued.key_pem.as_bytes()).unwrap();
    }

    #[test]
    fn purposes_and_usages_are_in_the_certificate() {
        let ca = ConsortiumCa::generate("test consortium", YEAR, noon()).unwrap();
        let client = IssueKind::Client {
            name: "depot-1".into(),
        };
        let server = IssueKind::Server {
            names: vec!["localhost".into()],
        };
        for (kind, serves) in [(client, false), (server, true)] {
            let pem = ca.issue(&kind, YEAR, noon()).unwrap().cert_pem;
            let chain = tls::certificates(pem.as_bytes(), "test").unwrap();
            let (_, parsed) = x509_parser::parse_x509_certificate(&chain[0]).unwrap();
            let usage = parsed.key_usage().unwrap().unwrap();
            assert!(usage.critical && usage.value.digital_signature() && !usage.value.key_cert_sign());
            let purpose = parsed.extended_key_usage().unwrap().unwrap().value;
            assert_eq!((purpose.server_auth, purpose.client_auth), (serves, !serves));
            assert_eq!(parsed.version(), x509_parser::x509::X509Version::V3);
            assert!(parsed.raw_serial().len() <= 20);
        }
    }

    #[test]
    fn two_certificates_of_one_key_are_one_peer_with_two_serials() {
        let ca = ConsortiumCa::generate("test consortium", YEAR, noon()).unwrap();
        let request = KeyRequest::generate().unwrap();
        let client = IssueKind::Client {
            name: "depot-1".into(),
        };
        let (first, id) = ca.sign(&request.request_pem, &client, YEAR, noon()).unwrap();
        let (second, id2) = ca
            .sign(&request.request_pem, &client, YEAR, noon() + YEAR)
            .unwrap();
        assert_eq!((id, id2), (request.peer_id, request.peer_id));
        assert_ne!(first, second);
        assert_eq!(peer_id_of_pem(&second).unwrap(), id);
        crate::TlsIdentity::from_pem(first.as_bytes(), request.key_pem.as_bytes()).unwrap();
    }

    #[test]
    fn an_authority_is_read_back_and_a_leaf_is_none() {
        let ca = ConsortiumCa::generate("test consortium", YEAR, noon()).unwrap();
        let again = ConsortiumCa::from_pem(ca.cert_pem(), &ca.key_pem()).unwrap();
        assert_eq!(again.cert_pem(), ca.cert_pem());
        let client = IssueKind::Client {
            name: "depot-1".into(),
        };
        let leaf = again.issue(&client, YEAR, noon()).unwrap();
        let refused = ConsortiumCa::from_pem(&leaf.cert_pem, &leaf.key_pem);
        assert!(matches!(refused, Err(PkiError::NotAnAuthority { .. })));
        let refused = ConsortiumCa::from_pem(ca.cert_pem(), &leaf.key_pem);
        assert!(matches!(refused, Err(PkiError::WrongKey { .. })));
    }

    #[test]
    fn a_key_of_another_certificate_makes_no_identity() {
        let ca = ConsortiumCa::generate("test consortium", YEAR, noon()).unwrap();
        let client = IssueKind::Client {
            name: "depot-1".into(),
        };
        let (one, two) = (
            ca.issue(&client, YEAR, noon()).unwrap(),
            ca.issue(&client, YEAR, noon()).unwrap(),
        );
        let mixed = crate::TlsIdentity::from_pem(one.cert_pem.as_bytes(), two.key_pem.as_bytes());
        let Err(TransportError::BadIdentity { detail, .. }) = mixed else {
            panic!("accepted")
        };
        assert!(detail.contains("does not belong"), "{detail}");
        assert!(crate::TlsIdentity::from_pem(one.cert_pem.as_bytes(), b"").is_err());
        assert!(crate::TlsIdentity::from_pem(b"", one.key_pem.as_bytes()).is_err());
        assert!(crate::TrustRoots::from_pem(b"").is_err());
    }

    #[test]
    fn nonsense_is_refused_by_name() {
        let ca = ConsortiumCa::generate("test consortium", YEAR, noon()).unwrap();
        let nobody = IssueKind::Server { names: Vec::new() };
        assert!(matches!(ca.issue(&nobody, YEAR, noon()), Err(PkiError::NoName)));
        let empty = IssueKind::Client { name: String::new() };
        assert!(matches!(ca.issue(&empty, YEAR, noon()), Err(PkiError::NoName)));
        let forever = ConsortiumCa::generate("x", Duration::MAX, noon());
        assert!(matches!(forever, Err(PkiError::BadTime)));
        let late = ConsortiumCa::generate("x", YEAR * 9000, noon());
        assert!(matches!(late, Err(PkiError::BadTime)));
        for pem in [
            "",
            "no pem",
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
        ] {
            assert!(
                matches!(peer_id_of_pem(pem), Err(PkiError::Unreadable { .. })),
                "{pem}"
            );
        }
    }

    /// RFC 8410 section 10.3, the first example: a private key of version 1.
    #[test]
    fn private_keys_have_the_form_of_rfc_8410() {
        const EXAMPLE: &str = "-----BEGIN PRIVATE KEY-----\n\
            MC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\n\
            -----END PRIVATE KEY-----\n";
        let key = KeyPair::from_pem(EXAMPLE).unwrap();
        assert_eq!(
            *private_pem(&new_key().unwrap()).lines().next().unwrap(),
            *EXAMPLE.lines().next().unwrap()
        );
        assert_eq!(private_pem(&new_key().unwrap()).len(), EXAMPLE.len());
        let public = base64::engine::general_purpose::STANDARD.encode(key.subject_public_key_info());
        assert_eq!(
            public, "MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=",
            "section 10.1"
        );
        // ring may keep either form of a key it was given; what we write is the same.
        assert_eq!(*private_pem(&key), EXAMPLE);
        let fresh = new_key().unwrap();
        let again = KeyPair::from_pem(&private_pem(&fresh)).unwrap();
        assert_eq!(again.subject_public_key_info(), fresh.subject_public_key_info());
    }

    #[test]
    fn a_secret_does_not_print() {
        let ca = ConsortiumCa::generate("test consortium", YEAR, noon()).unwrap();
        let issued = ca
            .issue(
                &IssueKind::Client {
                    name: "depot-1".into(),
                },
                YEAR,
                noon(),
            )
            .unwrap();
        let text = format!("{issued:?}");
        assert!(
            text.contains("redacted") && !text.contains("PRIVATE") && !text.contains(issued.key_pem.as_str())
        );
    }
}
