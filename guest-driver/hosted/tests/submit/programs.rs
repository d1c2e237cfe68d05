//! Memory of programs as buffer objects.

use std::sync::atomic::AtomicUsize;

use super::*;

/// A page-aligned range of the test's own memory.
///
/// The kernel puts nothing there by itself: memory that the driver unmaps stays a hole, even if other tests
/// map memory meanwhile.
struct Own {
    at: *mut u32,
    len: usize,
}

impl Own {
    fn new(len: usize) -> Self {
        let prot = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
        static NEXT: AtomicUsize = AtomicUsize::new(0x20_0000_0000);
        let place = std::ptr::without_provenance_mut(NEXT.fetch_add(1 << 20, Ordering::Relaxed));
        // SAFETY: a new mapping where nothing is.
        let at = unsafe { libc::mmap(place, len, prot, flags, -1, 0) };
        assert_ne!(at, libc::MAP_FAILED);
        Self { at: at.cast(), len }
    }

    fn address(&self) -> u64 {
        self.at as u64
    }

    fn word(&self, at: usize) -> &AtomicU32 {
        assert!(at * 4 < self.len);
        // SAFETY: inside the mapping, which lives as long as self.
        unsafe { AtomicU32::from_ptr(self.at.add(at)) }
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        // SAFETY: `new` has made this mapping, and nothing else is ever mapped at these addresses. The driver's call may have unmapped
        // them already.
        unsafe { libc::munmap(self.at.cast(), self.len) };
    }
}

const REGISTER: u32 = GemUserptrFlags::REGISTER.bits();
const VALIDATE: u32 = GemUserptrFlags::VALIDATE.bits();
const READONLY: u32 = GemUserptrFlags::READONLY.bits();
const ANONONLY: u32 = GemUserptrFlags::ANONONLY.bits();

fn userptr(file: &File, addr: u64, size: u64, flags: u32) -> Result<u32, Errno> {
    let mut args = GemUserptrArgs { addr, size, flags, handle: 0 };
    file.call(GEM_USERPTR, &mut args).map(|_| args.handle)
}

/// Submits packets that name a buffer object; the number of the work.
fn submit_naming(file: &File, ib: Memory, packets: &[u32], handle: u32) -> Result<u64, Errno> {
    File::fill(ib, packets);
    let entry = BoListEntry { bo_handle: handle, bo_priority: 0 };
    let list = BoListIn {
        operation: u32::MAX,
        list_handle: u32::MAX,
        bo_number: 1,
        bo_info_size: 8,
        bo_info_ptr: &raw const entry as u64,
    };
    let work =
        Work::default().ib(ib, packets.len(), AMDGPU_HW_IP_COMPUTE).chunk(AMDGPU_CHUNK_ID_BO_HANDLES, &list);
    file.submit(&work)
}

/// Submits a write to `va` that names a buffer object, and waits for it.
fn write_naming(file: &File, ib: Memory, (va, value): (u64, u32), handle: u32) -> Result<u64, Errno> {
    let number = submit_naming(file, ib, &write(va, value), handle)?;
    file.wait(number, AMDGPU_HW_IP_COMPUTE)
}

const VA: u64 = 0x7_0000_0000;

#[test]
fn memory_of_a_program_is_read_and_written_by_work_and_given_back() {
    let gpu = gpu();
    let file = File::open(&gpu);
    let ib = file.memory(PAGE, GTT);
    let own = Own::new(3 * PAGE as usize);
    let before = gpu.pinned_ranges();
    let handle = userptr(&file, own.address(), 3 * PAGE, ANONONLY | REGISTER | VALIDATE).unwrap();
    file.map(handle, VA, 3 * PAGE).unwrap();
    assert_eq!(gpu.pinned_ranges(), before + 1);
    assert_eq!(file.run(ib, &[write(VA + 2 * PAGE + 4, 5)]), Ok(0));
    assert_eq!(own.word(2049).load(Ordering::Acquire), 5);
    own.word(0).store(0x1357, Ordering::Release);
    let dma = copy(VA, VA + PAGE, 4);
    File::fill(ib, &dma);
    let number = file.submit(&Work::default().ib(ib, dma.len(), AMDGPU_HW_IP_DMA)).unwrap();
    assert_eq!(file.wait(number, AMDGPU_HW_IP_DMA), Ok(0));
    assert_eq!(own.word(1024).load(Ordering::Acquire), 0x1357);
    // The handle neither maps the program's memory nor gives it to other processes.
    let mut mmap = GemMmapArgs { value: handle.into() };
    assert_eq!(file.call(GEM_MMAP, &mut mmap), Err(Errno::EPERM));
    let mut prime = DrmPrimeHandle { handle, flags: 0, fd: -1 };
    assert_eq!(file.call(DRM_IOCTL_PRIME_HANDLE_TO_FD, &mut prime), Err(Errno::EPERM));
    let mut made = GemCreateIn::default();
    let mut op = GemOpArgs { handle, op: AMDGPU_GEM_OP_GET_GEM_CREATE_INFO, value: &raw mut made as u64 };
    file.call(GEM_OP, &mut op).unwrap();
    assert_eq!((made.bo_size, made.domains), (3 * PAGE, GTT));
    op = GemOpArgs { handle, op: AMDGPU_GEM_OP_SET_PLACEMENT, value: VRAM };
    assert_eq!(file.call(GEM_OP, &mut op), Err(Errno::EPERM));
    let fence = CsChunkFence { handle, offset: 0 };
    let work = Work::default().ib(ib, dma.len(), AMDGPU_HW_IP_DMA).chunk(AMDGPU_CHUNK_ID_FENCE, &fence);
    assert_eq!(file.submit(&work), Err(Errno::EINVAL), "no place for a fence");
    file.call(DRM_IOCTL_GEM_CLOSE, &mut DrmGemClose { handle, pad: 0 }).unwrap();
    assert_eq!(gpu.pinned_ranges(), before);
    assert_eq!(file.run(ib, &[write(VA, 1)]), Err(Errno::ETIME), "it is mapped no more");
}

