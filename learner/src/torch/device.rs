//! From a device's name to libtorch's device.

use tch::{Cuda, Device};

use crate::device::{DeviceChoice, DeviceError};

/// The libtorch device for a choice.
///
/// # Errors
///
/// [`DeviceError::Absent`] if the CUDA device asked for is not there. `auto` never fails.
pub fn resolve(choice: DeviceChoice) -> Result<Device, DeviceError> {
    let found = if Cuda::is_available() {
        usize::try_from(Cuda::device_count()).unwrap_or(0)
    } else {
        0
    };
    match choice {
        DeviceChoice::Auto if found > 0 => Ok(Device::Cuda(0)),
        DeviceChoice::Auto | DeviceChoice::Cpu => Ok(Device::Cpu),
        DeviceChoice::Cuda(wanted) if wanted < found => Ok(Device::Cuda(wanted)),
        DeviceChoice::Cuda(wanted) => Err(DeviceError::Absent { wanted, found }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_and_auto_always_resolve() {
        assert_eq!(resolve(DeviceChoice::Cpu), Ok(Device::Cpu));
        let auto = resolve(DeviceChoice::Auto).unwrap();
        assert_eq!(auto == Device::Cpu, Cuda::device_count() == 0);
    }

    #[test]
    fn a_device_that_is_not_there_is_named_with_the_count() {
        let error = resolve(DeviceChoice::Cuda(9_999)).unwrap_err();
        assert!(matches!(error, DeviceError::Absent { wanted: 9_999, .. }));
        assert!(error.to_string().contains("cuda:9999"), "{error}");
    }
}
