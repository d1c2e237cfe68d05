//! Owners of shared memory, its life, and what is refused.

use alloc::sync::Arc;

use belfry_abi::gpuvm::{PTE_SYSTEM, PTE_WRITEABLE};
use belfry_abi::kfd::memory::{AllocFlags, ExportDmabufArgs, GetDmabufInfoArgs, ImportDmabufArgs};

use super::info;
use crate::errno::{Errno, Result};
use crate::memory;
use crate::os::{PAGE_SIZE, ProcessKey};
use crate::process::Process;
use crate::testing::{Bench, FD_END, FakeOs, lock, walk};

const VA: u64 = 0x1000_0000;
const ELSEWHERE: u64 = 0x7f00_0040_0000;
const SIZE: u64 = 5 * PAGE_SIZE;

fn export(process: &Arc<Process<FakeOs>>, handle: u64) -> Result<i32> {
    let mut args = ExportDmabufArgs { handle, ..Default::default() };
    memory::export_dmabuf(process, &mut args).map(|()| args.dmabuf_fd as i32)
}

fn import(bench: &Bench, process: &Arc<Process<FakeOs>>, fd: i32) -> Result<u64> {
    let gpu_id = u32::from(bench.device.gpu_id());
    let mut args =
        ImportDmabufArgs { va_addr: ELSEWHERE, gpu_id, dmabuf_fd: fd as u32, ..Default::default() };
    memory::import_dmabuf(process, &mut args).map(|()| args.handle)
}

fn close(bench: &Bench, fd: i32) {
    let memory = lock(&bench.os().descriptors).remove(&fd);
    assert!(memory.is_some());
}

/// Place that a process's page tables lead to.
fn place(bench: &Bench, process: &Process<FakeOs>, va: u64) -> Option<(u64, u64)> {
    let root = process.state.lock().devices.space(0).unwrap().root();
    walk(&bench.device.hw, root, va)
}

#[test]
fn both_processes_have_the_same_pages_with_all_rights() {
    for (kind, system) in [(AllocFlags::VRAM, false), (AllocFlags::GTT, true)] {
        let bench = Bench::new();
        let (one, two) = (bench.process(1), bench.process(2));
        let handle = bench.memory(&one, VA, SIZE, kind);
        let fd = export(&one, handle).unwrap();
        let imported = import(&bench, &two, fd).unwrap();
        assert_eq!(place(&bench, &two, ELSEWHERE), None, "it is mapped when that is asked for");
        memory::map_memory(&two, two.nodes.first(), imported).unwrap();
        for offset in (0..SIZE).step_by(PAGE_SIZE as usize) {
            let (first, _) = place(&bench, &one, VA + offset).unwrap();
            let (second, entry) = place(&bench, &two, ELSEWHERE + offset).unwrap();
            assert_eq!(first, second, "{kind:?} at {offset:#x}");
            assert_eq!(entry & PTE_SYSTEM != 0, system);
            assert_ne!(entry & PTE_WRITEABLE, 0);
        }
        assert_eq!(place(&bench, &two, ELSEWHERE + SIZE), None);
        memory::unmap_memory(&two, two.nodes.first(), imported).unwrap();
        assert_eq!(place(&bench, &two, ELSEWHERE), None);
        assert_eq!(memory::free_memory(&two, imported), Ok(()));
    }
}

#[test]
fn memory_stays_until_its_last_reference_goes_whichever_that_is() {
    // VRAM and system memory that is in use.
    let used = |bench: &Bench| {
        let gtt = bench.device.gtt_used.load(core::sync::atomic::Ordering::Relaxed);
        (bench.device.vram.size() - bench.device.vram.free_bytes(), gtt)
    };
    for kind in [AllocFlags::VRAM, AllocFlags::GTT] {
        let bench = Bench::new();
        let importer = bench.process(2);
        let before = used(&bench);
        let exporter = bench.process(1);
        let handle = bench.memory(&exporter, VA, SIZE, kind);
        let fd = export(&exporter, handle).unwrap();
        // The exporter frees its own, and ends.
        memory::unmap_memory(&exporter, exporter.nodes.first(), handle).unwrap();
        memory::free_memory(&exporter, handle).unwrap();
        bench.end(1);
        drop(exporter);
        let held = used(&bench);
        assert_eq!((held.0 - before.0) + (held.1 - before.1), SIZE, "{kind:?}: the descriptor holds it");
        // Two buffer objects of one descriptor are two references; the memory is counted once.
        let imported = [import(&bench, &importer, fd).unwrap(), import(&bench, &importer, fd).unwrap()];
        assert_ne!(imported[0], imported[1]);
        assert_eq!(used(&bench), held);
        close(&bench, fd);
        // What was imported can be exported again.
        let again = export(&importer, imported[0]).unwrap();
        for handle in imported {
            memory::free_memory(&importer, handle).unwrap();
        }
        assert_eq!(used(&bench), held, "{kind:?}: the second descriptor holds it");
        let last = import(&bench, &importer, again).unwrap();
        close(&bench, again);
        assert_eq!(used(&bench), held);
        assert_eq!(memory::free_memory(&importer, last), Ok(()));
        assert_eq!(used(&bench), before, "{kind:?}");
        assert!(!lock(&bench.os().trace).contains(&"descriptor under a lock"));
    }
}

