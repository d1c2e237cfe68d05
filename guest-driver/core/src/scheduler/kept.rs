//! The scheduler, and what it was asked for: so that it can be stopped under the queues of processes, and started again with them.

use alloc::boxed::Box;
use alloc::vec::Vec;

use belfry_abi::doorbell::DoorbellIndex;

use super::Scheduler;
use crate::errno::{Errno, Result};
use crate::request::{QueueRequest, ShaderDebugger};

/// A scheduler with the queues that it runs.
///
/// While it is suspended, what it is asked for is kept, and done when it is resumed: queues run then that were added and not
/// removed.
pub(crate) struct Kept {
    scheduler: Box<dyn Scheduler>,
    /// Queues, in the order in which they came.
    queues: Vec<QueueRequest>,
    /// Settings of debuggers, of each process once.
    debuggers: Vec<ShaderDebugger>,
    suspended: bool,
}

impl Kept {
    /// A scheduler that runs nothing yet.
    pub(crate) fn new(scheduler: Box<dyn Scheduler>) -> Self {
        Self { scheduler, queues: Vec::new(), debuggers: Vec::new(), suspended: false }
    }

    /// Returns whether it stands still until [`Kept::resume`].
    pub(crate) fn is_suspended(&self) -> bool {
        self.suspended
    }

    /// Forgets all queues: the device was reset, or will be before it is resumed.
    pub(crate) fn forget(&mut self) {
        self.queues.clear();
        self.debuggers.clear();
    }

    /// Takes all queues off the hardware, which saves their state, and stops (`kgd2kfd_suspend`: `evict_process_queues_cpsch`,
    /// `stop_cpsch`).
    ///
    /// # Errors
    ///
    /// `EBUSY` when it is suspended, `ETIME` when a queue does not stop: only a reset helps then.
    pub(crate) fn suspend(&mut self) -> Result<()> {
        if self.suspended {
            return Err(Errno::EBUSY);
        }
        for queue in &self.queues {
            self.scheduler.remove_queue(queue.doorbell, queue.gang_context)?;
        }
        self.scheduler.stop();
        self.suspended = true;
        Ok(())
    }

    /// Starts again, with the queues that there are now (`kgd2kfd_resume`: `start_cpsch`, `restore_process_queues_cpsch`).
    ///
    /// # Errors
    ///
    /// Errors of the start and of the requests.
    pub(crate) fn resume(&mut self) -> Result<()> {
        self.suspended = false;
        self.scheduler.start()?;
        for debugger in &self.debuggers {
            self.scheduler.set_shader_debugger(debugger)?;
        }
        for queue in &self.queues {
            self.scheduler.add_queue(queue)?;
        }
        Ok(())
    }
}

impl Scheduler for Kept {
    fn start(&mut self) -> Result<()> {
        self.forget();
        self.suspended = false;
        self.scheduler.start()
    }

    fn stop(&mut self) {
        if !self.suspended {
            self.scheduler.stop();
        }
    }

    fn add_queue(&mut self, queue: &QueueRequest) -> Result<()> {
        self.queues.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        if !self.suspended {
            self.scheduler.add_queue(queue)?;
        }
        self.queues.push(*queue);
        Ok(())
    }

    fn remove_queue(&mut self, doorbell: DoorbellIndex, gang: u64) -> Result<()> {
        if !self.suspended {
            self.scheduler.remove_queue(doorbell, gang)?;
        }
        self.queues.retain(|queue| queue.doorbell != doorbell);
        Ok(())
    }

    fn set_shader_debugger(&mut self, debugger: &ShaderDebugger) -> Result<()> {
        self.debuggers.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        if !self.suspended {
            self.scheduler.set_shader_debugger(debugger)?;
        }
        self.debuggers.retain(|other| other.process_context != debugger.process_context);
        self.debuggers.push(*debugger);
        Ok(())
    }

    fn flush_shader_debugger(&mut self, process_context: u64) -> Result<()> {
        self.debuggers.retain(|debugger| debugger.process_context != process_context);
        if self.suspended { Ok(()) } else { self.scheduler.flush_shader_debugger(process_context) }
    }

