//! A debugger of its own: a process with DBG_TRAP, and the waves it finds in context save areas.
#![expect(unsafe_code, reason = "looks at the memory of the debugged process, which is this one")]

use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::sync::Arc;

use belfry_abi::kfd::debug::*;
use belfry_abi::kfd::ioctl as nr;
use belfry_abi::kfd::queue::ContextSaveAreaHeader;
use belfry_kfd_hosted::{Errno, HostedGpu, HostedProcess, Node};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// A wave in a context save area: the offset of its scalar registers, and their number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SavedWave {
    pub(crate) at: u64,
    pub(crate) scalars: u64,
}

/// Finds the waves of a suspended queue in its area.
pub(crate) type FindWaves = fn(&QueueSnapshotEntry) -> Vec<SavedWave>;

/// Hardware registers after the scalar ones, by their place.
pub(crate) const PC: u64 = 1;
pub(crate) const STATUS: u64 = 5;
pub(crate) const TRAPSTS: u64 = 6;
pub(crate) const MODE: u64 = 8;
/// `STATUS.HALT`.
pub(crate) const HALT: u32 = 1 << 13;

impl SavedWave {
    fn word(self, at: u64) -> *mut u32 {
        (self.at + at * 4) as *mut u32
    }

    pub(crate) fn sgpr(self, number: u64) -> u32 {
        // SAFETY: the context save area is memory of this process, and the queue is suspended.
        unsafe { self.word(number).read_volatile() }
    }

    pub(crate) fn set_sgpr(self, number: u64, value: u32) {
        // SAFETY: as above.
        unsafe { self.word(number).write_volatile(value) }
    }

    pub(crate) fn register(self, number: u64) -> u32 {
        self.sgpr(self.scalars + number)
    }

    pub(crate) fn set_register(self, number: u64, value: u32) {
        self.set_sgpr(self.scalars + number, value);
    }

    pub(crate) fn ttmp(self, number: u64) -> u32 {
        self.sgpr(self.scalars + 16 + number)
    }

    pub(crate) fn pc(self) -> u64 {
        u64::from(self.register(PC)) | u64::from(self.register(PC + 1)) << 32
    }

    /// Lets it go on when its queue does.
    pub(crate) fn unhalt(self) {
        self.set_register(STATUS, self.register(STATUS) & !HALT);
    }
}

/// A process that debugs others.
pub(crate) struct Debugger {
    process: HostedProcess,
    events: File,
    notices: OwnedFd,
    find_waves: FindWaves,
}

impl Debugger {
    pub(crate) fn new(gpu: &Arc<HostedGpu>) -> Self {
        Self::with(gpu, saved_waves)
    }

