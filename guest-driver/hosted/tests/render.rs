//! The render node over its ioctls: buffer objects of libdrm's kind, their handles, maps and sharing, and questions.

#![expect(unsafe_code, reason = "a client of a driver passes pointers")]

use std::sync::atomic::{AtomicU64, Ordering};

use crate::common::{Client, PAGE, RW, gpu, reserve};
use belfry_abi::kfd::drm::*;
use belfry_abi::kfd::ioctl as nr;
use belfry_abi::kfd::memory::{AllocFlags, GetDmabufInfoArgs, ImportDmabufArgs};
use belfry_kfd_hosted::{Errno, HostedProcess, Node};

/// A command of the render node.
fn call<T>(process: &HostedProcess, command: u32, args: &mut T) -> Result<i32, Errno> {
    assert_eq!(nr::ioc_size(command), size_of::<T>());
    process.ioctl(Node::Render, command, std::ptr::from_mut(args).cast())
}

fn create(process: &HostedProcess, size: u64, domains: u64) -> Result<u32, Errno> {
    let mut args = GemCreateIn { bo_size: size, domains, ..Default::default() };
    call(process, GEM_CREATE, &mut args)?;
    assert_eq!((args.alignment, args.domains, args.domain_flags), (0, 0, 0), "zeros behind the answer");
    Ok(args.bo_size as u32)
}

fn close(process: &HostedProcess, handle: u32) -> Result<i32, Errno> {
    call(process, DRM_IOCTL_GEM_CLOSE, &mut DrmGemClose { handle, pad: 0 })
}

/// Maps a buffer object for the processor.
fn mapped(process: &HostedProcess, handle: u32, size: u64) -> Result<&'static [AtomicU64], Errno> {
    let mut args = GemMmapArgs { value: handle.into() };
    call(process, GEM_MMAP, &mut args)?;
    let prot = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: no address is asked for; the map stays while the process is there.
    unsafe {
        let at = process.mmap(Node::Render, None, size as usize, prot, args.value)?;
        Ok(std::slice::from_raw_parts(at.cast(), size as usize / 8))
    }
}

#[test]
fn objects_are_mapped_told_about_and_given_back() {
    let gpu = gpu();
    let process = HostedProcess::open(&gpu).unwrap();
    for domain in [AMDGPU_GEM_DOMAIN_VRAM, AMDGPU_GEM_DOMAIN_GTT] {
        let handle = create(&process, 3 * PAGE - 1, domain).unwrap();
        let memory = mapped(&process, handle, 3 * PAGE).unwrap();
        assert!(memory.iter().all(|quad| quad.load(Ordering::Relaxed) == 0));
        memory[3 * PAGE as usize / 8 - 1].store(77, Ordering::Relaxed);
        let again = mapped(&process, handle, 3 * PAGE).unwrap();
        assert_eq!(again[3 * PAGE as usize / 8 - 1].load(Ordering::Relaxed), 77, "the same memory");
        let mut told = GemCreateIn::default();
        let mut args =
            GemOpArgs { handle, op: AMDGPU_GEM_OP_GET_GEM_CREATE_INFO, value: &raw mut told as u64 };
        call(&process, GEM_OP, &mut args).unwrap();
        assert_eq!((told.bo_size, told.domains, told.alignment), (3 * PAGE, domain, PAGE));
        let placed = AMDGPU_GEM_DOMAIN_GTT | AMDGPU_GEM_DOMAIN_VRAM;
        args = GemOpArgs { op: AMDGPU_GEM_OP_SET_PLACEMENT, value: placed, ..args };
        call(&process, GEM_OP, &mut args).unwrap();
        args = GemOpArgs { op: AMDGPU_GEM_OP_GET_GEM_CREATE_INFO, value: &raw mut told as u64, ..args };
        call(&process, GEM_OP, &mut args).unwrap();
        assert_eq!(told.domains, placed);
        args.value = 8;
        assert_eq!(call(&process, GEM_OP, &mut args), Err(Errno::EFAULT));
        let mut idle = GemWaitIdleIn { handle, flags: 0, timeout: 0 };
        call(&process, GEM_WAIT_IDLE, &mut idle).unwrap();
        assert_eq!(idle.handle, 0, "nothing uses it");
        close(&process, handle).unwrap();
        assert_eq!(close(&process, handle), Err(Errno::EINVAL));
        assert_eq!(mapped(&process, handle, PAGE).err(), Some(Errno::ENOENT));
        assert_eq!(again[3 * PAGE as usize / 8 - 1].load(Ordering::Relaxed), 77, "maps outlive handles");
    }
    let mut private = GemCreateIn {
        bo_size: PAGE,
        domains: AMDGPU_GEM_DOMAIN_VRAM,
        domain_flags: GemCreateFlags::NO_CPU_ACCESS.bits(),
        ..Default::default()
    };
    call(&process, GEM_CREATE, &mut private).unwrap();
    assert_eq!(mapped(&process, private.bo_size as u32, PAGE).err(), Some(Errno::EPERM));
}

