//! Submissions over the render node's ioctls: PM4 and copies of libdrm's kind, waits, faults.

#![expect(unsafe_code, reason = "a client of a driver passes pointers")]

mod programs;
mod refused;
mod rings;
mod sync_files;
mod syncobjs;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::common::{Client, PAGE, gpu};
use crate::packets::{halves, packet, set, write};
use belfry_abi::kernel_descriptor::KernelDescriptor;
use belfry_abi::kfd::drm::*;
use belfry_abi::kfd::ioctl as nr;
use belfry_abi::pm4::{ComputeRegister, Opcode};
use belfry_abi::sdma::{Header, Op};
use belfry_kfd_hosted::{Errno, HostedGpu, HostedProcess, Node};
use object::{Object, ObjectSegment, ObjectSymbol};
use zerocopy::{FromBytes, IntoBytes};

static KERNELS: &[u8] = include_bytes!("../../../../device/tests/fixtures/cp.gfx1100.hsaco");
/// A time that never comes.
const FOREVER: u64 = u64::MAX;

/// A command of the render node.
fn call<T>(process: &HostedProcess, node: Node, command: u32, args: &mut T) -> Result<i32, Errno> {
    assert_eq!(nr::ioc_size(command), size_of::<T>());
    process.ioctl(node, command, std::ptr::from_mut(args).cast())
}

/// A file of the render node with a context.
struct File {
    process: HostedProcess,
    node: Node,
    context: u32,
    next: std::cell::Cell<u64>,
}

/// A buffer object that both sides have mapped.
#[derive(Clone, Copy)]
struct Memory {
    handle: u32,
    va: u64,
    words: &'static [AtomicU32],
}

/// Parts of a submission.
#[derive(Clone, Default)]
struct Work {
    chunks: Vec<(u32, Vec<u32>)>,
    list: u32,
}

impl Work {
    fn chunk(mut self, id: u32, data: &(impl IntoBytes + zerocopy::Immutable)) -> Self {
        let words = data.as_bytes().chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap()));
        self.chunks.push((id, words.collect()));
        self
    }

    fn ib(self, memory: Memory, dwords: usize, kind: u32) -> Self {
        self.ib_on(memory, dwords, kind, 0)
    }

    fn ib_on(self, memory: Memory, dwords: usize, kind: u32, ring: u32) -> Self {
        let ib = CsChunkIb {
            va_start: memory.va,
            ib_bytes: dwords as u32 * 4,
            ip_type: kind,
            ring,
            ..Default::default()
        };
        self.chunk(AMDGPU_CHUNK_ID_IB, &ib)
    }
}

impl File {
    fn open(gpu: &Arc<HostedGpu>) -> Self {
        Self::of(HostedProcess::open(gpu).unwrap())
    }

    fn of(process: HostedProcess) -> Self {
        Self::on(process, Node::Render)
    }

    fn on(process: HostedProcess, node: Node) -> Self {
        let mut args = CtxIn { op: AMDGPU_CTX_OP_ALLOC_CTX, ..Default::default() };
        call(&process, node, CTX, &mut args).unwrap();
        Self { process, node, context: args.op, next: std::cell::Cell::new(0x1_0000_0000) }
    }

    fn call<T>(&self, command: u32, args: &mut T) -> Result<i32, Errno> {
        call(&self.process, self.node, command, args)
    }

    /// Maps a buffer object for the GPU, which may do everything with it.
    fn map(&self, handle: u32, va: u64, size: u64) -> Result<i32, Errno> {
        let flags = GemVaFlags::READABLE | GemVaFlags::WRITEABLE | GemVaFlags::EXECUTABLE;
        let mut args = GemVaArgs {
            handle,
            operation: AMDGPU_VA_OP_MAP,
            flags: flags.bits(),
            va_address: va,
            map_size: size,
            ..Default::default()
        };
        self.call(GEM_VA, &mut args)
    }

