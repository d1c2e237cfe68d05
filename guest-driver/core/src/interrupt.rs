//! Interrupts: the IH ring, and what is done about its entries (`amdgpu_ih.c`, `kfd_interrupt.c`).

use alloc::sync::Arc;
use core::sync::atomic::Ordering;

use belfry_abi::ih::{ENTRY_SIZE, IhEntry};
use belfry_abi::kfd::debug::ExceptionCode;
use belfry_abi::kfd::event::{MemoryExceptionData, MemoryExceptionFailure};
use belfry_abi::regs::osssys;
use zerocopy::IntoBytes;

use self::retry::RetryRing;
use crate::asic::Interrupt;
use crate::device::Device;
use crate::errno::Result;
use crate::gart::{Gart, KernelBuffer};
use crate::hw::Hw;
use crate::os::{DriverEvent, LogLevel, Os, PAGE_SIZE};

/// Bytes of the ring.
pub(crate) const RING_SIZE: u32 = 64 << 10;
/// Where the device reports the write pointer, behind the ring.
const WPTR: usize = RING_SIZE as usize;
/// Entries taken at once: the ring's lock is short, and they fit on a kernel's stack.
const BATCH: usize = 16;
/// Batches of one pass: as much as a full ring holds.
const BATCHES: usize = (RING_SIZE / ENTRY_SIZE) as usize / BATCH;
/// Bit of the reported write pointer: entries were overwritten (`IH_RB_WPTR.RB_OVERFLOW`).
const RB_OVERFLOW: u32 = 1;

/// Fields of context words (`KFD_CTXID0_DOORBELL_ID`, `KFD_CTXID0_TRAP_CODE`), and the message of a wave.
const DOORBELL_ID: u32 = 0x3ff;
const TRAP_CODE_SHIFT: u32 = 10;
const TRAP_CODE: u32 = 0x3fff;
const MESSAGE: u32 = 0xff_ffff;

/// Interrupt ring 0, and ring 1 where there is one.
pub(crate) struct IhRing<O: Os> {
    retry: Option<RetryRing<O>>,
    hw: Arc<Hw<O>>,
    buffer: KernelBuffer<O>,
    rptr: u32,
}

impl<O: Os> IhRing<O> {
    pub(crate) fn new(hw: Arc<Hw<O>>, gart: &Arc<Gart<O>>) -> Result<Self> {
        let buffer = gart.allocate(RING_SIZE as usize / PAGE_SIZE as usize + 1)?;
        let retry = RetryRing::new(&hw, gart)?;
        Ok(Self { retry, hw, buffer, rptr: 0 })
    }

    fn control(&self) -> osssys::IH_RB_CNTL {
        let mut cntl = osssys::IH_RB_CNTL(0);
        cntl.set_rb_size((RING_SIZE / 4).ilog2());
        cntl.set_wptr_writeback_enable(true);
        cntl.set_wptr_overflow_enable(true);
        cntl.set_enable_intr(true);
        cntl.set_rptr_rearm(true);
        cntl.set_mc_snoop(true);
        // The ring's address is one of VMID 0, not of the bus.
        cntl.set_mc_space(4);
        cntl
    }

    /// Programs and enables the rings.
    pub(crate) fn start(&mut self) {
        if let Some(retry) = &mut self.retry {
            retry.start();
        }
        let hw = &self.hw;
        hw.write(osssys::IH_RB_CNTL(0));
        self.rptr = 0;
        self.buffer.word(WPTR).store(0, Ordering::Relaxed);
        let base = self.buffer.gpu_address();
        hw.write(osssys::IH_RB_BASE((base >> 8) as u32));
        hw.write(osssys::IH_RB_BASE_HI((base >> 40) as u32));
        let wptr = base + WPTR as u64;
        hw.write(osssys::IH_RB_WPTR_ADDR_LO(wptr as u32));
        hw.write(osssys::IH_RB_WPTR_ADDR_HI((wptr >> 32) as u32 & 0xffff));
        hw.write(osssys::IH_RB_RPTR(0));
        hw.write(osssys::IH_RB_WPTR(0));
        // The read pointer goes back by register, which cannot be missed as a polled doorbell can.
        hw.write(osssys::IH_DOORBELL_RPTR(0));
        let mut cntl = self.control();
        cntl.set_rb_enable(true);
        hw.write(cntl);
    }

    /// Where a device finds the ring and its write pointer.
    #[cfg(test)]
    pub(crate) fn addresses(&self) -> (usize, usize) {
        let address = |offset| core::ptr::from_ref(self.buffer.word(offset)).addr();
        (address(0), address(WPTR))
    }

    /// Disables the rings.
    pub(crate) fn stop(&self) {
        if let Some(retry) = &self.retry {
            retry.stop();
        }
        self.hw.write(osssys::IH_RB_CNTL(0));
    }