#[test]
fn metadata_goes_with_the_memory_and_not_with_the_handle() {
    let gpu = gpu();
    let client = Client::open(&gpu);
    let process = &client.process;
    let handle = create(process, PAGE, AMDGPU_GEM_DOMAIN_VRAM).unwrap();
    let mut args = GemMetadataArgs {
        handle,
        op: AMDGPU_GEM_METADATA_OP_SET_METADATA,
        flags: 5,
        tiling_info: 6,
        data_size_bytes: 12,
        ..Default::default()
    };
    args.data[0][..3].copy_from_slice(&[1, 2, 3]);
    call(process, GEM_METADATA, &mut args).unwrap();
    let mut prime = DrmPrimeHandle { handle, flags: libc::O_CLOEXEC as u32, fd: -1 };
    call(process, DRM_IOCTL_PRIME_HANDLE_TO_FD, &mut prime).unwrap();
    // KFD tells of it, and so does a handle that is made of the descriptor.
    let mut data = [0u32; 3];
    let mut info = GetDmabufInfoArgs {
        metadata_ptr: data.as_mut_ptr() as u64,
        metadata_size: 12,
        dmabuf_fd: prime.fd as u32,
        ..Default::default()
    };
    client.ioctl(nr::GET_DMABUF_INFO, &mut info).unwrap();
    assert_eq!((data, info.metadata_size, info.size), ([1, 2, 3], 12, PAGE));
    info.metadata_size = 8;
    assert_eq!(client.ioctl(nr::GET_DMABUF_INFO, &mut info), Err(Errno::EINVAL), "no room");
    let mut back = DrmPrimeHandle { fd: prime.fd, ..Default::default() };
    call(process, DRM_IOCTL_PRIME_FD_TO_HANDLE, &mut back).unwrap();
    assert_eq!(back.handle, handle, "memory has one handle in a file");
    close(process, handle).unwrap();
    call(process, DRM_IOCTL_PRIME_FD_TO_HANDLE, &mut back).unwrap();
    let mut told = GemMetadataArgs {
        handle: back.handle,
        op: AMDGPU_GEM_METADATA_OP_GET_METADATA,
        ..Default::default()
    };
    call(process, GEM_METADATA, &mut told).unwrap();
    assert_eq!((told.flags, told.tiling_info, told.data_size_bytes, told.data), (5, 6, 12, args.data));
    // SAFETY: the descriptor is the test's own.
    unsafe { libc::close(prime.fd) };
}

/// A mark, as ROCr's IPC and Mesa attach one.
fn attach(process: &HostedProcess, handle: u32, words: &[u32]) {
    let op = AMDGPU_GEM_METADATA_OP_SET_METADATA;
    let size = size_of_val(words) as u32;
    let mut args =
        GemMetadataArgs { handle, op, flags: 5, tiling_info: 6, data_size_bytes: size, ..Default::default() };
    args.data.as_flattened_mut()[..words.len()].copy_from_slice(words);
    call(process, GEM_METADATA, &mut args).unwrap();
}

fn attached(process: &HostedProcess, handle: u32) -> Result<Vec<u32>, Errno> {
    let op = AMDGPU_GEM_METADATA_OP_GET_METADATA;
    let mut args = GemMetadataArgs { handle, op, ..Default::default() };
    call(process, GEM_METADATA, &mut args)?;
    assert!(args.data_size_bytes == 0 || (args.flags, args.tiling_info) == (5, 6));
    Ok(args.data.as_flattened()[..args.data_size_bytes as usize / 4].to_vec())
}