    fn memory(&self, size: u64, domains: u64) -> Memory {
        let mut args = GemCreateIn { bo_size: size, domains, ..Default::default() };
        self.call(GEM_CREATE, &mut args).unwrap();
        let handle = args.bo_size as u32;
        let va = self.next.replace(self.next.get() + size.next_multiple_of(1 << 21));
        self.map(handle, va, size).unwrap();
        let mut offset = GemMmapArgs { value: handle.into() };
        self.call(GEM_MMAP, &mut offset).unwrap();
        let prot = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: no address is asked for; the map stays while the process is there.
        let words = unsafe {
            let at = self.process.mmap(self.node, None, size as usize, prot, offset.value).unwrap();
            std::slice::from_raw_parts(at.cast(), size as usize / 4)
        };
        Memory { handle, va, words }
    }

    /// Puts dwords into memory.
    fn fill(memory: Memory, dwords: &[u32]) {
        memory.words.iter().zip(dwords).for_each(|(word, &value)| word.store(value, Ordering::Relaxed));
    }

    fn submit(&self, work: &Work) -> Result<u64, Errno> {
        let chunks: Vec<CsChunk> = work
            .chunks
            .iter()
            .map(|(id, data)| CsChunk {
                chunk_id: *id,
                length_dw: data.len() as u32,
                chunk_data: data.as_ptr() as u64,
            })
            .collect();
        let addresses: Vec<u64> = chunks.iter().map(|chunk| std::ptr::from_ref(chunk) as u64).collect();
        let mut args = CsIn {
            ctx_id: self.context,
            bo_list_handle: work.list,
            num_chunks: addresses.len() as u32,
            flags: 0,
            chunks: addresses.as_ptr() as u64,
        };
        self.call(CS, &mut args)?;
        // The answer is in front.
        Ok(u64::from(args.ctx_id) | u64::from(args.bo_list_handle) << 32)
    }

    fn wait_on(&self, number: u64, (kind, ring): (u32, u32), timeout: u64) -> Result<u64, Errno> {
        let mut args =
            WaitCsIn { handle: number, timeout, ip_type: kind, ip_instance: 0, ring, ctx_id: self.context };
        self.call(WAIT_CS, &mut args)?;
        Ok(args.handle)
    }

    fn wait(&self, number: u64, kind: u32) -> Result<u64, Errno> {
        self.wait_on(number, (kind, 0), FOREVER)
    }

    /// Runs packets on the compute ring.
    fn run(&self, ib: Memory, packets: &[Vec<u32>]) -> Result<u64, Errno> {
        let packets = packets.concat();
        Self::fill(ib, &packets);
        let number = self.submit(&Work::default().ib(ib, packets.len(), AMDGPU_HW_IP_COMPUTE))?;
        self.wait(number, AMDGPU_HW_IP_COMPUTE)
    }

    fn state(&self) -> u64 {
        let mut args = CtxIn { op: AMDGPU_CTX_OP_QUERY_STATE2, ctx_id: self.context, ..Default::default() };
        self.call(CTX, &mut args).unwrap();
        u64::from(args.op)
    }
}

/// A wait for memory to be a value.
fn wait_mem(at: u64, value: u32) -> Vec<u32> {
    packet(Opcode::WAIT_REG_MEM, &[&[3 | 1 << 4][..], &halves(at), &[value, u32::MAX, 4]].concat())
}

fn copy(from: u64, to: u64, bytes: u32) -> Vec<u32> {
    [&[Header::new(Op::COPY, 0).bits(), bytes - 1, 0][..], &halves(from), &halves(to)].concat()
}

/// Loads a kernel of the fixture: the registers for it, workgroups of 256.
fn program(code: Memory, name: &str, args: u64) -> Vec<u32> {
    let file = object::File::parse(KERNELS).unwrap();
    for segment in file.segments() {
        for (at, &byte) in segment.data().unwrap().iter().enumerate() {
            let at = segment.address() as usize + at;
            let shifted = u32::from(byte) << (at % 4 * 8);
            code.words[at / 4].fetch_or(shifted, Ordering::Relaxed);
        }
    }
    let symbol = file.dynamic_symbols().find(|symbol| symbol.name() == Ok(name)).unwrap();
    let bytes = file.segments().find_map(|segment| segment.data_range(symbol.address(), 64).ok()?).unwrap();
    let descriptor = KernelDescriptor::read_from_bytes(bytes).unwrap();
    let entry = (code.va + symbol.address()).wrapping_add_signed(descriptor.kernel_code_entry_byte_offset);
    let (rsrc1, rsrc2) = (descriptor.compute_pgm_rsrc1.bits(), descriptor.compute_pgm_rsrc2.bits());
    [
        set(ComputeRegister::PGM_LO, &halves(entry >> 8)),
        set(ComputeRegister::PGM_RSRC1, &[rsrc1, rsrc2 | 2 << 15]),
        set(ComputeRegister::PGM_RSRC3, &[descriptor.compute_pgm_rsrc3.bits()]),
        set(ComputeRegister::START_X, &[0, 0, 0, 256, 1, 1]),
        set(ComputeRegister::USER_DATA_0, &halves(args)),
    ]
    .concat()
}

