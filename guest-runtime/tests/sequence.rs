//! The runtime against a KFD that keeps the books: order of requests, rules of buffers, packets, errors, clean-up.
#![expect(unsafe_code, reason = "the stand-in driver reads the runtime's memory by address, as a GPU does")]

mod mock;

use std::time::{Duration, Instant};

use belfry_abi::aql::{AmdQueue, TmpringSize};
use belfry_abi::kfd::memory::AllocFlags;
use belfry_runtime::launch::LaunchError;
use belfry_runtime::memory::MemoryError;
use belfry_runtime::queue::{QueueError, StopCode};
use belfry_runtime::signal::SignalError;
use belfry_runtime::{Completion, Condition, Error, KernelArg, MemoryKind, QueueOptions, Runtime};
use mock::{GPU_ID, Mock, load, store};

const VECADD: &[u8] = include_bytes!("../kernels/vecadd.gfx1100.hsaco");
const SCRATCH: &[u8] = include_bytes!("../kernels/scratch.gfx1100.hsaco");
const BENCH: &[u8] = include_bytes!("../kernels/bench.gfx1100.hsaco");
/// Far longer than anything takes: only a hang meets it.
const PATIENCE: Duration = Duration::from_secs(60);

fn open() -> (Mock, Runtime) {
    let mock = Mock::default();
    let runtime = Runtime::with_transport(mock.clone()).unwrap();
    (mock, runtime)
}

#[test]
fn opening_asks_in_the_order_the_driver_wants() {
    let (mock, runtime) = open();
    let log = mock.take_log();
    assert_eq!(
        log[..6],
        [
            "GET_VERSION",
            "GET_PROCESS_APERTURES_NEW",
            "ACQUIRE_VM",
            "ALLOC_MEMORY_OF_GPU",
            "MAP_MEMORY_TO_GPU",
            "CREATE_EVENT"
        ]
    );
    assert_eq!(runtime.driver_version(), (1, 12));
    assert_eq!(runtime.agents().len(), 2);
    let agent = runtime.gpu().agent();
    assert_eq!((agent.gpu_id, agent.gfx_name().as_str()), (GPU_ID, "gfx1100"));
    assert_eq!((agent.compute_units(), agent.shader_engines(), agent.memory), (8, 1, 256 << 20));
    assert_eq!((&agent.caches[..], &agent.links[..]), (&[(1, 32), (2, 6144)][..], &[0][..]));
}

#[test]
fn a_refused_step_is_an_error_that_names_it() {
    for (request, errno, message) in [
        ("GET_VERSION", libc::ENOTTY, "GET_VERSION failed"),
        ("GET_PROCESS_APERTURES_NEW", libc::EINVAL, "GET_PROCESS_APERTURES_NEW failed"),
        ("ACQUIRE_VM", libc::EBUSY, "ACQUIRE_VM failed"),
        ("ALLOC_MEMORY_OF_GPU", libc::ENOMEM, "ALLOC_MEMORY_OF_GPU failed: Cannot allocate memory"),
        ("MAP_MEMORY_TO_GPU", libc::EINVAL, "MAP_MEMORY_TO_GPU failed"),
        ("mmap", libc::EPERM, "mmap failed"),
    ] {
        let mock = Mock::default();
        mock.fail(request, errno);
        let error = Runtime::with_transport(mock.clone()).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
        assert!(mock.bos().is_empty(), "{request}: {:?}", mock.bos());
    }
}