/// The driver of the importer is another one, as it is in another process.
#[test]
fn metadata_is_that_of_the_memory_for_other_drivers_too() {
    let (gpu, other) = (gpu(), gpu());
    let (exporter, importer) = (HostedProcess::open(&gpu).unwrap(), HostedProcess::open(&other).unwrap());
    for domain in [AMDGPU_GEM_DOMAIN_VRAM, AMDGPU_GEM_DOMAIN_GTT] {
        let handle = create(&exporter, PAGE, domain).unwrap();
        attach(&exporter, handle, &[1, 2, 3]);
        let mut prime = DrmPrimeHandle { handle, flags: libc::O_CLOEXEC as u32, fd: -1 };
        call(&exporter, DRM_IOCTL_PRIME_HANDLE_TO_FD, &mut prime).unwrap();
        let mut there = DrmPrimeHandle { fd: prime.fd, ..Default::default() };
        call(&importer, DRM_IOCTL_PRIME_FD_TO_HANDLE, &mut there).unwrap();
        assert_eq!(attached(&importer, there.handle), Ok(vec![1, 2, 3]), "from before the export");
        attach(&exporter, handle, &[7; 64]);
        assert_eq!(attached(&importer, there.handle), Ok(vec![7; 64]), "from after the import");
        attach(&importer, there.handle, &[8, 9]);
        assert_eq!(attached(&exporter, handle), Ok(vec![8, 9]), "from the importer");
        let mut data = [0u32; 2];
        let mut info = GetDmabufInfoArgs {
            metadata_ptr: data.as_mut_ptr() as u64,
            metadata_size: 8,
            dmabuf_fd: prime.fd as u32,
            ..Default::default()
        };
        for process in [&exporter, &importer] {
            data = [0; 2];
            process.ioctl(Node::Kfd, nr::GET_DMABUF_INFO, (&raw mut info).cast()).unwrap();
            assert_eq!((data, info.metadata_size), ([8, 9], 8));
        }
        // The mapping is still there when no process shares the memory any more, and goes with it.
        close(&importer, there.handle).unwrap();
        // SAFETY: the descriptor is the test's own.
        unsafe { libc::close(prime.fd) };
        create(&exporter, PAGE, domain).unwrap();
        assert_eq!(attached(&exporter, handle), Ok(vec![8, 9]), "after the importer");
        attach(&exporter, handle, &[4]);
        call(&exporter, DRM_IOCTL_PRIME_HANDLE_TO_FD, &mut prime).unwrap();
        let mut there = DrmPrimeHandle { fd: prime.fd, ..Default::default() };
        call(&importer, DRM_IOCTL_PRIME_FD_TO_HANDLE, &mut there).unwrap();
        assert_eq!(attached(&importer, there.handle), Ok(vec![4]), "of a second export");
        // SAFETY: the descriptor is the test's own.
        unsafe { libc::close(prime.fd) };
    }
}

#[test]
fn memory_goes_from_kfd_to_the_render_node_and_back() {
    let gpu = gpu();
    let client = Client::open(&gpu);
    let process = &client.process;
    let buffer = client.alloc(2 * PAGE, AllocFlags::VRAM | AllocFlags::PUBLIC | RW).unwrap();
    buffer.quad(PAGE).store(99, Ordering::Relaxed);
    let mut export =
        belfry_abi::kfd::memory::ExportDmabufArgs { handle: buffer.handle, ..Default::default() };
    client.ioctl(nr::EXPORT_DMABUF, &mut export).unwrap();
    let mut prime = DrmPrimeHandle { fd: export.dmabuf_fd as i32, ..Default::default() };
    call(process, DRM_IOCTL_PRIME_FD_TO_HANDLE, &mut prime).unwrap();
    let memory = mapped(process, prime.handle, 2 * PAGE).unwrap();
    assert_eq!(memory[PAGE as usize / 8].load(Ordering::Relaxed), 99);
    // Where KFD has it mapped, GEM_VA may not map it, and beside it, it may.
    let mut va = GemVaArgs {
        handle: prime.handle,
        operation: AMDGPU_VA_OP_MAP,
        flags: GemVaFlags::READABLE.bits(),
        va_address: buffer.va,
        map_size: PAGE,
        ..Default::default()
    };
    assert_eq!(call(process, GEM_VA, &mut va), Err(Errno::EINVAL));
    va.va_address = reserve(PAGE);
    call(process, GEM_VA, &mut va).unwrap();
    // And the other way round.
    let handle = create(process, PAGE, AMDGPU_GEM_DOMAIN_GTT).unwrap();
    let mut prime = DrmPrimeHandle { handle, flags: (libc::O_CLOEXEC | libc::O_RDWR) as u32, fd: -1 };
    call(process, DRM_IOCTL_PRIME_HANDLE_TO_FD, &mut prime).unwrap();
    let mut import = ImportDmabufArgs {
        va_addr: reserve(PAGE),
        gpu_id: client.gpu_id,
        dmabuf_fd: prime.fd as u32,
        ..Default::default()
    };
    client.ioctl(nr::IMPORT_DMABUF, &mut import).unwrap();
    client.map(import.handle).unwrap();
    client.check_queue_works();
    for (what, args, errno) in [
        ("flags", DrmPrimeHandle { flags: 1 << 30, ..prime }, Errno::EINVAL),
        ("a bad handle", DrmPrimeHandle { handle: 99, ..prime }, Errno::ENOENT),
    ] {
        let mut args = args;
        assert_eq!(call(process, DRM_IOCTL_PRIME_HANDLE_TO_FD, &mut args), Err(errno), "{what}");
    }
    let mut own = GemCreateIn {
        bo_size: PAGE,
        domains: AMDGPU_GEM_DOMAIN_GTT,
        domain_flags: GemCreateFlags::VM_ALWAYS_VALID.bits(),
        ..Default::default()
    };
    call(process, GEM_CREATE, &mut own).unwrap();
    let mut prime = DrmPrimeHandle { handle: own.bo_size as u32, flags: 0, fd: -1 };
    assert_eq!(call(process, DRM_IOCTL_PRIME_HANDLE_TO_FD, &mut prime), Err(Errno::EPERM));
    prime.fd = 1_000_000;
    assert_eq!(call(process, DRM_IOCTL_PRIME_FD_TO_HANDLE, &mut prime), Err(Errno::EBADF));
}

