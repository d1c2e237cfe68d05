//! Access to the device, which ends when the device is removed.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, Ordering};

use belfry_abi::doorbell::DoorbellOffset;
use belfry_abi::regs::{Ip, Register, smuio};

use crate::asic::Asic;
use crate::config::Hive;
use crate::errno::{Errno, Result};
use crate::os::{Clock, Function as _, Os};
use crate::registers::RegisterMap;

/// Pause between looks whether the device is awake.
const ASLEEP_US: u64 = 100;
/// Looks that a device has when its time is over.
const LATE_LOOKS: u32 = 100;

/// The PCI function of a device, with a switch that turns every access into nothing, and the operating system.
pub(crate) struct Hw<O: Os> {
    os: Arc<O>,
    function: O::Function,
    registers: RegisterMap,
    asic: &'static Asic,
    /// Place in a hive.
    hive: Option<Hive>,
    alive: AtomicBool,
    /// The processor has written to VRAM since the host data path was flushed.
    unflushed: AtomicBool,
    /// The device is suspended: accesses wait.
    asleep: AtomicBool,
}

/// Logs one line through the operating system.
macro_rules! log {
    ($hw:expr, $level:ident, $($arg:tt)*) => {
        $hw.os().log($crate::os::LogLevel::$level, format_args!($($arg)*))
    };
}
pub(crate) use log;

impl<O: Os> Hw<O> {
    /// Access to a device of which the discovery table says where its registers are, and what it is.
    pub(crate) fn new(
        (os, function): (Arc<O>, O::Function),
        registers: RegisterMap,
        asic: &'static Asic,
    ) -> Self {
        let [alive, unflushed, asleep] = [true, false, false].map(AtomicBool::new);
        Self { os, function, registers, asic, hive: None, alive, unflushed, asleep }
    }

    /// Returns the places of the device's registers.
    pub(crate) fn registers(&self) -> &RegisterMap {
        &self.registers
    }

    /// Sets the place in a hive, before there is a page table.
    pub(crate) fn set_hive(&mut self, hive: Option<Hive>) {
        self.hive = hive;
    }

    /// Returns the place of the device in a hive, if it is in one.
    pub(crate) fn hive(&self) -> Option<Hive> {
        self.hive
    }

    /// Returns whether another device is one of the same hive.
    pub(crate) fn shares_hive(&self, other: &Self) -> bool {
        matches!((self.hive, other.hive), (Some(own), Some(there)) if own.id == there.id)
    }

    /// Returns whether this device reaches the VRAM of another one, or its own (`kfd_mem_attach`).
    pub(crate) fn reaches_vram_of(&self, owner: &Self) -> bool {
        core::ptr::eq(self, owner) || self.shares_hive(owner) || self.os().has_peers()
    }

    /// Returns the address of the first byte of VRAM, as entries of page tables name it: not 0 in a hive (`vram_base_offset`).
    pub(crate) fn vram_base(&self) -> u64 {
        self.hive.map_or(0, |hive| hive.base())
    }

