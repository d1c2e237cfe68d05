//! Calls that DBG_TRAP and RUNTIME_ENABLE refuse, as Linux does.

use belfry_abi::kfd::debug::*;
use belfry_kfd_hosted::{Errno, HostedProcess};

use super::session::Debugger;
use super::{Program, gpu, runtime_enable};

#[test]
fn operations_are_refused_as_linux_refuses_them() {
    let gpu = gpu();
    let program = Program::new(&gpu);
    let debugger = Debugger::new(&gpu);
    let pid = program.pid;
    let op = |pid: u32, op: DbgTrapOp| debugger.op(pid, op as u32, [0u32; 6]).0;
    assert_eq!(op(4_000_000, DbgTrapOp::Enable), Err(Errno::ESRCH), "no such process");
    assert_eq!(op(pid ^ 0x1000, DbgTrapOp::QueryDebugEvent), Err(Errno::ESRCH), "not of this driver");
    for operation in DbgTrapOp::ALL.into_iter().filter(|op| *op != DbgTrapOp::Enable) {
        assert_eq!(op(pid, operation), Err(Errno::EINVAL), "{operation:?} without a debugger");
    }
    let enable = DbgTrapEnableArgs { dbg_fd: 0x3fff_ffff, ..Default::default() };
    assert_eq!(debugger.op(pid, DbgTrapOp::Enable as u32, enable).0, Err(Errno::EBADF));
    let enable = DbgTrapEnableArgs { rinfo_ptr: 16, rinfo_size: 16, dbg_fd: 0, ..Default::default() };
    assert_eq!(debugger.op(pid, DbgTrapOp::Enable as u32, enable).0, Err(Errno::EFAULT));
    debugger.enable(pid, 0).unwrap();
    assert_eq!(debugger.enable(pid, 0).err(), Some(Errno::EALREADY));
    assert_eq!(debugger.op(pid, 15, [0u32; 6]).0, Err(Errno::EINVAL));
    for mode in [2, 4, 255] {
        assert_eq!(debugger.launch_mode(pid, mode), Err(Errno::EINVAL), "{mode}");
    }
    let launch = |override_mode, support_request_mask| DbgTrapSetWaveLaunchOverrideArgs {
        override_mode,
        support_request_mask,
        ..Default::default()
    };
    let number = DbgTrapOp::SetWaveLaunchOverride as u32;
    assert_eq!(debugger.op(pid, number, launch(2, 1)).0, Err(Errno::EPERM));
    assert_eq!(debugger.op(pid, number, launch(0, 1 << 30)).0, Err(Errno::EACCES));
    let flags = DbgTrapSetFlagsArgs { flags: KFD_DBG_TRAP_FLAG_SINGLE_MEM_OP, pad: 0 };
    assert_eq!(debugger.op(pid, DbgTrapOp::SetFlags as u32, flags).0, Err(Errno::EACCES));
    let watch = DbgTrapSetNodeAddressWatchArgs { gpu_id: 1, ..Default::default() };
    assert_eq!(debugger.op(pid, DbgTrapOp::SetNodeAddressWatch as u32, watch).0, Err(Errno::ENODEV));
    let gpu_id = device(&debugger, pid).gpu_id;
    for id in [0, 4, u32::MAX] {
        let clear = DbgTrapClearNodeAddressWatchArgs { gpu_id, id };
        assert_eq!(
            debugger.op(pid, DbgTrapOp::ClearNodeAddressWatch as u32, clear).0,
            Err(Errno::EINVAL),
            "{id}"
        );
    }
    let watch = DbgTrapSetNodeAddressWatchArgs { gpu_id, ..Default::default() };
    let set =
        |count: usize| (0..count).map(|_| debugger.op(pid, DbgTrapOp::SetNodeAddressWatch as u32, watch).0);
    assert_eq!(set(5).collect::<Vec<_>>(), [Ok(0), Ok(0), Ok(0), Ok(0), Err(Errno::ENOMEM)]);
    let many = DbgTrapSuspendQueuesArgs { queue_array_ptr: 4096, num_queues: 1 << 20, ..Default::default() };
    assert_eq!(debugger.op(pid, DbgTrapOp::SuspendQueues as u32, many).0, Err(Errno::EINVAL));
    let none = DbgTrapSuspendQueuesArgs { num_queues: 1, ..Default::default() };
    assert_eq!(debugger.op(pid, DbgTrapOp::SuspendQueues as u32, none).0, Err(Errno::EINVAL));
    let bad = DbgTrapSuspendQueuesArgs { queue_array_ptr: 16, num_queues: 1, ..Default::default() };
    assert_eq!(debugger.op(pid, DbgTrapOp::SuspendQueues as u32, bad).0, Err(Errno::EFAULT));
    let mut room = [0u64; 16];
    let place = room.as_mut_ptr() as u64;
    let info = |source_id, exception_code| DbgTrapQueryExceptionInfoArgs {
        info_ptr: place,
        info_size: 128,
        source_id,
        exception_code,
        clear_exception: 0,
    };
    for (args, error) in [
        (info(0, 0), Errno::EINVAL),
        (info(0, 50), Errno::EINVAL),
        (info(7, 2), Errno::EINVAL),
        (info(1, 33), Errno::EINVAL),
        (info(gpu_id, 33), Errno::ENODATA),
        (info(0, 48), Errno::ENODATA),
    ] {
        let result = debugger.op(pid, DbgTrapOp::QueryExceptionInfo as u32, args).0;
        assert_eq!(result, Err(error), "{}", args.exception_code);
    }
    let empty = DbgTrapSnapshotArgs { snapshot_buf_ptr: 4096, num_entries: 1, ..Default::default() };
    assert_eq!(debugger.op(pid, DbgTrapOp::GetQueueSnapshot as u32, empty).0, Err(Errno::EINVAL));
    let violation = DbgTrapSendRuntimeEventArgs { exception_mask: 1 << 32, gpu_id: 1, queue_id: 0 };
    assert_eq!(debugger.op(pid, DbgTrapOp::SendRuntimeEvent as u32, violation).0, Err(Errno::ENODEV));
    assert_eq!(debugger.disable(pid), Ok(0));
    assert_eq!(debugger.disable(pid), Err(Errno::EINVAL));
    // The watches are free again.
    debugger.enable(pid, 0).unwrap();
    assert_eq!(set(1).collect::<Vec<_>>(), [Ok(0)]);
}