const GTT: u64 = AMDGPU_GEM_DOMAIN_GTT;
const VRAM: u64 = AMDGPU_GEM_DOMAIN_VRAM;

#[test]
fn compute_ring_runs_a_kernel_and_its_fence_comes_after_it() {
    let gpu = gpu();
    let file = File::open(&gpu);
    let code = file.memory(64 << 10, VRAM);
    let [ib, input, output, args, user_fence] = [(); 5].map(|()| file.memory(PAGE, GTT));
    (0..512).for_each(|at| input.words[at].store(at as u32, Ordering::Relaxed));
    File::fill(args, &[halves(input.va), halves(output.va)].concat());
    let packets =
        [program(code, "reverse.kd", args.va), packet(Opcode::DISPATCH_DIRECT, &[512, 1, 1, 0x8021])]
            .concat();
    File::fill(ib, &packets);
    let fence = CsChunkFence { handle: user_fence.handle, offset: 64 };
    let work =
        Work::default().ib(ib, packets.len(), AMDGPU_HW_IP_COMPUTE).chunk(AMDGPU_CHUNK_ID_FENCE, &fence);
    for round in 1..40 {
        (0..512).for_each(|at| output.words[at].store(0, Ordering::Relaxed));
        let number = file.submit(&work).unwrap();
        assert_eq!(number, round);
        assert_eq!(file.wait(number, AMDGPU_HW_IP_COMPUTE), Ok(0), "round {round}");
        let reversed = |at: u32| at / 256 * 256 + 255 - at % 256;
        let value = |at: u32| output.words[at as usize].load(Ordering::Relaxed);
        assert!((0..512).all(|at| value(at) == reversed(at)), "round {round}");
        assert_eq!(user_fence.words[16].load(Ordering::Acquire), round as u32, "the program's fence");
    }
    assert_eq!(gpu.device().stats().errors, Default::default());
}

#[test]
fn copy_rings_copy_and_compute_waits_for_them() {
    let gpu = gpu();
    let file = File::open(&gpu);
    let (from, to) = (file.memory(1 << 20, GTT), file.memory(1 << 20, VRAM));
    from.words.iter().enumerate().for_each(|(at, word)| word.store(at as u32 * 7, Ordering::Relaxed));
    for ring in [0, 1] {
        to.words.iter().for_each(|word| word.store(0, Ordering::Relaxed));
        let [dma, compute] = [(); 2].map(|()| file.memory(PAGE, GTT));
        let packets = copy(from.va, to.va, 1 << 20);
        File::fill(dma, &packets);
        let work = Work::default().ib_on(dma, packets.len(), AMDGPU_HW_IP_DMA, ring);
        let copied = file.submit(&work).unwrap();
        // The other engine overwrites the first word, after the copy.
        let over = write(to.va, 0x1234);
        File::fill(compute, &over);
        let after = CsChunkDep {
            ip_type: AMDGPU_HW_IP_DMA,
            ip_instance: 0,
            ring,
            ctx_id: file.context,
            handle: copied,
        };
        let work = Work::default()
            .ib(compute, over.len(), AMDGPU_HW_IP_COMPUTE)
            .chunk(AMDGPU_CHUNK_ID_DEPENDENCIES, &after);
        let number = file.submit(&work).unwrap();
        assert_eq!(file.wait(number, AMDGPU_HW_IP_COMPUTE), Ok(0));
        assert_eq!(file.wait_on(copied, (AMDGPU_HW_IP_DMA, ring), 0), Ok(0), "what came before is over");
        assert_eq!(to.words[0].load(Ordering::Acquire), 0x1234);
        let same = |at: usize| to.words[at].load(Ordering::Relaxed) == at as u32 * 7;
        assert!((1..to.words.len()).all(same), "ring {ring}");
    }
}