#[test]
fn buffers_come_from_their_pools_and_go_back() {
    let (mock, runtime) = open();
    let gpu = runtime.gpu();
    let before = mock.bos().len();
    for (pool, flag) in gpu.pools().iter().zip([AllocFlags::VRAM, AllocFlags::GTT, AllocFlags::USERPTR]) {
        let buffer = pool.buffer_from(&(0..2000u32).collect::<Vec<_>>()).unwrap();
        let bo = mock.bos().into_iter().find(|bo| bo.va == buffer.address()).unwrap();
        assert!(bo.mapped && bo.flags.contains(flag | AllocFlags::WRITABLE) && bo.size == 8192, "{bo:?}");
        assert_eq!(load::<u32>(buffer.address() + 4 * 1999), 1999, "the GPU sees what the host wrote");
        store(buffer.address() + 40, &7u32);
        assert_eq!(buffer.get(10).unwrap(), 7, "the host sees what the GPU wrote");
        buffer.write(1998, &[1, 2]).unwrap();
        assert_eq!(buffer.to_vec()[1997..], [1997, 1, 2]);
        buffer.fill(9);
        assert!(buffer.to_vec().iter().all(|word| *word == 9));
        let error = buffer.write(1999, &[1, 2]).unwrap_err();
        assert_eq!(error, MemoryError::OutOfRange { start: 1999, end: 2001, len: 2000 });
        assert!(buffer.get(usize::MAX).is_err());
        assert!(buffer.clone().to_vec().len() == 2000);
    }
    // The page by which VRAM is flushed stays.
    let page = mock.bos().into_iter().filter(|bo| bo.flags.contains(AllocFlags::MMIO_REMAP)).count();
    assert_eq!((mock.bos().len(), page), (before + 1, 1));
    assert!(matches!(gpu.vram().buffer::<u64>(0), Err(MemoryError::Size { .. })));
    assert!(matches!(gpu.vram().buffer::<u64>(usize::MAX / 4), Err(MemoryError::Size { .. })));
    assert!(matches!(gpu.vram().buffer::<u8>(usize::MAX), Err(MemoryError::Size { .. })));
    mock.fail("ALLOC_MEMORY_OF_GPU", libc::ENOMEM);
    let error = gpu.vram().buffer::<u8>(1 << 20).unwrap_err();
    assert!(matches!(error, MemoryError::Driver { kind: MemoryKind::Vram, .. }), "{error}");
}

#[test]
fn large_buffers_are_aligned_for_huge_pages() {
    let (_mock, runtime) = open();
    let buffer = runtime.gpu().vram().buffer::<u8>(3 << 20).unwrap();
    assert_eq!(buffer.address() % (2 << 20), 0);
}

#[test]
fn everything_is_handed_back_in_order() {
    let (mock, runtime) = open();
    let gpu = runtime.gpu().clone();
    let queue = gpu.queue().unwrap();
    let module = gpu.load(VECADD).unwrap();
    let buffer = gpu.vram().buffer::<f32>(64).unwrap();
    let kernel = module.kernel("vecadd").unwrap();
    kernel.launch(&queue).grid(64).args((&buffer, &buffer, &buffer, 64u32)).run().unwrap();
    // The stand-in asserts that no buffer is freed while mapped or in use by a queue.
    drop((runtime, gpu, module, buffer, kernel));
    assert_eq!(mock.queues(), 1, "the queue lives by itself");
    drop(queue);
    assert_eq!(mock.queues(), 0);
    let left = mock.bos();
    assert_eq!(left.len(), 1, "all but the event page, which the driver keeps: {left:?}");
}

#[test]
fn queue_options_are_checked_and_obeyed() {
    let (mock, runtime) = open();
    let gpu = runtime.gpu();
    for (packets, priority) in [(0, 7), (63, 7), (100, 7), (1 << 21, 7), (64, 16)] {
        let options = QueueOptions { packets, priority, ..QueueOptions::default() };
        assert!(matches!(gpu.queue_with(&options), Err(QueueError::Option { .. })), "{options:?}");
    }
    for ring in [MemoryKind::Vram, MemoryKind::Gtt, MemoryKind::UserPtr] {
        let _queue = gpu
            .queue_with(&QueueOptions { packets: 128, priority: 11, ring, ..QueueOptions::default() })
            .unwrap();
        let args = mock.queue_args()[0];
        assert_eq!((args.ring_size, args.queue_priority), (8192, 11));
    }
    let before = mock.bos().len();
    mock.fail("CREATE_QUEUE", libc::ENOSPC);
    let error = gpu.queue().unwrap_err().to_string();
    assert_eq!(error, "CREATE_QUEUE failed: No space left on device (os error 28)");
    assert_eq!(mock.bos().len(), before, "a refused queue leaves nothing behind");
}

