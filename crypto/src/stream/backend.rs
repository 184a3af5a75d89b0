//! Which code expands masks on this machine. All back ends give the same words; only their speed differs.

#[cfg(all(target_arch = "aarch64", target_endian = "little"))]
use super::arm;
use super::portable::Portable;
#[cfg(any(
    target_arch = "x86_64",
    all(target_arch = "aarch64", target_endian = "little")
))]
use super::schedule::Schedule;
#[cfg(target_arch = "x86_64")]
use super::x86;
use super::{Counter, Sign, Table};

/// A way to expand a mask and add it to a vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Backend {
    /// Four blocks an instruction: x86-64 with VAES and AVX-512.
    Vaes512,
    /// One block an instruction: x86-64 with AES-NI.
    AesNi,
    /// One block an instruction: Arm with the AES extension.
    Neon,
    /// The `aes` and `ctr` crates: any processor.
    Portable,
}

impl Backend {
    /// All back ends, fastest first.
    pub const ALL: [Self; 4] = [Self::Vaes512, Self::AesNi, Self::Neon, Self::Portable];

    /// Whether this processor has what the back end needs.
    #[must_use]
    pub fn is_here(self) -> bool {
        Engine::new(self, &[0; 16]).is_some()
    }

    /// The fastest back end of this processor.
    #[must_use]
    pub fn fastest() -> Self {
        Self::ALL
            .into_iter()
            .find(|backend| backend.is_here())
            .unwrap_or(Self::Portable)
    }
}

/// A back end with a key. The processor's features were looked up when it was made.
pub(super) enum Engine {
    #[cfg(target_arch = "x86_64")]
    Vaes512(x86::Vaes512, Box<Schedule>),
    #[cfg(target_arch = "x86_64")]
    AesNi(x86::AesNi, Box<Schedule>),
    #[cfg(all(target_arch = "aarch64", target_endian = "little"))]
    Neon(arm::Neon, Box<Schedule>),
    Portable(Box<Portable>),
}

impl Engine {
    /// `None` on a processor that lacks what `backend` needs.
    pub(super) fn new(backend: Backend, key: &[u8; 16]) -> Option<Self> {
        match backend {
            #[cfg(target_arch = "x86_64")]
            Backend::Vaes512 => Some(Self::Vaes512(x86::Vaes512::detect()?, Schedule::new(key))),
            #[cfg(target_arch = "x86_64")]
            Backend::AesNi => Some(Self::AesNi(x86::AesNi::detect()?, Schedule::new(key))),
            #[cfg(all(target_arch = "aarch64", target_endian = "little"))]
            Backend::Neon => Some(Self::Neon(arm::Neon::detect()?, Schedule::new(key))),
            Backend::Portable => Some(Self::Portable(Portable::new(key))),
            #[allow(
                unreachable_patterns,
                reason = "which back ends are left depends on the platform"
            )]
            _ => None,
        }
    }

    /// The fastest there is.
    pub(super) fn fastest(key: &[u8; 16]) -> Self {
        Backend::ALL
            .into_iter()
            .find_map(|backend| Self::new(backend, key))
            .unwrap_or_else(|| Self::Portable(Portable::new(key)))
    }

    /// Adds or subtracts the key stream from block `from` on. `words` are whole blocks.
    pub(super) fn apply(&self, from: Counter, sign: Sign, words: &mut [u32], table: &mut Table) {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Vaes512(cpu, schedule) => cpu.apply(schedule, from, sign, words, table),
            #[cfg(target_arch = "x86_64")]
            Self::AesNi(cpu, schedule) => cpu.apply(schedule, from, sign, words, table),
            #[cfg(all(target_arch = "aarch64", target_endian = "little"))]
            Self::Neon(cpu, schedule) => cpu.apply(schedule, from, sign, words),
            Self::Portable(portable) => portable.apply(from, sign, words),
        }
    }
}
