//! Trap handlers, exceptions and status registers, from the driver's request to the wave and back.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use belfry_device::GpuConfig;
use belfry_hosted_tests::assembly::{Kernel, assemble};
use belfry_hosted_tests::compiler::clang;
use belfry_kfd_hosted::HostedGpu;
use belfry_runtime::Runtime;
use belfry_runtime_hosted::HostedTransport;
use object::{Object, ObjectSection};

/// Words the handler and the kernels leave.
const WORDS: usize = 16;

fn process() -> (Arc<HostedGpu>, Runtime) {
    let gpu = HostedGpu::new(GpuConfig { vram_size: 64 << 20, ..GpuConfig::default() }).unwrap();
    let runtime = Runtime::with_transport(HostedTransport::open(&gpu).unwrap()).unwrap();
    (gpu, runtime)
}

/// Returns true if the device reports a page fault; it may do so after the wave has gone on.
fn is_reported(gpu: &HostedGpu) -> bool {
    (0..1000).any(|_| {
        std::thread::sleep(Duration::from_millis(1));
        gpu.device().stats().errors.contains_key(&belfry_device::GuestError::PageFault)
    })
}

/// A trap handler that stores its state on entry at its trap memory, goes past an `s_trap` or the eight bytes of an
/// instruction that faulted, clears `TRAPSTS` and returns.
const RECORDER: &str = "
    s_mov_b64 [ttmp4, ttmp5], [ttmp14, ttmp15]
    s_sendmsg_rtn_b32 ttmp6, sendmsg(MSG_RTN_GET_DOORBELL)
    s_waitcnt lgkmcnt(0)
    s_getreg_b32 ttmp7, hwreg(HW_REG_TRAPSTS)
    v_mov_b32 v31, 0
    v_mov_b32 v24, ttmp0
    v_mov_b32 v25, ttmp1
    v_mov_b32 v26, ttmp7
    v_mov_b32 v27, ttmp12
    global_store_b128 v31, v[24:27], [ttmp4, ttmp5]
    s_getreg_b32 ttmp8, hwreg(HW_REG_MODE)
    v_mov_b32 v24, ttmp8
    v_mov_b32 v25, ttmp6
    v_mov_b32 v26, ttmp11
    global_store_b96 v31, v[24:26], [ttmp4, ttmp5] offset:16
    s_bfe_u32 ttmp2, ttmp1, 0x80010
    s_cbranch_scc1 .Linstruction
    s_bitcmp1_b32 ttmp7, 8
    s_cbranch_scc0 .Lreturn
    s_add_u32 ttmp0, ttmp0, 4
    s_addc_u32 ttmp1, ttmp1, 0
.Linstruction:
    s_add_u32 ttmp0, ttmp0, 4
    s_addc_u32 ttmp1, ttmp1, 0
.Lreturn:
    s_setreg_imm32_b32 hwreg(HW_REG_TRAPSTS), 0
    s_setreg_b32 hwreg(HW_REG_STATUS), ttmp12
    s_rfe_b64 [ttmp0, ttmp1]
";

/// Values that the trap handler has recorded.
struct Record {
    pc: u64,
    id: u32,
    trapsts: u32,
    status: u32,
    mode: u32,
    doorbell: u32,
    /// The device has reported a page fault.
    page_fault: bool,
}

/// Runs a kernel with the recorder installed. Returns the outcome, the recorder's values, and the words that the kernel
/// left.
fn record(kernel: Kernel<'_>) -> (Result<(), belfry_runtime::Error>, Record, Vec<u32>) {
    let (device, runtime) = process();
    let gpu = runtime.gpu();
    let recorder = Kernel { name: "recorder", body: RECORDER, ..kernel.clone() };
    let name = kernel.name.to_owned();
    let module = gpu.load(&assemble("gfx1100", &[kernel, recorder]).unwrap()).unwrap();
    let memory = gpu.gtt().buffer_from(&[0u32; WORDS]).unwrap();
    let out = gpu.gtt().buffer_from(&[0u32; WORDS]).unwrap();
    gpu.set_trap_handler(&module.kernel("recorder").unwrap(), memory.address()).unwrap();
    let queue = gpu.queue().unwrap();
    let result = module.kernel(&name).unwrap().launch(&queue).grid(32).block(32).args((&out,)).run();
    queue.destroy().unwrap();
    let words = memory.to_vec();
    let pc = u64::from(words[0]) | u64::from(words[1] & 0xffff) << 32;
    let record = Record {
        pc,
        id: words[1] >> 16,
        trapsts: words[2],
        status: words[3],
        mode: words[4],
        doorbell: words[5],
        page_fault: words[2] & 1 << 28 != 0 && is_reported(&device),
    };
    (result, record, out.to_vec())
}