    #[cfg(test)]
    fn ring(&self) -> (u64, u64) {
        self.scheduler.ring()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::{LaunchControl, NodeWatch};
    use crate::testing::{Trace, lock};

    /// Notes what it is asked, and does not stop queues of gang 13.
    struct Recorder(Trace);

    impl Recorder {
        fn note(&self, what: &'static str) -> Result<()> {
            lock(&self.0).push(what);
            Ok(())
        }
    }

    impl Scheduler for Recorder {
        fn start(&mut self) -> Result<()> {
            self.note("start")
        }

        fn stop(&mut self) {
            let _ = self.note("stop");
        }

        fn add_queue(&mut self, queue: &QueueRequest) -> Result<()> {
            self.note(if queue.doorbell == DoorbellIndex::from_dwords(2) { "add 2" } else { "add" })
        }

        fn remove_queue(&mut self, _: DoorbellIndex, gang: u64) -> Result<()> {
            self.note("remove")?;
            if gang == 13 { Err(Errno::ETIME) } else { Ok(()) }
        }

        fn set_shader_debugger(&mut self, _: &ShaderDebugger) -> Result<()> {
            self.note("set")
        }

        fn flush_shader_debugger(&mut self, _: u64) -> Result<()> {
            self.note("flush")
        }

        fn ring(&self) -> (u64, u64) {
            (0, 0)
        }
    }

    fn kept() -> (Kept, Trace) {
        let trace = Trace::default();
        (Kept::new(Box::new(Recorder(trace.clone()))), trace)
    }

    fn queue(doorbell: u32, gang: u64) -> QueueRequest {
        QueueRequest {
            node: 0,
            pasid: 1,
            root: 0,
            process_context: 0,
            gang_context: gang,
            priority: 7,
            doorbell: DoorbellIndex::from_dwords(doorbell),
            mqd: 0,
            wptr: 0,
            process_wptr: 0,
            ring_dwords: 256,
            trap_handler: 0,
            trap_memory: 0,
            sdma: None,
            aql: true,
            gws: false,
            xnack: false,
        }
    }

    fn debugger(process_context: u64) -> ShaderDebugger {
        ShaderDebugger {
            process_context,
            launch: LaunchControl::default(),
            watches: [NodeWatch::default(); 4],
            flags: 0,
        }
    }

    fn take(trace: &Trace) -> Vec<&'static str> {
        core::mem::take(&mut *lock(trace))
    }

    #[test]
    fn queues_that_there_are_come_back_in_their_order() {
        let (mut kept, trace) = kept();
        kept.start().unwrap();
        kept.add_queue(&queue(2, 1)).unwrap();
        kept.add_queue(&queue(4, 1)).unwrap();
        kept.add_queue(&queue(6, 1)).unwrap();
        kept.set_shader_debugger(&debugger(1)).unwrap();
        kept.set_shader_debugger(&debugger(1)).unwrap();
        take(&trace);
        kept.suspend().unwrap();
        assert_eq!(take(&trace), ["remove", "remove", "remove", "stop"]);
        assert_eq!((kept.suspend(), kept.is_suspended()), (Err(Errno::EBUSY), true));
        // Nothing of this reaches the device before it is back.
        kept.remove_queue(DoorbellIndex::from_dwords(2), 1).unwrap();
        kept.add_queue(&queue(2, 1)).unwrap();
        kept.remove_queue(DoorbellIndex::from_dwords(6), 1).unwrap();
        kept.set_shader_debugger(&debugger(2)).unwrap();
        kept.flush_shader_debugger(2).unwrap();
        kept.stop();
        assert!(take(&trace).is_empty());
        kept.resume().unwrap();
        assert_eq!(take(&trace), ["start", "set", "add", "add 2"]);
        kept.flush_shader_debugger(1).unwrap();
        kept.stop();
        assert_eq!(take(&trace), ["flush", "stop"]);
    }

    #[test]
    fn queue_that_does_not_stop_keeps_the_device_awake_until_it_is_forgotten() {
        let (mut kept, trace) = kept();
        kept.start().unwrap();
        kept.add_queue(&queue(2, 13)).unwrap();
        assert_eq!((kept.suspend(), kept.is_suspended()), (Err(Errno::ETIME), false));
        // What a reset does.
        kept.start().unwrap();
        kept.suspend().unwrap();
        take(&trace);
        kept.resume().unwrap();
        assert_eq!(take(&trace), ["start"]);
        // One that hangs is told of while the device sleeps.
        kept.add_queue(&queue(2, 1)).unwrap();
        kept.suspend().unwrap();
        kept.forget();
        take(&trace);
        kept.resume().unwrap();
        assert_eq!(take(&trace), ["start"]);
    }
}
