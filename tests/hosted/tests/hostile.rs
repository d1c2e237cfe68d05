//! Hostile code objects and kernels: each is a named error of its own, and the work of others goes on.

use std::sync::Arc;
use std::time::Duration;

use belfry_device::GpuConfig;
use belfry_hosted_tests::assembly::{Kernel, assemble};
use belfry_kfd_hosted::HostedGpu;
use belfry_runtime::Runtime;
use belfry_runtime_hosted::HostedTransport;
use belfry_tools::inspect::{BreakOn, Inspect as _};

/// Stores the work-item's number times three.
const GOOD: &str = "
    s_load_b64 s[4:5], s[0:1], 0x0
    v_mul_u32_u24_e32 v1, 3, v0
    v_lshlrev_b32_e32 v2, 2, v0
    s_waitcnt lgkmcnt(0)
    global_store_b32 v2, v1, s[4:5]
    s_endpgm
";

fn process() -> (Arc<HostedGpu>, Runtime) {
    let gpu = HostedGpu::new(GpuConfig { vram_size: 64 << 20, ..GpuConfig::default() }).unwrap();
    let runtime = another(&gpu);
    (gpu, runtime)
}

/// Another process on a GPU.
fn another(gpu: &Arc<HostedGpu>) -> Runtime {
    Runtime::with_transport(HostedTransport::open(gpu).unwrap()).unwrap()
}

/// Waits until the device has counted a stopped queue: the program may hear of it first.
fn is_counted(gpu: &HostedGpu) -> bool {
    (0..1000).any(|_| {
        std::thread::sleep(Duration::from_millis(1));
        gpu.device().stats().errors.contains_key(&belfry_device::GuestError::QueueStopped)
    })
}

/// The next dispatch on another queue succeeds.
fn others_go_on(runtime: &Runtime) {
    let gpu = runtime.gpu();
    let module = gpu.load(&assemble("gfx1100", &[Kernel::new("good", GOOD)]).unwrap()).unwrap();
    let out = gpu.gtt().buffer_from(&[0u32; 64]).unwrap();
    let queue = gpu.queue().unwrap();
    module.kernel("good").unwrap().launch(&queue).grid(64).block(64).args((&out,)).run().unwrap();
    assert!(out.to_vec().iter().enumerate().all(|(item, word)| *word == item as u32 * 3));
}

/// Runs a kernel that fails; the error must say `said`, and the device must have counted a queue that it has stopped.
#[track_caller]
fn fails(kernel: Kernel<'_>, said: &str) {
    let (device, runtime) = process();
    let gpu = runtime.gpu();
    let name = kernel.name.to_owned();
    let module = gpu.load(&assemble("gfx1100", &[kernel]).unwrap()).unwrap();
    let out = gpu.gtt().buffer_from(&[0u32; 64]).unwrap();
    let (queue, bystander) = (gpu.queue().unwrap(), gpu.queue().unwrap());
    let kernel = module.kernel(&name).unwrap();
    let error = kernel.launch(&queue).grid(64).block(64).args((&out,)).run().unwrap_err();
    assert!(error.to_string().contains(said), "{name}: {error}, not {said}");
    // The queue is stopped for good, and only that queue. A page fault is reported to the whole process, as by ROCm: then
    // it is other processes that go on.
    assert!(kernel.launch(&queue).grid(64).block(64).args((&out,)).run().is_err());
    let memory_fault =
        matches!(error, belfry_runtime::Error::Queue(belfry_runtime::queue::QueueError::MemoryFault(_)));
    if !memory_fault {
        let good = gpu.load(&assemble("gfx1100", &[Kernel::new("good", GOOD)]).unwrap()).unwrap();
        good.kernel("good").unwrap().launch(&bystander).grid(64).block(64).args((&out,)).run().unwrap();
        others_go_on(&runtime);
    }
    others_go_on(&another(&device));
    // At a memory fault the driver takes all queues of the process off, and may do so before the device comes to count.
    assert!(memory_fault || is_counted(&device));
}