#[test]
fn waits_tell_what_is_over_and_what_is_not() {
    let gpu = gpu();
    let file = File::open(&gpu);
    let [gate, ib, quick] = [(); 3].map(|()| file.memory(PAGE, GTT));
    let packets = [wait_mem(gate.va, 1), write(gate.va + 4, 7)].concat();
    File::fill(ib, &packets);
    let entry = BoListEntry { bo_handle: gate.handle, bo_priority: 0 };
    let mut list = BoListIn {
        operation: AMDGPU_BO_LIST_OP_CREATE,
        bo_number: 1,
        bo_info_size: size_of::<BoListEntry>() as u32,
        bo_info_ptr: &raw const entry as u64,
        ..Default::default()
    };
    file.call(BO_LIST, &mut list).unwrap();
    let work = Work { list: list.operation, ..Work::default().ib(ib, packets.len(), AMDGPU_HW_IP_COMPUTE) };
    let slow = file.submit(&work).unwrap();
    // Another ring of the same kind goes on.
    File::fill(quick, &write(gate.va + 8, 9));
    let done = file.submit(&Work::default().ib_on(quick, 5, AMDGPU_HW_IP_COMPUTE, 1)).unwrap();
    assert_eq!(file.wait_on(done, (AMDGPU_HW_IP_COMPUTE, 1), FOREVER), Ok(0));
    assert_eq!(file.wait_on(slow, (AMDGPU_HW_IP_COMPUTE, 0), 0), Ok(1), "it is not over");
    let idle = |file: &File| {
        let mut args = GemWaitIdleIn { handle: gate.handle, flags: 0, timeout: 0 };
        file.call(GEM_WAIT_IDLE, &mut args).map(|_| args.handle)
    };
    assert_eq!(idle(&file), Ok(1), "the list's memory is in use");
    let fence = |seq_no, ring| DrmAmdgpuFence {
        ctx_id: file.context,
        ip_type: AMDGPU_HW_IP_COMPUTE,
        ip_instance: 0,
        ring,
        seq_no,
    };
    let fences = [fence(slow, 0), fence(done, 1)];
    let wait = |wait_all, timeout_ns| {
        let mut args = WaitFencesIn { fences: fences.as_ptr() as u64, fence_count: 2, wait_all, timeout_ns };
        file.call(WAIT_FENCES, &mut args).map(|_| [args.fences as u32, (args.fences >> 32) as u32])
    };
    assert_eq!(wait(0, FOREVER), Ok([1, 1]), "the second one is over");
    assert_eq!(wait(1, 0), Ok([0, 0]));
    gate.words[0].store(1, Ordering::Release);
    assert_eq!(wait(1, FOREVER), Ok([1, 0]));
    assert_eq!((gate.words[1].load(Ordering::Acquire), idle(&file)), (7, Ok(0)));
    list =
        BoListIn { operation: AMDGPU_BO_LIST_OP_DESTROY, list_handle: list.operation, ..Default::default() };
    file.call(BO_LIST, &mut list).unwrap();
    assert_eq!(file.submit(&work), Err(Errno::ENOENT), "the list is gone");
}

/// Makes another context of the same file, and runs `with` with it.
fn with_context<R>(file: &mut File, with: impl FnOnce(&File) -> R) -> R {
    let mut args = CtxIn { op: AMDGPU_CTX_OP_ALLOC_CTX, ..Default::default() };
    file.call(CTX, &mut args).unwrap();
    let before = std::mem::replace(&mut file.context, args.op);
    let result = with(file);
    file.context = before;
    result
}

