//! Registers that user space reads: monitors look at what is busy there.

use belfry_abi::regs::gc;
use zerocopy::IntoBytes as _;

use crate::device::Device;
use crate::errno::{Errno, Result};
use crate::os::Os;

/// Most registers of one question.
const MOST: usize = 128;
/// Number that stands for all shader engines, or all shader arrays (`AMDGPU_INFO_MMR_SE_INDEX_MASK`, `AMDGPU_INFO_MMR_SH_INDEX_MASK`).
const ALL: u32 = 0xff;
/// Shader engines and arrays of one that can be named (`AMDGPU_GFX_MAX_SE`, `AMDGPU_GFX_MAX_SH_PER_SE`).
const MAX_ENGINES: u32 = 4;
const MAX_ARRAYS: u32 = 2;

/// READ_MMR_REG: so many registers from a dword of the registers' BAR on.
///
/// The engine and the array are checked, and choose nothing: none of the registers has one for each.
///
/// # Errors
///
/// `EINVAL` for an engine or an array that no chip has, and for too many registers; `EFAULT` for a register that may not be
/// read, as `amdgpu_info_ioctl` has it.
#[inline(never)]
pub(super) fn read_registers<O: Os>(
    device: &Device<O>,
    [first, count, instance, _flags]: [u32; 4],
    answer: impl FnOnce(&[u8]) -> Result<()>,
) -> Result<()> {
    let (engine, array) = (instance & 0xff, instance >> 8 & 0xff);
    let good = |number: u32, most: u32| number == ALL || number < most;
    if !good(engine, MAX_ENGINES) || !good(array, MAX_ARRAYS) || count as usize > MOST {
        return Err(Errno::EINVAL);
    }
    let mut values = [0u32; MOST];
    let values = &mut values[..count as usize];
    for (dword, value) in (u64::from(first)..).zip(values.iter_mut()) {
        let dword = u32::try_from(dword).map_err(|_| Errno::EFAULT)?;
        *value = readable(device, dword).ok_or(Errno::EFAULT)?;
    }
    answer(values.as_bytes())
}

/// The value of a register that user space may read.
fn readable<O: Os>(device: &Device<O>, dword: u32) -> Option<u32> {
    let map = device.hw.registers();
    if dword == map.dword::<gc::GB_ADDR_CONFIG>() {
        return Some(device.config.gb_addr_config);
    }
    let known = device.hw.asic().readable.iter().any(|&register| map.dword_of(register) == Some(dword));
    known.then(|| device.hw.read_dword(dword))
}