const ILLEGAL: &str = "illegal instruction";
const APERTURE: &str = "memory it may not";

#[test]
fn global_wave_sync_nobody_was_given_is_an_illegal_instruction() {
    let code = "v_mov_b32_e32 v1, 3\ns_mov_b32 m0, 0\nds_gws_barrier v1 gds\ns_endpgm\n";
    fails(Kernel::new("sync", code), ILLEGAL);
}

#[test]
fn jump_into_nowhere_is_a_page_fault_there() {
    fails(
        Kernel::new("jumps", "s_mov_b32 s8, 0x12340000\ns_mov_b32 s9, 0\ns_setpc_b64 s[8:9]\n"),
        "0x12340000",
    );
}

#[test]
fn jump_out_of_the_address_space_is_a_page_fault_at_what_is_left_of_it() {
    // A program counter has 48 bits.
    let body = "s_mov_b32 s8, 0x1000\ns_mov_b32 s9, 0x80000000\ns_setpc_b64 s[8:9]\n";
    fails(Kernel::new("jumps", body), &not_mapped(0x1000));
}

#[test]
fn jump_into_data_is_an_illegal_instruction() {
    // The kernel puts a word into its buffer that is no instruction, and goes there.
    let body = "s_load_b64 s[8:9], s[0:1], 0x0\nv_mov_b32 v0, 0\nv_mov_b32 v1, 0xbfff0000\ns_waitcnt lgkmcnt(0)\n\
                global_store_b32 v0, v1, s[8:9]\ns_waitcnt_vscnt null, 0x0\ns_icache_inv\ns_setpc_b64 s[8:9]\n";
    fails(Kernel::new("jumps", body), ILLEGAL);
}

#[test]
fn branch_far_out_of_its_text_is_an_illegal_instruction() {
    fails(Kernel::new("branches", "s_branch 0x7ff0\n"), ILLEGAL);
}

/// Message about an access to a page that is not there.
fn not_mapped(address: u64) -> String {
    format!("memory access fault at {:#x} (the page is not mapped)", address & !0xfff)
}

#[test]
fn running_off_the_end_is_an_illegal_instruction() {
    // What the assembler pads code with is `s_code_end`.
    fails(Kernel::new("runs_off", "v_mov_b32 v1, 1\n"), ILLEGAL);
}

#[test]
fn words_that_are_no_instruction_are_illegal() {
    fails(Kernel::new("illegal", ".long 0xbfff0000\ns_endpgm\n"), ILLEGAL);
}

#[test]
fn more_registers_than_declared_are_an_error() {
    let body = "v_mov_b32 v200, 1\ns_endpgm\n";
    fails(Kernel { vgprs: 8, ..Kernel::new("greedy", body) }, ILLEGAL);
}

#[test]
fn more_registers_than_declared_and_shared_are_an_error() {
    let kernel = Kernel::new("greedy", "v_mov_b32 v40, 1\ns_endpgm\n");
    fails(Kernel { directives: ".amdhsa_shared_vgpr_count 1", ..kernel }, ILLEGAL);
}

/// A kernel without LDS that does something to it at an address in `v1`, with the result in `v2`, and stores that.
fn without_lds(address: u32, body: &str) -> Vec<u32> {
    let body = format!(
        "s_load_b64 s[4:5], s[0:1], 0x0\nv_mov_b32 v1, {address:#x}\nv_mov_b32 v2, 7\n{body}\n\
         v_lshlrev_b32_e32 v3, 2, v0\ns_waitcnt lgkmcnt(0)\nglobal_store_b32 v3, v2, s[4:5]\ns_endpgm\n"
    );
    let (device, runtime) = process();
    let gpu = runtime.gpu();
    let module = gpu.load(&assemble("gfx1100", &[Kernel::new("oversteps", &body)]).unwrap()).unwrap();
    let out = gpu.gtt().buffer_from(&[1u32; 64]).unwrap();
    let queue = gpu.queue().unwrap();
    module.kernel("oversteps").unwrap().launch(&queue).grid(64).block(64).args((&out,)).run().unwrap();
    assert_eq!(device.device().stats().errors, Default::default());
    out.to_vec()
}

