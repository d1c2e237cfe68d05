//! The BARs and doorbells as a host forwards them.

use std::sync::Arc;

use belfry_abi::doorbell::DoorbellOffset;
use belfry_abi::pci;

use super::{Gpu, ResetKind};
use crate::doorbell::{DoorbellListener, Owner};
use crate::faults::Rule;
use crate::io::{IoError, IoResult};
use crate::memory::Physical;
use crate::moments::{Moment, Verdict};
use crate::pci::Msix;
use crate::record::Call;
use crate::trace::Engine;

impl Gpu {
    /// Reads a BAR; on an error, `data` is zeroed.
    ///
    /// VRAM and the expansion ROM take any width; doorbells take 4 and 8 bytes; registers take 8 bytes, 4 bytes, and
    /// parts of 4 bytes.
    ///
    /// # Errors
    ///
    /// No such BAR, outside of it, or a width it does not take.
    pub fn bar_read(&self, bar: u8, offset: u64, data: &mut [u8]) -> IoResult {
        let _on = self.on_device();
        data.fill(0);
        let len = data.len();
        self.check(bar, offset, len)?;
        match &self.session {
            None => self.answer_read(bar, offset, data),
            // The host's processors access VRAM without the device.
            Some(_) if bar == pci::BAR_VRAM => {
                let read = self.memory.read_shared(offset, data);
                read.map_err(|_| IoError::OutOfRange { bar, offset, len })
            }
            Some(session) => session.read(self, &Call::BarRead { bar, offset, len: len as u32 }, data),
        }
    }

    /// Reads a BAR within its bounds.
    pub(super) fn answer_read(&self, bar: u8, offset: u64, data: &mut [u8]) -> IoResult {
        let len = data.len();
        let strikes = if bar == pci::BAR_REGISTERS && len == 4 { self.strike_read(offset) } else { None };
        if self.tools.is_removed() {
            data.fill(0xff);
            return Ok(());
        }
        match bar {
            pci::BAR_VRAM => {
                let read = self.memory.read_bytes(Physical::local(offset), data);
                read.map_err(|_| IoError::OutOfRange { bar, offset, len })
            }
            pci::BAR_DOORBELLS => {
                let value = if len == 8 {
                    self.doorbells.load(DoorbellOffset::from_bytes(offset))
                } else {
                    self.doorbells.load32(DoorbellOffset::from_bytes(offset & !3)).into()
                };
                match len {
                    4 | 8 if offset.is_multiple_of(len as u64) => {
                        data.copy_from_slice(&value.to_le_bytes()[..len]);
                    }
                    _ => return Err(IoError::Unsupported { bar, offset, len }),
                }
                Ok(())
            }
            pci::BAR_ROM => {
                if let Some(rom) = &self.config.rom {
                    rom.read(offset, data);
                }
                Ok(())
            }
            _ if Msix::contains(offset) => {
                self.interrupts.read_msix(offset, data);
                Ok(())
            }
            _ => self.read_registers(offset, data, strikes == Some(Rule::RegisterStuck)),
        }
    }

    /// Reads registers, of which one may be stuck, or gets stuck here.
    fn read_registers(&self, offset: u64, data: &mut [u8], sticks: bool) -> IoResult {
        self.registers.read_bytes(offset, data)?;
        if let Ok(word) = <[u8; 4]>::try_from(&*data)
            && self.tools.may_strike()
        {
            if sticks {
                self.tools.faults().stick(offset, u32::from_le_bytes(word));
            }
            if let Some(value) = self.tools.faults().stuck_at(offset) {
                data.copy_from_slice(&value.to_le_bytes());
            }
        }
        Ok(())
    }

    /// Returns the fault that strikes a read of a register by the host.
    fn strike_read(&self, offset: u64) -> Option<Rule> {
        let verdict = self.tools.at(|| Moment::RegisterRead { offset }.on(Engine::Device));
        let Verdict::Strike(rule) = verdict else { return None };
        if rule == Rule::Removal && !self.tools.is_removed() {
            self.tools.faults().remove();
            // A card without power does not go on with its work.
            self.runner.hold();
        }
        if rule == Rule::FunctionReset {
            self.reset_now(ResetKind::Flr);
        }
        Some(rule)
    }

    /// Writes a BAR; on an error, nothing is written.
    ///
    /// VRAM takes any width; doorbells and registers take aligned accesses of 4 and 8 bytes. The expansion ROM stays as
    /// it is.
    ///
    /// # Errors
    ///
    /// No such BAR, outside of it, or a width it does not take.
    pub fn bar_write(&self, bar: u8, offset: u64, data: &[u8]) -> IoResult {
        let _on = self.on_device();
        let len = data.len();
        self.check(bar, offset, len)?;
        match &self.session {
            None => self.answer_write(bar, offset, data),
            Some(_) if bar == pci::BAR_VRAM => {
                let written = self.memory.write_shared(offset, data);
                written.map_err(|_| IoError::OutOfRange { bar, offset, len })
            }
            Some(session) => {
                session.call(self, &Call::BarWrite { bar, offset, data: data.to_vec() }).map(|_| ())
            }
        }
    }