    /// Returns the kind of the device.
    pub(crate) fn asic(&self) -> &'static Asic {
        self.asic
    }

    pub(crate) fn os(&self) -> &O {
        &self.os
    }

    /// Returns the PCI function, for what is no access to the device.
    pub(crate) fn function(&self) -> &O::Function {
        &self.function
    }

    pub(crate) fn alive(&self) -> bool {
        self.alive.load(Ordering::Acquire)
    }

    /// Reads the golden counter, which counts at 100 MHz.
    pub(crate) fn clock_counter(&self) -> u64 {
        loop {
            let upper = self.read::<smuio::GOLDEN_TSC_COUNT_UPPER>().bits();
            let lower = self.read::<smuio::GOLDEN_TSC_COUNT_LOWER>().bits();
            if self.read::<smuio::GOLDEN_TSC_COUNT_UPPER>().bits() == upper {
                return u64::from(upper) << 32 | u64::from(lower);
            }
        }
    }

    /// Ends all access; buffers may outlive the device and are then only forgotten.
    pub(crate) fn detach(&self) {
        self.alive.store(false, Ordering::Release);
    }

    /// Has all accesses wait until [`Hw::wake`] or [`Hw::detach`].
    pub(crate) fn sleep(&self) {
        self.asleep.store(true, Ordering::Release);
    }

    /// Lets accesses reach the device again.
    pub(crate) fn wake(&self) {
        self.asleep.store(false, Ordering::Release);
    }

    pub(crate) fn is_asleep(&self) -> bool {
        self.asleep.load(Ordering::Acquire)
    }

    /// Waits until the device is awake; whether it is there.
    fn reaches(&self) -> bool {
        while self.is_asleep() && self.alive() {
            self.os.sleep_us(ASLEEP_US);
        }
        self.alive()
    }

    /// Reads a register; all ones when the device is gone.
    pub(crate) fn read<R: Register>(&self) -> R {
        self.read_at(0)
    }

    /// Reads register `index` of an array with a stride of one dword.
    pub(crate) fn read_at<R: Register>(&self, index: u32) -> R {
        self.instance(0).read_at(index)
    }

    /// Writes a register.
    pub(crate) fn write<R: Register>(&self, value: R) {
        self.write_at(0, value);
    }

    /// Writes register `index` of an array with a stride of one dword.
    pub(crate) fn write_at<R: Register>(&self, index: u32, value: R) {
        self.instance(0).write_at(index, value);
    }

    /// Reads the register at a dword of the registers' BAR; all ones when the device is gone.
    pub(crate) fn read_dword(&self, dword: u32) -> u32 {
        if self.reaches() { self.function.reg_read(dword * 4) } else { u32::MAX }
    }

    /// The registers of blocks that the device may have several of, of those with this number.
    pub(crate) fn instance(&self, number: usize) -> Instance<'_, O> {
        Instance { hw: self, number }
    }

    /// The registers of each graphics core (XCC).
    pub(crate) fn xccs(&self) -> impl DoubleEndedIterator<Item = Instance<'_, O>> {
        (0..self.registers.count(Ip::GC)).map(|number| self.instance(number))
    }

    /// The registers of each hub of all that is outside of the graphics cores.
    pub(crate) fn mm_hubs(&self) -> impl Iterator<Item = Instance<'_, O>> {
        (0..self.registers.count(Ip::MMHUB)).map(|number| self.instance(number))
    }

    pub(crate) fn doorbell_write(&self, offset: DoorbellOffset, value: u64) {
        self.flush_hdp();
        if self.reaches() {
            self.function.doorbell_write(offset, value);
        }
    }

    pub(crate) fn vram_write(&self, offset: u64, data: &[u8]) {
        if self.reaches() {
            self.function.vram_write(offset, data);
            self.unflushed.store(true, Ordering::Release);
        }
    }

    pub(crate) fn vram_fill(&self, offset: u64, len: u64, byte: u8) {
        if self.reaches() {
            self.function.vram_fill(offset, len, byte);
            self.unflushed.store(true, Ordering::Release);
        }
    }

    /// Has the host data path write to VRAM what the processor has written through the BAR, before the device is to find it there
    /// (`amdgpu_device_flush_hdp`). Doorbells that the driver rings do that as well.
    pub(crate) fn flush_hdp(&self) {
        if self.unflushed.swap(false, Ordering::AcqRel) && self.reaches() {
            self.function.write_barrier();
            self.function.reg_write(self.asic.hdp_remap as u32, 0);
        }
    }

    pub(crate) fn write_barrier(&self) {
        if self.alive() {
            self.function.write_barrier();
        }
    }

    pub(crate) fn now_ns(&self) -> u64 {
        self.os.clock_ns(Clock::MonotonicRaw)
    }

    /// Polls `done` until it holds: spinning first, sleeping longer and longer then.
    ///
    /// Time may pass in which neither this thread nor the device has run, as where a process was stopped or a machine suspended. So the
    /// device has some more looks when the time is over.
    ///
    /// # Errors
    ///
    /// `ETIME` after `timeout_ns`, `ENODEV` when the device is gone.
    pub(crate) fn poll(&self, timeout_ns: u64, mut done: impl FnMut() -> bool) -> Result<()> {
        let start = self.now_ns();
        let (mut sleep_us, mut late) = (1, 0);
        for turn in 0u32.. {
            if done() {
                return Ok(());
            }
            if !self.alive() {
                return Err(Errno::ENODEV);
            }
            if self.now_ns().saturating_sub(start) > timeout_ns {
                late += 1;
                if late > LATE_LOOKS {
                    break;
                }
                // With pauses, of a tenth of a second together.
                sleep_us = 1000;
            }
            if turn < 200 && late == 0 {
                core::hint::spin_loop();
            } else {
                self.os.sleep_us(sleep_us);
                sleep_us = (sleep_us * 2).min(1000);
            }
        }
        Err(Errno::ETIME)
    }
}

