//! Debuggers: processes that stop the waves of another one, look at them, change them and let them go on.

mod gfx942;
mod refused;
mod session;

use std::sync::Arc;

use belfry_abi::kfd::debug::*;
use belfry_abi::kfd::ioctl as nr;
use belfry_device::GpuConfig;
use belfry_hosted_tests::assembly::{Kernel, assemble};
use belfry_kfd_hosted::{HostedGpu, HostedProcess, Node};
use belfry_runtime::{Buffer, Queue, QueueOptions, Runtime};
use belfry_runtime_hosted::HostedTransport;
use session::{Debugger, HALT, MODE, SavedWave, TRAPSTS};

/// A runtime's trap handler: it tells the driver of the exception, with the queue's doorbell, and halts the
/// wave.
const HANDLER: &str = "
    s_bfe_u32 ttmp2, ttmp1, 0x80010
    s_cbranch_scc0 .Lhandler_no_trap
    s_add_u32 ttmp0, ttmp0, 4
    s_addc_u32 ttmp1, ttmp1, 0
.Lhandler_no_trap:
    s_sendmsg_rtn_b32 ttmp3, sendmsg(MSG_RTN_GET_DOORBELL)
    s_waitcnt lgkmcnt(0)
    s_and_b32 ttmp3, ttmp3, 0x3ff
    s_bitset1_b32 ttmp3, 11
    s_mov_b32 ttmp2, m0
    s_mov_b32 m0, ttmp3
    s_nop 0
    s_sendmsg sendmsg(MSG_INTERRUPT)
    s_mov_b32 m0, ttmp2
    s_bitset1_b32 ttmp12, 13
    s_setreg_b32 hwreg(HW_REG_STATUS), ttmp12
    s_rfe_b64 [ttmp0, ttmp1]
";
/// `EC_QUEUE_WAVE_TRAP`.
const WAVE_TRAP: u64 = 1 << 1;
/// `MODE.TRAP_AFTER_INST_EN`, and its bit in `TRAPSTS`.
const STEP: (u32, u32) = (1 << 11, 1 << 20);

/// A process with the handler, whose runtime is enabled.
struct Program {
    pid: u32,
    runtime: Runtime,
}

fn gpu() -> Arc<HostedGpu> {
    HostedGpu::new(GpuConfig { vram_size: 64 << 20, workers: 2, ..GpuConfig::default() }).unwrap()
}

fn runtime_enable(process: &HostedProcess, mode_mask: u32) -> Result<i32, belfry_kfd_hosted::Errno> {
    let mut args = RuntimeEnableArgs { r_debug: 0x1234_0000, mode_mask, capabilities_mask: 0 };
    process.ioctl(Node::Kfd, nr::RUNTIME_ENABLE, std::ptr::from_mut(&mut args).cast())
}

/// A queue whose saved waves the processor can read.
fn readable() -> QueueOptions {
    QueueOptions { readable_context: true, ..QueueOptions::default() }
}

impl Program {
    fn new(gpu: &Arc<HostedGpu>) -> Self {
        let transport = HostedTransport::open(gpu).unwrap();
        runtime_enable(transport.process(), KFD_RUNTIME_ENABLE_MODE_ENABLE_MASK).unwrap();
        let pid = transport.pid();
        Self { pid, runtime: Runtime::with_transport(transport).unwrap() }
    }

    /// Loads a kernel and the handler, and launches one wave of it.
    fn launch(&self, body: &str) -> (Queue, Buffer<u32>, belfry_runtime::Completion) {
        let gpu = self.runtime.gpu();
        let kernels = [Kernel::new("kernel", body), Kernel::new("handler", HANDLER)];
        let module = gpu.load(&assemble("gfx1100", &kernels).unwrap()).unwrap();
        let out = gpu.gtt().buffer_from(&[0u32; 64]).unwrap();
        gpu.set_trap_handler(&module.kernel("handler").unwrap(), out.address()).unwrap();
        let queue = gpu.queue_with(&readable()).unwrap();
        let kernel = module.kernel("kernel").unwrap();
        let done = kernel.launch(&queue).grid(32).block(32).args((&out,)).submit().unwrap();
        std::mem::forget(module);
        (queue, out, done)
    }
}

