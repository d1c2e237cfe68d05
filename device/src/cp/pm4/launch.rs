//! From the compute registers to a launch.
//!
//! Registers: linux `gc_11_0_0_offset.h`, fields `gc_11_0_0_sh_mask.h`. Values that a user of PM4 writes: mesa
//! `radv_cmd_buffer.c`, `radv_emit_dispatch_packets`.

use belfry_abi::kernel_descriptor::{
    ComputePgmRsrc1, ComputePgmRsrc2, ComputePgmRsrc3, KernelCodeProperties, KernelDescriptor,
};
use belfry_abi::pm4::{ComputeRegister, DispatchInitiator};
use belfry_isa::mem::Access;
use zerocopy::FromZeros;

use super::registers::ComputeRegisters;
use crate::chip::{CuMask, Generation, Pm4Packets, TmpRing};
use crate::cp::dispatch::{self, Prepared};
use crate::cp::error::{Cause, KernelError};
use crate::pm4::Error;
use crate::shader::{Launch, MAX_WORKGROUP_SIZE};
use crate::vm::AddressSpace;

/// Unit of `COMPUTE_PGM_RSRC2.LDS_SIZE` in bytes.
const LDS_UNIT: u32 = 512;
/// Registers with the compute units that waves may use, by shader engine.
pub(super) const STATIC_THREAD_MGMT: [ComputeRegister; 8] = [
    ComputeRegister::STATIC_THREAD_MGMT_SE0,
    ComputeRegister::STATIC_THREAD_MGMT_SE1,
    ComputeRegister::STATIC_THREAD_MGMT_SE2,
    ComputeRegister::STATIC_THREAD_MGMT_SE3,
    ComputeRegister::STATIC_THREAD_MGMT_SE4,
    ComputeRegister::STATIC_THREAD_MGMT_SE5,
    ComputeRegister::STATIC_THREAD_MGMT_SE6,
    ComputeRegister::STATIC_THREAD_MGMT_SE7,
];
/// Fields of `COMPUTE_PGM_RSRC1` that descriptors leave to the packet processor and that have no effect here:
/// `PRIORITY`, which is a hint, and `PRIV`. Drivers of PM4 set `PRIV` so that their waves are not saved (tinygrad
/// `ops_amd.py`). Here all waves are preempted alike, and those with `PRIV` run as others do, without the registers of
/// trap handlers.
const WITHOUT_EFFECT: u32 = 0b11 << 10 | 1 << 20;
/// `COMPUTE_PGM_RSRC2.EXCP_EN_MSB`: address watches and memory violations.
const EXCP_EN_MSB: u32 = 0b11 << 13;
/// Shift from there to the bits of `MODE.EXCP_EN`, above the math exceptions.
const EXCP_EN_MSB_TO_MODE: u32 = 19 - 13;
/// Fields of `COMPUTE_PGM_RSRC2` that descriptors leave to the packet processor: LDS, the upper exceptions, and with
/// them [whether waves take traps](crate::chip::MqdLayout::traps).
const FILLED_IN: u32 = 0x1ff << 15 | EXCP_EN_MSB;

/// Work-items of a dispatch, all counted from the origin of the grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sizes {
    grid: [u32; 3],
    workgroup: [u32; 3],
    /// Identifier of the first workgroup.
    start: [u32; 3],
}

