//! From a dispatch packet and its kernel descriptor to a launch.
//!
//! Source: LLVM AMDGPUUsage, "Kernel Descriptor" and "Initial Kernel Execution State".

use belfry_abi::aql::{AmdQueue, KernelDispatchPacket};
use belfry_abi::kernel_descriptor::{
    KERNARG_PRELOAD_ENTRY, KERNEL_CODE_ENTRY_ALIGN, KERNEL_DESCRIPTOR_ALIGN, KernargPreload, KernelDescriptor,
};
use belfry_isa::inst::WaveSize;
use belfry_isa::mem::Access;
use zerocopy::IntoBytes as _;

use super::error::{Cause, KernelError};
use crate::chip::{CuMask, Generation};
use crate::shader::{Launch, MAX_WORKGROUP_SIZE};
use crate::vm::{Fault, Slice};

/// A dispatch packet in its ring.
#[derive(Clone, Copy, Debug)]
pub(super) struct Source<'a> {
    /// The packet.
    pub(super) packet: &'a KernelDispatchPacket,
    /// Its address.
    pub(super) address: u64,
    /// Its index.
    pub(super) index: u64,
    /// The queue it is on, with its address.
    pub(super) queue: Option<(u64, &'a AmdQueue)>,
}

/// A launch that is complete except for its scratch memory.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) launch: Launch,
    /// Bytes of scratch memory a wave needs; 0 for none.
    pub(super) scratch_per_wave: u64,
}

/// Checks a dispatch packet and its kernel descriptor and works out the initial state of its waves, within a slice of
/// the queue's address space.
#[inline(always)]
pub(super) fn prepare(slice: &Slice<'_>, source: Source<'_>, chip: &Generation) -> Result<Prepared, Cause> {
    let (grid, workgroup) = sizes(source.packet)?;
    let packet = source.packet;
    if packet.group_segment_size > chip.shader.lds {
        return Err(Cause::GroupSegment(packet.group_segment_size));
    }
    let (descriptor, entry) = kernel(slice, packet.kernel_object, chip)?;
    let rsrc2 = descriptor.compute_pgm_rsrc2;
    let vgprs = (chip.kernel.vgprs)(&descriptor).map_err(Cause::Registers)?;
    let user_sgprs = user_sgprs(source, &descriptor, chip, |at, bytes| slice.read_bytes(at, bytes))?;
    let before = if preload(&descriptor, chip).is_some() { KERNARG_PRELOAD_ENTRY } else { 0 };
    let launch = Launch {
        entry: entry.wrapping_add(before),
        user_sgprs,
        grid,
        workgroup,
        lds_size: packet.group_segment_size.next_multiple_of(chip.shader.lds_granule),
        ..of_kernel(&descriptor, vgprs, chip)
    };
    check(&launch, packet.setup & 3, chip)?;
    let private = if rsrc2.enable_private_segment() { packet.private_segment_size } else { 0 };
    let scratch_per_wave = u64::from(private) * u64::from(launch.lanes());
    Ok(Prepared { launch, scratch_per_wave: scratch_per_wave.next_multiple_of(chip.shader.scratch_granule) })
}

/// Fills in the part of a launch that follows from the kernel's descriptor; the rest is empty. The numbers of vector
/// registers, own and shared, are given.
// Inlined, as are its callers: a launch is large, and built in its final place.
#[inline(always)]
pub(super) fn of_kernel(
    descriptor: &KernelDescriptor,
    (vgpr_count, shared_vgprs): (u16, u16),
    chip: &Generation,
) -> Launch {
    let rsrc2 = descriptor.compute_pgm_rsrc2;
    let wave32 = descriptor.kernel_code_properties.enable_wavefront_size32();
    let ids = chip.kernel.workgroup_id_sgprs;
    Launch {
        entry: 0,
        wave_size: if wave32 { WaveSize::Wave32 } else { WaveSize::Wave64 },
        vgpr_count,
        allocates_vgprs: chip.kernel.dynamic_vgprs && rsrc2.enable_dynamic_vgpr(),
        shared_vgprs,
        accum_offset: (chip.kernel.accum_offset)(descriptor),
        mode: (chip.kernel.mode)(descriptor),
        user_sgprs: Vec::new(),
        workgroup_id_sgprs: [
            ids && rsrc2.enable_sgpr_workgroup_id_x(),
            ids && rsrc2.enable_sgpr_workgroup_id_y(),
            ids && rsrc2.enable_sgpr_workgroup_id_z(),
        ],
        // Also where the identifiers are in trap temporaries: Mesa takes the number of waves from there on gfx12
        // (`ac_nir_lower_intrinsics_to_args.c`, `load_num_subgroups`).
        workgroup_info_sgpr: rsrc2.enable_sgpr_workgroup_info(),
        workitem_id_dims: rsrc2.enable_vgpr_workitem_id(),
        grid: [0; 3],
        start: [0; 3],
        workgroup: [0; 3],
        lds_size: 0,
        scratch: None,
        scratch_bytes_per_lane: 0,
        trap: None,
        doorbell: 0,
        wgp_mode: descriptor.compute_pgm_rsrc1.wgp_mode(),
        cus: CuMask::ALL,
        shares: None,
        queue_ids: [0; 2],
        packet: 0,
        hangs: false,
    }
}