/// Loads the argument, traps, adds the numbers in `s8` and in `v2`, and stores the sum of each lane.
const TRAPPING: &str = "
    s_load_b64 s[4:5], s[0:1], 0x0
    s_waitcnt lgkmcnt(0)
    v_lshlrev_b32 v1, 2, v0
    v_mov_b32 v2, v0
    s_mov_b32 s8, 1000
    s_trap 3
    s_nop 0
    v_add_nc_u32 v2, v2, s8
    global_store_b32 v1, v2, s[4:5]
    s_endpgm
";

#[test]
fn wave_that_traps_is_looked_at_changed_and_goes_on() {
    let gpu = gpu();
    let program = Program::new(&gpu);
    let mut debugger = Debugger::new(&gpu);
    let info = debugger.enable(program.pid, WAVE_TRAP).unwrap();
    assert_eq!((info.r_debug, info.runtime_state), (0x1234_0000, DEBUG_RUNTIME_STATE_ENABLED));
    let (queue, out, done) = program.launch(TRAPPING);
    let (exceptions, gpu_id, queue_id) = debugger.next_event(program.pid);
    assert_eq!((exceptions & WAVE_TRAP, queue_id), (WAVE_TRAP, queue.id()));
    assert_ne!(gpu_id, 0);
    let entry = debugger.queues(program.pid)[0];
    assert_eq!((entry.queue_id, entry.gpu_id, entry.queue_type), (queue_id, gpu_id, 2));
    let seen = debugger.with_wave(program.pid, &entry, |wave| {
        wave.set_sgpr(8, wave.sgpr(8) + 1);
        wave.unhalt();
        (wave.sgpr(8), wave.ttmp(6) & 0x1ff_ffff, wave.ttmp(8), wave.ttmp(11) >> 23 & 1)
    });
    assert_eq!(
        seen,
        (1001, 1, 0, 1),
        "s8, the packet behind the runtime's own, the workgroup, the debugger's flag"
    );
    done.wait().unwrap();
    let sums: Vec<u32> = out.to_vec()[..32].to_vec();
    assert_eq!(sums, (1001..1033).collect::<Vec<u32>>());
    debugger.disable(program.pid).unwrap();
    queue.destroy().unwrap();
}

/// Steps a wave that has trapped once; where it is then.
fn step(debugger: &mut Debugger, program: &Program, entry: &QueueSnapshotEntry) -> (u64, u32) {
    debugger.with_wave(program.pid, entry, |wave| {
        wave.set_register(MODE, wave.register(MODE) | STEP.0);
        wave.set_register(TRAPSTS, wave.register(TRAPSTS) & !STEP.1);
        wave.unhalt();
    });
    assert_eq!(debugger.next_event(program.pid).0 & WAVE_TRAP, WAVE_TRAP);
    let mut at = (0, 0);
    debugger.with_wave(program.pid, entry, |wave| at = (wave.pc(), wave.register(TRAPSTS) & STEP.1));
    at
}

fn run_on(wave: SavedWave) {
    wave.set_register(MODE, wave.register(MODE) & !STEP.0);
    wave.set_register(TRAPSTS, wave.register(TRAPSTS) & !STEP.1);
    wave.unhalt();
}