#[test]
fn imported_memory_goes_with_its_process() {
    let bench = Bench::new();
    let free = bench.device.vram.free_bytes();
    let (one, two) = (bench.process(1), bench.process(2));
    let fd = export(&one, bench.memory(&one, VA, SIZE, AllocFlags::VRAM)).unwrap();
    let imported = import(&bench, &two, fd).unwrap();
    memory::map_memory(&two, two.nodes.first(), imported).unwrap();
    close(&bench, fd);
    bench.end(1);
    assert!(bench.device.vram.free_bytes() < free);
    bench.end(2);
    assert_eq!(bench.device.vram.free_bytes(), free);
}

#[test]
fn info_tells_size_kind_and_gpu_and_that_there_is_no_metadata() {
    let bench = Bench::new();
    let process = bench.process(1);
    for (at, flags, told) in [
        (0u64, AllocFlags::VRAM, AllocFlags::VRAM),
        (
            1,
            AllocFlags::VRAM | AllocFlags::PUBLIC | AllocFlags::COHERENT,
            AllocFlags::VRAM | AllocFlags::PUBLIC,
        ),
        (2, AllocFlags::GTT | AllocFlags::PUBLIC | AllocFlags::EXECUTABLE, AllocFlags::GTT),
    ] {
        let handle = bench.memory(&process, VA + at * SIZE, SIZE, flags);
        let fd = export(&process, handle).unwrap();
        for metadata_ptr in [0, 0xdead_0000] {
            let mut args = GetDmabufInfoArgs {
                metadata_ptr,
                metadata_size: 64,
                dmabuf_fd: fd as u32,
                ..Default::default()
            };
            info(&process, &mut args).unwrap();
            assert_eq!(args.size, SIZE);
            assert_eq!(args.gpu_id, u32::from(bench.device.gpu_id()));
            assert_eq!(args.flags, told.bits(), "{flags:?}");
            assert_eq!(args.metadata_size, if metadata_ptr == 0 { 64 } else { 0 });
        }
    }
}

#[test]
fn what_is_no_memory_of_the_driver_is_refused() {
    let bench = Bench::new();
    let process = bench.process(1);
    let gpu = u64::from(bench.device.gpu_id()) << 32;
    let handle = bench.memory(&process, VA, SIZE, AllocFlags::VRAM);
    let user = bench.memory(&process, 0x2000_0000, PAGE_SIZE, AllocFlags::USERPTR);
    let doorbells = bench.memory(&process, 0x3000_0000, 8192, AllocFlags::DOORBELL);
    let flush = bench.memory(&process, 0x4000_0000, PAGE_SIZE, AllocFlags::MMIO_REMAP);
    for (handle, errno) in [
        (0, Errno::EINVAL),
        (gpu, Errno::EINVAL),
        (gpu | 99, Errno::EINVAL),
        (handle ^ 1 << 32, Errno::EINVAL),
        (u64::MAX, Errno::EINVAL),
        (user, Errno::EPERM),
        (doorbells, Errno::EINVAL),
        (flush, Errno::EINVAL),
    ] {
        assert_eq!(export(&process, handle), Err(errno), "{handle:#x}");
    }
    assert!(lock(&bench.os().descriptors).is_empty());

    let fd = export(&process, handle).unwrap();
    lock(&bench.os().descriptors).insert(fd + 1, None);
    for (fd, errno) in [(-1, Errno::EBADF), (fd + 2, Errno::EBADF), (fd + 1, Errno::EINVAL)] {
        assert_eq!(import(&bench, &process, fd), Err(errno), "{fd}");
        let mut args = GetDmabufInfoArgs { dmabuf_fd: fd as u32, ..Default::default() };
        assert_eq!(info(&process, &mut args), Err(errno), "{fd}");
    }
    let mut args = ImportDmabufArgs {
        gpu_id: u32::from(bench.device.gpu_id()) ^ 1,
        dmabuf_fd: fd as u32,
        ..Default::default()
    };
    assert_eq!(memory::import_dmabuf(&process, &mut args), Err(Errno::EINVAL));
    let without_vm = bench.kfd.open(ProcessKey(2)).unwrap();
    assert_eq!(import(&bench, &without_vm, fd), Err(Errno::ENODEV));

    // An address that cannot be mapped is refused when it is mapped, as for any buffer object.
    args = ImportDmabufArgs { va_addr: VA, gpu_id: u32::from(bench.device.gpu_id()), ..args };
    memory::import_dmabuf(&process, &mut args).unwrap();
    assert_eq!(
        memory::map_memory(&process, process.nodes.first(), args.handle),
        Err(Errno::EINVAL),
        "the exporter's own is there"
    );

    while lock(&bench.os().descriptors).len() < FD_END as usize {
        export(&process, handle).unwrap();
    }
    assert_eq!(export(&process, handle), Err(Errno::EMFILE));
}