/// Refuses a launch if the GPU cannot hold one of its workgroups, or if its workgroups cannot be counted.
pub(super) fn check(launch: &Launch, dimensions: u16, chip: &Generation) -> Result<(), Cause> {
    if !launch.fits_at_all(&chip.shader) {
        let vgprs = (launch.most_vgprs() + launch.shared_vgprs).into();
        return Err(Cause::Occupancy { waves: launch.waves_per_workgroup(), vgprs });
    }
    if launch.workgroup_count().is_none() {
        return Err(Cause::Dimensions { dimensions, grid: launch.grid });
    }
    Ok(())
}

/// Returns grid and workgroup size, with 1 in the dimensions that are not used.
fn sizes(packet: &KernelDispatchPacket) -> Result<([u32; 3], [u32; 3]), Cause> {
    let dimensions = packet.setup & 3;
    let grid = [packet.grid_size_x, packet.grid_size_y, packet.grid_size_z];
    let sizes = [packet.workgroup_size_x, packet.workgroup_size_y, packet.workgroup_size_z];
    let used = usize::from(dimensions);
    // Sizes of unused dimensions are 1; careless producers leave 0 there.
    if used == 0 || grid[..used].contains(&0) || grid[used..].iter().any(|&size| size > 1) {
        return Err(Cause::Dimensions { dimensions, grid });
    }
    let product: u64 = sizes[..used].iter().map(|&size| u64::from(size)).product();
    if product == 0 || product > u64::from(MAX_WORKGROUP_SIZE) || sizes[used..].iter().any(|&size| size > 1) {
        return Err(Cause::WorkgroupSize(sizes));
    }
    Ok((grid.map(|size| size.max(1)), sizes.map(|size| u32::from(size.max(1)))))
}

/// Reads the kernel descriptor and returns it with the address of the first instruction.
fn kernel(slice: &Slice<'_>, address: u64, chip: &Generation) -> Result<(KernelDescriptor, u64), Cause> {
    let bad = |reason| Cause::KernelObject { address, reason };
    if address == 0 || !address.is_multiple_of(KERNEL_DESCRIPTOR_ALIGN) {
        return Err(bad(KernelError::Alignment));
    }
    let descriptor: KernelDescriptor =
        slice.read(address).map_err(|fault| bad(KernelError::Unreadable(fault)))?;
    (chip.kernel.check)(&descriptor).map_err(|error| bad(KernelError::Descriptor(error)))?;
    let entry = address.wrapping_add_signed(descriptor.kernel_code_entry_byte_offset);
    if descriptor.kernel_code_entry_byte_offset == 0 || !entry.is_multiple_of(KERNEL_CODE_ENTRY_ALIGN) {
        return Err(bad(KernelError::EntryAlignment(entry)));
    }
    slice.translate(entry, Access::Execute).map_err(|fault| bad(KernelError::Entry(fault)))?;
    Ok((descriptor, entry))
}

/// Returns the kernel arguments that are preloaded into user SGPRs, if there are any.
fn preload(descriptor: &KernelDescriptor, chip: &Generation) -> Option<KernargPreload> {
    let preload = KernargPreload::from_bits(descriptor.kernarg_preload);
    (chip.kernel.preloads_arguments && preload.length() != 0).then_some(preload)
}

