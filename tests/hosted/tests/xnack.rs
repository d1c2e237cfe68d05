//! Kernels that touch memory of their program that the GPU was not told of (XNACK), over the driver and a
//! device.

#![expect(unsafe_code, reason = "a program passes pointers to a driver, and has the GPU write its memory")]

use std::sync::Arc;

use belfry_abi::kfd::ioctl as nr;
use belfry_abi::kfd::misc::SetXnackModeArgs;
use belfry_abi::pci;
use belfry_device::GpuConfig;
use belfry_device::chip::gfx942;
use belfry_hosted_tests::assembly::{Kernel, assemble};
use belfry_kfd_hosted::{Errno, HostedGpu, Node};
use belfry_runtime::{Buffer, Completion, KernelArg, Module, Queue, Runtime};
use belfry_runtime_hosted::HostedTransport;

static VECADD: &[u8] = include_bytes!("../../../guest-runtime/kernels/vecadd.gfx942.hsaco");
const COUNT: usize = 20_000;
const BYTES: usize = COUNT * 4;

/// A GPU of gfx942 with `xccs` XCCs.
fn gpu(xccs: u32) -> Arc<HostedGpu> {
    let shape = GpuConfig { chip: &gfx942::MODEL, xccs, cus: 8, vram_size: 64 << 20, ..GpuConfig::default() };
    HostedGpu::new(shape).unwrap()
}

/// SET_XNACK_MODE, and its answer.
fn set_xnack(transport: &HostedTransport, mode: i32) -> Result<i32, Errno> {
    let mut args = SetXnackModeArgs { xnack_enabled: mode };
    let pointer = (&raw mut args).cast();
    transport.process().ioctl(Node::Kfd, nr::SET_XNACK_MODE, pointer).map(|_| args.xnack_enabled)
}

/// Fresh memory of this process, with these rights.
fn memory(rights: i32) -> u64 {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a mapping of the test's own.
    let at = unsafe { libc::mmap(std::ptr::null_mut(), BYTES, rights, flags, -1, 0) };
    assert_ne!(at, libc::MAP_FAILED);
    at as u64
}

/// The program's own memory as an argument.
fn pointer(address: u64) -> KernelArg {
    KernelArg::Buffer { address, memory: Arc::new(()) }
}

/// Adds two vectors in memory of the GPU, and puts the sum at an address.
fn add(runtime: &Runtime, target: u64) -> Result<(), belfry_runtime::Error> {
    let gpu = runtime.gpu();
    let kernel = gpu.load(VECADD)?.kernel("vecadd")?;
    let a = gpu.vram().buffer_from(&(0..COUNT).map(|i| i as f32).collect::<Vec<_>>())?;
    let b = gpu.gtt().buffer_from(&(0..COUNT).map(|i| i as f32 * 2.0).collect::<Vec<_>>())?;
    let args = vec![(&a).into(), (&b).into(), pointer(target), (COUNT as u32).into()];
    kernel.launch(&gpu.queue()?).grid(COUNT as u32).block(256).args(args).run()?;
    Ok(())
}

#[test]
fn kernel_writes_memory_that_nobody_registered() {
    for xccs in [1, 8] {
        let gpu = gpu(xccs);
        let transport = HostedTransport::open(&gpu).unwrap();
        assert_eq!(set_xnack(&transport, -1), Ok(0), "off until a process asks for it");
        assert_eq!(set_xnack(&transport, 1), Ok(1));
        assert_eq!(set_xnack(&transport, -1), Ok(1));
        let runtime = Runtime::with_transport(transport).unwrap();
        let target = memory(libc::PROT_READ | libc::PROT_WRITE);
        for _ in 0..2 {
            add(&runtime, target).unwrap();
        }
        // SAFETY: the mapping is the test's own, and no code writes it any more.
        let sums = unsafe { std::slice::from_raw_parts(target as *const f32, COUNT) };
        assert!(sums.iter().enumerate().all(|(i, sum)| (sum - i as f32 * 3.0).abs() < f32::EPSILON));
        assert!(gpu.device().stats().retry_faults > 0, "waves have waited");
        assert_eq!(gpu.device().stats().errors, Default::default());
    }
}

