//! A debugger's calls on MI300X. Its scheduler gets the debugger's settings in the process's packet of its run list.
#![expect(unsafe_code, reason = "looks at the memory of the debugged process, which is this one")]

use std::sync::Arc;

use belfry_abi::kfd::debug::*;
use belfry_abi::kfd::queue::ContextSaveAreaHeader;
use belfry_abi::partition::ComputePartition;
use belfry_device::GpuConfig;
use belfry_device::chip::gfx942;
use belfry_hosted_tests::assembly::{Kernel, assemble};
use belfry_kfd_hosted::{Errno, HostedGpu};
use belfry_runtime::{Buffer, Completion, Queue};

use super::session::{self, Debugger, HALT, SavedWave, TRAPSTS};
use super::{Program, WAVE_TRAP, readable};

/// A runtime's trap handler: it tells the driver of the exception, with the queue's doorbell, and halts the
/// wave.
const HANDLER: &str = "
    s_bfe_u32 ttmp2, ttmp1, 0x80010
    s_cbranch_scc0 .Lhandler_no_trap
    s_add_u32 ttmp0, ttmp0, 4
    s_addc_u32 ttmp1, ttmp1, 0
.Lhandler_no_trap:
    s_mov_b32 ttmp2, exec_lo
    s_mov_b32 exec_lo, 0x80000000
    s_sendmsg sendmsg(MSG_GET_DOORBELL)
.Lhandler_wait:
    s_nop 7
    s_bitcmp0_b32 exec_lo, 31
    s_cbranch_scc0 .Lhandler_wait
    s_and_b32 ttmp3, exec_lo, 0x3ff
    s_mov_b32 exec_lo, ttmp2
    s_bitset1_b32 ttmp3, 11
    s_mov_b32 ttmp2, m0
    s_mov_b32 m0, ttmp3
    s_nop 0
    s_sendmsg sendmsg(MSG_INTERRUPT)
    s_mov_b32 m0, ttmp2
    s_and_b32 ttmp1, ttmp1, 0xffff
    s_bitset1_b32 ttmp12, 13
    s_setreg_b32 hwreg(HW_REG_STATUS), ttmp12
    s_rfe_b64 ttmp[0:1]
";
/// Stores 1000 and the number of each lane.
const STORING: &str = "
    s_load_dwordx2 s[4:5], s[0:1], 0x0
    s_waitcnt lgkmcnt(0)
    v_and_b32 v0, 0x3ff, v0
    v_lshlrev_b32 v1, 2, v0
    s_movk_i32 s8, 1000
    v_add_u32 v2, v0, s8
    global_store_dword v1, v2, s[4:5]
    s_nop 0
    s_endpgm
";
/// Takes the root of a negative number, and stores that.
const INVALID: &str = "
    s_load_dwordx2 s[4:5], s[0:1], 0x0
    s_waitcnt lgkmcnt(0)
    v_and_b32 v0, 0x3ff, v0
    v_lshlrev_b32 v1, 2, v0
    v_mov_b32 v2, -1.0
    v_sqrt_f32 v2, v2
    v_mov_b32 v3, 7
    global_store_dword v1, v3, s[4:5]
    s_endpgm
";
/// Exceptions (`KFD_DBG_TRAP_MASK_*`).
const FP_INVALID: u32 = 1;
const ADDRESS_WATCH: u32 = 1 << 7;
/// Lanes of a wave.
const LANES: u32 = 64;
/// Registers of a saved wave before the hardware's.
const SCALARS: u64 = 112;
/// `MODE` is one further than on gfx11, after a mask of 64 lanes.
const MODE: u64 = 9;

fn gpu(xccs: u32) -> Arc<HostedGpu> {
    shared_out(xccs, ComputePartition::Spx)
}