#[test]
fn memory_that_a_program_changes_is_followed() {
    let gpu = gpu();
    let file = File::open(&gpu);
    let ib = file.memory(PAGE, GTT);
    let own = Own::new(2 * PAGE as usize);
    let handle = userptr(&file, own.address(), 2 * PAGE, REGISTER).unwrap();
    file.map(handle, VA, 2 * PAGE).unwrap();
    assert_eq!(write_naming(&file, ib, (VA, 1), handle), Ok(0));
    // SAFETY: the test's own memory, which it touches again only after it has mapped it again.
    unsafe { file.process.munmap(own.at.cast(), 2 * PAGE as usize).unwrap() };
    assert_eq!(gpu.pinned_ranges(), 0, "nothing is pinned that is not there");
    assert_eq!(write_naming(&file, ib, (VA, 2), handle), Err(Errno::EFAULT));
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
    let prot = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: where the range was, and nothing is now.
    let again = unsafe { libc::mmap(own.at.cast(), 2 * PAGE as usize, prot, flags, -1, 0) };
    assert_eq!(again, own.at.cast());
    assert_eq!(write_naming(&file, ib, (VA + PAGE, 3), handle), Ok(0));
    assert_eq!([own.word(0), own.word(1024)].map(|word| word.load(Ordering::Acquire)), [0, 3]);
}

#[test]
fn change_waits_for_the_work_that_uses_the_memory() {
    let gpu = gpu();
    let file = File::open(&gpu);
    let [ib, gate] = [(); 2].map(|()| file.memory(PAGE, GTT));
    let own = Own::new(PAGE as usize);
    let handle = userptr(&file, own.address(), PAGE, REGISTER | VALIDATE).unwrap();
    file.map(handle, VA, PAGE).unwrap();
    let packets = [wait_mem(gate.va, 1), write(VA, 9), write(gate.va + 4, 1)].concat();
    let number = submit_naming(&file, ib, &packets, handle).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(std::time::Duration::from_millis(30));
            gate.words[0].store(1, Ordering::Release);
        });
        // SAFETY: the test's own memory, which it does not touch again.
        unsafe { file.process.munmap(own.at.cast(), PAGE as usize).unwrap() };
    });
    assert_eq!(gate.words[1].load(Ordering::Acquire), 1, "the memory went under the work");
    assert_eq!(file.wait(number, AMDGPU_HW_IP_COMPUTE), Ok(0));
}

#[test]
fn memory_of_programs_is_refused_as_amdgpu_refuses_it() {
    let gpu = gpu();
    let file = File::open(&gpu);
    let own = Own::new(4 * PAGE as usize);
    // SAFETY: a part of the test's own memory.
    unsafe { libc::mprotect(own.at.add(2048).cast(), PAGE as usize, libc::PROT_READ) };
    let (at, read_only) = (own.address(), own.address() + 2 * PAGE);
    let path = std::env::current_exe().unwrap();
    let program = std::fs::File::open(path).unwrap();
    let fd = std::os::fd::AsRawFd::as_raw_fd(&program);
    let prot = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping at a place the kernel chooses.
    let of_a_file = unsafe { libc::mmap(std::ptr::null_mut(), 4096, prot, libc::MAP_PRIVATE, fd, 0) } as u64;
    for (what, addr, size, flags, errno) in [
        ("an odd address", at + 8, PAGE, REGISTER, Errno::EINVAL),
        ("an odd size", at, 100, REGISTER, Errno::EINVAL),
        ("an unknown flag", at, PAGE, REGISTER | 1 << 7, Errno::EINVAL),
        ("no notice of changes", at, PAGE, 0, Errno::EACCES),
        ("no bytes", at, 0, REGISTER, Errno::EOVERFLOW),
        ("a range that wraps", u64::MAX - PAGE + 1, 2 * PAGE, REGISTER, Errno::EOVERFLOW),
        ("nothing", 1 << 46, PAGE, REGISTER | VALIDATE, Errno::EFAULT),
        ("the kernel's", 1 << 63, PAGE, REGISTER | VALIDATE, Errno::EFAULT),
        ("what is read only", read_only, PAGE, REGISTER | VALIDATE, Errno::EPERM),
        ("a file", of_a_file, PAGE, REGISTER | VALIDATE | ANONONLY, Errno::EPERM),
        ("more than is mapped", at, 1 << 20, REGISTER | VALIDATE, Errno::EFAULT),
    ] {
        assert_eq!(userptr(&file, addr, size, flags), Err(errno), "{what}");
    }
    for (what, addr, flags) in [
        ("what is read only, to read", read_only, READONLY | VALIDATE),
        ("a file that may be one", of_a_file, REGISTER | VALIDATE),
        ("nothing, to be looked for later", 1 << 46, REGISTER),
    ] {
        assert!(userptr(&file, addr, PAGE, flags).is_ok(), "{what}");
    }
    // SAFETY: the mapping above.
    unsafe { libc::munmap(of_a_file as *mut libc::c_void, 4096) };
}