/// Ring 1 has taken the faults, and the filter, which has 1024 entries, gets each of them back.
#[test]
fn faults_come_by_ring_one_and_are_more_than_the_filter_holds() {
    const LAUNCHES: u64 = 1200;
    let gpu = gpu(1);
    let transport = HostedTransport::open(&gpu).unwrap();
    set_xnack(&transport, 1).unwrap();
    let runtime = Runtime::with_transport(transport).unwrap();
    let device = runtime.gpu();
    let (kernel, queue) = (device.load(VECADD).unwrap().kernel("vecadd").unwrap(), device.queue().unwrap());
    let ones = device.gtt().buffer_from(&[1f32; 64]).unwrap();
    for _ in 0..LAUNCHES {
        let target = memory(libc::PROT_READ | libc::PROT_WRITE);
        let args = vec![(&ones).into(), (&ones).into(), pointer(target), 64u32.into()];
        kernel.launch(&queue).grid(64).block(64).args(args).run().unwrap();
        // SAFETY: the mapping is the test's own, and no code writes it any more.
        assert!((unsafe { (target as *const f32).read() } - 2.0).abs() < f32::EPSILON);
    }
    let stats = gpu.device().stats();
    assert!(stats.retry_faults >= LAUNCHES, "{}", stats.retry_faults);
    assert_eq!(stats.errors, Default::default());
    let register = |at: u64| {
        let mut word = [0; 4];
        gpu.device().bar_read(pci::BAR_REGISTERS, at * 4, &mut word).unwrap();
        u32::from_le_bytes(word)
    };
    // IH_RB_RPTR_RING1 and IH_RB_WPTR_RING1: 128 entries, that many times over.
    let (rptr, wptr) = (register(0x10a0 + 0x8f), register(0x10a0 + 0x90));
    assert_eq!((rptr, wptr % 32), (wptr, 0));
    // IH_RB_CNTL_RING1.RB_ENABLE, IH_RETRY_INT_CAM_CNTL.ENABLE.
    assert_eq!((register(0x10a0 + 0x8c) & 1, register(0x10a0 + 0xea) >> 16 & 1), (1, 1));
    // Each entry of ring 1 is announced by one of ring 0.
    assert!(stats.ih_entries >= 2 * LAUNCHES, "{}", stats.ih_entries);
}

#[test]
fn memory_that_the_program_does_not_have_is_a_fault_although_waves_wait() {
    let gpu = gpu(1);
    let transport = HostedTransport::open(&gpu).unwrap();
    set_xnack(&transport, 1).unwrap();
    let runtime = Runtime::with_transport(transport).unwrap();
    let target = memory(libc::PROT_NONE);
    add(&runtime, target).expect_err("nothing can be written there");
    assert!(gpu.device().stats().retry_faults > 0, "it was asked for first");
    // Another process goes on.
    let other = Runtime::with_transport(HostedTransport::open(&gpu).unwrap()).unwrap();
    let buffer = other.gpu().gtt().buffer_from(&vec![0f32; COUNT]).unwrap();
    add(&other, buffer.address()).unwrap();
}

#[test]
fn without_the_mode_the_same_kernel_fails_at_once() {
    let gpu = gpu(1);
    let runtime = Runtime::with_transport(HostedTransport::open(&gpu).unwrap()).unwrap();
    add(&runtime, memory(libc::PROT_READ | libc::PROT_WRITE)).expect_err("a fault");
    assert_eq!(gpu.device().stats().retry_faults, 0);
}

#[test]
fn mode_is_a_process_s_own_and_only_where_waves_wait() {
    let gpu = gpu(1);
    let transport = HostedTransport::open(&gpu).unwrap();
    assert_eq!([1, -1, 0, -1].map(|mode| set_xnack(&transport, mode)), [Ok(1), Ok(1), Ok(0), Ok(0)]);
    let other = HostedGpu::new(GpuConfig { vram_size: 64 << 20, ..GpuConfig::default() }).unwrap();
    let transport = HostedTransport::open(&other).unwrap();
    assert_eq!(set_xnack(&transport, 1), Err(Errno::EPERM));
    assert_eq!(set_xnack(&transport, -1), Ok(0));
}

