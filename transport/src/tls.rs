//! Who we are, whom we trust, and the TLS 1.3 configuration made from both.
//!
//! The consortium's authority is the only root: the operating system's roots are never read. Both sides show a certificate. The
//! provider (ring) is passed explicitly, there is no process-wide default. Sessions are not resumed and there is no 0-RTT, so every
//! connection is checked against the clock and the revocation list anew.

use crate::alert;
use crate::error::{Side, TransportError};
use crate::link::PeerId;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::CryptoProvider;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{NoServerSessionStorage, ParsedCertificate, WebPkiClientVerifier};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, RootCertStore, ServerConfig,
    SignatureScheme,
};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use zeroize::Zeroize;

/// This machine's certificate chain and private key.
///
/// No `Clone` and no `Debug`. The PKCS#8 bytes are zeroised once the key is parsed; the parsed key lives inside ring, which does
/// not zeroise it, until the listener or connector is dropped. The caller should zeroise the PEM text it read.
pub struct TlsIdentity {
    key: Arc<CertifiedKey>,
    id: PeerId,
}

impl TlsIdentity {
    /// From PEM: the certificate (leaf first, then any intermediates) and its private key (PKCS#8, SEC1 or PKCS#1).
    ///
    /// # Errors
    /// [`TransportError::BadIdentity`] if one of them cannot be read, or if the key does not belong to the certificate. Key
    /// material is never part of the message.
    pub fn from_pem(cert_pem: &[u8], key_pem: &[u8]) -> Result<Self, TransportError> {
        let chain = certificates(cert_pem, "the certificate file")?;
        let id = chain
            .first()
            .map(peer_of)
            .transpose()?
            .ok_or_else(|| bad("the certificate file", "it is empty"))?;
        let mut der = PrivateKeyDer::from_pem_slice(key_pem).map_err(|_| {
            bad(
                "the private key file",
                "it holds no PEM private key (PKCS#8, SEC1 or PKCS#1)",
            )
        })?;
        let signing = rustls::crypto::ring::sign::any_supported_type(&der);
        der.zeroize();
        let signing = signing.map_err(|_| {
            bad(
                "the private key file",
                "its kind of key is not supported; use Ed25519",
            )
        })?;
        let key = CertifiedKey::new(chain, signing);
        key.keys_match().map_err(|_| {
            bad(
                "the private key file",
                "the key does not belong to the certificate",
            )
        })?;
        Ok(Self {
            key: Arc::new(key),
            id,
        })
    }

    /// How peers will know us.
    #[must_use]
    pub fn peer_id(&self) -> PeerId {
        self.id
    }
}

/// The authority whose certificates are accepted, and the keys that are no longer.
#[derive(Debug, Clone)]
pub struct TrustRoots {
    roots: Arc<RootCertStore>,
    revoked: RevocationList,
}

impl TrustRoots {
    /// From the PEM certificate of the consortium's authority. Several may follow each other while an authority is being replaced.
    ///
    /// # Errors
    /// [`TransportError::BadIdentity`] if there is no usable certificate in it.
    pub fn from_pem(authority_pem: &[u8]) -> Result<Self, TransportError> {
        let mut roots = RootCertStore::empty();
        for certificate in certificates(authority_pem, "the authority's certificate file")? {
            roots
                .add(certificate)
                .map_err(|error| bad("the authority's certificate file", &error.to_string()))?;
        }
        Ok(Self {
            roots: Arc::new(roots),
            revoked: RevocationList::default(),
        })
    }

    /// The same roots with this revocation list. The list is shared: keys added to it later count from the next handshake on.
    #[must_use]
    pub fn with_revocations(mut self, revoked: RevocationList) -> Self {
        self.revoked = revoked;
        self
    }
}

/// Keys that are refused although their certificates are good: SHA-256 of the `SubjectPublicKeyInfo`, so a renewed certificate
/// over the same key stays refused. Clones share one list.
#[derive(Debug, Clone, Default)]
pub struct RevocationList(Arc<RwLock<BTreeSet<PeerId>>>);

impl RevocationList {
    /// Refuses this key from the next handshake on. Links that are open stay open.
    pub fn revoke(&self, id: PeerId) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert(id);
    }

    /// Whether this key is refused.
    #[must_use]
    pub fn contains(&self, id: &PeerId) -> bool {
        self.0.read().unwrap_or_else(PoisonError::into_inner).contains(id)
    }
}

impl FromIterator<PeerId> for RevocationList {
    fn from_iter<I: IntoIterator<Item = PeerId>>(ids: I) -> Self {
        Self(Arc::new(RwLock::new(ids.into_iter().collect())))
    }
}

/// The peer id of a DER certificate.
pub(crate) fn peer_of(certificate: &CertificateDer<'_>) -> Result<PeerId, TransportError> {
    let parsed = ParsedCertificate::try_from(certificate).map_err(|error| {
        bad(
            "the certificate",
            &format!("it is not an X.509 version 3 certificate ({error})"),
        )
    })?;
    Ok(PeerId::of_spki(&parsed.subject_public_key_info()))
}

/// All certificates in a PEM text; at least one.
pub(crate) fn certificates(
    pem: &[u8],
    what: &'static str,
) -> Result<Vec<CertificateDer<'static>>, TransportError> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match chain {
        Ok(chain) if chain.is_empty() => Err(bad(what, "it holds no PEM certificate")),
        Ok(chain) => Ok(chain),
        Err(error) => Err(bad(what, &format!("its PEM is broken ({error})"))),
    }
}