/// The registers of one of several blocks of a kind.
pub(crate) struct Instance<'a, O: Os> {
    hw: &'a Hw<O>,
    number: usize,
}

impl<'a, O: Os> Instance<'a, O> {
    pub(crate) fn hw(&self) -> &'a Hw<O> {
        self.hw
    }

    /// Number among its kind.
    pub(crate) fn number(&self) -> usize {
        self.number
    }

    /// Reads a register; all ones when the device is gone.
    pub(crate) fn read<R: Register>(&self) -> R {
        self.read_at(0)
    }

    /// Reads register `index` of an array with a stride of one dword.
    pub(crate) fn read_at<R: Register>(&self, index: u32) -> R {
        if !self.hw.reaches() {
            return R::from_bits(u32::MAX);
        }
        R::from_bits(self.hw.function.reg_read((self.hw.registers.dword_in::<R>(self.number) + index) * 4))
    }

    /// Writes a register.
    pub(crate) fn write<R: Register>(&self, value: R) {
        self.write_at(0, value);
    }

    /// Writes register `index` of an array with a stride of one dword.
    pub(crate) fn write_at<R: Register>(&self, index: u32, value: R) {
        if self.hw.reaches() {
            let dword = self.hw.registers.dword_in::<R>(self.number) + index;
            self.hw.function.reg_write(dword * 4, value.bits());
        }
    }

    /// Writes the pair of registers `L` (low) and `H` (high).
    pub(crate) fn write_pair<L: Register, H: Register>(&self, value: u64) {
        self.write(L::from_bits(value as u32));
        self.write(H::from_bits((value >> 32) as u32));
    }

    /// Writes the pair `index` of an array of pairs that begins with the registers `L` (low) and `H` (high).
    pub(crate) fn write_pair_at<L: Register, H: Register>(&self, index: u32, value: u64) {
        self.write_at(2 * index, L::from_bits(value as u32));
        self.write_at(2 * index, H::from_bits((value >> 32) as u32));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Bench;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn device_that_was_stopped_with_the_driver_has_time_to_answer() {
        let bench = Bench::new();
        let hw = &bench.device.hw;
        let mut looks = 0;
        let answered = hw.poll(SECOND, || {
            looks += 1;
            if looks == 3 {
                // Everything stands still for a minute.
                bench.os().advance_clock(60 * SECOND);
            }
            looks == 20
        });
        assert_eq!((answered, looks), (Ok(()), 20));
    }

    #[test]
    fn device_that_never_answers_is_given_up() {
        let bench = Bench::new();
        let mut looks = 0u32;
        let answered = bench.device.hw.poll(SECOND, || {
            looks += 1;
            false
        });
        assert_eq!(answered, Err(Errno::ETIME));
        // One for each millisecond of the bench's clock, and the late ones.
        assert!((1000..1200).contains(&looks), "{looks}");
    }
}