#[test]
fn wave_steps_one_instruction_at_a_time() {
    let gpu = gpu();
    let program = Program::new(&gpu);
    let mut debugger = Debugger::new(&gpu);
    debugger.enable(program.pid, WAVE_TRAP).unwrap();
    let (queue, out, done) = program.launch(TRAPPING);
    debugger.next_event(program.pid);
    let entry = debugger.queues(program.pid)[0];
    let start = debugger.with_wave(program.pid, &entry, SavedWave::pc);
    let places: Vec<(u64, u32)> = (0..3)
        .map(|_| step(&mut debugger, &program, &entry))
        .map(|(pc, cause)| (pc - start, cause))
        .collect();
    assert_eq!(places, [(4, STEP.1), (12, STEP.1), (20, STEP.1)], "s_nop, v_add_nc_u32, global_store_b32");
    assert_eq!(out.to_vec()[3], 1003, "the store is done");
    debugger.with_wave(program.pid, &entry, run_on);
    done.wait().unwrap();
    debugger.disable(program.pid).unwrap();
    queue.destroy().unwrap();
}

#[test]
fn waves_launched_halted_begin_when_the_debugger_lets_them() {
    let gpu = gpu();
    let program = Program::new(&gpu);
    let debugger = Debugger::new(&gpu);
    debugger.enable(program.pid, 0).unwrap();
    debugger.launch_mode(program.pid, KFD_DBG_TRAP_WAVE_LAUNCH_MODE_HALT).unwrap();
    let plain = TRAPPING.replace("s_trap 3", "s_nop 0");
    let (queue, out, done) = program.launch(&plain);
    let entry = debugger.queues(program.pid)[0];
    // A wave that is not there yet is not saved either: its dispatch is.
    let mut ids = [entry.queue_id];
    let wave = loop {
        assert_eq!(debugger.suspend(program.pid, &mut ids), Ok(1));
        if let Some(&wave) = session::saved_waves(&entry).first() {
            break wave;
        }
        assert_eq!(debugger.resume(program.pid, &mut ids), Ok(1));
    };
    assert_eq!(wave.register(session::STATUS) & HALT, HALT);
    assert_eq!(out.to_vec()[5], 0);
    debugger.launch_mode(program.pid, KFD_DBG_TRAP_WAVE_LAUNCH_MODE_NORMAL).unwrap();
    wave.unhalt();
    assert_eq!(debugger.resume(program.pid, &mut ids), Ok(1));
    done.wait().unwrap();
    assert_eq!(out.to_vec()[5], 1005);
    debugger.disable(program.pid).unwrap();
    queue.destroy().unwrap();
}

#[test]
fn store_to_a_watched_address_traps_after_it() {
    let gpu = gpu();
    let program = Program::new(&gpu);
    let mut debugger = Debugger::new(&gpu);
    debugger.enable(program.pid, WAVE_TRAP).unwrap();
    let device = program.runtime.gpu();
    let plain = TRAPPING.replace("s_trap 3", "s_nop 0");
    let kernels = [Kernel::new("kernel", &plain), Kernel::new("handler", HANDLER)];
    let module = device.load(&assemble("gfx1100", &kernels).unwrap()).unwrap();
    let out = device.gtt().buffer_from(&[0u32; 64]).unwrap();
    device.set_trap_handler(&module.kernel("handler").unwrap(), out.address()).unwrap();
    let queue = device.queue_with(&readable()).unwrap();
    let entry = debugger.queues(program.pid)[0];
    // The address watch traps where the debugger has asked for it.
    let args = DbgTrapSetWaveLaunchOverrideArgs {
        override_mode: KFD_DBG_TRAP_OVERRIDE_OR,
        enable_mask: 0x80,
        support_request_mask: 0x80,
        pad: 0,
    };
    let (result, args) = debugger.op(program.pid, DbgTrapOp::SetWaveLaunchOverride as u32, args);
    result.unwrap();
    assert_eq!((args.enable_mask, args.support_request_mask), (0, 0x1ff));
    let watch = DbgTrapSetNodeAddressWatchArgs {
        address: out.address() & !0x7f,
        mode: 1,
        mask: 0xffff_ff80,
        gpu_id: entry.gpu_id,
        id: 77,
    };
    let (result, watch) = debugger.op(program.pid, DbgTrapOp::SetNodeAddressWatch as u32, watch);
    result.unwrap();
    assert_eq!(watch.id, 0);
    let done =
        module.kernel("kernel").unwrap().launch(&queue).grid(32).block(32).args((&out,)).submit().unwrap();
    assert_eq!(debugger.next_event(program.pid).0 & WAVE_TRAP, WAVE_TRAP);
    assert_eq!(out.to_vec()[31], 1031);
    let trapsts = debugger.with_wave(program.pid, &entry, |wave| {
        let trapsts = wave.register(TRAPSTS);
        wave.set_register(TRAPSTS, 0);
        wave.unhalt();
        trapsts
    });
    assert_eq!(trapsts & 0x7080, 0x80, "the first watch");
    done.wait().unwrap();
    let clear = DbgTrapClearNodeAddressWatchArgs { gpu_id: entry.gpu_id, id: 0 };
    debugger.op(program.pid, DbgTrapOp::ClearNodeAddressWatch as u32, clear).0.unwrap();
    debugger.disable(program.pid).unwrap();
    queue.destroy().unwrap();
}