const DONE: &str = "
    s_load_b64 s[4:5], s[0:1], 0x0
    s_waitcnt lgkmcnt(0)
    v_mov_b32 v1, 0
    v_mov_b32 v2, s8
    v_mov_b32 v3, 0x600d
    global_store_b64 v1, v[2:3], s[4:5]
    s_endpgm
";

#[test]
fn trap_instruction_enters_the_handler_and_comes_back() {
    let body = format!("s_getpc_b64 s[8:9]\ns_trap 5\n{DONE}");
    let (result, record, out) = record(Kernel::new("traps", &body));
    result.unwrap();
    assert_eq!((record.id, record.trapsts), (5, 0));
    // `s_getpc_b64` gives the address of the instruction after it: the trap's.
    assert_eq!((record.pc as u32, 0x600d), (out[0], out[1]));
    // PRIV and TRAP_EN.
    assert_eq!(record.status & 0x60, 0x60);
    assert_eq!(record.doorbell, 0, "the first queue's");
}

#[test]
fn enabled_exception_traps_after_its_instruction() {
    let body = format!("v_mov_b32 v4, 0\ns_getpc_b64 s[8:9]\nv_rcp_f32 v5, v4\nv_mov_b32 v6, 1.0\n{DONE}");
    let kernel =
        Kernel { directives: ".amdhsa_exception_fp_ieee_div_zero 1", ..Kernel::new("divides", &body) };
    let (result, record, out) = record(kernel);
    result.unwrap();
    assert_eq!((record.id, record.trapsts), (0, 1 << 2));
    assert_eq!(record.mode >> 12 & 0x7f, 1 << 2);
    assert_eq!((record.pc as u32, 0x600d), (out[0] + 4, out[1]));
}

#[test]
fn exception_traps_once_even_if_its_bit_stays() {
    let (_gpu, runtime) = process();
    let gpu = runtime.gpu();
    let counting = "
        s_mov_b64 [ttmp4, ttmp5], [ttmp14, ttmp15]
        s_mov_b32 ttmp6, exec_lo
        s_mov_b32 exec_lo, 1
        v_mov_b32 v31, 0
        v_mov_b32 v30, 1
        global_atomic_add_u32 v31, v30, [ttmp4, ttmp5]
        s_mov_b32 exec_lo, ttmp6
        s_setreg_b32 hwreg(HW_REG_STATUS), ttmp12
        s_rfe_b64 [ttmp0, ttmp1]
    ";
    let body = format!(
        "v_mov_b32 v4, 0\nv_rcp_f32 v5, v4\nv_add_f32 v6, 1.0, 1.0\nv_rcp_f32 v5, v4\nv_mul_f32 v6, v6, v6\n{DONE}"
    );
    let divides =
        Kernel { directives: ".amdhsa_exception_fp_ieee_div_zero 1", ..Kernel::new("divides", &body) };
    let kernels = [divides, Kernel::new("counting", counting)];
    let module = gpu.load(&assemble("gfx1100", &kernels).unwrap()).unwrap();
    let (count, out) =
        (gpu.gtt().buffer_from(&[0u32]).unwrap(), gpu.gtt().buffer_from(&[0u32; WORDS]).unwrap());
    gpu.set_trap_handler(&module.kernel("counting").unwrap(), count.address()).unwrap();
    let queue = gpu.queue().unwrap();
    module.kernel("divides").unwrap().launch(&queue).grid(32).block(32).args((&out,)).run().unwrap();
    assert_eq!((count.get(0).unwrap(), out.to_vec()[1]), (2, 0x600d));
}

