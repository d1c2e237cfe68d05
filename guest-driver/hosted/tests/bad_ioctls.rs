//! Every ioctl with wrong sizes, ids, pointers and handles: the errno Linux gives, and a next client that works.
#![expect(unsafe_code, reason = "a client of a driver passes pointers, here also bad ones")]

use crate::common::{self, Client, PAGE, RW, gpu, reserve};
use belfry_abi::kfd::event::{
    EventData, EventIdArgs, KFD_IOC_EVENT_HW_EXCEPTION, KFD_IOC_EVENT_SIGNAL, WaitEventsArgs,
};
use belfry_abi::kfd::ioctl::{self as nr, ioc, ioc_dir, ioc_nr, ioc_size};
use belfry_abi::kfd::memory::{AcquireVmArgs, AllocFlags, AllocMemoryOfGpuArgs, MapMemoryToGpuArgs};
use belfry_abi::kfd::misc::{
    GetVersionArgs, SetMemoryPolicyArgs, SetScratchBackingVaArgs, SetTrapHandlerArgs, SetXnackModeArgs,
};
use belfry_abi::kfd::queue::{
    AllocQueueGwsArgs, CreateQueueArgs, GetQueueWaveStateArgs, SetCuMaskArgs, UpdateQueueArgs,
};
use belfry_device::GpuConfig;
use belfry_device::chip::gfx942;
use belfry_kfd_core::ioctl::{REFUSED, Refused};
use belfry_kfd_hosted::{Errno, HostedGpu, Node};

/// Pointers no argument structure can be at.
const BAD_POINTERS: [u64; 4] = [0, 8, 0x7fff_ffff_f000, 0xffff_8000_0000_0000];

fn raw(client: &Client, command: u32, arg: u64) -> Result<i32, Errno> {
    client.process.ioctl(Node::Kfd, command, arg as *mut libc::c_void)
}

#[test]
fn bad_pointers_are_efault_for_every_command() {
    let gpu = gpu();
    let client = Client::open(&gpu);
    for &(name, command) in nr::COMMANDS {
        let refused = REFUSED.iter().find(|refused| refused.command == command);
        for pointer in BAD_POINTERS {
            let expected = refused.map_or(Errno::EFAULT, |refused| refused.errno);
            assert_eq!(raw(&client, command, pointer), Err(expected), "{name} at {pointer:#x}");
        }
    }
    client.check_queue_works();
}

#[test]
fn numbers_outside_the_table_are_enotty() {
    let gpu = gpu();
    let client = Client::open(&gpu);
    let mut space = [0u8; 256];
    // 0x82 to 0x87: commands of AMD's own packages of the driver alone, samples of program counters and the profiler
    // among them.
    for number in [0u8, nr::KFD_COMMAND_END, 0x28, 0x80, 0x81, 0x82, 0x83, 0x84, 0x85, 0x86, 0x87, 0xff] {
        for size in [0, 8, 200] {
            let command = ioc(3, b'K', number, size);
            assert_eq!(raw(&client, command, space.as_mut_ptr() as u64), Err(Errno::ENOTTY), "{number:#x}");
        }
    }
    assert_eq!(
        client.process.ioctl(Node::Render, 0xc010_64ff, space.as_mut_ptr().cast()),
        Err(Errno::EINVAL)
    );
}

#[test]
fn what_is_not_built_is_refused_for_every_argument() {
    let gpu = gpu();
    let client = Client::open(&gpu);
    for refused in REFUSED {
        for fill in [0u32, 1, 2, 3, 4, 5, u32::MAX] {
            // The first word is the operation, where there are several.
            let mut space = [fill; 16];
            let answer = raw(&client, refused.command, space.as_mut_ptr() as u64);
            assert_eq!(answer, Err(refused.errno), "{:#x} with {fill}", refused.command);
            assert_eq!(space, [fill; 16], "nothing is written");
        }
    }
    let errno = |command| {
        let of = |refused: &&Refused| refused.command == command;
        REFUSED.iter().find(of).map(|refused| refused.errno)
    };
    assert_eq!(errno(nr::DBG_REGISTER_DEPRECATED), Some(Errno::EPERM));
}

