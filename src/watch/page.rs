//! The page at `/`: one file, nothing from elsewhere, refreshed from `/state.json`.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};
use std::sync::LazyLock;

/// The page and what a browser may do with it.
#[derive(Debug)]
pub struct Page {
    pub(super) html: &'static str,
    /// Content-Security-Policy (CSP level 3): the page's own script and style by their hashes, `/state.json`, nothing else.
    pub(super) policy: String,
}

pub(super) static PAGE: LazyLock<Page> = LazyLock::new(|| {
    let html = include_str!("page.html");
    Page {
        html,
        policy: format!(
            "default-src 'none'; script-src 'sha256-{}'; style-src 'sha256-{}'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
            hash(html, "script"),
            hash(html, "style")
        ),
    }
});

/// SHA-256 of what stands between an element's tags, as the policy wants it.
fn hash(html: &str, element: &str) -> String {
    let (open, close) = (format!("<{element}>"), format!("</{element}>"));
    let inner = html
        .split_once(&open)
        .and_then(|(_, rest)| rest.split_once(&close))
        .map_or("", |(inner, _)| inner);
    STANDARD.encode(Sha256::digest(inner.as_bytes()))
}
