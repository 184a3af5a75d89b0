//! A server on this machine with small made-up wheels, for tests that go the whole way.

use std::borrow::Cow;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use anyhow::Result;
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

use super::cache::Cache;
use super::fetch::Patience;
use super::pins::{self, Wheel};
use super::{Origin, fill};

/// Serves the files of a folder on 127.0.0.1 with the mood named by the first part of the path, and tells which
/// byte each request began at.
pub(super) struct Server {
    child: Child,
    port: u16,
    requests: Receiver<String>,
}

impl Server {
    pub(super) fn start(folder: &Path) -> Self {
        let mut child = Command::new("python3")
            .args(["-c", SERVER])
            .arg(folder)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap())
            .lines()
            .map_while(Result::ok);
        let port = lines.next().unwrap().parse().unwrap();
        let (sender, requests) = mpsc::channel();
        thread::spawn(move || lines.for_each(|line| drop(sender.send(line))));
        Self {
            child,
            port,
            requests,
        }
    }

    pub(super) fn url(&self, mood: &str, file: &str) -> String {
        format!("http://127.0.0.1:{}/{mood}/{file}", self.port)
    }

    /// Where each request since the last call began.
    pub(super) fn starts(&self) -> Vec<u64> {
        let told = || self.requests.recv_timeout(Duration::from_millis(300)).ok();
        std::iter::from_fn(told)
            .map(|line| line.parse().unwrap())
            .collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Three wheels with the members of the real ones, a server for them, and an empty cache.
pub(super) struct Stage {
    pub(super) folder: TempDir,
    pub(super) server: Server,
    pub(super) cache: Cache,
}

impl Stage {
    pub(super) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let made = Command::new("python3")
            .args(["-c", WHEELS])
            .arg(folder.path())
            .status()
            .unwrap();
        assert!(made.success());
        let server = Server::start(folder.path());
        let cache = Cache::at(folder.path().join("cache"));
        Self {
            folder,
            server,
            cache,
        }
    }

    /// The pinned wheels with the digests of the made-up ones.
    pub(super) fn wheels(&self, mood: &str) -> Vec<Wheel> {
        pins::wheels()
            .into_iter()
            .map(|wheel| {
                let sha256 = Cow::Owned(hex::encode(Sha256::digest(self.bytes(&wheel.file))));
                let url = Some(self.server.url(mood, &wheel.file));
                Wheel { sha256, url, ..wheel }
            })
            .collect()
    }

    /// Fills the cache from the server, all three wheels.
    pub(super) fn fill_all(&self, mood: &str) -> Result<Origin> {
        fill(&self.cache, &self.wheels(mood), HASTE, |_| Ok(()))
    }

    /// Fills the cache with the first wheel from the server; the others are there already.
    pub(super) fn fill(&self, mood: &str) -> Result<Origin> {
        for wheel in self.wheels(mood).iter().skip(1) {
            self.put(&wheel.file, &self.bytes(&wheel.file));
        }
        self.fill_all(mood)
    }

    pub(super) fn bytes(&self, file: &str) -> Vec<u8> {
        fs::read(self.folder.path().join(file)).unwrap()
    }

    /// Puts a file among the downloads.
    pub(super) fn put(&self, file: &str, bytes: &[u8]) {
        fs::create_dir_all(self.cache.downloads()).unwrap();
        fs::write(self.cache.downloads().join(file), bytes).unwrap();
    }
}

pub(super) const HASTE: Patience = Patience {
    tries: 2,
    pause: Duration::from_millis(1),
};

/// Writes wheels with the names and members of the pinned ones, incompressible so that sizes are as written.
const WHEELS: &str = r#"
import os, sys, zipfile
WHEELS = {
    "torch-2.13.0-cp311-cp311-manylinux_2_28_x86_64.whl": [
        "torch/lib/libtorch_cpu.so", "torch/lib/libc10.so", "torch/lib/libgomp.so.1", "torch/lib/libtorch_cuda.so",
        "torch/include/torch/csrc/api/include/torch/torch.h", "torch/include/ATen/ATen.h", "torch/nn/__init__.py",
        "torch-2.13.0.dist-info/licenses/LICENSE"],
    "nvidia_cuda_runtime-13.0.96-py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64.whl": [
        "nvidia/cu13/lib/libcudart.so.13", "nvidia_cuda_runtime-13.0.96.dist-info/licenses/License.txt"],
    "nvidia_cuda_cupti-13.0.85-py3-none-manylinux_2_25_x86_64.whl": [
        "nvidia/cu13/lib/libcupti.so.13", "nvidia_cuda_cupti-13.0.85.dist-info/licenses/License.txt"],
}
for wheel, members in WHEELS.items():
    with zipfile.ZipFile(os.path.join(sys.argv[1], wheel), "w") as archive:
        for member in members:
            archive.writestr(member, os.urandom(400_000 if member.endswith("libtorch_cpu.so") else 2_000))
"#;

const SERVER: &str = r#"
import http.server, os, sys
folder = sys.argv[1]

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        mood, file = self.path.strip("/").split("/")
        asked = self.headers.get("Range")
        start = int(asked[len("bytes="):-1]) if asked else 0
        print(start, flush=True)
        if mood in ("gone", "busy"):
            self.send_response(404 if mood == "gone" else 503)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        with open(os.path.join(folder, file), "rb") as whole:
            data = whole.read()
        size = len(data)
        if mood == "corrupt":
            data = data[:-1] + bytes([data[-1] ^ 1])
        if mood == "stubborn":
            asked, start = None, 0
        if asked and start >= size:
            self.send_response(416)
            self.send_header("Content-Range", "bytes */%d" % size)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.send_response(206 if asked else 200)
        if asked:
            self.send_header("Content-Range", "bytes %d-%d/%d" % (start, size - 1, size))
        self.send_header("Content-Length", str(size - start))
        self.end_headers()
        rest = data[start:]
        if mood == "cut" and len(rest) > 150_000:
            rest = rest[:150_000]
            self.close_connection = True
        self.wfile.write(rest)

    def log_message(self, *args):
        pass

server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
"#;
