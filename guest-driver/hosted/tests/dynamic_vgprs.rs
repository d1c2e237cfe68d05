//! Kernels of gfx1201 that allocate vector registers while they run, from packets of both kinds of queues, over preemptions.

#![expect(unsafe_code, reason = "a client of a driver passes pointers")]

use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::common::{self, Buffer, Client, PAGE, RW, config};
use crate::packets::{halves, packet, set};
use belfry_abi::aql::{KernelDispatchPacket, PacketHeader, PacketType};
use belfry_abi::kernel_descriptor::{
    ComputePgmRsrc1, ComputePgmRsrc2, KernelCodeProperties, KernelDescriptor,
};
use belfry_abi::kfd::ioctl as nr;
use belfry_abi::kfd::memory::AllocFlags;
use belfry_abi::kfd::queue::{CreateQueueArgs, KFD_IOC_QUEUE_TYPE_COMPUTE, UpdateQueueArgs};
use belfry_abi::pm4::{ComputeRegister, Opcode};
use belfry_device::chip::MODELS;
use belfry_device::{GpuConfig, GuestError};
use belfry_kfd_hosted::{HostedGpu, Node};
use zerocopy::{FromZeros, IntoBytes};

const GROUPS: u32 = 8;
const GROUP: u32 = 64;
/// Offset of code after its descriptor, in bytes.
const ENTRY: u64 = 256;
/// `ENABLE_DYNAMIC_VGPR`, and two user SGPRs, which have the address of the arguments.
const RSRC2: u32 = 1 << 6 | 2 << 1;

/// Arguments: where the results go, and two words: a flag that it waits for with 96 registers, and lanes that do so.
const KERNEL: [u32; 30] = [
    // s_load_b128 s[4:7], s[0:1], 0x0; s_wait_kmcnt 0x0
    0xf400_4100,
    0xf800_0000,
    0xbfc7_0000,
    // v_mov_b32 v15, v0
    0x7e1e_0300,
    // s_movk_i32 s8, 96; s_alloc_vgpr s8; s_cbranch_scc0 end
    0xb008_0060,
    0xbe80_5308,
    0xbfa1_0016,
    // v_add_nc_u32 v95, ttmp9, v15
    0x4abe_1e75,
    // v_mov_b32 v1, 0; v_mov_b32 v2, 1; global_atomic_add_u32 v1, v2, s[6:7] offset:4 scope:SCOPE_SYS
    0x7e02_0280,
    0x7e04_0281,
    0xee0d_4006,
    0x010c_0000,
    0x0000_0401,
    // loop: s_sleep 1; global_load_b32 v3, v1, s[6:7] scope:SCOPE_SYS; s_wait_loadcnt 0x0
    0xbf83_0001,
    0xee05_0006,
    0x000c_0003,
    0x0000_0001,
    0xbfc0_0000,
    // v_readfirstlane_b32 s8, v3; s_cmp_eq_u32 s8, 0; s_cbranch_scc1 loop
    0x7e10_0503,
    0xbf06_8008,
    0xbfa2_fff8,
    // v_mov_b32 v14, v95; s_alloc_vgpr 0
    0x7e1c_035f,
    0xbe80_5380,
    // s_lshl_b32 s9, ttmp9, 6; v_add_nc_u32 v3, s9, v0; v_lshlrev_b32 v3, 2, v3
    0x8409_8675,
    0x4a06_0009,
    0x3006_0682,
    // global_store_b32 v3, v14, s[4:5]
    0xee06_8004,
    0x0700_0000,
    0x0000_0003,
    // end: s_endpgm
    0xbfb0_0000,
];

fn gpu() -> std::sync::Arc<HostedGpu> {
    let chip = MODELS.iter().find(|model| model.name == "gfx1201").unwrap();
    HostedGpu::new(GpuConfig { chip, ..config() }).unwrap()
}

/// A kernel with its memory.
struct Work {
    code: Buffer,
    out: Buffer,
    flag: Buffer,
    args: Buffer,
}