#[test]
fn any_size_is_survived_and_nothing_outside_it_is_written() {
    let gpu = gpu();
    let client = Client::open(&gpu);
    for &(name, command) in nr::COMMANDS {
        if ioc_nr(command) == ioc_nr(nr::WAIT_EVENTS) {
            // All zeros waits for nothing; all ones would wait for long.
            continue;
        }
        for size in
            [0, 1, 4, 7, ioc_size(command) / 2, ioc_size(command), ioc_size(command) + 64, 4096, 0x3fff]
        {
            for fill in [0x00u8, 0xff, 0x41] {
                let mut space = vec![fill; size + 64];
                let command = ioc(ioc_dir(command), b'K', ioc_nr(command), size);
                let _ = raw(&client, command, space.as_mut_ptr() as u64);
                assert!(space[size..].iter().all(|&byte| byte == fill), "{name} with {size} bytes");
            }
        }
    }
    drop(client);
    Client::open(&gpu).check_queue_works();
}

#[test]
fn short_structures_are_extended_with_zeros() {
    let gpu = gpu();
    let client = Client::open(&gpu);
    let mut version = GetVersionArgs { major_version: 77, minor_version: 77 };
    raw(&client, ioc(2, b'K', 1, 4), &raw mut version as u64).unwrap();
    assert_eq!((version.major_version, version.minor_version), (1, 77));
    // The 88-byte CREATE_QUEUE of Linux 6.12.
    let mut args = client.queue_args().unwrap();
    args.sdma_engine_id = 0xdead;
    args.metadata_ring_size = 0xdead;
    raw(&client, 0xc058_4b02, &raw mut args as u64).unwrap();
    assert_eq!((args.sdma_engine_id, args.metadata_ring_size), (0xdead, 0xdead));
    client.destroy_queue(args.queue_id).unwrap();
}

#[test]
fn a_process_without_a_vm_can_ask_but_not_have() {
    let gpu = gpu();
    let client = Client::open_only(&gpu);
    assert_eq!(client.alloc_at(reserve(PAGE), PAGE, AllocFlags::VRAM | RW).err(), Some(Errno::ENODEV));
    let mut trap = SetTrapHandlerArgs { gpu_id: client.gpu_id, ..Default::default() };
    assert_eq!(client.ioctl(nr::SET_TRAP_HANDLER, &mut trap), Err(Errno::ESRCH));
    for fd in [-1i32, 0, 1, client.process.render_fd() + 1, i32::MAX] {
        let mut args = AcquireVmArgs { drm_fd: fd as u32, gpu_id: client.gpu_id };
        assert_eq!(client.ioctl(nr::ACQUIRE_VM, &mut args), Err(Errno::EINVAL), "{fd}");
    }
    let mut args = AcquireVmArgs { drm_fd: client.process.render_fd() as u32, gpu_id: client.gpu_id ^ 1 };
    assert_eq!(client.ioctl(nr::ACQUIRE_VM, &mut args), Err(Errno::EINVAL));
    client.acquire().unwrap();
    client.acquire().unwrap();
    client.check_queue_works();
}