fn shared_out(xccs: u32, partition: ComputePartition) -> Arc<HostedGpu> {
    let shape = GpuConfig { chip: &gfx942::MODEL, xccs, cus: xccs, partition, ..GpuConfig::default() };
    HostedGpu::new(GpuConfig { vram_size: 128 << 20, ..shape }).unwrap()
}

/// The waves of a suspended queue, which have no LDS: each state in the control stack gives the number of registers of
/// the waves after it, and contexts go downwards from the end.
fn saved_waves(queue: &QueueSnapshotEntry) -> Vec<SavedWave> {
    let area = queue.ctx_save_restore_address;
    // SAFETY: the area is memory of this process; its header was written when the queue was suspended.
    let header = unsafe { (area as *const ContextSaveAreaHeader).read_volatile() };
    let mut at = area + u64::from(header.wave_state_offset);
    let (mut waves, mut vgprs) = (Vec::new(), 0);
    for index in 2..u64::from(header.control_stack_size / 4) {
        let place = area + u64::from(header.control_stack_offset) + index * 4;
        // SAFETY: as above, in the control stack.
        let word = unsafe { (place as *const u32).read_volatile() };
        if word >> 31 == 1 {
            vgprs = u64::from(1 + (word & 0x3f)) * 8;
        } else if word >> 30 & 1 == 0 {
            // The registers of the hardware, the trap temporaries and 16 words of nothing.
            at -= vgprs * 256 + (SCALARS + 48) * 4;
            waves.push(SavedWave { at: at + vgprs * 256, scalars: SCALARS });
        }
    }
    assert_eq!(at, area + u64::from(header.wave_state_offset - header.wave_state_size), "all of the waves");
    waves
}

/// A debugged program with a kernel that is not launched yet.
struct Debugged {
    program: Program,
    debugger: Debugger,
    module: belfry_runtime::Module,
    out: Buffer<u32>,
    queue: Queue,
    entry: QueueSnapshotEntry,
}

impl Debugged {
    fn new(gpu: &Arc<HostedGpu>, body: &str) -> Self {
        Self::on(gpu, 0, body)
    }

    /// On one of several partitions.
    fn on(gpu: &Arc<HostedGpu>, node: usize, body: &str) -> Self {
        let program = Program::new(gpu);
        let debugger = Debugger::with(gpu, saved_waves);
        debugger.enable(program.pid, WAVE_TRAP).unwrap();
        let device = &program.runtime.gpus()[node];
        let directives = "    .amdhsa_accum_offset 32\n";
        let kernels = [Kernel::new("kernel", body), Kernel::new("handler", HANDLER)];
        let kernels = kernels.map(|kernel| Kernel { directives, ..kernel });
        let module = device.load(&assemble("gfx942", &kernels).unwrap()).unwrap();
        let out = device.gtt().buffer_from(&[0u32; LANES as usize]).unwrap();
        device.set_trap_handler(&module.kernel("handler").unwrap(), out.address()).unwrap();
        let queue = device.queue_with(&readable()).unwrap();
        let entry = debugger.queues(program.pid)[0];
        Self { program, debugger, module, out, queue, entry }
    }

    fn op<T>(&self, op: DbgTrapOp, args: T) -> (Result<i32, Errno>, T)
    where
        T: zerocopy::FromBytes + zerocopy::IntoBytes + zerocopy::Immutable,
    {
        self.debugger.op(self.program.pid, op as u32, args)
    }

    /// Has waves take traps for more exceptions.
    fn enable_exceptions(&self, mask: u32) {
        let args = DbgTrapSetWaveLaunchOverrideArgs {
            override_mode: KFD_DBG_TRAP_OVERRIDE_OR,
            enable_mask: mask,
            support_request_mask: mask,
            pad: 0,
        };
        let (result, args) = self.op(DbgTrapOp::SetWaveLaunchOverride, args);
        result.unwrap();
        assert_eq!((args.enable_mask, args.support_request_mask), (0, 0x1ff));
    }