#[test]
fn fault_ends_the_work_and_blames_its_context_alone() {
    let gpu = gpu();
    let mut file = File::open(&gpu);
    let other = File::open(&gpu);
    let [ib, data] = [(); 2].map(|()| file.memory(PAGE, GTT));
    let [far_ib, far] = [(); 2].map(|()| other.memory(PAGE, GTT));
    assert_eq!(file.run(ib, &[write(data.va, 1)]), Ok(0));
    let mut resets = 0;
    for (what, bad) in [
        ("an address without memory", write(0x7000_0000_0000, 1)),
        ("a packet that is refused", packet(Opcode::MEM_SEMAPHORE, &[0, 0])),
    ] {
        with_context(&mut file, |guilty| {
            assert_eq!(guilty.run(ib, &[write(data.va, 2), bad]), Err(Errno::ETIME), "{what}");
            assert_eq!(data.words[0].load(Ordering::Acquire), 2, "{what}: what came before was done");
            let blamed = AMDGPU_CTX_QUERY2_FLAGS_RESET | AMDGPU_CTX_QUERY2_FLAGS_GUILTY;
            assert_eq!(guilty.state(), u64::from(blamed), "{what}");
            assert_eq!(guilty.run(ib, &[write(data.va, 3)]), Err(Errno::ECANCELED), "{what}");
        });
        resets += 1;
        // The first context had no part in it, and goes on, on a new ring.
        assert_eq!(file.state(), u64::from(AMDGPU_CTX_QUERY2_FLAGS_RESET), "{what}");
        let ask = |file: &File| {
            let op = AMDGPU_CTX_OP_QUERY_STATE;
            let mut args = CtxIn { op, ctx_id: file.context, ..Default::default() };
            file.call(CTX, &mut args).map(|_| args.priority)
        };
        assert_eq!([ask(&file), ask(&file)], [Ok(AMDGPU_CTX_UNKNOWN_RESET as i32), Ok(0)], "{what}");
        assert_eq!(file.run(ib, &[write(data.va, 10 + resets)]), Ok(0), "{what}");
        assert_eq!(data.words[0].load(Ordering::Acquire), 10 + resets, "{what}");
        // Nor has another file.
        assert_eq!((other.run(far_ib, &[write(far.va, resets)]), other.state()), (Ok(0), 0), "{what}");
    }
    // A copy of nothing's memory as well.
    let packets = copy(0x7000_0000_0000, data.va, 64);
    with_context(&mut file, |guilty| {
        File::fill(ib, &packets);
        let number = guilty.submit(&Work::default().ib(ib, packets.len(), AMDGPU_HW_IP_DMA)).unwrap();
        assert_eq!(guilty.wait(number, AMDGPU_HW_IP_DMA), Err(Errno::ETIME));
    });
}

#[test]
fn work_goes_on_with_that_of_others_when_a_file_is_closed_with_work_that_never_ends() {
    let gpu = gpu();
    let file = File::open(&gpu);
    let [gate, ib] = [(); 2].map(|()| file.memory(PAGE, GTT));
    for ring in 0..4 {
        let packets = wait_mem(gate.va, 1);
        File::fill(ib, &packets);
        file.submit(&Work::default().ib_on(ib, packets.len(), AMDGPU_HW_IP_COMPUTE, ring)).unwrap();
    }
    drop(file);
    let next = File::open(&gpu);
    let [ib, data] = [(); 2].map(|()| next.memory(PAGE, VRAM));
    assert_eq!(next.run(ib, &[write(data.va, 5)]), Ok(0));
    assert_eq!(data.words[0].load(Ordering::Acquire), 5);
    assert_eq!(gpu.device().stats().errors, Default::default());
}