#[test]
fn allocations_are_refused_by_the_rules() {
    let gpu = gpu();
    let client = Client::open(&gpu);
    let va = reserve(PAGE);
    let cases: &[(&str, AllocFlags, u64, u64, u64, u32, Errno)] = &[
        ("no size", AllocFlags::VRAM, va, 0, 0, 0, Errno::EINVAL),
        ("no kind", RW, va, PAGE, 0, 0, Errno::EINVAL),
        ("other GPU", AllocFlags::VRAM, va, PAGE, 0, 1, Errno::EINVAL),
        ("size wraps", AllocFlags::VRAM, va, u64::MAX, 0, 0, Errno::EINVAL),
        ("more than there is", AllocFlags::VRAM, va, 1 << 40, 0, 0, Errno::ENOMEM),
        ("more than can be", AllocFlags::GTT, va, 1 << 60, 0, 0, Errno::ENOMEM),
        ("doorbells", AllocFlags::DOORBELL, va, PAGE, 0, 0, Errno::EINVAL),
        ("flush page", AllocFlags::MMIO_REMAP, va, 2 * PAGE, 0, 0, Errno::EINVAL),
        ("no user memory", AllocFlags::USERPTR, va, PAGE, 0, 0, Errno::EINVAL),
        ("odd user memory", AllocFlags::USERPTR, va, PAGE, va + 8, 0, Errno::EINVAL),
        ("unmapped user memory", AllocFlags::USERPTR, va, PAGE, 0x1000, 0, Errno::EFAULT),
        ("kernel memory", AllocFlags::USERPTR, va, PAGE, 0xffff_8000_0000_0000, 0, Errno::EFAULT),
        ("unreadable user memory", AllocFlags::USERPTR, va, PAGE, va, 0, Errno::EFAULT),
    ];
    for &(name, flags, va_addr, size, mmap_offset, gpu, expected) in cases {
        let mut args = AllocMemoryOfGpuArgs {
            va_addr,
            size,
            mmap_offset,
            gpu_id: client.gpu_id ^ gpu,
            flags: flags.bits(),
            ..Default::default()
        };
        assert_eq!(client.ioctl(nr::ALLOC_MEMORY_OF_GPU, &mut args), Err(expected), "{name}");
    }
    client.check_queue_works();
}

#[test]
fn handles_are_checked_and_belong_to_their_process() {
    let gpu = gpu();
    let client = Client::open(&gpu);
    let other = Client::open(&gpu);
    let buffer = client.alloc(PAGE, AllocFlags::VRAM | RW).unwrap();
    let gpu_part = buffer.handle >> 32 << 32;
    for handle in [0, 1, u64::MAX, gpu_part, gpu_part | 0xffff_ffff, buffer.handle ^ (1 << 32)] {
        assert_eq!(client.free(handle), Err(Errno::EINVAL), "{handle:#x}");
        assert!(matches!(client.map(handle), Err(Errno::EINVAL | Errno::ENOMEM)), "{handle:#x}");
        assert_eq!(client.unmap(handle), Err(Errno::EINVAL), "{handle:#x}");
    }
    // The other process has no such handle, and may not map the memory through its own render node.
    assert_eq!(other.free(buffer.handle), Err(Errno::EINVAL));
    assert_eq!(other.map(buffer.handle), Err(Errno::ENOMEM));
    let va = reserve(PAGE);
    let args = client.alloc_at(va, PAGE, AllocFlags::VRAM | RW).unwrap();
    for (process, offset, expected) in [
        (&other.process, args.mmap_offset, Errno::EACCES),
        (&client.process, args.mmap_offset + PAGE, Errno::EINVAL),
        (&client.process, 0, Errno::EINVAL),
        (&client.process, args.mmap_offset + 1, Errno::EINVAL),
    ] {
        // SAFETY: no address is asked for.
        let result = unsafe { process.mmap(Node::Render, None, PAGE as usize, libc::PROT_READ, offset) };
        assert_eq!(result.err(), Some(expected), "{offset:#x}");
    }
    // One address can hold one buffer object.
    let twin = client.alloc_at(va, PAGE, AllocFlags::VRAM | RW).unwrap();
    client.map(args.handle).unwrap();
    client.map(args.handle).unwrap();
    assert_eq!(client.map(twin.handle), Err(Errno::EINVAL));
    client.unmap(args.handle).unwrap();
    client.map(twin.handle).unwrap();
    for (bad_va, size) in [(0, PAGE), (va + 8, PAGE), ((1 << 47) - PAGE, 2 * PAGE), (1 << 63, PAGE)] {
        let args = client.alloc_at(bad_va, size, AllocFlags::VRAM | RW).unwrap();
        assert_eq!(client.map(args.handle), Err(Errno::EINVAL), "{bad_va:#x}");
        client.free(args.handle).unwrap();
    }
    other.check_queue_works();
}