/// Works out the initial state of the waves of a dispatch; `None` for one of no workgroups.
pub(super) fn prepare(
    space: &AddressSpace,
    registers: &ComputeRegisters,
    chip: &Generation,
) -> Result<Option<Prepared>, Cause> {
    let initiator = DispatchInitiator::from_bits(registers.get(ComputeRegister::DISPATCH_INITIATOR));
    check(initiator, registers)?;
    let Some(Sizes { grid, workgroup, start }) = sizes(initiator, registers, chip.pm4)? else {
        return Ok(None);
    };
    let descriptor = descriptor(initiator, registers, chip);
    let entry = registers.pair(ComputeRegister::PGM_LO, ComputeRegister::PGM_HI) << 8;
    let bad = |reason| Cause::KernelObject { address: entry, reason };
    (chip.kernel.check)(&descriptor).map_err(|error| bad(KernelError::Descriptor(error)))?;
    space.translate(entry, Access::Execute).map_err(|fault| bad(KernelError::Entry(fault)))?;
    let vgprs = (chip.kernel.vgprs)(&descriptor).map_err(Cause::Registers)?;
    let rsrc2 = ComputePgmRsrc2::from_bits(registers.get(ComputeRegister::PGM_RSRC2));
    let declared = rsrc2.user_sgpr_count() as usize;
    let most = chip.kernel.max_user_sgprs;
    let user_sgprs = registers.user_data().get(..declared).filter(|_| declared <= most);
    let user_sgprs = user_sgprs.ok_or(bad(KernelError::UserSgprs { declared, wanted: declared, most }))?;
    let lds_size = rsrc2.granulated_lds_size() * LDS_UNIT;
    if lds_size > chip.shader.lds {
        return Err(Cause::GroupSegment(lds_size));
    }
    let of_kernel = dispatch::of_kernel(&descriptor, vgprs, chip);
    let launch = Launch {
        entry,
        mode: mode(of_kernel.mode, rsrc2),
        user_sgprs: user_sgprs.to_vec(),
        grid,
        start,
        workgroup,
        lds_size: lds_size.next_multiple_of(chip.shader.lds_granule),
        cus: cus(registers, chip),
        ..of_kernel
    };
    dispatch::check(&launch, 3, chip)?;
    let scratch_per_wave =
        if rsrc2.enable_private_segment() { scratch(registers, chip).wave_bytes } else { 0 };
    Ok(Some(Prepared { launch, scratch_per_wave }))
}

/// Makes a kernel descriptor of the registers: the rules for descriptors hold for them.
fn descriptor(
    initiator: DispatchInitiator,
    registers: &ComputeRegisters,
    chip: &Generation,
) -> KernelDescriptor {
    let rsrc1 = registers.get(ComputeRegister::PGM_RSRC1);
    let rsrc2 = registers.get(ComputeRegister::PGM_RSRC2);
    let mut descriptor = KernelDescriptor::new_zeroed();
    descriptor.compute_pgm_rsrc1 = ComputePgmRsrc1::from_bits(rsrc1 & !WITHOUT_EFFECT);
    descriptor.compute_pgm_rsrc2 = ComputePgmRsrc2::from_bits(rsrc2 & !(FILLED_IN | chip.mqd.traps));
    descriptor.compute_pgm_rsrc3 = ComputePgmRsrc3::from_bits(registers.get(chip.kernel.rsrc3));
    let mut properties = KernelCodeProperties::from_bits(0);
    properties.set_enable_wavefront_size32(initiator.cs_w32_en());
    descriptor.kernel_code_properties = properties;
    descriptor
}

/// Returns `MODE` at the start of a kernel's waves, which enables the upper exceptions, too.
fn mode(of_descriptor: u32, rsrc2: ComputePgmRsrc2) -> u32 {
    of_descriptor | (rsrc2.bits() & EXCP_EN_MSB) << EXCP_EN_MSB_TO_MODE
}

/// Returns the compute units that its waves may use. The masks are those of the engines that the chip has registers
/// for, alike on each graphics core.
fn cus(registers: &ComputeRegisters, chip: &Generation) -> CuMask {
    let engines = STATIC_THREAD_MGMT.len().min(chip.mqd.thread_mgmt.len());
    let mut mask = CuMask::ALL;
    for core in mask.0.chunks_mut(engines) {
        for (engine, register) in core.iter_mut().zip(STATIC_THREAD_MGMT) {
            *engine = registers.get(register);
        }
    }
    mask
}

/// Returns the scratch memory of a dispatch.
pub(super) fn scratch(registers: &ComputeRegisters, chip: &Generation) -> TmpRing {
    (chip.shader.tmp_ring)(registers.get(ComputeRegister::TMPRING_SIZE))
}