#[test]
fn a_launch_invalidates_the_caches_once_and_fills_the_packet() {
    let (mock, runtime) = open();
    let gpu = runtime.gpu();
    let queue = gpu.queue().unwrap();
    let kernel = gpu.load(VECADD).unwrap().kernel("vecadd").unwrap();
    mock.on_dispatch(|packet| {
        let kernarg = packet.kernarg_address;
        let count = load::<u32>(kernarg + 24);
        assert_eq!(
            (load::<u32>(kernarg + 32), load::<u16>(kernarg + 44), load::<u16>(kernarg + 50)),
            (3, 256, 232)
        );
        for index in 0..u64::from(count) {
            let at = |offset| load::<u64>(kernarg + offset) + index * 4;
            store(at(16), &(load::<f32>(at(0)) + load::<f32>(at(8))));
        }
    });
    let a = gpu.vram().buffer_from(&[1.5f32; 1000]).unwrap();
    let b = gpu.gtt().buffer_from(&[2.0f32; 1000]).unwrap();
    let c = gpu.userptr().buffer::<f32>(1000).unwrap();
    for _ in 0..2 {
        kernel.launch(&queue).grid(1000).block(256).args((&a, &b, &c, 1000u32)).run().unwrap();
    }
    assert_eq!(c.to_vec(), [3.5; 1000]);
    let packets = mock.packets();
    let kinds: Vec<u32> = packets.iter().map(|packet| packet[0] & 0xff).collect();
    assert_eq!(kinds, [0, 2, 2], "one PM4 packet, two dispatches");
    assert_eq!(packets[0][..2], [0x0001_0000, 0xc002_3f00]);
    assert_eq!((packets[0][4], packets[0][5]), (0x0080_0008, 0xa));
    let ib = u64::from(packets[0][2]) | u64::from(packets[0][3]) << 32;
    assert_eq!(load::<[u32; 8]>(ib), [0xc006_5800, 0, 0xffff_ffff, 0xff, 0, 0, 0, 0x4381]);
    assert_eq!(packets[1][0], 0x0001_1502, "dispatch, barrier, system fences, one dimension");
    assert_eq!((packets[1][1] & 0xffff, packets[1][3]), (256, 1000));
    // A later upload is invalidated again, and only then.
    let _module = gpu.load(BENCH).unwrap();
    kernel.launch(&queue).grid(1000).block(256).args((&a, &b, &c, 1000u32)).run().unwrap();
    let kinds: Vec<u32> = mock.packets()[3..].iter().map(|packet| packet[0] & 0xff).collect();
    assert_eq!(kinds, [0, 2]);
}

#[test]
fn misfitting_launches_send_nothing() {
    let (mock, runtime) = open();
    let gpu = runtime.gpu();
    let queue = gpu.queue().unwrap();
    let module = gpu.load(BENCH).unwrap();
    let tiled = module.kernel("gemm_tiled").unwrap();
    let buffer = gpu.vram().buffer::<f32>(64).unwrap();
    let args = || (&buffer, &buffer, &buffer, 64i32);
    let launch = |block: u32, shared| tiled.launch(&queue).grid(256).block(block).shared(shared);
    assert!(matches!(
        launch(64, 0).args(args()).run(),
        Err(Error::Launch(LaunchError::BlockRequired { required: [256, 1, 1], .. }))
    ));
    let error = launch(256, 64 << 10).args(args()).run();
    assert!(
        matches!(error, Err(Error::Launch(LaunchError::Lds { bytes: 73728, limit: 65536, .. }))),
        "{error:?}"
    );
    assert!(matches!(launch(256, 0).arg(&buffer).run(), Err(Error::Argument(_))));
    assert!(matches!(launch(256, 0).args(vec![KernelArg::Local(4); 4]).run(), Err(Error::Argument(_))));
    let (_other_mock, other) = open();
    let other_queue = other.gpu().queue().unwrap();
    assert!(matches!(
        tiled.launch(&other_queue).grid(256).args(args()).run(),
        Err(Error::Launch(LaunchError::ForeignQueue { .. }))
    ));
    assert!(mock.packets().is_empty());
    launch(256, 0).args(args()).run().unwrap();
}

