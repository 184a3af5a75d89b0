//! The demo's folder. One that a demo made is replaced; any other is left alone.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::fault::Fault;

/// Where things are.
#[derive(Clone, Debug)]
pub(super) struct Folder {
    /// The federation, made by `veilsum init`.
    pub(super) consortium: PathBuf,
    /// What the processes say.
    pub(super) logs: PathBuf,
    pub(super) json: PathBuf,
    pub(super) page: PathBuf,
}

impl Folder {
    /// An empty demo folder at `dir`.
    pub(super) fn fresh(dir: &Path) -> Result<Self, Fault> {
        let fault = |doing, path: &Path| {
            let path = path.to_owned();
            move |cause| Fault::File { doing, path, cause }
        };
        let occupied = match fs::read_dir(dir) {
            Ok(mut entries) => entries.next().is_some(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => false,
            Err(cause) => return Err(fault("use", dir)(cause)),
        };
        if occupied {
            if !dir.join(MARK).is_file() {
                let why = "it is not empty and no demo made it; name another folder with --dir, or empty it";
                return Err(fault("use", dir)(io::Error::other(why)));
            }
            for name in OURS {
                remove(&dir.join(name)).map_err(fault("empty", dir))?;
            }
        }
        let folder = Self {
            consortium: dir.join("consortium"),
            logs: dir.join("logs"),
            json: dir.join("report.json"),
            page: dir.join("report.html"),
        };
        fs::create_dir_all(&folder.logs).map_err(fault("make", &folder.logs))?;
        let mark = dir.join(MARK);
        fs::write(
            &mark,
            "veilsum demo made this folder and may replace what is in it\n",
        )
        .map_err(fault("write", &mark))?;
        Ok(folder)
    }

    /// Removes keys, models and masked vectors; bundle, auditor's trust, logs and report stay.
    pub(super) fn forget_secrets(&self) -> Result<(), Fault> {
        for name in ["authority", "server", "clients"] {
            let path = self.consortium.join(name);
            remove(&path).map_err(|cause| Fault::File {
                doing: "remove",
                path,
                cause,
            })?;
        }
        Ok(())
    }
}

/// Removes a file or a folder; links are removed, not followed.
fn remove(path: &Path) -> io::Result<()> {
    let removed = match fs::symlink_metadata(path) {
        Ok(meta) if meta.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

const MARK: &str = ".veilsum-demo";
/// All that a demo puts into its folder, the mark aside.
const OURS: [&str; 4] = ["consortium", "logs", "report.json", "report.html"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_demos_folder_is_replaced() {
        let base = tempfile::tempdir().unwrap();
        let dir = base.path().join("a/demo");
        let folder = Folder::fresh(&dir).unwrap();
        fs::create_dir_all(folder.consortium.join("clients")).unwrap();
        fs::write(folder.logs.join("server.log"), "old").unwrap();
        fs::write(&folder.json, "old").unwrap();
        fs::write(dir.join("mine.txt"), "kept").unwrap();
        // A link in the folder is not followed.
        let outside = base.path().join("outside");
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("x"), "x").unwrap();
        std::os::unix::fs::symlink(&outside, folder.consortium.join("clients/frames")).unwrap();

        Folder::fresh(&dir).unwrap();
        assert!(!folder.consortium.exists() && !folder.json.exists());
        assert!(folder.logs.read_dir().unwrap().next().is_none());
        assert!(dir.join("mine.txt").exists() && outside.join("x").exists());

        let strange = base.path().join("strange");
        fs::create_dir(&strange).unwrap();
        fs::write(strange.join("report.json"), "mine").unwrap();
        let error = Folder::fresh(&strange).unwrap_err();
        assert!(error.to_string().contains("--dir"), "{error}");
        assert_eq!(fs::read(strange.join("report.json")).unwrap(), b"mine");

        assert!(Folder::fresh(&strange.join("report.json")).is_err());
    }

    #[test]
    fn secrets_go_and_evidence_stays() {
        let base = tempfile::tempdir().unwrap();
        let folder = Folder::fresh(base.path()).unwrap();
        for name in ["authority", "server/state", "clients/client-00", "auditor"] {
            fs::create_dir_all(folder.consortium.join(name)).unwrap();
        }
        folder.forget_secrets().unwrap();
        let left: Vec<_> = folder
            .consortium
            .read_dir()
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert_eq!(left, ["auditor"]);
    }
}