    /// Watches 128 bytes, at the beginning of the kernel's result or after it, for stores on a node; the watch's
    /// number.
    fn watch(&self, gpu_id: u32, offset: u64) -> u32 {
        let address = (self.out.address() & !0x7f) + offset;
        let watch = DbgTrapSetNodeAddressWatchArgs { address, mode: 1, mask: 0xffff_ff80, gpu_id, id: 77 };
        let (result, watch) = self.op(DbgTrapOp::SetNodeAddressWatch, watch);
        result.unwrap();
        watch.id
    }

    fn launch(&self) -> Completion {
        let kernel = self.module.kernel("kernel").unwrap();
        kernel.launch(&self.queue).grid(LANES).block(LANES).args((&self.out,)).submit().unwrap()
    }

    /// Waits until the wave has trapped, and lets it go on: `TRAPSTS` and `MODE` as it had them.
    fn trapped(&mut self) -> (u32, u32) {
        assert_eq!(self.debugger.next_event(self.program.pid).0 & WAVE_TRAP, WAVE_TRAP);
        self.debugger.with_wave(self.program.pid, &self.entry, |wave| {
            let found = (wave.register(TRAPSTS), wave.register(MODE));
            wave.set_register(TRAPSTS, 0);
            wave.unhalt();
            found
        })
    }

    fn end(self) {
        self.debugger.disable(self.program.pid).unwrap();
        self.queue.destroy().unwrap();
    }
}

#[test]
fn waves_launched_halted_begin_when_the_debugger_lets_them() {
    let gpu = gpu(1);
    let debugged = Debugged::new(&gpu, STORING);
    let (debugger, pid) = (&debugged.debugger, debugged.program.pid);
    debugger.launch_mode(pid, KFD_DBG_TRAP_WAVE_LAUNCH_MODE_HALT).unwrap();
    let done = debugged.launch();
    let mut ids = [debugged.entry.queue_id];
    // A wave that is not there yet is not saved either: its dispatch is.
    let wave = loop {
        assert_eq!(debugger.suspend(pid, &mut ids), Ok(1));
        if let Some(&wave) = saved_waves(&debugged.entry).first() {
            break wave;
        }
        assert_eq!(debugger.resume(pid, &mut ids), Ok(1));
    };
    assert_eq!(wave.register(session::STATUS) & HALT, HALT);
    assert_eq!(debugged.out.to_vec()[5], 0);
    debugger.launch_mode(pid, KFD_DBG_TRAP_WAVE_LAUNCH_MODE_NORMAL).unwrap();
    wave.unhalt();
    assert_eq!(debugger.resume(pid, &mut ids), Ok(1));
    done.wait().unwrap();
    assert_eq!(debugged.out.to_vec()[5], 1005);
    debugged.end();
}

#[test]
fn waves_launched_stepping_trap_after_their_first_instruction() {
    let gpu = gpu(1);
    let mut debugged = Debugged::new(&gpu, STORING);
    let pid = debugged.program.pid;
    debugged.debugger.launch_mode(pid, KFD_DBG_TRAP_WAVE_LAUNCH_MODE_DEBUG).unwrap();
    let done = debugged.launch();
    assert_eq!(debugged.debugger.next_event(pid).0 & WAVE_TRAP, WAVE_TRAP);
    debugged.debugger.with_wave(pid, &debugged.entry, |wave| {
        assert_eq!(wave.register(TRAPSTS) >> 25 & 1, 1, "TRAP_AFTER_INST");
        wave.set_register(TRAPSTS, 0);
        wave.set_register(MODE, wave.register(MODE) & !(1 << 11));
        wave.unhalt();
    });
    done.wait().unwrap();
    debugged.end();
}