#[test]
fn lds_out_of_range_is_dropped_and_reads_zero() {
    assert_eq!(without_lds(0x8000, "ds_store_b32 v1, v0"), [7; 64]);
    assert_eq!(without_lds(0x8000, "ds_load_b32 v2, v1"), [0; 64]);
    assert_eq!(without_lds(0, "ds_add_rtn_u32 v2, v1, v0"), [0; 64]);
}

#[test]
fn lds_atomic_misaligned_is_an_aperture_violation() {
    let body = "v_mov_b32 v1, 2\nds_add_u32 v1, v0\ns_waitcnt lgkmcnt(0)\ns_endpgm\n";
    fails(Kernel::new("misaligns", body), APERTURE);
}

#[test]
fn lds_out_of_range_by_a_flat_address_is_an_aperture_violation() {
    let body = "s_mov_b64 s[8:9], src_shared_base\nv_mov_b32 v4, 0x8000\nv_mov_b32 v5, s9\n\
                flat_load_b32 v6, v[4:5]\ns_waitcnt vmcnt(0) lgkmcnt(0)\ns_endpgm\n";
    fails(Kernel::new("oversteps", body), APERTURE);
}

#[test]
fn scratch_without_any_is_an_aperture_violation() {
    fails(Kernel::new("spills", "scratch_store_b32 off, v0, off offset:16\ns_endpgm\n"), APERTURE);
}

#[test]
fn stores_to_code_and_loads_from_nowhere_name_their_addresses() {
    let load = "v_mov_b32 v4, 0x5000\nv_mov_b32 v5, 0\nglobal_load_b32 v6, v[4:5], off\ns_waitcnt vmcnt(0)\ns_endpgm\n";
    fails(Kernel::new("loads", load), "0x5000");
    let atomic = "v_mov_b32 v4, 0x7000\nv_mov_b32 v5, 0\nglobal_atomic_add_u32 v[4:5], v0, off\ns_endpgm\n";
    fails(Kernel::new("adds", atomic), "0x7000");
    let scalar = "s_mov_b32 s8, 0x9000\ns_mov_b32 s9, 0\ns_load_b32 s10, s[8:9], 0x0\ns_waitcnt lgkmcnt(0)\ns_endpgm\n";
    fails(Kernel::new("reads", scalar), "0x9000");
}

#[test]
fn operations_that_are_absent_are_named() {
    let (device, runtime) = process();
    let gpu = runtime.gpu();
    let body = "exp pos0 v0, v0, v0, v0 done\ns_endpgm\n";
    let module = gpu.load(&assemble("gfx1100", &[Kernel::new("exports", body)]).unwrap()).unwrap();
    let out = gpu.gtt().buffer_from(&[0u32; 64]).unwrap();
    let queue = gpu.queue().unwrap();
    let inspector = device.device().inspect();
    inspector.add_break(BreakOn::Fault).unwrap();
    let kernel = module.kernel("exports").unwrap();
    let done = kernel.launch(&queue).grid(32).block(32).args((&out,)).submit().unwrap();
    let why = inspector.wait(Duration::from_secs(60)).unwrap().why.unwrap();
    assert!(why.contains("no semantics for `exp pos0 v0, v0, v0, v0 done`"), "{why}");
    inspector.clear_breaks();
    assert!(inspector.proceed());
    let error = done.wait().unwrap_err();
    assert!(error.to_string().contains(ILLEGAL), "{error}");
    assert!(is_counted(&device));
    others_go_on(&runtime);
}

