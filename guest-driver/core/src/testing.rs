//! An operating system for unit tests: VRAM is a vector, registers are a map, users do not exist.
#![expect(unsafe_code, reason = "the lock trait has an unsafe method, and pages are reached by address")]

extern crate std;

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use core::ptr::NonNull;
use std::sync::{Condvar, Mutex, PoisonError};

use crate::errno::{Errno, Result};
use crate::os::{
    Backing, Clock, CpuInfo, DeviceInfo, DrmFile, Gem, Invalidate, LogLevel, Os, PAGE_SIZE, ProcessKey,
    RawLock, SystemPages, UserPin, WaitOutcome, WaitQueue,
};

pub(crate) struct FakeOs {
    vram: Mutex<Vec<u8>>,
    registers: Mutex<BTreeMap<u32, u32>>,
    ticks: Mutex<u64>,
}

impl FakeOs {
    pub(crate) fn new(vram: usize) -> Self {
        Self { vram: Mutex::new(vec![0xcc; vram]), registers: Mutex::default(), ticks: Mutex::default() }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) struct FakePages(Box<[u64]>);

impl SystemPages for FakePages {
    fn count(&self) -> usize {
        self.0.len() * 8 / PAGE_SIZE as usize
    }

    fn cpu(&self) -> NonNull<u8> {
        NonNull::from(&*self.0).cast()
    }

    fn bus(&self, index: usize) -> u64 {
        self.cpu().as_ptr() as u64 + index as u64 * PAGE_SIZE
    }
}

pub(crate) struct FakePin;

impl UserPin for FakePin {
    fn count(&self) -> usize {
        0
    }

    fn bus(&self, _: usize) -> u64 {
        0
    }

    fn renew(&self) -> Result<Self> {
        Err(Errno::EFAULT)
    }
}

#[derive(Default)]
pub(crate) struct FakeLock {
    held: Mutex<bool>,
    free: Condvar,
}

impl RawLock for FakeLock {
    fn lock(&self) {
        let mut held = lock(&self.held);
        while *held {
            held = self.free.wait(held).unwrap_or_else(PoisonError::into_inner);
        }
        *held = true;
    }

    unsafe fn unlock(&self) {
        *lock(&self.held) = false;
        self.free.notify_one();
    }
}

pub(crate) struct FakeQueue;

impl WaitQueue for FakeQueue {
    fn ticket(&self) -> u64 {
        0
    }

    fn wait(&self, _: u64, timeout_ns: Option<u64>) -> WaitOutcome {
        if timeout_ns.is_some() { WaitOutcome::TimedOut } else { WaitOutcome::Interrupted }
    }

    fn wake_all(&self) {}
}

pub(crate) struct FakeFile;

impl DrmFile for FakeFile {
    fn id(&self) -> u64 {
        0
    }
}

impl Gem for FakeFile {
    fn mmap_offset(&self) -> u64 {
        0
    }
}

impl Os for FakeOs {
    type Pages = FakePages;
    type Pin = FakePin;
    type Lock = FakeLock;
    type WaitQueue = FakeQueue;
    type DrmFile = FakeFile;
    type Gem = FakeFile;

    fn device_info(&self) -> DeviceInfo {
        DeviceInfo::default()
    }

    fn reg_read(&self, offset: u32) -> u32 {
        lock(&self.registers).get(&offset).copied().unwrap_or(0)
    }

    fn reg_write(&self, offset: u32, value: u32) {
        lock(&self.registers).insert(offset, value);
    }

    fn doorbell_size(&self) -> u64 {
        2 << 20
    }

    fn doorbell_write(&self, _: u64, _: u64) {}

    fn vram_size(&self) -> u64 {
        lock(&self.vram).len() as u64
    }

    fn vram_read(&self, offset: u64, data: &mut [u8]) {
        data.copy_from_slice(&lock(&self.vram)[offset as usize..][..data.len()]);
    }

    fn vram_write(&self, offset: u64, data: &[u8]) {
        lock(&self.vram)[offset as usize..][..data.len()].copy_from_slice(data);
    }

    fn vram_fill(&self, offset: u64, len: u64, byte: u8) {
        lock(&self.vram)[offset as usize..][..len as usize].fill(byte);
    }

    fn write_barrier(&self) {}

    fn reset_function(&self) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }

    fn pages_alloc(&self, count: usize) -> Result<FakePages> {
        Ok(FakePages(vec![0; count * PAGE_SIZE as usize / 8].into()))
    }

    fn pin_user(&self, _: ProcessKey, _: u64, _: usize, _: bool, _: Arc<dyn Invalidate>) -> Result<FakePin> {
        Err(Errno::EFAULT)
    }

    fn copy_from_user(&self, _: &mut [u8], _: u64) -> Result<()> {
        Err(Errno::EFAULT)
    }

    fn copy_to_user(&self, _: u64, _: &[u8]) -> Result<()> {
        Err(Errno::EFAULT)
    }

    fn user_range_ok(&self, _: u64, _: u64) -> bool {
        true
    }

    fn drm_acquire(&self, _: i32) -> Result<FakeFile> {
        Err(Errno::EINVAL)
    }

    fn gem_create(&self, _: &FakeFile, _: Arc<dyn Backing>) -> Result<FakeFile> {
        Ok(FakeFile)
    }

    fn clock_ns(&self, _: Clock) -> u64 {
        // A millisecond passes with every look, so that no poll lasts.
        let mut ticks = lock(&self.ticks);
        *ticks += 1_000_000;
        *ticks
    }

    fn sleep_us(&self, _: u64) {}

    fn lock_new(&self) -> Result<FakeLock> {
        Ok(FakeLock::default())
    }

    fn wait_queue_new(&self) -> Result<FakeQueue> {
        Ok(FakeQueue)
    }

    fn cpu_info(&self) -> CpuInfo {
        CpuInfo { cores: 1, max_clock_mhz: 0, memory_bytes: 1 << 30 }
    }

    fn log(&self, _: LogLevel, _: fmt::Arguments<'_>) {}
}
