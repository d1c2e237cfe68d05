//! Topology of the stand-in's GPU, and rules for its queues.

use std::sync::atomic::Ordering;

use belfry_abi::aql::AmdQueue;
use belfry_abi::kfd::memory::AllocFlags;
use belfry_abi::kfd::queue::CreateQueueArgs;

use super::memory::{atomic_u16, load};
use super::{GPU_ID, State};

/// The topology: a processor and a GPU of eight compute units.
pub(crate) const FILES: &[(&str, &str)] = &[
    ("nodes/0/gpu_id", "0\n"),
    ("nodes/0/name", "\n"),
    ("nodes/0/properties", "cpu_cores_count 2\nsimd_count 0\n"),
    ("nodes/0/mem_banks/0/properties", "heap_type 0\nsize_in_bytes 1073741824\n"),
    ("nodes/1/gpu_id", "4660\n"),
    ("nodes/1/name", "navi31\n"),
    (
        "nodes/1/properties",
        "cpu_cores_count 0\nsimd_count 16\nsimd_per_cu 2\nmax_waves_per_simd 16\narray_count 2\n\
         simd_arrays_per_engine 2\nmax_slots_scratch_cu 32\nwave_front_size 32\nlds_size_in_kb 64\n\
         gfx_target_version 110000\nvendor_id 4098\ndevice_id 29772\nnum_xcc 1\nnum_cp_queues 8\nunknown_key 9\n",
    ),
    ("nodes/1/mem_banks/0/properties", "heap_type 1\nsize_in_bytes 268435456\n"),
    ("nodes/1/caches/0/properties", "level 1\nsize 32\n"),
    ("nodes/1/caches/1/properties", "level 2\nsize 6144\n"),
    ("nodes/1/io_links/0/properties", "node_to 0\n"),
];

/// Checks the rules of linux 6.12's `kfd_queue_acquire_buffers`.
pub(crate) fn check_queue(state: &State, args: &CreateQueueArgs) {
    let at = |address: u64| {
        let found = state.bos.values().find(|bo| (bo.va..bo.va + bo.size).contains(&address));
        let bo = found.unwrap_or_else(|| panic!("{address:#x} is in no buffer object"));
        assert!(bo.mapped, "{bo:?} is not mapped");
        bo
    };
    assert_eq!((args.gpu_id, args.queue_type, args.queue_percentage), (GPU_ID, 2, 100));
    assert!(args.queue_priority <= 15);
    let ring = at(args.ring_base_address);
    assert_eq!((ring.va, ring.size), (args.ring_base_address, u64::from(args.ring_size)), "the ring exactly");
    assert!(args.ring_size.is_power_of_two());
    for pointer in [args.write_pointer_address, args.read_pointer_address] {
        assert_eq!(at(pointer).size, 4096, "pointers are in an object of one page");
    }
    let control = at(args.write_pointer_address).va;
    assert_eq!(args.write_pointer_address - control, 0x38);
    assert_eq!(args.read_pointer_address - control, 0x80);
    let eop = at(args.eop_buffer_address);
    assert_eq!((eop.va, eop.size, args.eop_buffer_size), (args.eop_buffer_address, 4096, 4096));
    assert!(eop.flags.contains(AllocFlags::VRAM));
    // Eight compute units of gfx11: 256 waves.
    assert_eq!((args.ctl_stack_size, args.ctx_save_restore_size), (4096, 4096 + 8 * 0x75000));
    let area = at(args.ctx_save_restore_address);
    assert_eq!(area.size, u64::from(args.ctx_save_restore_size) + 256 * 32);
    let queue: AmdQueue = load(control);
    assert_eq!(queue.read_dispatch_id_field_base_byte_offset, 0x80);
    assert_eq!((queue.base_address, u64::from(queue.size) * 64), (args.ring_base_address, ring.size));
    assert_eq!(
        (queue.group_segment_aperture_base_hi, queue.private_segment_aperture_base_hi),
        (0x10000, 0x20000)
    );
    assert_ne!(queue.queue_inactive_signal, 0);
    for slot in 0..u64::from(queue.size) {
        assert_eq!(atomic_u16(args.ring_base_address + slot * 64).load(Ordering::Acquire), 1, "slot {slot}");
    }
}