#[test]
fn store_to_a_watched_address_traps_after_it_on_each_number_of_xccs() {
    for xccs in [1, 4] {
        let gpu = gpu(xccs);
        let mut debugged = Debugged::new(&gpu, STORING);
        debugged.enable_exceptions(ADDRESS_WATCH);
        let gpu_id = debugged.entry.gpu_id;
        // The first watch is of memory that no wave touches.
        assert_eq!((debugged.watch(gpu_id, 1 << 20), debugged.watch(gpu_id, 0)), (0, 1));
        let done = debugged.launch();
        let (trapsts, mode) = debugged.trapped();
        assert_eq!((trapsts & 0x7080, mode >> 12 & 0x1ff), (1 << 12, 0x80), "the second watch");
        assert_eq!(debugged.out.to_vec()[63], 1063);
        done.wait().unwrap();
        for id in [0, 1] {
            let clear = DbgTrapClearNodeAddressWatchArgs { gpu_id, id };
            debugged.op(DbgTrapOp::ClearNodeAddressWatch, clear).0.unwrap();
            assert_eq!(debugged.op(DbgTrapOp::ClearNodeAddressWatch, clear).0, Err(Errno::EINVAL));
        }
        debugged.launch().wait().unwrap();
        debugged.end();
        assert_eq!(gpu.device().stats().errors, Default::default());
    }
}

#[test]
fn watch_of_a_partition_stops_no_wave_of_another_one() {
    let gpu = shared_out(2, ComputePartition::Cpx);
    let mut debugged = Debugged::on(&gpu, 1, STORING);
    debugged.enable_exceptions(ADDRESS_WATCH);
    let [first, second] = [0, 1].map(|node: usize| debugged.program.runtime.gpus()[node].agent().gpu_id);
    assert_eq!(debugged.entry.gpu_id, second);
    assert_eq!(debugged.watch(first, 0), 0);
    debugged.launch().wait().unwrap();
    assert_eq!(debugged.watch(second, 0), 1);
    let done = debugged.launch();
    assert_eq!(debugged.trapped().0 & 0x7080, 1 << 12);
    done.wait().unwrap();
    let clear = |gpu_id, id| {
        let args = DbgTrapClearNodeAddressWatchArgs { gpu_id, id };
        debugged.op(DbgTrapOp::ClearNodeAddressWatch, args).0
    };
    assert_eq!((clear(first, 1), clear(second, 0)), (Err(Errno::EINVAL), Err(Errno::EINVAL)));
    assert_eq!((clear(first, 0), clear(second, 1)), (Ok(0), Ok(0)));
    debugged.end();
    assert_eq!(gpu.device().stats().errors, Default::default());
}

#[test]
fn exceptions_that_the_debugger_enables_trap_and_no_others() {
    let gpu = gpu(1);
    let mut debugged = Debugged::new(&gpu, INVALID);
    debugged.launch().wait().unwrap();
    debugged.enable_exceptions(FP_INVALID);
    let done = debugged.launch();
    let (trapsts, mode) = debugged.trapped();
    assert_eq!((trapsts & 0x7f, mode >> 12 & 0x1ff), (1, 1));
    done.wait().unwrap();
    assert_eq!(debugged.out.to_vec()[63], 7);
    debugged.end();
}

#[test]
fn accesses_of_memory_may_be_asked_to_be_precise_and_arithmetic_not() {
    let gpu = gpu(1);
    let debugged = Debugged::new(&gpu, STORING);
    let set = |flags| debugged.op(DbgTrapOp::SetFlags, DbgTrapSetFlagsArgs { flags, pad: 0 });
    assert_eq!(set(KFD_DBG_TRAP_FLAG_SINGLE_MEM_OP).0, Ok(0));
    let (result, args) = set(KFD_DBG_TRAP_FLAG_SINGLE_ALU_OP);
    assert_eq!((result, args.flags), (Err(Errno::EACCES), KFD_DBG_TRAP_FLAG_SINGLE_MEM_OP));
    debugged.launch().wait().unwrap();
    assert_eq!(debugged.out.to_vec()[5], 1005);
    debugged.end();
}