#[test]
fn exceptions_that_are_not_enabled_do_not_trap() {
    let body = format!(
        "v_mov_b32 v4, 0\nv_rcp_f32 v5, v4\nv_add_f32 v6, 1.0, v4\ns_getreg_b32 s8, hwreg(HW_REG_TRAPSTS)\n{DONE}"
    );
    let kernel =
        Kernel { directives: ".amdhsa_exception_fp_ieee_overflow 1", ..Kernel::new("divides", &body) };
    let (result, record, out) = record(kernel);
    result.unwrap();
    assert_eq!((record.pc, out[0], out[1]), (0, 1 << 2, 0x600d));
}

#[test]
fn memory_violation_traps_and_is_still_reported() {
    let body = format!(
        "v_mov_b32 v4, 0x4000\nv_mov_b32 v5, 0\ns_getpc_b64 s[8:9]\nglobal_load_b32 v6, v[4:5], off\n{DONE}"
    );
    let (_, record, out) = record(Kernel::new("reads", &body));
    // The handler went on after the load, but the driver has heard of the page.
    assert!(record.page_fault);
    assert_eq!((record.id, record.trapsts), (0, 1 << 28 | 1 << 8));
    assert_eq!((record.pc as u32, 0x600d), (out[0], out[1]));
}

#[test]
fn sticky_exceptions_stay_until_they_are_cleared() {
    let (_gpu, runtime) = process();
    let gpu = runtime.gpu();
    let body = "
        s_load_b64 s[4:5], s[0:1], 0x0
        v_mov_b32 v1, 0
        s_getreg_b32 s8, hwreg(HW_REG_TRAPSTS)
        v_mov_b32 v4, 0x7f7fffff
        v_mul_f32 v5, v4, v4
        s_getreg_b32 s9, hwreg(HW_REG_TRAPSTS)
        s_setreg_imm32_b32 hwreg(HW_REG_TRAPSTS), 0
        v_mov_b32 v4, 0x7f800000
        v_sub_f32 v5, v4, v4
        s_getreg_b32 s10, hwreg(HW_REG_TRAPSTS, 0, 7)
        v_rcp_iflag_f32 v5, v1
        v_cvt_f16_f32 v5, 0x33000000
        s_getreg_b32 s11, hwreg(HW_REG_TRAPSTS)
        s_waitcnt lgkmcnt(0)
        v_mov_b32 v4, s8
        v_mov_b32 v5, s9
        v_mov_b32 v6, s10
        v_mov_b32 v7, s11
        global_store_b128 v1, v[4:7], s[4:5]
        s_endpgm
    ";
    let module = gpu.load(&assemble("gfx1100", &[Kernel::new("sticky", body)]).unwrap()).unwrap();
    let out = gpu.gtt().buffer_from(&[0u32; WORDS]).unwrap();
    let queue = gpu.queue().unwrap();
    module.kernel("sticky").unwrap().launch(&queue).grid(32).block(32).args((&out,)).run().unwrap();
    // Overflow and inexact; invalid; those, integer division by zero, underflow and inexact.
    assert_eq!(out.to_vec()[..4], [0, 1 << 3 | 1 << 5, 1, 1 | 1 << 4 | 1 << 5 | 1 << 6]);
}

#[test]
fn halted_wave_waits_for_its_queue_to_be_destroyed() {
    let (gpu, runtime) = process();
    let agent = runtime.gpu();
    // As ROCr's handler reports an abort: a message to the driver, then HALT for the return from the handler.
    let halting = "
        s_sendmsg_rtn_b32 ttmp3, sendmsg(MSG_RTN_GET_DOORBELL)
        s_waitcnt lgkmcnt(0)
        s_mov_b32 ttmp2, m0
        s_mov_b32 m0, ttmp3
        s_sendmsg sendmsg(MSG_INTERRUPT)
        s_mov_b32 m0, ttmp2
        s_bitset1_b32 ttmp12, 13
        s_setreg_b32 hwreg(HW_REG_STATUS), ttmp12
        s_rfe_b64 [ttmp0, ttmp1]
    ";
    let body = format!("s_trap 2\n{DONE}");
    let kernels = [Kernel::new("aborts", &body), Kernel::new("halting", halting), Kernel::new("works", DONE)];
    let module = agent.load(&assemble("gfx1100", &kernels).unwrap()).unwrap();
    let out = agent.gtt().buffer_from(&[0u32; WORDS]).unwrap();
    agent.set_trap_handler(&module.kernel("halting").unwrap(), 0).unwrap();
    let queue = agent.queue().unwrap();
    let before = gpu.device().stats().interrupts;
    let aborts = module.kernel("aborts").unwrap();
    let completion = aborts.launch(&queue).grid(64).block(64).args((&out,)).submit().unwrap();
    while gpu.device().stats().interrupts == before {
        std::thread::yield_now();
    }
    assert!(completion.wait_timeout(Duration::from_millis(50)).is_err());
    assert_eq!(out.to_vec()[1], 0);
    queue.destroy().unwrap();
    let queue = agent.queue().unwrap();
    module.kernel("works").unwrap().launch(&queue).grid(32).block(32).args((&out,)).run().unwrap();
    assert_eq!(out.to_vec()[1], 0x600d);
}

