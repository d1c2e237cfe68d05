//! The engines of a memory hub that drop cached translations.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use belfry_abi::regs::Offset;

use crate::regs::Run;
use crate::vm::Contexts;

/// Engines of a hub.
const ENGINES: usize = 18;

/// Offsets of engine 0's registers; those of engine n are n dwords further.
#[derive(Clone, Copy, Debug)]
pub(super) struct Registers {
    pub(super) semaphore: Offset,
    pub(super) request: Offset,
    /// Value of engine 0's request after reset.
    pub(super) request_reset: u32,
    pub(super) acknowledge: Offset,
}

/// The engines of one hub.
#[derive(Debug)]
pub(super) struct Invalidation {
    registers: Registers,
    requests: [AtomicU32; ENGINES],
    /// Contexts of the hub the engines run in: either hub's requests drop their translations.
    contexts: Arc<Contexts>,
}

impl Invalidation {
    pub(super) fn new(registers: Registers, contexts: Arc<Contexts>) -> Self {
        let engines = Self { registers, requests: Default::default(), contexts };
        engines.reset();
        engines
    }

    pub(super) fn claims(&self) -> Vec<Run> {
        let Registers { semaphore, request, acknowledge, .. } = self.registers;
        [semaphore, request, acknowledge].map(|first| Run { first, count: ENGINES as u32 }).into()
    }

    fn element(at: Offset, first: Offset) -> Option<usize> {
        at.element(first, ENGINES as u32).map(|engine| engine as usize)
    }

    pub(super) fn read(&self, at: Offset) -> Option<u32> {
        // Reading the semaphore takes it, and it is always free.
        if Self::element(at, self.registers.semaphore).is_some() {
            return Some(1);
        }
        if let Some(engine) = Self::element(at, self.registers.request) {
            return Some(self.requests[engine].load(Ordering::Acquire));
        }
        // Every VMID asked for, at once.
        let engine = Self::element(at, self.registers.acknowledge)?;
        Some(self.requests[engine].load(Ordering::Acquire) & 0xffff)
    }

    /// Writes a register; `false` if the hub does not have it. Requests are done when this returns.
    pub(super) fn write(&self, at: Offset, value: u32) -> bool {
        if let Some(engine) = Self::element(at, self.registers.request) {
            self.requests[engine].store(value, Ordering::Release);
            self.contexts.invalidate(value & 0xffff);
            return true;
        }
        // A semaphore is given back, which changes nothing; an acknowledgement is read-only.
        Self::element(at, self.registers.semaphore).is_some()
            || Self::element(at, self.registers.acknowledge).is_some()
    }

    /// The requests, which read as last written.
    pub(super) fn kept(&self) -> Vec<&AtomicU32> {
        self.requests.iter().collect()
    }

    pub(super) fn reset(&self) {
        for (engine, request) in self.requests.iter().enumerate() {
            let value = if engine == 0 { self.registers.request_reset } else { 0 };
            request.store(value, Ordering::Release);
        }
    }
}