#[test]
fn scratch_memory_is_there_before_the_packet() {
    let (mock, runtime) = open();
    let gpu = runtime.gpu();
    let queue = gpu.queue().unwrap();
    let control = mock.queue_args()[0].read_pointer_address - 0x80;
    assert_eq!(load::<AmdQueue>(control).compute_tmpring_size, 0);
    let kernel = gpu.load(SCRATCH).unwrap().kernel("reverse").unwrap();
    let buffer = gpu.vram().buffer::<u32>(32).unwrap();
    kernel.launch(&queue).grid(1).block(32).args((&buffer, 1u32)).run().unwrap();
    let state: AmdQueue = load(control);
    let tmpring = TmpringSize::from_bits(state.compute_tmpring_size);
    let wave = (u64::from(kernel.info().private_size) * 32).next_multiple_of(256);
    assert_eq!(u64::from(tmpring.wavesize()) * 256, wave);
    assert_eq!(tmpring.waves(), 256, "8 compute units of 32 waves, one engine");
    assert_eq!(state.scratch_backing_memory_byte_size, wave * 256);
    let bo = mock.bos().into_iter().find(|bo| bo.va == state.scratch_backing_memory_location).unwrap();
    assert!(bo.mapped && bo.size >= wave * 256 && bo.flags.contains(AllocFlags::VRAM));
    // A second launch finds enough.
    let before = mock.bos().len();
    kernel.launch(&queue).grid(1).block(32).args((&buffer, 1u32)).run().unwrap();
    assert_eq!(mock.bos().len(), before);
}

#[test]
fn a_full_ring_holds_producers_back_and_loses_nothing() {
    const THREADS: usize = 4;
    const EACH: usize = 200;
    const RING: u64 = 64;
    let (mock, runtime) = open();
    let queue =
        runtime.gpu().queue_with(&QueueOptions { packets: RING as u32, ..QueueOptions::default() }).unwrap();
    mock.hold();
    let barriers: Vec<Completion> = std::thread::scope(|scope| {
        let submit = || (0..EACH).map(|_| queue.barrier_and(&[]).unwrap()).collect::<Vec<_>>();
        let producers: Vec<_> = (0..THREADS).map(|_| scope.spawn(submit)).collect();
        // The ring is full, and each producer has the index of one more packet.
        let begun = Instant::now();
        while mock.write_index() < RING + THREADS as u64 {
            assert!(begun.elapsed() < PATIENCE, "the ring is not filled");
            std::thread::yield_now();
        }
        assert!(producers.iter().all(|producer| !producer.is_finished()));
        assert_eq!(mock.write_index(), RING + THREADS as u64);
        mock.release();
        producers.into_iter().flat_map(|producer| producer.join().unwrap()).collect()
    });
    queue.finish().unwrap();
    let packets = mock.packets();
    assert_eq!(packets.len(), THREADS * EACH + 1);
    assert!(packets.iter().all(|packet| packet[0] == 0x1503));
    // A packet that was overwritten would leave its signal as it is.
    assert!(barriers.iter().all(Completion::is_done));
}

#[test]
fn barriers_wait_for_their_signals() {
    let (mock, runtime) = open();
    let gpu = runtime.gpu();
    let queue = gpu.queue().unwrap();
    let (a, b) = (gpu.signal(1).unwrap(), gpu.signal(1).unwrap());
    let both = queue.barrier_and(&[&a, &b]).unwrap();
    let timeout = Duration::from_millis(1);
    assert_eq!(both.wait_timeout(timeout), Err(QueueError::Timeout(timeout)));
    assert!(!both.is_done() && both.gpu_time().is_none());
    a.store(0);
    b.subtract(1);
    mock.release();
    both.wait_timeout(PATIENCE).unwrap();
    let c = gpu.signal(1).unwrap();
    let either = queue.barrier_or(&[&c, &a]).unwrap();
    either.wait_timeout(PATIENCE).unwrap();
    let six = [&a, &a, &a, &a, &a, &a];
    assert!(matches!(queue.barrier_and(&six), Err(QueueError::Option { value: 6, .. })));
}