#[test]
fn trap_without_a_handler_is_a_named_error() {
    let (_gpu, runtime) = process();
    let gpu = runtime.gpu();
    let (abort, debug) = (format!("s_trap 2\n{DONE}"), format!("s_trap 3\n{DONE}"));
    let kernels = [Kernel::new("abort", &abort), Kernel::new("debug", &debug)];
    let module = gpu.load(&assemble("gfx1100", &kernels).unwrap()).unwrap();
    let out = gpu.gtt().buffer_from(&[0u32; WORDS]).unwrap();
    let queue = gpu.queue().unwrap();
    let abort = module.kernel("abort").unwrap();
    abort.launch(&queue).grid(32).block(32).args((&out,)).run().unwrap_err();
    assert_eq!(out.to_vec()[1], 0);
    let queue = gpu.queue().unwrap();
    module.kernel("debug").unwrap().launch(&queue).grid(32).block(32).args((&out,)).run().unwrap();
    assert_eq!(out.to_vec()[1], 0x600d);
}

/// Each work-item stores HW_ID1 and HW_ID2 of its wave, in workgroups of 128.
const WHERE: &str = "
    s_load_b64 s[4:5], s[0:1], 0x0
    s_getreg_b32 s8, hwreg(HW_REG_HW_ID1)
    s_getreg_b32 s9, hwreg(HW_REG_HW_ID2)
    v_lshl_add_u32 v1, s2, 7, v0
    v_lshlrev_b32 v1, 3, v1
    v_mov_b32 v2, s8
    v_mov_b32 v3, s9
    s_waitcnt lgkmcnt(0)
    global_store_b64 v1, v[2:3], s[4:5]
    s_endpgm
";

#[test]
fn waves_know_where_on_the_gpu_they_sit() {
    let (_gpu, runtime) = process();
    let gpu = runtime.gpu();
    for (directives, simds) in
        [(".amdhsa_workgroup_processor_mode 0", 2), (".amdhsa_workgroup_processor_mode 1", 4)]
    {
        let kernel = Kernel { directives, ..Kernel::new("where", WHERE) };
        let module = gpu.load(&assemble("gfx1100", &[kernel]).unwrap()).unwrap();
        let groups = 64usize;
        let out = gpu.gtt().buffer_from(&vec![0u32; groups * 256]).unwrap();
        let queue = gpu.queue().unwrap();
        let kernel = module.kernel("where").unwrap();
        kernel.launch(&queue).grid(128 * groups as u32).block(128).args((&out,)).run().unwrap();
        for group in out.to_vec().chunks(256) {
            // One pair from each of the four waves.
            let ids: Vec<(u32, u32)> = group.chunks(64).map(|wave| (wave[0], wave[1])).collect();
            let wgp = |id: u32| (id >> 18 & 7, id >> 16 & 1, id >> 10 & 0xf);
            for &(first, second) in &ids {
                // Eight compute units are two arrays of two work group processors.
                let (engine, array, number) = wgp(first);
                assert!(engine == 0 && array < 2 && number < 2, "{first:#x}");
                assert_eq!(wgp(first), wgp(ids[0].0));
                assert_eq!(second, ids[0].1, "one workgroup");
                assert_eq!(second >> 8 & 3, 1, "a queue of MEC 1");
                assert!((8..16).contains(&(second >> 24 & 0xf)), "a VMID of KFD's: {second:#x}");
            }
            let mut used: Vec<u32> = ids.iter().map(|(id, _)| id >> 8 & 3).collect();
            used.sort_unstable();
            used.dedup();
            assert_eq!(used.len(), simds, "{used:?}");
        }
    }
}