    /// Writes a BAR within its bounds.
    pub(super) fn answer_write(&self, bar: u8, offset: u64, data: &[u8]) -> IoResult {
        let len = data.len();
        if self.tools.is_removed() {
            return Ok(());
        }
        if bar == pci::BAR_VRAM {
            let written = self.memory.write_bytes(Physical::local(offset), data);
            return written.map_err(|_| IoError::OutOfRange { bar, offset, len });
        }
        if bar == pci::BAR_ROM {
            // Nothing changes it.
            return Ok(());
        }
        if bar == pci::BAR_REGISTERS {
            if Msix::contains(offset) {
                self.interrupts.write_msix(offset, data);
                return Ok(());
            }
            self.registers.write_bytes(offset, data)?;
            self.obey_driver();
            return Ok(());
        }
        let value = match *data {
            [a, b, c, d] => u32::from_le_bytes([a, b, c, d]).into(),
            [a, b, c, d, e, f, g, h] => u64::from_le_bytes([a, b, c, d, e, f, g, h]),
            _ => return Err(IoError::Unsupported { bar, offset, len }),
        };
        if !offset.is_multiple_of(len as u64) {
            return Err(IoError::Unsupported { bar, offset, len });
        }
        self.ring(DoorbellOffset::from_bytes(offset), value, len);
        Ok(())
    }

    pub(super) fn check(&self, bar: u8, offset: u64, len: usize) -> IoResult {
        let size = match bar {
            pci::BAR_VRAM => self.config.vram_size,
            pci::BAR_DOORBELLS => pci::DOORBELL_BAR_SIZE,
            pci::BAR_REGISTERS => self.config.chip.generation.register_bar.size,
            pci::BAR_ROM => self.config.rom.as_ref().ok_or(IoError::NoSuchBar(bar))?.size(),
            _ => return Err(IoError::NoSuchBar(bar)),
        };
        match offset.checked_add(len as u64) {
            Some(end) if end <= size => Ok(()),
            _ => Err(IoError::OutOfRange { bar, offset, len }),
        }
    }

    /// Takes a doorbell that was written by an access.
    fn ring(&self, offset: DoorbellOffset, value: u64, len: usize) {
        if !self.watch.lets_through(offset) {
            return;
        }
        self.watch.trapped(offset, value, len);
        match self.doorbells.owner(offset) {
            Owner::Interrupts(which) => {
                if let Some((vmid, page)) = self.interrupts.rung(which, value as u32) {
                    self.contexts.retried(vmid, page);
                }
                return;
            }
            Owner::Nobody if !self.doorbells.is_awaited(offset) => {
                self.watch.unknown(format_args!("offset={offset:#x} value={value:#x}"));
            }
            Owner::Ring | Owner::Queue | Owner::Nobody => {}
        }
        self.wake.wake();
    }

    /// Tells the device that a doorbell page may have been written without an access, or is about to be.
    ///
    /// The device looks at once. If it also looks by itself
    /// ([`poll_doorbells`](crate::GpuConfig::poll_doorbells)), it then looks as often as after a doorbell: a
    /// store that lands just after the look is found soon.
    pub fn doorbell_hint(&self) {
        let _on = self.on_device();
        match &self.session {
            None => self.take_hint(),
            Some(session) => session.tell(self, &Call::DoorbellHint),
        }
    }

    pub(super) fn take_hint(&self) {
        self.watch.stir();
        self.wake.wake();
    }

    /// Tells the device that a doorbell was written a number of times. The values did not reach the device.
    ///
    /// The device reads the progress of producers from their write pointers, which they write before they
    /// ring. The kernel's own rings (KIQ, MES) take the doorbell's value: their writes have to arrive by
    /// [`Self::bar_write`].
    pub fn doorbell_woken(&self, offset: DoorbellOffset, writes: u64) {
        let _on = self.on_device();
        match &self.session {
            None => self.take_writes(offset, writes),
            Some(session) => {
                session.tell(self, &Call::DoorbellWoken { offset: offset.bytes(), writes });
            }
        }
    }

    pub(super) fn take_writes(&self, offset: DoorbellOffset, writes: u64) {
        if writes == 0 || self.tools.is_removed() || !self.watch.lets_through(offset) {
            return;
        }
        if !self.watch.woken(offset, writes) && !self.doorbells.is_awaited(offset) {
            self.watch.unknown(format_args!("offset={offset:#x} writes={writes}"));
        }
        self.wake.wake();
    }

    /// Tells `listener` from now on which doorbells belong to queues; only the first call counts.
    pub fn set_doorbell_listener(&self, listener: Arc<dyn DoorbellListener>) {
        let _on = self.on_device();
        self.doorbells.set_listener(listener);
    }

    /// Doorbells of queues on the 4 KiB page at a byte offset, and their values, lowest first.
    pub fn doorbells(&self, page: u64) -> impl Iterator<Item = (DoorbellOffset, u64)> {
        self.doorbells.of_page(page)
    }

    /// Returns true if a queue with a doorbell on the page has work that is not completed.
    #[must_use]
    pub fn has_work(&self, page: u64) -> bool {
        self.doorbells.is_busy(page)
    }

    /// Tells the device that a doorbell was written without an access, and lends it the calling thread:
    /// packets and small dispatches are executed before this returns, for some tens of microseconds at most;
    /// longer work goes on by itself.
    pub fn doorbell_written(&self, offset: DoorbellOffset) {
        let _on = self.on_device();
        if self.tools.is_removed() {
            return;
        }
        // A device that is recorded or explored finds the value in its next turn.
        let later = self.session.is_some() || self.config.explorer.is_some();
        let served = !later && offset.index().is_some_and(|doorbell| self.runner.serve(doorbell));
        if !served {
            self.wake.wake();
        }
    }
}