impl Work {
    /// The kernel behind a descriptor for waves of 32 lanes or of 64.
    fn new(client: &Client, kernel: &[u32], wave32: bool) -> Work {
        let mut descriptor = KernelDescriptor::new_zeroed();
        descriptor.kernel_code_entry_byte_offset = ENTRY as i64;
        descriptor.compute_pgm_rsrc1 = ComputePgmRsrc1::from_bits(0xf0 << 12);
        descriptor.compute_pgm_rsrc2 = ComputePgmRsrc2::from_bits(RSRC2);
        let mut properties = KernelCodeProperties::from_bits(1 << 3);
        properties.set_enable_wavefront_size32(wave32);
        descriptor.kernel_code_properties = properties;
        let code = client.alloc(PAGE, AllocFlags::VRAM | RW).unwrap();
        let words = descriptor.as_bytes().chunks_exact(4);
        for (at, word) in (0..).zip(words) {
            code.word(at * 4).store(u32::from_le_bytes(word.try_into().unwrap()), Ordering::Relaxed);
        }
        for (at, &word) in (0..).zip(kernel) {
            code.word(ENTRY + at * 4).store(word, Ordering::Relaxed);
        }
        let memory = || client.alloc(PAGE, AllocFlags::GTT | AllocFlags::COHERENT | RW).unwrap();
        let work = Work { code, out: memory(), flag: memory(), args: memory() };
        work.args.quad(0).store(work.out.va, Ordering::Relaxed);
        work.args.quad(8).store(work.flag.va, Ordering::Relaxed);
        (0..u64::from(GROUPS * GROUP))
            .for_each(|at| work.out.word(at * 4).store(u32::MAX, Ordering::Relaxed));
        work
    }

    fn waits(&self) -> bool {
        self.flag.word(4).load(Ordering::Acquire) == GROUPS * GROUP
    }

    fn is_right(&self) -> bool {
        (0..GROUPS * GROUP)
            .all(|at| self.out.word(u64::from(at) * 4).load(Ordering::Acquire) == at / GROUP + at % GROUP)
    }

    /// Has its waves saved and restored some times while they wait, and then lets them go on.
    fn preempt_and_end(&self, update: impl Fn(u32)) {
        eventually("all waves wait", || self.waits());
        for _ in 0..3 {
            update(0);
            assert!(self.waits() && !self.is_right());
            update(100);
        }
        self.flag.word(0).store(1, Ordering::Release);
        eventually("the results are there", || self.is_right());
    }
}

fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(60), "never happened: {what}");
        std::thread::yield_now();
    }
}

fn update(client: &Client, args: &CreateQueueArgs, percentage: u32) {
    let mut args = UpdateQueueArgs {
        ring_base_address: args.ring_base_address,
        queue_id: args.queue_id,
        ring_size: args.ring_size,
        queue_percentage: percentage,
        queue_priority: 7,
    };
    client.ioctl(nr::UPDATE_QUEUE, &mut args).unwrap();
}

/// Dispatches a kernel by an AQL packet.
fn dispatch(client: &Client, queue: &common::Queue, work: &Work) {
    let mut packet = KernelDispatchPacket::new_zeroed();
    (packet.setup, packet.workgroup_size_x, packet.grid_size_x) = (1, GROUP as u16, GROUP * GROUPS);
    (packet.workgroup_size_y, packet.workgroup_size_z) = (1, 1);
    (packet.grid_size_y, packet.grid_size_z) = (1, 1);
    (packet.kernel_object, packet.kernarg_address) = (work.code.va, work.args.va);
    let header = PacketHeader::new(PacketType::KERNEL_DISPATCH, false, 2, 2).bits();
    let at = queue.args.ring_base_address;
    // SAFETY: ring, write pointer and doorbell are mapped while the process lives.
    unsafe {
        let bytes = packet.as_bytes();
        std::ptr::copy_nonoverlapping(bytes[4..].as_ptr(), (at + 4) as *mut u8, bytes.len() - 4);
        AtomicU16::from_ptr((at + 2) as *mut u16).store(packet.setup, Ordering::Relaxed);
        AtomicU16::from_ptr(at as *mut u16).store(header, Ordering::Release);
        AtomicU64::from_ptr(queue.args.write_pointer_address as *mut u64).store(1, Ordering::Release);
        AtomicU64::from_ptr(queue.doorbell as *mut u64).store(0, Ordering::Release);
    }
    client.process.doorbell_written(queue.doorbell as *mut u64);
}