#[test]
fn waves_stay_on_the_compute_units_of_their_queue() {
    let (_gpu, runtime) = process();
    let gpu = runtime.gpu();
    let module = gpu.load(&assemble("gfx1100", &[Kernel::new("where", WHERE)]).unwrap()).unwrap();
    let groups = 64usize;
    let out = gpu.gtt().buffer_from(&vec![0u32; groups * 256]).unwrap();
    let queue = gpu.queue().unwrap();
    let kernel = module.kernel("where").unwrap();
    let processors = || {
        out.write(0, &vec![0xffff_ffffu32; groups * 256]).unwrap();
        kernel.launch(&queue).grid(128 * groups as u32).block(128).args((&out,)).run().unwrap();
        let ids = out.to_vec();
        let mut found: Vec<_> =
            ids.iter().step_by(2).map(|id| (id >> 18 & 7, id >> 16 & 1, id >> 10 & 0xf)).collect();
        found.sort_unstable();
        found.dedup();
        found
    };
    // Eight compute units are four processors; pairs of bits alternate between the two arrays.
    let all = vec![(0, 0, 0), (0, 0, 1), (0, 1, 0), (0, 1, 1)];
    for (mask, allowed) in [
        (0b0000_0011, vec![(0, 0, 0)]),
        (0b0000_1100, vec![(0, 1, 0)]),
        (0b0011_0011, vec![(0, 0, 0), (0, 0, 1)]),
        (!0, all),
    ] {
        queue.set_cu_mask(&[mask]).unwrap();
        // An idle GPU may run all workgroups in one place.
        let used = processors();
        assert!(!used.is_empty() && used.iter().all(|one| allowed.contains(one)), "{mask:#x}: {used:?}");
    }
    for mask in [&[][..], &[0b0111]] {
        let error = queue.set_cu_mask(mask).unwrap_err().to_string();
        assert!(error.contains("SET_CU_MASK"), "{mask:x?}: {error}");
    }
    // Compute units that there are not: no workgroup could ever run.
    queue.set_cu_mask(&[0xff00]).unwrap();
    let error = kernel.launch(&queue).grid(128).block(128).args((&out,)).run().unwrap_err().to_string();
    assert!(error.contains("stopped"), "{error}");
}

#[test]
fn workgroup_too_large_for_any_compute_unit_is_refused() {
    let (_gpu, runtime) = process();
    let gpu = runtime.gpu();
    let body = "v_mov_b32 v199, 0\ns_endpgm\n";
    let kernel = Kernel { vgprs: 200, ..Kernel::new("large", body) };
    let module = gpu.load(&assemble("gfx1100", &[kernel]).unwrap()).unwrap();
    let out = gpu.gtt().buffer_from(&[0u32; WORDS]).unwrap();
    let large = module.kernel("large").unwrap();
    let queue = gpu.queue().unwrap();
    large.launch(&queue).grid(256).block(256).args((&out,)).run().unwrap();
    let error = large.launch(&queue).grid(1024).block(1024).args((&out,)).run().unwrap_err();
    assert!(error.to_string().contains("register"), "{error}");
}

#[test]
fn hardware_registers_describe_the_wave() {
    let (_gpu, runtime) = process();
    let gpu = runtime.gpu();
    let body = "
        s_load_b64 s[4:5], s[0:1], 0x0
        s_getreg_b32 s8, hwreg(HW_REG_GPR_ALLOC)
        s_getreg_b32 s9, hwreg(HW_REG_LDS_ALLOC)
        s_getreg_b32 s10, hwreg(HW_REG_STATUS)
        s_getreg_b32 s11, hwreg(HW_REG_IB_STS)
        s_waitcnt lgkmcnt(0)
        v_mov_b32 v1, 0
        v_mov_b32 v4, s8
        v_mov_b32 v5, s9
        v_mov_b32 v6, s10
        v_mov_b32 v7, s11
        global_store_b128 v1, v[4:7], s[4:5]
        s_endpgm
    ";
    let kernel = Kernel { vgprs: 40, ..Kernel::new("registers", body) };
    let module = gpu.load(&assemble("gfx1100", &[kernel]).unwrap()).unwrap();
    let out = gpu.gtt().buffer_from(&[0u32; WORDS]).unwrap();
    let queue = gpu.queue().unwrap();
    let kernel = module.kernel("registers").unwrap();
    kernel.launch(&queue).grid(64).block(64).shared(1024).args((&out,)).run().unwrap();
    let [gprs, lds, status, counters] = out.to_vec()[..4] else { panic!("four words") };
    assert_eq!(gprs >> 12 & 0xff, 40 / 4 - 1);
    assert_eq!(lds >> 12 & 0x1ff, 1024 / 256);
    // VALID and IN_TG, neither PRIV nor TRAP_EN.
    assert_eq!(status & (1 << 16 | 1 << 11 | 0x60), 1 << 16 | 1 << 11);
    assert_eq!(counters, 0);
}