#[test]
fn runtime_waits_for_the_debugger_and_the_debugger_hears_of_it() {
    let gpu = gpu();
    let runtime = ExceptionCode::PROCESS_RUNTIME.mask();
    let mut debugger = Debugger::new(&gpu);
    let process = HostedProcess::open(&gpu).unwrap();
    let pid = process.pid();
    assert_eq!(debugger.enable(pid, runtime).unwrap().runtime_state, DEBUG_RUNTIME_STATE_DISABLED);
    std::thread::scope(|scope| {
        for mode in [KFD_RUNTIME_ENABLE_MODE_ENABLE_MASK, 0] {
            let process = &process;
            let waiting = scope.spawn(move || runtime_enable(process, mode));
            assert_eq!(debugger.next_event(pid), (runtime, 0, 0));
            assert!(!waiting.is_finished());
            let args = DbgTrapSendRuntimeEventArgs { exception_mask: runtime, gpu_id: 0, queue_id: 0 };
            debugger.op(pid, DbgTrapOp::SendRuntimeEvent as u32, args).0.unwrap();
            assert_eq!(waiting.join().unwrap(), Ok(0));
        }
        // A debugger that goes leaves no process waiting.
        let waiting = scope.spawn(|| runtime_enable(&process, KFD_RUNTIME_ENABLE_MODE_ENABLE_MASK));
        debugger.next_event(pid);
        drop(debugger);
        assert_eq!(waiting.join().unwrap(), Ok(0));
    });
}

#[test]
fn queues_that_come_and_go_are_told_of() {
    let gpu = gpu();
    let program = Program::new(&gpu);
    let mut debugger = Debugger::new(&gpu);
    let (new, gone) = (ExceptionCode::QUEUE_NEW.mask(), ExceptionCode::DEVICE_QUEUE_DELETE.mask());
    debugger.enable(program.pid, new | gone).unwrap();
    let queue = program.runtime.gpu().queue().unwrap();
    assert_eq!(debugger.next_event(program.pid).0, new);
    let mut ids = [queue.id(), 99];
    let count = debugger.suspend(program.pid, &mut ids);
    assert_eq!(
        (count, ids),
        (Ok(1), [queue.id(), 99 | 1 << 31]),
        "it is known, and nobody knows the other one"
    );
    std::thread::scope(|scope| {
        let id = queue.id();
        let destroying = scope.spawn(|| queue.destroy());
        // The thread waits until the queue may go.
        assert_eq!(debugger.resume(program.pid, &mut [id]), Ok(1));
        destroying.join().unwrap().unwrap();
    });
    assert_eq!(debugger.next_event(program.pid).0, gone);
    assert_eq!(debugger.queues(program.pid).len(), 0);
}