#[test]
fn device_arrays_are_checked() {
    let gpu = gpu();
    let client = Client::open(&gpu);
    let buffer = client.alloc(PAGE, AllocFlags::VRAM | RW).unwrap();
    let ids = [client.gpu_id, client.gpu_id ^ 1];
    let good = ids.as_ptr() as u64;
    let cases: &[(&str, u64, u32, u32, Errno, u32)] = &[
        ("none", good, 0, 0, Errno::EINVAL, 0),
        ("more done than there are", good, 1, 2, Errno::EINVAL, 2),
        ("too many", good, u32::MAX, 0, Errno::EINVAL, 0),
        ("bad pointer", 8, 1, 0, Errno::EFAULT, 0),
        ("unknown second GPU", good, 2, 0, Errno::EINVAL, 1),
    ];
    for &(name, device_ids_array_ptr, n_devices, n_success, expected, progress) in cases {
        for command in [nr::MAP_MEMORY_TO_GPU, nr::UNMAP_MEMORY_FROM_GPU] {
            let mut args =
                MapMemoryToGpuArgs { handle: buffer.handle, device_ids_array_ptr, n_devices, n_success };
            assert_eq!(client.ioctl(command, &mut args), Err(expected), "{name}");
            assert_eq!(args.n_success, progress, "{name}");
        }
    }
}