/// Where the verifier leaves the name of a refusal: QUIC itself keeps only an alert number and a sentence.
#[derive(Clone, Default)]
pub(crate) struct Verdict(Arc<Mutex<Option<TransportError>>>);

impl Verdict {
    fn set(&self, error: TransportError) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get_or_insert(error);
    }

    pub(crate) fn take(&self) -> Option<TransportError> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// The server's half: a client without a certificate of the consortium does not get in.
pub(crate) fn server_config(
    identity: &TlsIdentity,
    roots: &TrustRoots,
    verdict: Verdict,
) -> Result<ServerConfig, TransportError> {
    let provider = provider();
    let inner = WebPkiClientVerifier::builder_with_provider(Arc::clone(&roots.roots), Arc::clone(&provider))
        .build()
        .map_err(|error| bad("the authority's certificate file", &error.to_string()))?;
    let gate = Gate {
        inner,
        revoked: roots.revoked.clone(),
        pinned: None,
        verdict,
    };
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(|error| bad("TLS", &error.to_string()))?
        .with_client_cert_verifier(Arc::new(gate))
        .with_cert_resolver(Arc::new(SingleCertAndKey::from(Arc::clone(&identity.key))));
    config.alpn_protocols = vec![crate::quic::ALPN.to_vec()];
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    config.max_early_data_size = 0;
    Ok(config)
}

/// The client's half: the server must be of the consortium, for this name, and hold the pinned key if one is pinned.
pub(crate) fn client_config(
    identity: &TlsIdentity,
    roots: &TrustRoots,
    pinned: Option<PeerId>,
    verdict: Verdict,
) -> Result<ClientConfig, TransportError> {
    let provider = provider();
    let inner = WebPkiServerVerifier::builder_with_provider(Arc::clone(&roots.roots), Arc::clone(&provider))
        .build()
        .map_err(|error| bad("the authority's certificate file", &error.to_string()))?;
    let gate = Gate {
        inner,
        revoked: roots.revoked.clone(),
        pinned,
        verdict,
    };
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(|error| bad("TLS", &error.to_string()))?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(gate))
        .with_client_cert_resolver(Arc::new(SingleCertAndKey::from(Arc::clone(&identity.key))));
    config.alpn_protocols = vec![crate::quic::ALPN.to_vec()];
    config.resumption = Resumption::disabled();
    config.enable_early_data = false;
    Ok(config)
}

/// The web PKI checks, then ours: revocation and pin. Only ever stricter than what it wraps.
struct Gate<V: ?Sized> {
    revoked: RevocationList,
    pinned: Option<PeerId>,
    verdict: Verdict,
    inner: Arc<V>,
}

impl<V: ?Sized> Gate<V> {
    /// Our own checks, after the chain was found good.
    fn check(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
    ) -> Result<(), rustls::Error> {
        let unreadable = |_| rustls::Error::InvalidCertificate(CertificateError::BadEncoding);
        let id = peer_of(leaf).map_err(unreadable)?;
        if self.revoked.contains(&id) {
            return Err(rustls::Error::InvalidCertificate(CertificateError::Revoked));
        }
        for certificate in intermediates {
            if self.revoked.contains(&peer_of(certificate).map_err(unreadable)?) {
                return Err(rustls::Error::InvalidCertificate(CertificateError::Revoked));
            }
        }
        match self.pinned {
            Some(pinned) if pinned != id => {
                self.verdict
                    .set(TransportError::WrongServerKey { pinned, got: id });
                Err(rustls::Error::InvalidCertificate(
                    CertificateError::ApplicationVerificationFailure,
                ))
            }
            _ => Ok(()),
        }
    }

    /// Keeps the name of a refusal, and lets the alert fit it.
    fn refuse(&self, error: rustls::Error, asked: &str) -> rustls::Error {
        // An authority that only bears the same name as ours fails at its signature; for people that is another authority.
        let error = match error {
            rustls::Error::InvalidCertificate(CertificateError::BadSignature) => {
                rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer)
            }
            other => other,
        };
        self.verdict.set(alert::refusal(&error, asked));
        error
    }
}

impl<V: ?Sized> fmt::Debug for Gate<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate")
            .field("pinned", &self.pinned)
            .finish_non_exhaustive()
    }
}

impl ServerCertVerifier for Gate<WebPkiServerVerifier> {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        self.inner
            .verify_server_cert(leaf, intermediates, name, ocsp, now)
            .and_then(|verified| self.check(leaf, intermediates).map(|()| verified))
            .map_err(|error| self.refuse(error, &name.to_str()))
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.inner.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.inner.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}

impl ClientCertVerifier for Gate<dyn ClientCertVerifier> {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.inner.root_hint_subjects()
    }

    fn client_auth_mandatory(&self) -> bool {
        true
    }

    fn verify_client_cert(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        self.inner
            .verify_client_cert(leaf, intermediates, now)
            .and_then(|verified| self.check(leaf, intermediates).map(|()| verified))
            .map_err(|error| self.refuse(error, ""))
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.inner.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.inner.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}

/// What a TLS alert or a local TLS failure with this QUIC code means.
pub(crate) fn explain(quic_code: u64, refused_by: Side) -> Option<TransportError> {
    alert::alert_of(quic_code).and_then(|alert| alert::named(alert, refused_by))
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn bad(what: &'static str, detail: &str) -> TransportError {
    TransportError::BadIdentity {
        what,
        detail: detail.into(),
    }
}
