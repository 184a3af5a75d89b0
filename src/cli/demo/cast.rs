//! Who plays: the parties of a fresh federation, read from the folders that `veilsum init` makes.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::config::{
    ClientConfig, DataConfig, KittiConfig, Located, M3edConfig, NyuConfig, NyuMatConfig, ServerConfig,
};
use crate::genesis::Genesis;
use crate::kit::{Kit, KitRequest};
use crate::report;
use veilsum_crypto::ClientId;

/// A process of the demo.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Who {
    /// `veilsum serve`.
    Server,
    /// `veilsum join`.
    Client(u32),
    /// `veilsum audit`.
    Auditor,
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Server => f.write_str("the server"),
            Self::Client(id) => write!(f, "client {id}"),
            Self::Auditor => f.write_str("the auditor"),
        }
    }
}

impl Who {
    /// Stem of its files' names.
    pub(super) fn stem(self) -> String {
        match self {
            Self::Server => "server".to_owned(),
            Self::Client(id) => format!("client-{id:02}"),
            Self::Auditor => "auditor".to_owned(),
        }
    }
}

/// The parties.
#[derive(Clone, Debug)]
pub(super) struct Cast {
    pub(super) federation: String,
    pub(super) organisations: Vec<String>,
    /// Ascending by number.
    pub(super) clients: Vec<Member>,
    pub(super) clusters: Vec<report::Cluster>,
    pub(super) policy: report::Policy,
    pub(super) server_config: PathBuf,
    pub(super) bundle: PathBuf,
    /// What the auditor trusts.
    pub(super) auditor_config: PathBuf,
}

/// One client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) id: u32,
    pub(super) organisation: u32,
    pub(super) robot: String,
    pub(super) place: String,
    pub(super) clusters: Vec<u32>,
    pub(super) config: PathBuf,
}

impl Cast {
    /// The parties of a federation that was just made.
    ///
    /// # Errors
    /// The files that were just written cannot be read back.
    pub(super) fn new(request: &KitRequest, kit: &Kit) -> anyhow::Result<Self> {
        let server = Located::<ServerConfig>::read(&kit.server)?;
        let genesis = Genesis::read(&server.path(&server.settings.policy), &kit.trust)?;
        let organisation = |id| {
            genesis
                .book
                .members()
                .get(&ClientId(id))
                .map_or(0, |member| member.org.0)
        };
        let clusters: Vec<report::Cluster> = (0..)
            .zip(request.cluster_list())
            .map(|(id, members)| report::Cluster { id, members })
            .collect();
        let clients = (0..)
            .zip(&kit.clients)
            .map(|(id, config)| {
                let (robot, place) = frames_of(config, request.data.as_deref());
                Member {
                    id,
                    organisation: organisation(id),
                    robot,
                    place,
                    clusters: clusters
                        .iter()
                        .filter(|cluster| cluster.members.contains(&id))
                        .map(|cluster| cluster.id)
                        .collect(),
                    config: config.clone(),
                }
            })
            .collect();
        Ok(Self {
            federation: request.name.clone(),
            organisations: (0..request.orgs)
                .map(|org| format!("organisation {org}"))
                .collect(),
            clients,
            clusters,
            policy: report::Policy {
                threshold: kit.policy.threshold,
                crowd: kit.policy.crowd,
                crowd_orgs: kit.policy.crowd_orgs,
            },
            server_config: kit.server.clone(),
            bundle: kit.bundle.clone(),
            auditor_config: kit.auditor.clone(),
        })
    }

    /// The client to kill: the first of those in most clusters.
    pub(super) fn doomed(&self) -> Option<u32> {
        let most = self.clients.iter().map(|member| member.clusters.len()).max()?;
        self.clients
            .iter()
            .find(|member| member.clusters.len() == most)
            .map(|member| member.id)
    }

    pub(super) fn client(&self, id: u32) -> Option<&Member> {
        self.clients.iter().find(|member| member.id == id)
    }
}

/// What a client's frames show: robot type and place, or the recorded folder. Only for people, so a configuration that
/// cannot be read is told by the client itself.
fn frames_of(config: &Path, data: Option<&Path>) -> (String, String) {
    match Located::<ClientConfig>::read(config).map(|config| config.settings.data) {
        Ok(DataConfig::Generated {
            platform,
            place,
            night,
            ..
        }) => (
            platform,
            format!("{place}, {}", if night { "night" } else { "day" }),
        ),
        Ok(DataConfig::Folder { path, .. }) => {
            // The client's folder holds links to the frames it got; their common parent is the recording.
            let folder = config.parent().unwrap_or(Path::new("")).join(path);
            (
                recording(&folder, data).unwrap_or_else(|| "recorded".to_owned()),
                String::new(),
            )
        }
        Ok(DataConfig::GeneratedFleet { vehicle, cameras, .. }) => (vehicle, cameras.join(", ")),
        Ok(
            DataConfig::FleetFolder { path, .. }
            | DataConfig::Kitti(KittiConfig { path, .. })
            | DataConfig::Nyu(NyuConfig { path, .. })
            | DataConfig::NyuMat(NyuMatConfig { path, .. })
            | DataConfig::M3ed(M3edConfig { path, .. }),
        ) => (path.display().to_string(), String::new()),
        Err(_) => ("unknown".to_owned(), String::new()),
    }
}

/// The recording that a client's first frame links to, relative to the data folder.
fn recording(folder: &Path, data: Option<&Path>) -> Option<String> {
    let frame = folder.join("train/rgb").read_dir().ok()?.next()?.ok()?.path();
    let target = frame.canonicalize().ok()?;
    let recording = target.ancestors().nth(3)?;
    let root = data.and_then(|data| data.canonicalize().ok());
    let short = root.and_then(|root| recording.strip_prefix(root).ok());
    let short = short.map_or(recording, |short| short.strip_prefix("clients").unwrap_or(short));
    Some(short.file_name().map_or_else(
        || short.display().to_string(),
        |name| name.to_string_lossy().into_owned(),
    ))
}