#[test]
fn queues_are_refused_by_the_rules() {
    let gpu = gpu();
    let client = Client::open(&gpu);
    let other = Client::open(&gpu);
    let foreign = other.alloc(PAGE, AllocFlags::GTT | RW).unwrap();
    let good = client.queue_args().unwrap();
    type Change = fn(&mut CreateQueueArgs);
    let cases: &[(&str, Change, Errno)] = &[
        ("share", |a| a.queue_percentage = 101, Errno::EINVAL),
        ("priority", |a| a.queue_priority = 16, Errno::EINVAL),
        ("odd ring size", |a| a.ring_size = 5000, Errno::EINVAL),
        ("wrong ring size", |a| a.ring_size = 8192, Errno::EINVAL),
        ("inside the ring", |a| a.ring_base_address += 1024, Errno::EINVAL),
        ("no ring", |a| a.ring_base_address = 0, Errno::EINVAL),
        ("unmapped ring", |a| a.ring_base_address = 0x10_0000, Errno::EINVAL),
        ("kernel ring", |a| a.ring_base_address = 1 << 63, Errno::EFAULT),
        ("kernel read pointer", |a| a.read_pointer_address = 1 << 63, Errno::EFAULT),
        ("kernel write pointer", |a| a.write_pointer_address = u64::MAX, Errno::EFAULT),
        ("unmapped read pointer", |a| a.read_pointer_address = 0x10_0000, Errno::EINVAL),
        ("odd write pointer", |a| a.write_pointer_address += 1, Errno::EINVAL),
        ("type", |a| a.queue_type = 99, Errno::ENOTSUPP),
        ("SDMA over XGMI", |a| a.queue_type = 3, Errno::ENOMEM),
        ("GPU", |a| a.gpu_id ^= 1, Errno::EINVAL),
        ("end-of-pipe buffer size", |a| a.eop_buffer_size = 1024, Errno::EINVAL),
        ("end-of-pipe buffer", |a| a.eop_buffer_address = 0x10_0000, Errno::EINVAL),
        ("control stack", |a| a.ctl_stack_size += 4096, Errno::EINVAL),
        ("save area too small", |a| a.ctx_save_restore_size -= 4096, Errno::EINVAL),
        ("save area too large", |a| a.ctx_save_restore_size += 1 << 20, Errno::EINVAL),
        ("no save area", |a| a.ctx_save_restore_address = 0, Errno::EINVAL),
    ];
    for (name, change, expected) in cases {
        let mut args = good;
        change(&mut args);
        assert_eq!(client.ioctl(nr::CREATE_QUEUE, &mut args), Err(*expected), "{name}");
    }
    let mut args = CreateQueueArgs { write_pointer_address: foreign.va, ..good };
    assert_eq!(client.ioctl(nr::CREATE_QUEUE, &mut args), Err(Errno::EINVAL), "another process's memory");

    let mut args = good;
    client.ioctl(nr::CREATE_QUEUE, &mut args).unwrap();
    let queue_id = args.queue_id;
    for id in [queue_id + 1, u32::MAX] {
        assert_eq!(client.destroy_queue(id), Err(Errno::EINVAL));
        let mut update = UpdateQueueArgs {
            ring_base_address: good.ring_base_address,
            queue_id: id,
            ring_size: good.ring_size,
            queue_percentage: 100,
            queue_priority: 0,
        };
        assert_eq!(client.ioctl(nr::UPDATE_QUEUE, &mut update), Err(Errno::EFAULT));
    }
    assert_eq!(other.destroy_queue(queue_id), Err(Errno::EINVAL), "another process's queue");

    let wave_state = |queue_id, ctl_stack_address| {
        let mut args = GetQueueWaveStateArgs { queue_id, ctl_stack_address, ..Default::default() };
        client
            .ioctl(nr::GET_QUEUE_WAVE_STATE, &mut args)
            .map(|_| [args.ctl_stack_used_size, args.save_area_used_size])
    };
    let mut header = [7u32; 5];
    let at = (&raw mut header).expose_provenance() as u64;
    assert_eq!(wave_state(99, at), Err(Errno::EFAULT), "no such queue");
    assert_eq!(wave_state(queue_id, at), Err(Errno::EINVAL), "it may run");
    let mut update = UpdateQueueArgs {
        ring_base_address: good.ring_base_address,
        queue_id,
        ring_size: good.ring_size,
        queue_percentage: 0,
        queue_priority: 0,
    };
    client.ioctl(nr::UPDATE_QUEUE, &mut update).unwrap();
    assert_eq!(wave_state(queue_id, 1 << 63), Err(Errno::EFAULT));
    assert_eq!(wave_state(queue_id, at), Ok([0, 0]), "nothing ran");
    let [stack_offset, 0, waves_offset, 0, 7] = header else { panic!("{header:?}") };
    assert_eq!((stack_offset, waves_offset), (good.ctl_stack_size, good.ctl_stack_size));
    update.queue_percentage = 100;
    client.ioctl(nr::UPDATE_QUEUE, &mut update).unwrap();

    let gws = |queue_id, num_gws| {
        let mut args = AllocQueueGwsArgs { queue_id, num_gws, first_gws: 7, ..Default::default() };
        client.ioctl(nr::ALLOC_QUEUE_GWS, &mut args).map(|_| args.first_gws)
    };
    let second = client.create_queue().unwrap().args.queue_id;
    assert_eq!(gws(99, 64), Err(Errno::EINVAL));
    assert_eq!(gws(queue_id, 0), Err(Errno::EINVAL), "it has none");
    assert_eq!(gws(queue_id, 64), Ok(0));
    assert_eq!(gws(queue_id, 64), Err(Errno::EBUSY));
    assert_eq!(gws(second, 1), Err(Errno::EBUSY), "another queue has it");
    assert_eq!(gws(second, 0), Err(Errno::EINVAL));
    assert_eq!(gws(queue_id, 0), Ok(0));
    assert_eq!(gws(second, 1), Ok(0));
    client.destroy_queue(second).unwrap();
    assert_eq!(gws(queue_id, 1), Ok(0), "it went with its queue");

    let mask = [u32::MAX, 0x1];
    let pointer = mask.as_ptr() as u64;
    for (num_cu_mask, cu_mask_ptr, expected) in [
        (0, pointer, Err(Errno::EINVAL)),
        (31, pointer, Err(Errno::EINVAL)),
        (32, 8, Err(Errno::EFAULT)),
        (64, pointer, Err(Errno::EINVAL)),
        (32, pointer, Ok(0)),
    ] {
        let mut args = SetCuMaskArgs { queue_id, num_cu_mask, cu_mask_ptr };
        assert_eq!(client.ioctl(nr::SET_CU_MASK, &mut args), expected, "{num_cu_mask}");
    }
    let mut args = SetCuMaskArgs { queue_id: u32::MAX, num_cu_mask: 32, cu_mask_ptr: pointer };
    assert_eq!(client.ioctl(nr::SET_CU_MASK, &mut args), Err(Errno::EFAULT), "no queue");
    client.destroy_queue(queue_id).unwrap();
    assert_eq!(client.destroy_queue(queue_id), Err(Errno::EINVAL), "twice");
    client.check_queue_works();
}