#[test]
fn trap_handlers_are_what_their_source_assembles_to() {
    let asic = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../guest-driver/core/src/asic");
    let source = asic.join("trap_handler");
    let folder = tempfile::tempdir().unwrap();
    for (processor, generation) in [("gfx1100", "gfx11"), ("gfx942", "gfx9"), ("gfx1201", "gfx12")] {
        let object = folder.path().join(processor);
        let status = Command::new(clang().unwrap())
            .args(["-x", "assembler", "-target", "amdgcn-amd-amdhsa", "-c"])
            .arg(format!("-mcpu={processor}"))
            .arg("-I")
            .arg(&source)
            .arg(source.join("trap_handler.s"))
            .arg("-o")
            .arg(&object)
            .status()
            .unwrap();
        assert!(status.success(), "{processor}");
        let bytes = std::fs::read(object).unwrap();
        let file = object::File::parse(&*bytes).unwrap();
        let code = file.section_by_name(".text").unwrap();
        let committed = std::fs::read(asic.join(generation).join("trap_handler.bin")).unwrap();
        assert!(code.data().unwrap() == committed, "{processor}: run `cargo xtask kernels`");
        assert_eq!(code.relocations().count(), 0);
    }
}

#[test]
fn handler_of_the_program_and_preemption_go_together() {
    let (_gpu, runtime) = process();
    let gpu = runtime.gpu();
    // Counts its traps at its trap memory, and takes long over each.
    let counting = "
        s_mov_b32 ttmp6, exec_lo
        s_mov_b32 exec_lo, 1
        s_mov_b32 ttmp7, 200
    .Lwork:
        s_sub_u32 ttmp7, ttmp7, 1
        s_cmp_lg_u32 ttmp7, 0
        s_cbranch_scc1 .Lwork
        v_mov_b32 v31, 0
        v_mov_b32 v30, 1
        global_atomic_add_u32 v31, v30, [ttmp14, ttmp15]
        s_mov_b32 exec_lo, ttmp6
        s_add_u32 ttmp0, ttmp0, 4
        s_addc_u32 ttmp1, ttmp1, 0
        s_setreg_b32 hwreg(HW_REG_STATUS), ttmp12
        s_rfe_b64 [ttmp0, ttmp1]
    ";
    let body = format!(
        "s_movk_i32 s8, 2000\n.Lloop:\ns_trap 5\ns_sub_u32 s8, s8, 1\ns_cmp_lg_u32 s8, 0\ns_cbranch_scc1 .Lloop\n{DONE}"
    );
    let kernels = [Kernel::new("trapping", &body), Kernel::new("counting", counting)];
    let module = gpu.load(&assemble("gfx1100", &kernels).unwrap()).unwrap();
    let (traps, out) =
        (gpu.gtt().buffer_from(&[0u32]).unwrap(), gpu.gtt().buffer_from(&[0u32; WORDS]).unwrap());
    gpu.set_trap_handler(&module.kernel("counting").unwrap(), traps.address()).unwrap();
    let queue = gpu.queue().unwrap();
    let trapping = module.kernel("trapping").unwrap();
    let completion = trapping.launch(&queue).grid(128).block(128).args((&out,)).submit().unwrap();
    for _ in 0..50 {
        queue.preempt().unwrap();
        queue.go_on().unwrap();
    }
    completion.wait().unwrap();
    assert_eq!((traps.get(0).unwrap(), out.to_vec()[1]), (4 * 2000, 0x600d));
}
