//! The folders of server, clients and auditor.

use super::{KitError, KitRequest, inside, key_text};
use crate::config::{
    AuditorConfig, AuditorTrust, ClientConfig, DataConfig, DeadlineConfig, LearnerConfig, NetworkName,
    NetworkSize, RoundConfig, ServerConfig, TlsConfig, TrainingConfig, TrustConfig,
};
use crate::genesis::Trust;
use crate::store::{StoreError, write_atomic};
use serde::Serialize;
use std::path::{Path, PathBuf};
use veilsum_crypto::{Digest, Identity};
use veilsum_transport::Issued;

pub(super) struct Writer<'a> {
    pub(super) request: &'a KitRequest,
    pub(super) trust: &'a Trust,
    pub(super) policy_file: &'a [u8],
    pub(super) authority_pem: &'a str,
}

impl Writer<'_> {
    pub(super) fn server(
        &self,
        identity: &Identity,
        tls: &Issued,
        initial: &[u8],
    ) -> Result<PathBuf, KitError> {
        let folder = self.request.dir.join("server");
        self.common(&folder, "server.key", identity, tls)?;
        write_atomic(&inside(&folder, "initial.f32"), initial)?;
        let config = ServerConfig {
            listen: self.request.addr,
            policy: "policy.veil".into(),
            key: "server.key".into(),
            state: "state".into(),
            initial_model: "initial.f32".into(),
            witnesses: None,
            bundle: "../auditor/bundle.veil".into(),
            trust: self.trust_config(),
            tls: tls_config(),
            round: RoundConfig {
                clusters: match self.request.clustering {
                    Some(_) => Vec::new(),
                    None => self.request.cluster_list(),
                },
                wait_for: self.request.clients as usize,
                start_after_s: 120,
                describe_s: 120,
                attempts: 3,
            },
            deadlines: DeadlineConfig {
                advertise_s: 300,
                share_s: 20,
                mask_s: 60,
                agree_s: 20,
                unmask_s: 20,
                reconnect_s: 2,
            },
            watch: None,
        };
        let path = inside(&folder, "server.toml");
        write_config(
            &path,
            "veilsum server: `veilsum serve --config server.toml`",
            &config,
        )?;
        Ok(path)
    }

    pub(super) fn client(
        &self,
        number: u32,
        folder: &Path,
        identity: &Identity,
        tls: &Issued,
        learner: &LearnerConfig,
        data: DataConfig,
    ) -> Result<PathBuf, KitError> {
        self.common(folder, "client.key", identity, tls)?;
        let request = self.request;
        let config = ClientConfig {
            client: number,
            server: request.addr,
            server_name: request.server_names.first().cloned().unwrap_or_default(),
            policy: "policy.veil".into(),
            key: "client.key".into(),
            state: "state".into(),
            give_up_after_s: 120,
            trust: self.trust_config(),
            tls: tls_config(),
            floors: crate::config::FloorConfig {
                clients: 3,
                threshold: 2,
                crowd: request.crowd,
                crowd_orgs: request.crowd_orgs,
                orgs: 2.min(request.orgs),
                max_range: f64::from(request.range_micros) / 1e6,
                max_rounds: request.rounds,
                max_epsilon: None,
            },
            learner: learner.clone(),
            training: TrainingConfig {
                steps: request.steps,
                learning_rate: request.learning_rate,
                decay: request.decay,
                batch: request.batch,
                seed: request.seed.wrapping_mul(1000).wrapping_add(u64::from(number)),
            },
            data,
            watch: None,
        };
        let path = inside(folder, "client.toml");
        write_config(
            &path,
            "veilsum client: `veilsum join --config client.toml`",
            &config,
        )?;
        Ok(path)
    }

    pub(super) fn auditor(&self) -> Result<PathBuf, KitError> {
        let path = self.request.dir.join("auditor/auditor.toml");
        let config = AuditorConfig {
            trust: AuditorTrust {
                federation: self.trust_config().federation,
                authority: self.trust_config().authority,
                witnesses: None,
                keep_rounds: None,
            },
        };
        write_config(&path, "veilsum auditor: `veilsum audit bundle.veil`", &config)?;
        Ok(path)
    }

    fn common(
        &self,
        folder: &Path,
        key_name: &str,
        identity: &Identity,
        tls: &Issued,
    ) -> Result<(), KitError> {
        secret(&inside(folder, key_name), key_text(identity).as_bytes())?;
        secret(&inside(folder, "tls.key"), tls.key_pem.as_bytes())?;
        write_atomic(&inside(folder, "tls.pem"), tls.cert_pem.as_bytes())?;
        write_atomic(&inside(folder, "ca.pem"), self.authority_pem.as_bytes())?;
        write_atomic(&inside(folder, "policy.veil"), self.policy_file)?;
        Ok(())
    }

    fn trust_config(&self) -> TrustConfig {
        TrustConfig {
            federation: self.trust.federation.clone(),
            authority: Digest(self.trust.authority.0).to_hex(),
        }
    }
}

/// The `[learner]` section all clients share.
pub(super) fn learner_config(request: &KitRequest) -> LearnerConfig {
    LearnerConfig {
        kind: request.learner,
        network: NetworkName::default(),
        size: NetworkSize::default(),
        device: request.device.clone(),
        seed: request.seed,
        // A recorded folder may know depths down to a millimetre; the generator's frames begin at 0.2 m.
        min_depth_m: if request.data.is_some() { 0.001 } else { 0.2 },
        max_depth_m: 80.0,
        personal: request.personal,
    }
}

fn tls_config() -> TlsConfig {
    TlsConfig {
        certificate: "tls.pem".into(),
        key: "tls.key".into(),
        authority: "ca.pem".into(),
    }
}

/// Writes a secret so that only its owner can read it, from the first byte on.
pub(super) fn secret(path: &Path, bytes: &[u8]) -> Result<(), StoreError> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    let fault = |doing| move |error| StoreError::new(doing, path, error);
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(fault("make the folder of"))?;
    }
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .map_err(fault("write"))?;
    file.write_all(bytes)
        .and_then(|()| file.sync_all())
        .map_err(fault("write"))
}

fn write_config<T: Serialize>(path: &Path, title: &str, config: &T) -> Result<(), KitError> {
    let text = format!(
        "# {title}\n# Paths are relative to this file.\n\n{}",
        toml::to_string(config)?
    );
    write_atomic(path, text.as_bytes())?;
    Ok(())
}