#[test]
fn memory_of_a_queue_stays_until_the_queue_is_gone() {
    let gpu = gpu();
    let client = Client::open(&gpu);
    let control = client.alloc(PAGE, AllocFlags::GTT | RW).unwrap();
    let mut args = client.queue_args().unwrap();
    args.write_pointer_address = control.va + 0x38;
    args.read_pointer_address = control.va + 0x80;
    client.ioctl(nr::CREATE_QUEUE, &mut args).unwrap();
    assert_eq!(client.unmap(control.handle), Err(Errno::EBUSY));
    client.destroy_queue(args.queue_id).unwrap();
    client.unmap(control.handle).unwrap();
    client.free(control.handle).unwrap();
}

#[test]
fn events_are_refused_by_the_rules() {
    let gpu = gpu();
    let client = Client::open(&gpu);
    let other = Client::open(&gpu);
    let small = client.alloc(PAGE, AllocFlags::GTT | RW).unwrap();
    let vram = client.alloc(32 << 10, AllocFlags::VRAM | RW).unwrap();
    for page in [1, u64::MAX, small.handle, vram.handle] {
        assert_eq!(client.create_event(KFD_IOC_EVENT_SIGNAL, page).err(), Some(Errno::EINVAL), "{page:#x}");
    }
    let page = client.alloc(32 << 10, AllocFlags::GTT | RW).unwrap();
    let signal = client.create_event(KFD_IOC_EVENT_SIGNAL, page.handle).unwrap();
    assert_eq!(
        client.create_event(KFD_IOC_EVENT_SIGNAL, page.handle).err(),
        Some(Errno::EINVAL),
        "a second page"
    );
    client.unmap(page.handle).unwrap();
    assert_eq!(client.free(page.handle), Err(Errno::EPERM));

    let exception = client.create_event(KFD_IOC_EVENT_HW_EXCEPTION, 0).unwrap().event_id;
    for command in [nr::SET_EVENT, nr::RESET_EVENT, nr::DESTROY_EVENT] {
        for event_id in [0, signal.event_id + 1, 4096, u32::MAX] {
            let mut args = EventIdArgs { event_id, pad: 0 };
            assert_eq!(client.ioctl(command, &mut args), Err(Errno::EINVAL), "{event_id:#x}");
        }
        let mut args = EventIdArgs { event_id: signal.event_id, pad: 0 };
        assert_eq!(other.ioctl(command, &mut args), Err(Errno::EINVAL), "another process's event");
    }
    for command in [nr::SET_EVENT, nr::RESET_EVENT] {
        let mut args = EventIdArgs { event_id: exception, pad: 0 };
        assert_eq!(client.ioctl(command, &mut args), Err(Errno::EINVAL), "not a signal");
    }

    let mut events = [EventData { event_id: signal.event_id, ..Default::default() }];
    let pointer = events.as_mut_ptr() as u64;
    for (events_ptr, num_events, expected) in
        [(pointer, 4097, Errno::ENOMEM), (pointer, u32::MAX, Errno::ENOMEM), (8, 1, Errno::EFAULT)]
    {
        let mut args = WaitEventsArgs { events_ptr, num_events, ..Default::default() };
        assert_eq!(client.ioctl(nr::WAIT_EVENTS, &mut args), Err(expected), "{num_events}");
    }
    let mut unknown = [EventData { event_id: 99, ..Default::default() }];
    let mut args =
        WaitEventsArgs { events_ptr: unknown.as_mut_ptr() as u64, num_events: 1, ..Default::default() };
    assert_eq!(client.ioctl(nr::WAIT_EVENTS, &mut args), Err(Errno::EINVAL));

    let mut args = EventIdArgs { event_id: exception, pad: 0 };
    client.ioctl(nr::DESTROY_EVENT, &mut args).unwrap();

    let mut count = 1;
    let error = loop {
        match client.create_event(KFD_IOC_EVENT_SIGNAL, 0) {
            Ok(_) => count += 1,
            Err(error) => break error,
        }
    };
    assert_eq!((error, count), (Errno::ENOSPC, 4095));
    drop(client);
    other.check_queue_works();
}

