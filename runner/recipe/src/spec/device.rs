//! Device of a worker: processors or a GPU.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The words that a device is written with.
pub(crate) const FORMS: &str =
    "`cpu`, `cuda` for a GPU of each worker's own, or `cuda:0` for one that they share";

/// Device that the workers of a machine compute on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub enum Device {
    /// The processors of the machine.
    #[default]
    Cpu,
    /// Each a GPU of its own: the first worker of the machine `cuda:0`, the next `cuda:1`.
    GpuEach,
    /// All the GPU with this number.
    Gpu(u32),
}

impl Device {
    /// The GPU of the worker that has this many others before it on its machine; `None` is the processors.
    pub(crate) fn gpu(self, before: u32) -> Option<u32> {
        match self {
            Self::Cpu => None,
            Self::GpuEach => Some(before),
            Self::Gpu(number) => Some(number),
        }
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature is that of `serde`")]
    pub(crate) fn is_cpu(&self) -> bool {
        *self == Self::Cpu
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu => f.write_str("cpu"),
            Self::GpuEach => f.write_str("cuda"),
            Self::Gpu(number) => write!(f, "cuda:{number}"),
        }
    }
}

impl FromStr for Device {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| text.parse::<u8>().ok().filter(|number| number.to_string() == text);
        match (text, text.strip_prefix("cuda:").and_then(number)) {
            ("cpu", _) => Ok(Self::Cpu),
            ("cuda", _) => Ok(Self::GpuEach),
            (_, Some(number)) => Ok(Self::Gpu(number.into())),
            _ => Err(format!("`{}` is no device; it is {FORMS}", text.escape_debug())),
        }
    }
}

impl TryFrom<String> for Device {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Device> for String {
    fn from(device: Device) -> Self {
        device.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_read_as_it_is_written() {
        for device in [Device::Cpu, Device::GpuEach, Device::Gpu(0), Device::Gpu(255)] {
            assert_eq!(device.to_string().parse(), Ok(device));
        }
        for text in ["", "gpu", "CUDA", "cuda:", "cuda:-1", "cuda:01", "cuda:256", "cuda: 1", "mps"] {
            assert!(text.parse::<Device>().unwrap_err().contains("cuda:0"), "{text}");
        }
    }

    #[test]
    fn workers_take_gpus_in_their_order_or_share_one() {
        assert_eq!([0, 1, 5].map(|before| Device::GpuEach.gpu(before)), [Some(0), Some(1), Some(5)]);
        assert_eq!([0, 1].map(|before| Device::Gpu(3).gpu(before)), [Some(3); 2]);
        assert_eq!(Device::Cpu.gpu(1), None);
    }
}
