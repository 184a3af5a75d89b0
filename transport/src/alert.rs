//! TLS alerts and certificate errors, turned into names with a side.

use crate::error::{Side, TransportError};
use rustls::CertificateError;

/// What a TLS alert (RFC 8446 section 6.2) says about a certificate or about the protocol.
///
/// `refused_by` is who sent the alert. `None` for alerts that say nothing an operator could act on.
pub(crate) fn named(alert: u8, refused_by: Side) -> Option<TransportError> {
    let refused = |why: &str| TransportError::CertificateRefused {
        refused_by,
        why: why.into(),
    };
    Some(match alert {
        BAD_CERTIFICATE => refused("it is malformed or not for the name that was asked for"),
        UNSUPPORTED_CERTIFICATE => refused("it is not issued for this purpose (server or client)"),
        CERTIFICATE_REVOKED => TransportError::CertificateRevoked { refused_by },
        CERTIFICATE_EXPIRED => TransportError::CertificateExpired { refused_by },
        CERTIFICATE_UNKNOWN => refused("it is unacceptable for a reason that was not given"),
        UNKNOWN_CA => TransportError::UnknownAuthority { refused_by },
        ACCESS_DENIED => refused("its key is not the pinned one"),
        DECRYPT_ERROR => refused("a signature made with it is wrong"),
        CERTIFICATE_REQUIRED => TransportError::NoClientCertificate { refused_by },
        NO_APPLICATION_PROTOCOL => TransportError::AlpnMismatch,
        _ => return None,
    })
}

/// The TLS alert inside a QUIC transport error code (RFC 9001 section 4.8), if it is one.
pub(crate) fn alert_of(quic_code: u64) -> Option<u8> {
    quic_code
        .checked_sub(CRYPTO_ERROR_BASE)
        .and_then(|alert| u8::try_from(alert).ok())
}

/// Why we refuse a certificate.
pub(crate) fn refusal(error: &rustls::Error, asked: &str) -> TransportError {
    let refused_by = Side::We;
    let rustls::Error::InvalidCertificate(error) = error else {
        return TransportError::CertificateRefused {
            refused_by,
            why: error.to_string(),
        };
    };
    match error {
        CertificateError::UnknownIssuer => TransportError::UnknownAuthority { refused_by },
        CertificateError::Expired
        | CertificateError::ExpiredContext { .. }
        | CertificateError::NotValidYet
        | CertificateError::NotValidYetContext { .. } => TransportError::CertificateExpired { refused_by },
        CertificateError::Revoked => TransportError::CertificateRevoked { refused_by },
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            TransportError::WrongServerName { asked: asked.into() }
        }
        other => TransportError::CertificateRefused {
            refused_by,
            why: other.to_string(),
        },
    }
}

const CRYPTO_ERROR_BASE: u64 = 0x100;

const BAD_CERTIFICATE: u8 = 42;
const UNSUPPORTED_CERTIFICATE: u8 = 43;
const CERTIFICATE_REVOKED: u8 = 44;
const CERTIFICATE_EXPIRED: u8 = 45;
const CERTIFICATE_UNKNOWN: u8 = 46;
const UNKNOWN_CA: u8 = 48;
const ACCESS_DENIED: u8 = 49;
const DECRYPT_ERROR: u8 = 51;
const CERTIFICATE_REQUIRED: u8 = 116;
const NO_APPLICATION_PROTOCOL: u8 = 120;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alerts_are_found_in_quic_codes() {
        assert_eq!(alert_of(0x100 + 48), Some(48));
        assert_eq!(alert_of(0x0a), None);
        assert_eq!(alert_of(0x200), None);
        assert_eq!(alert_of(u64::MAX), None);
    }
}