#[test]
fn displays_are_none() {
    let gpu = gpu();
    let process = HostedProcess::open(&gpu).unwrap();
    let mut args = DrmModeCardRes { pointers: [8; 4], counts: [1, 2, 3, 4], sizes: [5; 4] };
    call(&process, DRM_IOCTL_MODE_GETRESOURCES, &mut args).unwrap();
    assert_eq!(args, DrmModeCardRes { pointers: [8; 4], counts: [0; 4], sizes: [0; 4] });
}

#[test]
fn capabilities_are_those_of_a_render_node() {
    let gpu = gpu();
    let process = HostedProcess::open(&gpu).unwrap();
    for (capability, answer) in [
        (DRM_CAP_PRIME, Ok(3)),
        (DRM_CAP_TIMESTAMP_MONOTONIC, Ok(1)),
        // DRM_CAP_DUMB_BUFFER
        (1, Err(Errno::EOPNOTSUPP)),
    ] {
        let mut args = DrmGetCap { capability, value: 7 };
        let result = call(&process, DRM_IOCTL_GET_CAP, &mut args).map(|_| args.value);
        assert_eq!(result, answer, "{capability}");
    }
}

/// Asks for an answer of this type.
fn ask<T: Default>(process: &HostedProcess, query: u32, args: [u32; 4]) -> Result<T, Errno> {
    let mut value = T::default();
    let mut request = DrmAmdgpuInfo {
        return_pointer: &raw mut value as u64,
        return_size: size_of::<T>() as u32,
        query,
        args,
    };
    call(process, INFO, &mut request).map(|_| value)
}

#[test]
fn every_question_is_answered_or_refused_by_the_table() {
    let gpu = gpu();
    let process = HostedProcess::open(&gpu).unwrap();
    let refused = |query| belfry_kfd_core::drm::REFUSED_QUERIES.iter().any(|refused| refused.query == query);
    for &(name, query) in INFO_QUERIES {
        // The first engine, firmware, sensor, register.
        let args = match query {
            AMDGPU_INFO_READ_MMR_REG => [0x263e, 1, u32::MAX, 0],
            AMDGPU_INFO_FW_VERSION => [AMDGPU_INFO_FW_GFX_MEC, 0, 0, 0],
            AMDGPU_INFO_SENSOR => [AMDGPU_INFO_SENSOR_GFX_SCLK, 0, 0, 0],
            _ => [0; 4],
        };
        let answer = ask::<[u64; 32]>(&process, query, args);
        assert_eq!(answer.err(), refused(query).then_some(Errno::EINVAL), "{name}");
    }
    assert_eq!(ask::<u64>(&process, 0x77, [0; 4]), Err(Errno::EINVAL));
}