fn device(debugger: &Debugger, pid: u32) -> DbgDeviceInfoEntry {
    let mut entry = [DbgDeviceInfoEntry::default(); 2];
    let args = DbgTrapSnapshotArgs {
        exception_mask: 0,
        snapshot_buf_ptr: entry.as_mut_ptr() as u64,
        num_entries: 2,
        entry_size: size_of::<DbgDeviceInfoEntry>() as u32,
    };
    let (result, args) = debugger.op(pid, DbgTrapOp::GetDeviceSnapshot as u32, args);
    result.unwrap();
    assert_eq!((args.num_entries, args.entry_size), (1, 128));
    let [entry, _] = entry;
    assert_eq!((entry.vendor_id, entry.gfx_target_version, entry.num_xcc), (0x1002, 110_000, 1));
    assert_eq!(entry.capability & 0x2003_8000, 0x2003_8000);
    entry
}

#[test]
fn debugger_can_set_as_many_watches_as_the_device_says_that_it_has() {
    let gpu = gpu();
    let program = Program::new(&gpu);
    let debugger = Debugger::new(&gpu);
    debugger.enable(program.pid, 0).unwrap();
    let entry = device(&debugger, program.pid);
    assert_eq!(
        entry.capability & 0x80,
        0x80,
        "HSA_CAP_WATCH_POINTS_SUPPORTED, without which ROCdbgapi sets none"
    );
    let count = 1 << (entry.capability >> 8 & 0xf);
    let watch = DbgTrapSetNodeAddressWatchArgs { gpu_id: entry.gpu_id, ..Default::default() };
    let set = || debugger.op(program.pid, DbgTrapOp::SetNodeAddressWatch as u32, watch).0;
    assert_eq!((0..count).map(|_| set()).find(Result::is_err), None, "{count} watches");
    assert_eq!(set(), Err(Errno::ENOMEM));
}

#[test]
fn operations_on_waves_need_the_runtime() {
    let gpu = gpu();
    let debugger = Debugger::new(&gpu);
    let process = HostedProcess::open(&gpu).unwrap();
    let pid = process.pid();
    debugger.enable(pid, 0).unwrap();
    for operation in DbgTrapOp::ALL.into_iter().filter(|op| op.needs_runtime()) {
        assert_eq!(debugger.op(pid, operation as u32, [0u32; 6]).0, Err(Errno::EPERM), "{operation:?}");
    }
}

#[test]
fn runtime_is_enabled_once_and_before_there_are_queues() {
    let gpu = gpu();
    let program = Program::new(&gpu);
    let process = HostedProcess::open(&gpu).unwrap();
    runtime_enable(&process, KFD_RUNTIME_ENABLE_MODE_ENABLE_MASK).unwrap();
    assert_eq!(runtime_enable(&process, 3), Err(Errno::EBUSY));
    assert_eq!(runtime_enable(&process, 0), Ok(0));
    assert_eq!(runtime_enable(&process, 3), Ok(0));
    drop(program);
}
