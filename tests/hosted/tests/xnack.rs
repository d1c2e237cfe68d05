//! Kernels that touch memory of their program which nobody has told the GPU of (XNACK), over the driver and a device.

#![expect(unsafe_code, reason = "a program passes pointers to a driver, and has the GPU write its memory")]

use std::sync::Arc;

use belfry_abi::kfd::ioctl as nr;
use belfry_abi::kfd::misc::SetXnackModeArgs;
use belfry_abi::pci;
use belfry_device::GpuConfig;
use belfry_device::chip::gfx942;
use belfry_kfd_hosted::{Errno, HostedGpu, Node};
use belfry_runtime::{KernelArg, Runtime};
use belfry_runtime_hosted::HostedTransport;

static VECADD: &[u8] = include_bytes!("../../../guest-runtime/kernels/vecadd.gfx942.hsaco");
const COUNT: usize = 20_000;
const BYTES: usize = COUNT * 4;

/// A GPU of gfx942 with so many XCCs.
fn gpu(xccs: u32) -> Arc<HostedGpu> {
    let shape = GpuConfig { chip: &gfx942::MODEL, xccs, cus: 8, vram_size: 64 << 20, ..GpuConfig::default() };
    HostedGpu::new(shape).unwrap()
}

/// SET_XNACK_MODE; what it says.
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
        // SAFETY: the mapping is the test's own, and nobody writes it any more.
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
        // SAFETY: the mapping is the test's own, and nobody writes it any more.
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