#[test]
fn answers_say_what_the_device_is() {
    let gpu = gpu();
    let process = HostedProcess::open(&gpu).unwrap();
    let engine = |kind| ask::<DrmAmdgpuInfoHwIp>(&process, AMDGPU_INFO_HW_IP_INFO, [kind, 0, 0, 0]);
    let compute = engine(AMDGPU_HW_IP_COMPUTE).unwrap();
    assert_eq!((compute.hw_ip_version_major, compute.ip_discovery_version), (11, 0x0b_0000));
    assert_eq!((compute.ib_start_alignment, compute.ib_size_alignment), (32, 32));
    let rings = [0, 1, 2, 3].map(|kind| engine(kind).unwrap().available_rings);
    assert_eq!(rings, [0, 0xf, 3, 0], "compute and copies");
    assert_eq!(engine(AMDGPU_HW_IP_DMA).unwrap().hw_ip_version_major, 6);
    assert_eq!(engine(AMDGPU_HW_IP_VPE).unwrap(), DrmAmdgpuInfoHwIp::default());
    assert_eq!(engine(AMDGPU_HW_IP_NUM), Err(Errno::EINVAL));
    let count = |kind| ask::<u32>(&process, AMDGPU_INFO_HW_IP_COUNT, [kind, 0, 0, 0]);
    assert_eq!([count(1), count(2), count(3), count(10)], [Ok(1), Ok(1), Ok(0), Err(Errno::EINVAL)]);
    let firmware = |kind, index| ask(&process, AMDGPU_INFO_FW_VERSION, [kind, 0, index, 0]);
    let version = |kind, index| firmware(kind, index).map(|found: DrmAmdgpuInfoFirmware| found.ver);
    assert_eq!([version(8, 0), version(11, 1), version(8, 2)], [Ok(2140), Ok(20), Err(Errno::EINVAL)]);
    assert_eq!([version(0, 0), version(1, 0)], [Err(Errno::EINVAL), Ok(0)]);
    let [before, after] = [0; 2].map(|_| ask::<u64>(&process, AMDGPU_INFO_TIMESTAMP, [0; 4]).unwrap());
    assert!(before <= after && after != 0);
    let sensor = |number| ask::<u32>(&process, AMDGPU_INFO_SENSOR, [number, 0, 0, 0]);
    assert_eq!(sensor(AMDGPU_INFO_SENSOR_PEAK_PSTATE_GFX_SCLK), Ok(2482));
    assert!((36_000..100_000).contains(&sensor(AMDGPU_INFO_SENSOR_GPU_TEMP).unwrap()));
    assert_eq!(sensor(0), Err(Errno::EINVAL));
    let [most, used] = [AMDGPU_INFO_VRAM_GTT, AMDGPU_INFO_VRAM_USAGE]
        .map(|query| ask::<[u64; 3]>(&process, query, [0; 4]).unwrap()[0]);
    let handle = create(&process, 1 << 20, AMDGPU_GEM_DOMAIN_VRAM).unwrap();
    assert_eq!(ask::<u64>(&process, AMDGPU_INFO_VRAM_USAGE, [0; 4]), Ok(used + (1 << 20)));
    close(&process, handle).unwrap();
    assert_eq!(ask::<u64>(&process, AMDGPU_INFO_VRAM_USAGE, [0; 4]), Ok(used));
    // What VRAM has no room for goes to system memory, as far as that has.
    let handle = create(&process, most, AMDGPU_GEM_DOMAIN_VRAM).unwrap();
    assert_eq!(ask::<u64>(&process, AMDGPU_INFO_VRAM_USAGE, [0; 4]), Ok(used));
    close(&process, handle).unwrap();
    assert_eq!(create(&process, 1 << 46, AMDGPU_GEM_DOMAIN_VRAM), Err(Errno::ENOMEM));
    assert_eq!(ask::<[u32; 10]>(&process, AMDGPU_INFO_MAX_IBS, [0; 4]).unwrap()[..3], [192, 125, 49]);
}

#[test]
fn bad_pointers_are_efault_for_every_command_of_the_render_node() {
    let gpu = gpu();
    let process = HostedProcess::open(&gpu).unwrap();
    for &(name, command) in DRM_COMMANDS {
        let result = process.ioctl(Node::Render, command, 8 as *mut _);
        assert_eq!(result, Err(Errno::EFAULT), "{name}");
    }
    // Structures of another size are cut, or extended with zeros.
    let mut args = [4096u64, 0];
    let short = nr::ioc(nr::IOC_READ | nr::IOC_WRITE, b'd', nr::ioc_nr(GEM_CREATE), 16);
    process.ioctl(Node::Render, short, args.as_mut_ptr().cast()).unwrap();
    assert_eq!(args, [1, 0], "the first handle");
    let unknown = nr::ioc(nr::IOC_READ | nr::IOC_WRITE, b'd', 0x70, 16);
    assert_eq!(process.ioctl(Node::Render, unknown, args.as_mut_ptr().cast()), Err(Errno::EINVAL));
    assert!(create(&process, PAGE, AMDGPU_GEM_DOMAIN_GTT).is_ok(), "the next one works");
}