/// Enters the trap handler, and tells when it has come back.
const TRAPS: &str = "
    s_load_dwordx2 s[4:5], s[0:1], 0x0
    s_trap 1
    s_waitcnt lgkmcnt(0)
    v_mov_b32 v1, 0
    v_mov_b32 v2, 0x600d
    global_store_dword v1, v2, s[4:5]
    s_endpgm
";

/// A trap handler that reads one page in each 2 MiB from its trap memory on, and goes past the `s_trap`.
const READER: &str = "
    s_movk_i32 ttmp3, 400
.Lread:
    s_load_dword ttmp2, ttmp[14:15], 0x0 glc
    s_waitcnt lgkmcnt(0)
    s_add_u32 ttmp14, ttmp14, 0x200000
    s_addc_u32 ttmp15, ttmp15, 0
    s_sub_u32 ttmp3, ttmp3, 1
    s_cmp_lg_u32 ttmp3, 0
    s_cbranch_scc1 .Lread
    s_add_u32 ttmp0, ttmp0, 4
    s_addc_u32 ttmp1, ttmp1, 0
    s_and_b32 ttmp1, ttmp1, 0xffff
    s_setreg_b32 hwreg(HW_REG_STATUS), ttmp12
    s_rfe_b64 ttmp[0:1]
";
const READ: usize = 401 << 21;

/// A program with a kernel whose waves want hundreds of pages in their trap handler, one after the other.
fn reader(gpu: &Arc<HostedGpu>) -> (Runtime, Module) {
    let transport = HostedTransport::open(gpu).unwrap();
    assert_eq!(set_xnack(&transport, 1), Ok(1));
    let runtime = Runtime::with_transport(transport).unwrap();
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let rights = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a mapping of the test's own.
    let at = unsafe { libc::mmap(std::ptr::null_mut(), READ, rights, flags, -1, 0) };
    assert_ne!(at, libc::MAP_FAILED);
    let directives = "    .amdhsa_accum_offset 32\n";
    let kernels = [Kernel::new("traps", TRAPS), Kernel::new("reader", READER)];
    let kernels = kernels.map(|kernel| Kernel { directives, ..kernel });
    let module = runtime.gpu().load(&assemble("gfx942", &kernels).unwrap()).unwrap();
    runtime.gpu().set_trap_handler(&module.kernel("reader").unwrap(), at as u64).unwrap();
    (runtime, module)
}

/// Starts the kernel, which is in its trap handler and waits when this returns.
fn start_reading(gpu: &HostedGpu, queue: &Queue, module: &Module, out: &Buffer<u32>) -> Completion {
    let before = gpu.device().stats().retry_faults;
    let kernel = module.kernel("traps").unwrap();
    let completion = kernel.launch(queue).grid(64).block(64).args((out,)).submit().unwrap();
    while gpu.device().stats().retry_faults < before + 5 {
        std::thread::yield_now();
    }
    completion
}

/// The driver waits for the queue to leave, and that for pages, which the driver gives it meanwhile.
#[test]
fn queue_is_taken_off_while_a_wave_in_its_trap_handler_wants_pages() {
    let gpu = gpu(1);
    let (runtime, module) = reader(&gpu);
    let out = runtime.gpu().gtt().buffer_from(&[0u32; 16]).unwrap();
    let queue = runtime.gpu().queue().unwrap();
    let completion = start_reading(&gpu, &queue, &module, &out);
    queue.preempt().unwrap();
    assert!(!completion.is_done(), "it was in its handler");
    assert!(gpu.device().stats().retry_faults >= 400, "it has come out of it");
    queue.go_on().unwrap();
    completion.wait().unwrap();
    assert_eq!(out.to_vec()[0], 0x600d);
    let stats = gpu.device().stats();
    assert_eq!((stats.errors, stats.resets), (Default::default(), 0));
}