    /// Takes up to a batch of entries; returns how many, and whether entries were lost before them.
    fn take(&mut self, entries: &mut [IhEntry; BATCH]) -> (usize, bool) {
        let mut wptr = self.buffer.word(WPTR).load(Ordering::Acquire);
        let overflow = wptr & RB_OVERFLOW != 0;
        wptr = wptr & !(ENTRY_SIZE - 1) & (RING_SIZE - 1);
        if overflow {
            // The oldest entry that is whole lies just behind the write pointer.
            self.rptr = (wptr + ENTRY_SIZE) & (RING_SIZE - 1);
            let mut cntl = self.control();
            cntl.set_rb_enable(true);
            cntl.set_wptr_overflow_clear(true);
            self.hw.write(cntl);
            cntl.set_wptr_overflow_clear(false);
            self.hw.write(cntl);
            self.buffer.word(WPTR).fetch_and(!RB_OVERFLOW, Ordering::AcqRel);
        }
        let mut count = 0;
        for entry in entries {
            if self.rptr == wptr {
                break;
            }
            self.buffer.read(self.rptr as usize, entry.as_mut_bytes());
            self.rptr = (self.rptr + ENTRY_SIZE) & (RING_SIZE - 1);
            count += 1;
        }
        if count > 0 || overflow {
            self.hw.write(osssys::IH_RB_RPTR(self.rptr));
        }
        (count, overflow)
    }
}

impl<O: Os> Device<O> {
    /// Handles as many entries as the ring has; returns whether it was not seen empty.
    ///
    /// A device can write as fast as this reads, and must not have the thread for ever.
    pub(crate) fn interrupt(&self) -> bool {
        let mut entries = [IhEntry::default(); BATCH];
        for _ in 0..BATCHES {
            let (count, overflow) = match self.ih.lock().as_mut() {
                Some(ring) => ring.take(&mut entries),
                None => return false,
            };
            if overflow {
                let line = format_args!("IH ring buffer overflow: looking at all signals");
                self.limits.overflow.log(&self.hw, LogLevel::Warn, line);
                self.look_at_all();
                self.retry_interrupts();
            }
            if count == 0 {
                return false;
            }
            for entry in &entries[..count] {
                self.handle(entry);
            }
        }
        true
    }

    /// Looks at all signals and all work, of which interrupts may have told that were lost.
    pub(crate) fn look_at_all(&self) {
        for process in self.processes() {
            process.events.scan();
        }
        for client in self.files() {
            client.kick();
        }
    }

    fn handle(&self, entry: &IhEntry) {
        let (client, source) = (entry.client().0.into(), entry.source().0.into());
        self.trace(entry.pasid(), DriverEvent::Handled { client, source });
        let asic = self.hw.asic();
        if u32::from(entry.vmid()) < asic.first_kfd_vmid || entry.pasid() == 0 {
            match (asic.interrupt)(entry) {
                Interrupt::RingOne => self.retry_interrupts(),
                _ => self.count_unhandled(entry),
            }
            return;
        }
        let Some(process) = self.process(entry.pasid()) else {
            // Otherwise the process went while its interrupt was in the ring.
            let interrupt = (asic.interrupt)(entry);
            if let Interrupt::PageRetry { told, .. } = interrupt {
                self.retried(told);
            }
            if let Some(client) = self.worker(entry.pasid()) {
                client.interrupt(interrupt, entry.timestamp());
            }
            return;
        };
        let node = process.nodes.raised(entry);
        match (asic.interrupt)(entry) {
            Interrupt::Signal(event) => {
                process.events.interrupt(event, || {
                    self.trace(entry.pasid(), DriverEvent::EventSet { event });
                });
            }
            Interrupt::HandlerMessage(word) => {
                let (doorbell, exceptions) = (word & DOORBELL_ID, word >> TRAP_CODE_SHIFT & TRAP_CODE);
                if !process.debug.raise_queue((node.gpu_id.into(), doorbell), exceptions.into()) {
                    process.events.interrupt(word & MESSAGE, || ());
                }
            }
            Interrupt::ShaderError(word) => {
                let line = format_args!("pasid {}: shader error {word:#x}", entry.pasid());
                self.limits.shader_error.log(&self.hw, LogLevel::Warn, line);
            }
            Interrupt::Poison => process.poison_consumed(node),
            Interrupt::BadPacket(word) => {
                let line = format_args!("pasid {}: bad packet, doorbell and code {word:#x}", entry.pasid());
                self.limits.bad_packet.log(&self.hw, LogLevel::Warn, line);
                let code = ExceptionCode(word >> TRAP_CODE_SHIFT & 0xffff).mask();
                let told = ExceptionCode::MASK_PACKET | ExceptionCode::QUEUE_PREEMPTION_ERROR.mask();
                process.debug.raise_queue((node.gpu_id.into(), word & DOORBELL_ID), code & told);
            }
            Interrupt::PageFault { page, not_present, write } => {
                process.memory_fault(MemoryExceptionData {
                    failure: MemoryExceptionFailure {
                        not_present: u32::from(not_present),
                        read_only: u32::from(write),
                        no_execute: 0,
                        imprecise: 0,
                    },
                    va: page * PAGE_SIZE,
                    gpu_id: u32::from(node.gpu_id),
                    error_type: 0,
                });
            }
            Interrupt::PageRetry { page, told } => {
                if !process.page_wanted(node, page * PAGE_SIZE, told) {
                    self.retried(told);
                }
            }
            Interrupt::Quiet => {}
            Interrupt::RingOne | Interrupt::Unknown => self.count_unhandled(entry),
        }
    }
}

mod retry;
#[cfg(test)]
mod tests;