/// Returns the values of the user SGPRs that the kernel asks for, in the fixed order; arguments come after the others.
fn user_sgprs(
    source: Source<'_>,
    descriptor: &KernelDescriptor,
    chip: &Generation,
    read: impl FnOnce(u64, &mut [u8]) -> Result<(), Fault>,
) -> Result<Vec<u32>, Cause> {
    let most = chip.kernel.max_user_sgprs;
    let properties = descriptor.kernel_code_properties;
    let mut sgprs = Vec::with_capacity(most);
    let pairs = [
        (properties.enable_sgpr_dispatch_ptr(), source.address),
        (properties.enable_sgpr_queue_ptr(), source.queue.map_or(0, |(address, _)| address)),
        (properties.enable_sgpr_kernarg_segment_ptr(), source.packet.kernarg_address),
        (properties.enable_sgpr_dispatch_id(), source.index),
    ];
    for (_, value) in pairs.into_iter().filter(|(enabled, _)| *enabled) {
        sgprs.extend([value as u32, (value >> 32) as u32]);
    }
    if properties.enable_sgpr_private_segment_size() {
        sgprs.push(source.packet.private_segment_size);
    }
    let count = descriptor.compute_pgm_rsrc2.user_sgpr_count() as usize;
    if let Some(preload) = preload(descriptor, chip)
        && sgprs.len() + usize::from(preload.length()) <= count.min(most)
    {
        let first = source.packet.kernarg_address.wrapping_add(u64::from(preload.offset()) * 4);
        let mut arguments = vec![0u32; preload.length().into()];
        read(first, arguments.as_mut_bytes())
            .map_err(|fault| Cause::Memory { what: "preloaded kernel arguments", fault })?;
        sgprs.extend(arguments);
    } else if let Some(preload) = preload(descriptor, chip) {
        let wanted = sgprs.len() + usize::from(preload.length());
        let reason = KernelError::UserSgprs { declared: count, wanted, most };
        return Err(Cause::KernelObject { address: source.packet.kernel_object, reason });
    }
    if count > most || sgprs.len() > count {
        let reason = KernelError::UserSgprs { declared: count, wanted: sgprs.len(), most };
        return Err(Cause::KernelObject { address: source.packet.kernel_object, reason });
    }
    sgprs.resize(count, 0);
    Ok(sgprs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chip::{gfx942, gfx1100, gfx1201};
    use crate::vm::FaultKind;

    fn packet() -> KernelDispatchPacket {
        KernelDispatchPacket {
            header: 2,
            setup: 3,
            workgroup_size_x: 8,
            workgroup_size_y: 4,
            workgroup_size_z: 2,
            reserved0: 0,
            grid_size_x: 80,
            grid_size_y: 40,
            grid_size_z: 20,
            private_segment_size: 0,
            group_segment_size: 0,
            kernel_object: 0,
            kernarg_address: 0,
            reserved2: 0,
            completion_signal: 0,
        }
    }

    #[test]
    fn sizes_are_checked() {
        type Change = fn(&mut KernelDispatchPacket);
        let rows: [(&str, Change, Option<u64>); 10] = [
            ("good", |_| (), None),
            ("no dimensions", |packet| packet.setup = 0, Some(2)),
            ("empty grid", |packet| packet.grid_size_y = 0, Some(2)),
            ("unused grid", |packet| packet.setup = 2, Some(2)),
            ("empty workgroup", |packet| packet.workgroup_size_z = 0, Some(0x40)),
            ("oversized workgroup", |packet| packet.workgroup_size_x = 200, Some(0x40)),
            (
                "workgroup whose product wraps 32 bits",
                |packet| {
                    (packet.workgroup_size_x, packet.workgroup_size_y, packet.workgroup_size_z) =
                        (0x8000, 0x8000, 4);
                },
                Some(0x40),
            ),
            ("just large enough", |packet| packet.workgroup_size_x = 128, None),
            (
                "one dimension, zeros elsewhere",
                |packet| {
                    packet.setup = 1;
                    (packet.grid_size_y, packet.grid_size_z) = (0, 0);
                    (packet.workgroup_size_y, packet.workgroup_size_z) = (0, 0);
                },
                None,
            ),
            (
                "unused workgroup",
                |packet| {
                    packet.setup = 1;
                    (packet.grid_size_y, packet.grid_size_z) = (1, 1);
                },
                Some(0x40),
            ),
        ];
        for (name, change, expected) in rows {
            let mut packet = packet();
            change(&mut packet);
            let got = sizes(&packet).err().and_then(|cause| cause.inactive_code());
            assert_eq!(got, expected, "{name}");
        }
    }

    #[test]
    fn user_sgprs_follow_the_fixed_order() {
        use belfry_abi::kernel_descriptor::{ComputePgmRsrc2, KernelCodeProperties};
        use zerocopy::FromZeros;
        let queue = AmdQueue::new_zeroed();
        let mut packet = packet();
        packet.kernarg_address = 0x1_0000_0002;
        packet.private_segment_size = 99;
        let source = Source {
            packet: &packet,
            address: 0x5_0000_0006,
            index: 0x7_0000_0008,
            queue: Some((0x9_0000_000a, &queue)),
        };
        let mut descriptor = KernelDescriptor::new_zeroed();
        // All gfx11 has: 2 * 4 + 1 registers, and one more declared.
        descriptor.kernel_code_properties = KernelCodeProperties::from_bits(0b101_1110);
        descriptor.compute_pgm_rsrc2 = ComputePgmRsrc2::from_bits(10 << 1);
        let nothing = |_: u64, _: &mut [u8]| panic!("no arguments are read");
        let navi = &gfx1100::GENERATION;
        let sgprs = user_sgprs(source, &descriptor, navi, nothing).expect("they fit");
        assert_eq!(sgprs, [6, 5, 0xa, 9, 2, 1, 8, 7, 99, 0]);
        descriptor.compute_pgm_rsrc2 = ComputePgmRsrc2::from_bits(8 << 1);
        let refused = user_sgprs(source, &descriptor, navi, nothing);
        assert!(matches!(refused, Err(Cause::KernelObject { .. })));
    }

    #[test]
    fn information_about_the_workgroup_is_in_a_register_wherever_its_identifier_is() {
        use belfry_abi::kernel_descriptor::ComputePgmRsrc2;
        use zerocopy::FromZeros;
        let mut descriptor = KernelDescriptor::new_zeroed();
        for (chip, ids) in
            [(&gfx942::GENERATION, true), (&gfx1100::GENERATION, true), (&gfx1201::GENERATION, false)]
        {
            descriptor.compute_pgm_rsrc2 = ComputePgmRsrc2::from_bits(1 << 7 | 1 << 10);
            assert_eq!((chip.kernel.check)(&descriptor), Ok(()), "{:?}", chip.arch);
            let launch = of_kernel(&descriptor, (8, 0), chip);
            let own = (launch.workgroup_id_sgprs, launch.workgroup_info_sgpr);
            assert_eq!(own, ([ids, false, false], true), "{:?}", chip.arch);
            descriptor.compute_pgm_rsrc2 = ComputePgmRsrc2::from_bits(0);
            assert!(!of_kernel(&descriptor, (8, 0), chip).workgroup_info_sgpr, "{:?}", chip.arch);
        }
    }

    #[test]
    fn preloaded_arguments_are_behind_the_other_user_sgprs() {
        use belfry_abi::kernel_descriptor::{ComputePgmRsrc2, KernelCodeProperties};
        use zerocopy::FromZeros;
        let mut packet = packet();
        packet.kernarg_address = 0x1_0000_0100;
        let source = Source { packet: &packet, address: 0, index: 0, queue: None };
        let mut descriptor = KernelDescriptor::new_zeroed();
        // The address of the arguments, and four dwords of them from the third on.
        descriptor.kernel_code_properties = KernelCodeProperties::from_bits(1 << 3);
        descriptor.kernarg_preload = 2 << 7 | 4;
        let chip = &gfx942::GENERATION;
        let sgprs = |count: u32| {
            let mut descriptor = descriptor;
            descriptor.compute_pgm_rsrc2 = ComputePgmRsrc2::from_bits(count << 1);
            user_sgprs(source, &descriptor, chip, |at, bytes| {
                assert_eq!(at, 0x1_0000_0108);
                bytes.copy_from_slice([7u32, 8, 9, 10].as_bytes());
                Ok(())
            })
        };
        assert_eq!(sgprs(8).expect("they fit"), [0x100, 1, 7, 8, 9, 10, 0, 0]);
        assert!(matches!(sgprs(5), Err(Cause::KernelObject { .. })), "no room for them");
        assert_eq!(preload(&descriptor, chip).map(|preload| preload.length()), Some(4));
        assert!(preload(&descriptor, &gfx1100::GENERATION).is_none());
        // An address that does not translate is the queue's error.
        let missing = Fault::new(0x1_0000_0108, Access::Read, FaultKind::NotPresent);
        descriptor.compute_pgm_rsrc2 = ComputePgmRsrc2::from_bits(8 << 1);
        let failed = user_sgprs(source, &descriptor, chip, |_, _| Err(missing));
        assert!(matches!(failed, Err(Cause::Memory { .. })));
    }
}