#[test]
fn endless_kernels_are_stopped_with_their_queues() {
    let bodies = [
        ("branches", ".Lself_branches:\ns_branch .Lself_branches\n"),
        ("sleeps", ".Lself_sleeps:\ns_sleep 1\ns_branch .Lself_sleeps\n"),
        ("waits", ".Lself_waits:\ns_nop 0\ns_waitcnt vmcnt(0)\ns_branch .Lself_waits\n"),
        ("jumps", "s_getpc_b64 s[8:9]\ns_setpc_b64 s[8:9]\n"),
        ("barriers", ".Lself_barriers:\ns_barrier\ns_branch .Lself_barriers\n"),
        ("traps", ".Lself_traps:\ns_trap 3\ns_branch .Lself_traps\n"),
        ("messages", ".Lself_messages:\ns_sendmsg sendmsg(MSG_INTERRUPT)\ns_branch .Lself_messages\n"),
    ];
    let (_device, runtime) = process();
    let gpu = runtime.gpu();
    let kernels: Vec<Kernel<'_>> = bodies.iter().map(|(name, body)| Kernel::new(name, body)).collect();
    let module = gpu.load(&assemble("gfx1100", &kernels).unwrap()).unwrap();
    let out = gpu.gtt().buffer_from(&[0u32; 64]).unwrap();
    for (name, _) in bodies {
        let queue = gpu.queue().unwrap();
        let kernel = module.kernel(name).unwrap();
        // More waves than the GPU holds at once.
        let completion = kernel.launch(&queue).grid(64 * 1024).block(64).args((&out,)).submit().unwrap();
        others_go_on(&runtime);
        assert!(completion.wait_timeout(Duration::from_millis(5)).is_err(), "{name} has ended");
        queue.destroy().unwrap();
        others_go_on(&runtime);
    }
}

#[test]
fn code_of_other_gpus_and_machines_is_refused_by_name() {
    let (_device, runtime) = process();
    let load = |bytes: &[u8]| runtime.gpu().load(bytes).unwrap_err().to_string();
    let other = assemble("gfx1030", &[Kernel::new("good", "s_endpgm\n")]).unwrap();
    let said = load(&other);
    assert!(said.contains("gfx1030") && said.contains("gfx1100"), "{said}");
    let own = std::fs::read("/proc/self/exe").unwrap();
    assert!(load(&own).contains("EM_AMDGPU"));
    assert!(load(b"not a code object").contains("not a readable ELF file"));
    others_go_on(&runtime);
}

#[test]
fn damaged_code_objects_are_refused_or_run_and_never_harm_others() {
    let (device, runtime) = process();
    let gpu = runtime.gpu();
    let good = assemble("gfx1100", &[Kernel::new("good", GOOD)]).unwrap();
    for length in (0..good.len()).step_by(37) {
        // Sections at the end of the file are not needed to load it: then it has to be whole.
        if let Ok(module) = gpu.load(&good[..length]) {
            assert_eq!(module.kernels().len(), 1, "cut to {length} bytes");
        }
    }
    let mut state = 0x1234_5678_9abc_def0u64;
    let mut next = |limit: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % limit
    };
    let mut refused = 0;
    for _ in 0..400 {
        let mut bytes = good.clone();
        for _ in 0..=next(4) {
            let at = next(bytes.len());
            bytes[at] = [0, 0xff, 0x7f, 0x80, next(256) as u8][next(5)];
        }
        let runtime = another(&device);
        let gpu = runtime.gpu();
        let Ok(module) = gpu.load(&bytes) else {
            refused += 1;
            continue;
        };
        let Ok(kernel) = module.kernel("good") else { continue };
        let out = gpu.gtt().buffer_from(&[0u32; 64]).unwrap();
        let queue = gpu.queue().unwrap();
        // It may do anything but hang or harm: a branch may have become an endless loop.
        if let Ok(completion) = kernel.launch(&queue).grid(64).block(64).args((&out,)).submit() {
            let _ = completion.wait_timeout(Duration::from_millis(500));
        }
        let _ = queue.destroy();
    }
    assert!(refused > 10, "{refused} of 400 damaged files were refused");
    others_go_on(&runtime);
}