#[test]
fn memory_of_one_file_is_used_by_one_after_the_other() {
    let gpu = gpu();
    let (one, two) = (File::open(&gpu), File::open(&gpu));
    let [gate, ib] = [(); 2].map(|()| one.memory(PAGE, GTT));
    let shared = one.memory(PAGE, GTT);
    let mut prime = DrmPrimeHandle { handle: shared.handle, flags: libc::O_CLOEXEC as u32, fd: -1 };
    one.call(DRM_IOCTL_PRIME_HANDLE_TO_FD, &mut prime).unwrap();
    let mut imported = DrmPrimeHandle { fd: prime.fd, ..Default::default() };
    two.call(DRM_IOCTL_PRIME_FD_TO_HANDLE, &mut imported).unwrap();
    // SAFETY: the descriptor is the test's own.
    unsafe { libc::close(prime.fd) };
    let mut map = GemVaArgs {
        handle: imported.handle,
        operation: AMDGPU_VA_OP_MAP,
        flags: GemVaFlags::all().difference(GemVaFlags::PRT | GemVaFlags::MTYPE).bits(),
        va_address: 0x5000_0000,
        map_size: PAGE,
        ..Default::default()
    };
    two.call(GEM_VA, &mut map).unwrap();
    let uses = |handle: u32| {
        let entry = Box::leak(Box::new(BoListEntry { bo_handle: handle, bo_priority: 0 }));
        BoListIn {
            operation: u32::MAX,
            list_handle: u32::MAX,
            bo_number: 1,
            bo_info_size: 8,
            bo_info_ptr: std::ptr::from_ref(entry) as u64,
        }
    };
    let first = [wait_mem(gate.va, 1), write(shared.va, 1)].concat();
    File::fill(ib, &first);
    let work = Work::default()
        .ib(ib, first.len(), AMDGPU_HW_IP_COMPUTE)
        .chunk(AMDGPU_CHUNK_ID_BO_HANDLES, &uses(shared.handle));
    one.submit(&work).unwrap();
    // The second file's work waits for the first one's, as both name the memory.
    let second = two.memory(PAGE, GTT);
    let after = write(map.va_address, 2);
    File::fill(second, &after);
    let work = Work::default()
        .ib(second, after.len(), AMDGPU_HW_IP_COMPUTE)
        .chunk(AMDGPU_CHUNK_ID_BO_HANDLES, &uses(imported.handle));
    let number = two.submit(&work).unwrap();
    assert_eq!(two.wait_on(number, (AMDGPU_HW_IP_COMPUTE, 0), 0), Ok(1), "the memory is in use");
    gate.words[0].store(1, Ordering::Release);
    assert_eq!(two.wait(number, AMDGPU_HW_IP_COMPUTE), Ok(0));
    assert_eq!(shared.words[0].load(Ordering::Acquire), 2);
}

#[test]
fn kfd_and_submissions_work_side_by_side_in_one_address_space() {
    let gpu = gpu();
    let Client { process, gpu_id } = Client::open(&gpu);
    let file = File::of(process);
    let [ib, data] = [(); 2].map(|()| file.memory(PAGE, VRAM));
    assert_eq!(file.run(ib, &[write(data.va, 1)]), Ok(0));
    let client = Client { process: file.process, gpu_id };
    client.check_queue_works();
    // A fault of the file's work is none of the process's.
    let file = File::of(client.process);
    assert_eq!(file.run(ib, &[write(0x7000_0000_0000, 1)]), Err(Errno::ETIME));
    let file = File::of(file.process);
    assert_eq!(file.run(ib, &[write(data.va, 2)]), Ok(0));
    assert_eq!(data.words[0].load(Ordering::Acquire), 2);
    let client = Client { process: file.process, gpu_id };
    let queue = client.create_queue().unwrap();
    client.destroy_queue(queue.args.queue_id).unwrap();
}

#[test]
fn more_work_than_is_remembered_is_done_in_order() {
    let gpu = gpu();
    let file = File::open(&gpu);
    let data = file.memory(PAGE, GTT);
    let ibs: Vec<Memory> = (0..100).map(|_| file.memory(PAGE, GTT)).collect();
    for (at, ib) in ibs.iter().enumerate() {
        let packets = write(data.va, at as u32);
        File::fill(*ib, &packets);
        let work = Work::default().ib(*ib, packets.len(), AMDGPU_HW_IP_COMPUTE);
        assert_eq!(file.submit(&work), Ok(at as u64 + 1));
    }
    assert_eq!(file.wait(100, AMDGPU_HW_IP_COMPUTE), Ok(0));
    assert_eq!(data.words[0].load(Ordering::Acquire), 99);
    assert_eq!(file.wait(1, AMDGPU_HW_IP_COMPUTE), Ok(0), "so old that it is over");
    assert_eq!(file.wait(u64::MAX, AMDGPU_HW_IP_COMPUTE), Ok(0), "the last one");
    assert_eq!(file.wait(101, AMDGPU_HW_IP_COMPUTE), Err(Errno::EINVAL));
}