#[test]
fn the_rest_is_refused_by_the_rules() {
    let gpu = gpu();
    let client = Client::open(&gpu);
    let other = client.gpu_id ^ 1;
    let policy = |gpu_id, default_policy, alternate_policy| {
        let mut args = SetMemoryPolicyArgs { gpu_id, default_policy, alternate_policy, ..Default::default() };
        client.ioctl(nr::SET_MEMORY_POLICY, &mut args)
    };
    assert_eq!(policy(client.gpu_id, 1, 0), Ok(0));
    assert_eq!(policy(other, 1, 0), Err(Errno::EINVAL));
    assert_eq!(policy(client.gpu_id, 2, 0), Err(Errno::EINVAL));
    assert_eq!(policy(client.gpu_id, 0, 2), Err(Errno::EINVAL));
    let mut scratch = SetScratchBackingVaArgs { gpu_id: other, ..Default::default() };
    assert_eq!(client.ioctl(nr::SET_SCRATCH_BACKING_VA, &mut scratch), Err(Errno::EINVAL));
    for (mode, expected) in [(-1, Ok(0)), (0, Ok(0)), (1, Err(Errno::EPERM))] {
        let mut args = SetXnackModeArgs { xnack_enabled: mode };
        assert_eq!(client.ioctl(nr::SET_XNACK_MODE, &mut args), expected, "{mode}");
    }
    let _queue = client.create_queue().unwrap();
    for (mode, expected) in [(-1, Ok(0)), (0, Err(Errno::EBUSY)), (1, Err(Errno::EBUSY))] {
        let mut args = SetXnackModeArgs { xnack_enabled: mode };
        assert_eq!(client.ioctl(nr::SET_XNACK_MODE, &mut args), expected, "{mode} with a queue");
    }
    for (offset, len, expected) in [
        (0u64, 4096usize, Errno::EINVAL),
        (3 << 62, 8192, Errno::EINVAL),
        (3 << 62 | u64::from(client.gpu_id) << 46, 4096, Errno::EINVAL),
        (2 << 62 | u64::from(client.gpu_id) << 46, 32768, Errno::EINVAL),
        (1 << 62 | u64::from(client.gpu_id) << 46, 4096, Errno::EINVAL),
        (u64::from(client.gpu_id) << 46, 8192, Errno::EINVAL),
        (!0xfff, 4096, Errno::EINVAL),
    ] {
        // SAFETY: no address is asked for.
        let result = unsafe { client.process.mmap(Node::Kfd, None, len, libc::PROT_READ, offset) };
        assert_eq!(result.err(), Some(expected), "{offset:#x}");
    }
}

#[test]
fn process_says_whether_its_waves_wait_for_pages_before_it_has_queues() {
    let config = GpuConfig { chip: &gfx942::MODEL, cus: 4, ..common::config() };
    let client = Client::open(&HostedGpu::new(config).unwrap());
    let mode = |xnack_enabled| {
        let mut args = SetXnackModeArgs { xnack_enabled };
        client.ioctl(nr::SET_XNACK_MODE, &mut args).map(|_| args.xnack_enabled)
    };
    assert_eq!([-1, 1, -1, 0, -1].map(mode), [Ok(0), Ok(1), Ok(1), Ok(0), Ok(0)]);
    // Any number but 0 is on, and what was asked for stays where it is.
    assert_eq!([7, -1].map(mode), [Ok(7), Ok(1)]);
    let _queue = client.create_queue().unwrap();
    assert_eq!([0, 1, 7].map(mode), [Err(Errno::EBUSY); 3]);
    assert_eq!(mode(-5), Ok(1));
}