#[test]
fn a_stopped_queue_names_the_reason_and_stays_stopped() {
    let (mock, runtime) = open();
    let gpu = runtime.gpu();
    let (queue, other) = (gpu.queue().unwrap(), gpu.queue().unwrap());
    let kernel = gpu.load(VECADD).unwrap().kernel("vecadd").unwrap();
    let buffer = gpu.vram().buffer::<f32>(64).unwrap();
    let launch = |queue| kernel.launch(queue).grid(64).args((&buffer, &buffer, &buffer, 64u32)).run();
    mock.stop_next(0x4000_0000);
    let error = launch(&queue).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the GPU stopped the queue: a wave ran into an illegal instruction (code 0x40000000)"
    );
    let Err(Error::Queue(QueueError::Stopped { code: StopCode(0x4000_0000), fault: None })) = launch(&queue)
    else {
        panic!("a stopped queue took a packet");
    };
    launch(&other).unwrap();
    assert!(queue.finish().is_err());
}

#[test]
fn a_request_for_scratch_is_answered() {
    let (mock, runtime) = open();
    let gpu = runtime.gpu();
    let queue = gpu.queue().unwrap();
    let kernel = gpu.load(SCRATCH).unwrap().kernel("reverse").unwrap();
    let buffer = gpu.vram().buffer::<u32>(32).unwrap();
    mock.stop_next(0x401);
    kernel.launch(&queue).grid(1).block(32).args((&buffer, 1u32)).run().unwrap();
}

#[test]
fn a_memory_fault_ends_waits_with_its_address() {
    let (mock, runtime) = open();
    let gpu = runtime.gpu();
    let queue = gpu.queue().unwrap();
    mock.hold();
    let work = queue.barrier_and(&[]).unwrap();
    let signal = gpu.signal(1).unwrap();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| work.wait());
        mock.raise_fault(0xdead_b000, true);
        let error = waiter.join().unwrap().unwrap_err();
        assert_eq!(error.to_string(), "memory access fault at 0xdeadb000 (the page is read-only)");
    });
    assert!(matches!(signal.wait(Condition::Equal(0), Some(PATIENCE)), Err(SignalError::MemoryFault(_))));
    assert_eq!(signal.wait(Condition::Equal(1), None), Ok(1), "a condition that holds needs no GPU");
}

#[test]
fn what_a_launch_uses_outlives_a_dropped_completion() {
    let (mock, runtime) = open();
    let gpu = runtime.gpu();
    let queue = gpu.queue().unwrap();
    let kernel = gpu.load(VECADD).unwrap().kernel("vecadd").unwrap();
    let buffer = gpu.vram().buffer::<f32>(64).unwrap();
    let address = buffer.address();
    let alive = || mock.bos().iter().any(|bo| bo.va == address);
    mock.hold();
    let _ = kernel.launch(&queue).grid(64).args((&buffer, &buffer, &buffer, 64u32)).submit().unwrap();
    drop(buffer);
    assert!(alive(), "the GPU may still write to it");
    mock.release();
    queue.finish().unwrap();
    let _ = queue.barrier_and(&[]).unwrap();
    assert!(!alive(), "finished work lets go at the next submission");
}

#[test]
fn host_signals_wake_sleeping_threads() {
    let (_mock, runtime) = open();
    let signal = runtime.gpu().signal(0).unwrap();
    std::thread::scope(|scope| {
        let waiters: Vec<_> =
            (0..3).map(|_| scope.spawn(|| signal.wait(Condition::AtLeast(2), Some(PATIENCE)))).collect();
        std::thread::sleep(Duration::from_millis(5));
        signal.add(1);
        signal.add(1);
        for waiter in waiters {
            assert_eq!(waiter.join().unwrap(), Ok(2));
        }
    });
    let error = signal.wait(Condition::Less(0), Some(Duration::from_millis(1)));
    assert_eq!(error, Err(SignalError::Timeout(2)));
}

#[test]
fn without_events_waits_poll() {
    let mock = Mock::default();
    mock.fail("CREATE_EVENT", libc::EINVAL);
    let runtime = Runtime::with_transport(mock.clone()).unwrap();
    let queue = runtime.gpu().queue().unwrap();
    mock.hold();
    let work = queue.barrier_and(&[]).unwrap();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| work.wait_timeout(PATIENCE));
        mock.release();
        waiter.join().unwrap().unwrap();
    });
    assert!(!mock.take_log().contains(&"WAIT_EVENTS".to_owned()));
}
