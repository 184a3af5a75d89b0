//! What libtorch is made of: the wheels, their digests, and the files kept from each.
//!
//! The CPU library inside the `torch` wheel links to the CUDA runtime and its profiling interface even when no
//! CUDA device is ever touched, so those two small libraries come along. Everything else of the 526 MB stays in
//! the wheel. The kept libraries do not depend on a Python version: one wheel tag is pinned for everybody.

use std::borrow::Cow;

/// The version `tch` was generated for; another one does not compile.
pub(crate) const VERSION: &str = "2.13.0";

/// One wheel of a package index.
#[derive(Debug, Clone)]
pub(crate) struct Wheel {
    /// The exact file name, which also says for which platform it is.
    pub(crate) file: Cow<'static, str>,
    /// The project the index lists it under.
    pub(crate) project: &'static str,
    /// SHA-256 of the whole file, lower-case hex.
    pub(crate) sha256: Cow<'static, str>,
    /// Where to fetch it; `None` asks pip.
    pub(crate) url: Option<String>,
    /// Members to keep: path in the wheel, path in libtorch's folder. A trailing `/` keeps a folder.
    pub(crate) kept: &'static [(&'static str, &'static str)],
}

/// The wheels of the CPU build for x86-64 Linux with glibc 2.28 or newer.
pub(crate) fn wheels() -> Vec<Wheel> {
    vec![
        Wheel {
            file: "torch-2.13.0-cp311-cp311-manylinux_2_28_x86_64.whl".into(),
            project: "torch",
            sha256: "60fcdcb2f3876e21146cb4524ef06397d727ca9ad5f020818547e25075fe3cb7".into(),
            url: None,
            kept: TORCH,
        },
        Wheel {
            file: "nvidia_cuda_runtime-13.0.96-py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64.whl"
                .into(),
            project: "nvidia-cuda-runtime",
            sha256: "7f82250d7782aa23b6cfe765ecc7db554bd3c2870c43f3d1821f1d18aebf0548".into(),
            url: None,
            kept: CUDA_RUNTIME,
        },
        Wheel {
            file: "nvidia_cuda_cupti-13.0.85-py3-none-manylinux_2_25_x86_64.whl".into(),
            project: "nvidia-cuda-cupti",
            sha256: "4eb01c08e859bf924d222250d2e8f8b8ff6d3db4721288cf35d14252a4d933c8".into(),
            url: None,
            kept: CUDA_CUPTI,
        },
    ]
}

/// Libraries without which nothing that links libtorch starts.
pub(crate) const LIBRARIES: [&str; 5] = [
    "libtorch_cpu.so",
    "libc10.so",
    "libgomp.so.1",
    "libcudart.so.13",
    "libcupti.so.13",
];

pub(crate) const TORCH: &[(&str, &str)] = &[
    ("torch/lib/libtorch_cpu.so", "lib/libtorch_cpu.so"),
    ("torch/lib/libc10.so", "lib/libc10.so"),
    ("torch/lib/libgomp.so.1", "lib/libgomp.so.1"),
    ("torch/include/", "include/"),
    ("torch-2.13.0.dist-info/licenses/LICENSE", "licenses/torch.txt"),
];

pub(crate) const CUDA_RUNTIME: &[(&str, &str)] = &[
    ("nvidia/cu13/lib/libcudart.so.13", "lib/libcudart.so.13"),
    (
        "nvidia_cuda_runtime-13.0.96.dist-info/licenses/License.txt",
        "licenses/cuda-runtime.txt",
    ),
];

pub(crate) const CUDA_CUPTI: &[(&str, &str)] = &[
    ("nvidia/cu13/lib/libcupti.so.13", "lib/libcupti.so.13"),
    (
        "nvidia_cuda_cupti-13.0.85.dist-info/licenses/License.txt",
        "licenses/cuda-cupti.txt",
    ),
];