fn check(initiator: DispatchInitiator, registers: &ComputeRegisters) -> Result<(), Cause> {
    let refused = |what, value| Err(Cause::Ring(Error::Field { what, value }));
    let modelled = initiator.compute_shader_en() && !initiator.ordered_append_enbl() && !initiator.restore();
    if !modelled {
        return refused("COMPUTE_DISPATCH_INITIATOR", initiator.bits());
    }
    // If the sizes are in work-items, no public source says if a start is in workgroups or in work-items.
    match start(initiator, registers).into_iter().find(|&start| start != 0) {
        Some(start) if initiator.use_thread_dimensions() => {
            refused("dispatch in work-items with COMPUTE_START", start)
        }
        _ => Ok(()),
    }
}

/// Returns the identifier of the first workgroup of a dispatch.
fn start(initiator: DispatchInitiator, registers: &ComputeRegisters) -> [u32; 3] {
    if initiator.force_start_at_000() { [0; 3] } else { registers.three(ComputeRegister::START_X) }
}

/// Returns the sizes of a dispatch; `None` for one without any workgroup.
///
/// The sizes of a dispatch with a start are ends and not counts (mesa `radv_cmd_buffer.c`,
/// `radv_emit_dispatch_packets`).
fn sizes(
    initiator: DispatchInitiator,
    registers: &ComputeRegisters,
    packets: Pm4Packets,
) -> Result<Option<Sizes>, Cause> {
    let dim = registers.three(ComputeRegister::DIM_X);
    let threads = registers.three(ComputeRegister::NUM_THREAD_X);
    let workgroup = [0, 1, 2].map(|dim| packets.workgroup_size(dim, threads[dim]));
    let items: u64 = workgroup.iter().map(|&size| u64::from(size)).product();
    if items == 0 || items > u64::from(MAX_WORKGROUP_SIZE) {
        // Each size has 16 bits.
        return Err(Cause::WorkgroupSize(workgroup.map(|size| size as u16)));
    }
    let start = start(initiator, registers);
    if (0..3).any(|at| dim[at] <= start[at]) {
        return Ok(None);
    }
    if initiator.use_thread_dimensions() {
        return Ok(Some(Sizes { grid: dim, workgroup, start }));
    }
    let mut grid = [0; 3];
    for at in 0..3 {
        let partial = if initiator.partial_tg_en() { threads[at] >> 16 } else { 0 };
        // A last workgroup that is partial lacks these work-items.
        let missing = if partial == 0 { 0 } else { workgroup[at].saturating_sub(partial) };
        let size = dim[at].checked_mul(workgroup[at]).map(|size| size - missing);
        grid[at] = size.ok_or(Cause::Dimensions { dimensions: 3, grid: dim })?;
    }
    Ok(Some(Sizes { grid, workgroup, start }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chip::{gfx942, gfx1100, gfx1201};

    fn registers(dim: [u32; 3], threads: [u32; 3]) -> ComputeRegisters {
        let mut registers = ComputeRegisters::default();
        for at in 0..3 {
            registers.set(ComputeRegister(ComputeRegister::DIM_X.0 + at), dim[at as usize]);
            registers.set(ComputeRegister(ComputeRegister::NUM_THREAD_X.0 + at), threads[at as usize]);
        }
        registers
    }

    #[test]
    fn upper_exceptions_are_enabled_by_the_registers_of_every_chip() {
        for chip in [&gfx1100::GENERATION, &gfx1201::GENERATION, &gfx942::GENERATION] {
            let mut registers = ComputeRegisters::default();
            registers.set(ComputeRegister::PGM_RSRC2, 0b11 << 13 | 1 << 24 | 1 << 7);
            let descriptor = descriptor(DispatchInitiator::from_bits(1), &registers, chip);
            assert_eq!((chip.kernel.check)(&descriptor), Ok(()), "{:?}", chip.arch);
            let rsrc2 = ComputePgmRsrc2::from_bits(registers.get(ComputeRegister::PGM_RSRC2));
            assert_eq!(mode((chip.kernel.mode)(&descriptor), rsrc2) >> 12 & 0x1ff, 0x181);
        }
    }

    #[test]
    fn sizes_are_in_workgroups_or_in_work_items() {
        let of = |bits, dim, threads| {
            sizes(DispatchInitiator::from_bits(bits), &registers(dim, threads), Pm4Packets::V10)
        };
        let from_origin = |grid| Ok(Some(Sizes { grid, workgroup: [8, 4, 2], start: [0; 3] }));
        assert_eq!(of(1, [3, 2, 1], [8, 4, 2]), from_origin([24, 8, 2]));
        assert_eq!(of(0x21, [3, 2, 1], [8, 4, 2]), from_origin([3, 2, 1]));
        let partial = [8 | 5 << 16, 4, 2 | 2 << 16];
        assert_eq!(of(3, [3, 2, 1], partial), from_origin([21, 8, 2]), "the last one has 5");
        assert_eq!(of(1, [3, 2, 1], partial), from_origin([24, 8, 2]), "not enabled");
        assert_eq!(of(1, [3, 0, 1], [8, 4, 2]), Ok(None));
        assert!(matches!(of(1, [1 << 30, 1, 1], [8, 1, 1]), Err(Cause::Dimensions { .. })));
        for threads in [[0, 1, 1], [1025, 1, 1], [0xffff, 0xffff, 0xffff]] {
            assert!(matches!(of(1, [1; 3], threads), Err(Cause::WorkgroupSize(_))), "{threads:?}");
        }
    }

    #[test]
    fn order_of_work_items_is_no_part_of_a_size_on_gfx12() {
        let threads = [8 | 3 << 13 | 5 << 16, 4 | 2 << 13, 2];
        let of = |packets| {
            sizes(DispatchInitiator::from_bits(3 | 1 << 18), &registers([3, 2, 1], threads), packets)
        };
        let expected = Sizes { grid: [21, 8, 2], workgroup: [8, 4, 2], start: [0; 3] };
        assert_eq!(of(Pm4Packets::V12), Ok(Some(expected)));
        assert!(matches!(of(Pm4Packets::V10), Err(Cause::WorkgroupSize(_))), "bits of the size on gfx11");
    }

    #[test]
    fn starts_and_modes_that_are_not_modelled_are_refused() {
        let mut registers = registers([1; 3], [1; 3]);
        let checked =
            |bits, registers: &ComputeRegisters| check(DispatchInitiator::from_bits(bits), registers);
        assert!(checked(1, &registers).is_ok() && checked(0x8021, &registers).is_ok());
        for bits in [0, 1 | 1 << 3, 1 | 1 << 14] {
            assert!(matches!(checked(bits, &registers), Err(Cause::Ring(_))), "{bits:#x}");
        }
        registers.set(ComputeRegister::START_Y, 2);
        assert!(matches!(checked(0x21, &registers), Err(Cause::Ring(_))), "in work-items");
        assert!(checked(1, &registers).is_ok() && checked(0x25, &registers).is_ok());
    }

    #[test]
    fn sizes_of_a_dispatch_that_begins_behind_the_origin_are_ends() {
        let mut registers = registers([5, 2, 1], [8 | 3 << 16, 4, 2]);
        registers.set(ComputeRegister::START_X, 2);
        let of = |bits, registers: &ComputeRegisters| {
            sizes(DispatchInitiator::from_bits(bits), registers, Pm4Packets::V10)
        };
        let expected = |grid, start| Ok(Some(Sizes { grid, workgroup: [8, 4, 2], start }));
        assert_eq!(of(1, &registers), expected([40, 8, 2], [2, 0, 0]));
        assert_eq!(of(3, &registers), expected([35, 8, 2], [2, 0, 0]), "the last one has 3");
        assert_eq!(of(5, &registers), expected([40, 8, 2], [0; 3]), "forced to the origin");
        registers.set(ComputeRegister::START_X, 5);
        assert_eq!(of(1, &registers), Ok(None));
    }
}