    /// A debugger that finds waves of another chip.
    pub(crate) fn with(gpu: &Arc<HostedGpu>, find_waves: FindWaves) -> Self {
        let mut ends = [-1; 2];
        // SAFETY: there is room for two descriptors, which are this function's own.
        let (reader, writer) = unsafe {
            use std::os::fd::FromRawFd as _;
            assert_eq!(libc::pipe(ends.as_mut_ptr()), 0);
            (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1]))
        };
        Self {
            process: HostedProcess::open(gpu).unwrap(),
            events: reader.into(),
            notices: writer,
            find_waves,
        }
    }

    /// One operation: its result, and its arguments afterwards.
    #[expect(clippy::needless_pass_by_value, reason = "arguments are made for the call")]
    pub(crate) fn op<T: FromBytes + IntoBytes + Immutable>(
        &self,
        pid: u32,
        op: u32,
        args: T,
    ) -> (Result<i32, Errno>, T) {
        let mut all = DbgTrapArgs { pid, op, args: [0; 6] };
        let size = size_of::<T>();
        all.args.as_mut_bytes()[..size].copy_from_slice(args.as_bytes());
        let result = self.process.ioctl(Node::Kfd, nr::DBG_TRAP, std::ptr::from_mut(&mut all).cast());
        (result, T::read_from_bytes(&all.args.as_bytes()[..size]).unwrap())
    }

    pub(crate) fn enable(&self, pid: u32, mask: u64) -> Result<RuntimeInfo, Errno> {
        let mut info = RuntimeInfo::default();
        let args = DbgTrapEnableArgs {
            exception_mask: mask,
            rinfo_ptr: (&raw mut info) as u64,
            rinfo_size: size_of::<RuntimeInfo>() as u32,
            dbg_fd: self.notices.as_raw_fd() as u32,
        };
        let (result, args) = self.op(pid, DbgTrapOp::Enable as u32, args);
        assert!(result.is_err() || args.rinfo_size as usize == size_of::<RuntimeInfo>());
        result.map(|_| info)
    }

    pub(crate) fn disable(&self, pid: u32) -> Result<i32, Errno> {
        self.op(pid, DbgTrapOp::Disable as u32, 0u32).0
    }

    /// Waits for the next notice, and asks for the event: exceptions, GPU and queue.
    pub(crate) fn next_event(&mut self, pid: u32) -> (u64, u32, u32) {
        loop {
            let mut byte = [0];
            self.events.read_exact(&mut byte).unwrap();
            if let Some(event) = self.query(pid) {
                return event;
            }
        }
    }

    /// The next event, if there is one; it is forgotten.
    pub(crate) fn query(&self, pid: u32) -> Option<(u64, u32, u32)> {
        let args = DbgTrapQueryDebugEventArgs { exception_mask: u64::MAX, ..Default::default() };
        let (result, args) = self.op(pid, DbgTrapOp::QueryDebugEvent as u32, args);
        match result {
            Ok(_) => Some((args.exception_mask, args.gpu_id, args.queue_id)),
            Err(error) => {
                assert_eq!(error, Errno::EAGAIN);
                None
            }
        }
    }

    pub(crate) fn queues(&self, pid: u32) -> Vec<QueueSnapshotEntry> {
        let mut entries = [QueueSnapshotEntry::default(); 8];
        let args = DbgTrapSnapshotArgs {
            exception_mask: ExceptionCode::QUEUE_NEW.mask(),
            snapshot_buf_ptr: entries.as_mut_ptr() as u64,
            num_entries: entries.len() as u32,
            entry_size: size_of::<QueueSnapshotEntry>() as u32,
        };
        let (result, args) = self.op(pid, DbgTrapOp::GetQueueSnapshot as u32, args);
        result.unwrap();
        entries[..args.num_entries as usize].to_vec()
    }

    /// Suspends queues; the numbers come back marked.
    pub(crate) fn suspend(&self, pid: u32, ids: &mut [u32]) -> Result<i32, Errno> {
        let args = DbgTrapSuspendQueuesArgs {
            queue_array_ptr: ids.as_mut_ptr() as u64,
            num_queues: ids.len() as u32,
            ..Default::default()
        };
        self.op(pid, DbgTrapOp::SuspendQueues as u32, args).0
    }

    pub(crate) fn resume(&self, pid: u32, ids: &mut [u32]) -> Result<i32, Errno> {
        let args = DbgTrapResumeQueuesArgs {
            queue_array_ptr: ids.as_mut_ptr() as u64,
            num_queues: ids.len() as u32,
            ..Default::default()
        };
        self.op(pid, DbgTrapOp::ResumeQueues as u32, args).0
    }

    /// Suspends a queue, shows its only wave, and lets the queue go on.
    pub(crate) fn with_wave<R>(
        &self,
        pid: u32,
        queue: &QueueSnapshotEntry,
        look: impl FnOnce(SavedWave) -> R,
    ) -> R {
        let mut ids = [queue.queue_id];
        assert_eq!(self.suspend(pid, &mut ids), Ok(1));
        assert_eq!(ids, [queue.queue_id]);
        let waves = (self.find_waves)(queue);
        let [wave] = waves[..] else { panic!("{} waves", waves.len()) };
        let result = look(wave);
        assert_eq!(self.resume(pid, &mut ids), Ok(1));
        result
    }

    pub(crate) fn launch_mode(&self, pid: u32, launch_mode: u32) -> Result<i32, Errno> {
        let args = DbgTrapSetWaveLaunchModeArgs { launch_mode, pad: 0 };
        self.op(pid, DbgTrapOp::SetWaveLaunchMode as u32, args).0
    }
}

/// The waves of a suspended queue, which have 32 lanes and no LDS, as ROCdbgapi finds them: each state in the control
/// stack gives the number of vector registers of the waves after it, and contexts go downwards from the end.
pub(crate) fn saved_waves(queue: &QueueSnapshotEntry) -> Vec<SavedWave> {
    let area = queue.ctx_save_restore_address;
    // SAFETY: the area is memory of this process; its header was written when the queue was suspended.
    let header = unsafe { (area as *const ContextSaveAreaHeader).read_volatile() };
    let mut at = area + u64::from(header.wave_state_offset);
    let words = header.control_stack_size / 4;
    let (mut waves, mut vgprs, mut index) = (Vec::new(), 0, 2);
    while index < words {
        let place = area + u64::from(header.control_stack_offset) + u64::from(index) * 4;
        // SAFETY: as above, in the control stack.
        let word = unsafe { (place as *const u32).read_volatile() };
        index += 1;
        if word >> 31 == 1 {
            // In units of eight registers of 32 lanes.
            vgprs = ((word & 0x3f) + 1) * 8;
            index += 1;
        } else if word >> 30 & 1 == 0 {
            at -= u64::from(vgprs) * 128 + 160 * 4;
            waves.push(SavedWave { at: at + u64::from(vgprs) * 128, scalars: 128 });
        }
    }
    assert_eq!(at, area + u64::from(header.wave_state_offset - header.wave_state_size), "all of the waves");
    waves
}