#[test]
fn waves_of_an_aql_queue_allocate_registers_and_keep_them_over_preemptions() {
    let gpu = gpu();
    let client = Client::open(&gpu);
    let work = Work::new(&client, &KERNEL, true);
    let queue = client.create_queue().unwrap();
    dispatch(&client, &queue, &work);
    work.preempt_and_end(|percentage| update(&client, &queue.args, percentage));
    eventually("the read index moves", || queue.read_index() == 1);
    client.destroy_queue(queue.args.queue_id).unwrap();
    assert_eq!(gpu.device().stats().errors, Default::default());
}

#[test]
fn waves_of_a_pm4_queue_allocate_registers_and_keep_them_over_preemptions() {
    let gpu = gpu();
    let client = Client::open(&gpu);
    let work = Work::new(&client, &KERNEL, true);
    let mut args = client.queue_args().unwrap();
    args.queue_type = KFD_IOC_QUEUE_TYPE_COMPUTE;
    client.ioctl(nr::CREATE_QUEUE, &mut args).unwrap();
    let prot = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: no address is asked for.
    let doorbells =
        unsafe { client.process.mmap(Node::Kfd, None, 8192, prot, args.doorbell_offset & !0x1fff) }.unwrap();
    let doorbell = doorbells as u64 + (args.doorbell_offset & 0x1fff);
    let mut written = 0;
    let mut submit = |packets: &[Vec<u32>]| {
        // SAFETY: ring, write pointer and doorbell are mapped while the process lives.
        unsafe {
            for dword in packets.concat() {
                let at = args.ring_base_address + written * 4;
                AtomicU32::from_ptr(at as *mut u32).store(dword, Ordering::Relaxed);
                written += 1;
            }
            AtomicU64::from_ptr(args.write_pointer_address as *mut u64).store(written, Ordering::Release);
            AtomicU64::from_ptr(doorbell as *mut u64).store(written, Ordering::Release);
        }
        client.process.doorbell_written(doorbell as *mut u64);
    };
    submit(&[
        set(ComputeRegister::PGM_LO, &halves((work.code.va + ENTRY) >> 8)),
        set(ComputeRegister::PGM_RSRC1, &[0xf0 << 12, RSRC2]),
        set(ComputeRegister::PGM_RSRC3, &[0]),
        set(ComputeRegister::START_X, &[0, 0, 0, GROUP, 1, 1]),
        set(ComputeRegister::USER_DATA_0, &halves(work.args.va)),
        packet(Opcode::DISPATCH_DIRECT, &[GROUPS * GROUP, 1, 1, 0x8021]),
    ]);
    work.preempt_and_end(|percentage| update(&client, &args, percentage));

    // The registers say so still, when the queue has been off its slot.
    work.flag.quad(0).store(0, Ordering::Release);
    (0..u64::from(GROUPS * GROUP)).for_each(|at| work.out.word(at * 4).store(u32::MAX, Ordering::Relaxed));
    update(&client, &args, 0);
    update(&client, &args, 100);
    submit(&[packet(Opcode::DISPATCH_DIRECT, &[GROUPS * GROUP, 1, 1, 0x8021])]);
    work.preempt_and_end(|percentage| update(&client, &args, percentage));
    client.destroy_queue(args.queue_id).unwrap();
    assert_eq!(gpu.device().stats().errors, Default::default());
}

#[test]
fn kernels_that_go_beyond_what_they_have_stop_their_queue() {
    // v_mov_b32 v16, 0; s_endpgm: more than a block, which it has not asked for.
    let beyond = [0x7e20_0280, 0xbfb0_0000];
    for (kernel, wave32) in [(&beyond[..], true), (&KERNEL[..], false)] {
        let gpu = gpu();
        let client = Client::open(&gpu);
        let work = Work::new(&client, kernel, wave32);
        let queue = client.create_queue().unwrap();
        dispatch(&client, &queue, &work);
        eventually("the queue stops", || gpu.device().stats().errors.contains_key(&GuestError::QueueStopped));
        assert_eq!(work.flag.word(4).load(Ordering::Acquire), 0, "nothing has run");
        client.check_queue_works();
        client.destroy_queue(queue.args.queue_id).unwrap();
    }
}
