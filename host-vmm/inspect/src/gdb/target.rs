//! Waves as threads.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};

use belfry_device::Gpu;
use belfry_tools::inspect::{
    BreakOn, BytesOf, Inspect as _, InspectError, RegisterName, StatusView, WaveDetails, WaveId, WaveParts,
};
use gdbstub::common::Tid;
use gdbstub::target::ext::base::BaseOps;
use gdbstub::target::ext::base::multithread::{MultiThreadBase, MultiThreadResumeOps};
use gdbstub::target::ext::base::single_register_access::{SingleRegisterAccess, SingleRegisterAccessOps};
use gdbstub::target::ext::breakpoints::{
    Breakpoints, BreakpointsOps, HwWatchpointOps, SwBreakpoint, SwBreakpointOps,
};
use gdbstub::target::ext::host_io::HostIoOps;
use gdbstub::target::ext::libraries::LibrariesOps;
use gdbstub::target::ext::monitor_cmd::MonitorCmdOps;
use gdbstub::target::ext::target_description_xml_override::{
    TargetDescriptionXmlOverride, TargetDescriptionXmlOverrideOps,
};
use gdbstub::target::ext::thread_extra_info::{ThreadExtraInfo, ThreadExtraInfoOps};
use gdbstub::target::{Target, TargetError, TargetResult};

use super::monitor::plain;
use super::registers::{self, Foreign, Gpu64, Register};
use super::resume::Plan;
use super::watchpoints::Watched;
use crate::symbols::{SymbolFile, Symbols};
use crate::windows::{LDS, PRIVATE, REGISTERS, SGPR_WINDOW};

/// The thread that stands for the device, which there is while there are no waves.
pub(super) const DEVICE: Tid = NonZeroUsize::MIN;
/// Bit of the frame pointer: `s33`, as LLVM's calling convention has it.
const FRAME: usize = 33;
/// Bits of an address that tell its window.
pub(super) const WINDOW: u64 = 0xffff << 48;

/// The waves of a device, as a client of the stub sees them.
pub(crate) struct Waves {
    pub(super) gpu: Arc<Gpu>,
    /// Threads by their waves. A wave that has ended has none, and its number is not used again.
    pub(super) threads: BTreeMap<WaveId, Tid>,
    next: usize,
    /// The lane whose variables and private memory are shown.
    pub(super) lane: u32,
    /// Breakpoints at addresses: the device's numbers.
    pub(super) breaks: BTreeMap<u64, u32>,
    /// Watchpoints: the device's numbers with GDB's descriptions.
    pub(super) watches: Vec<(u32, Watched)>,
    /// Other breakpoints of this client.
    pub(super) others: Vec<u32>,
    /// The breakpoint for dispatches, by which code objects are found before their kernels run.
    pub(super) dispatches: Option<u32>,
    pub(super) plan: Plan,
    /// Waves at breakpoints that the client has been told of.
    pub(super) told: BTreeSet<WaveId>,
    /// The wave that the client was told of last.
    pub(super) current: Option<WaveId>,
    /// The last wave that was looked at, as long as nothing runs.
    seen: Option<WaveDetails>,
    description: String,
    pub(super) symbols: Arc<Mutex<Symbols>>,
    /// There are code objects that GDB has not looked at: it looks when it is told, not when it connects.
    pub(super) untold: bool,
    /// Files that GDB has open, by their numbers.
    pub(super) open: Vec<Option<Arc<SymbolFile>>>,
}

impl std::fmt::Debug for Waves {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Waves").field("threads", &self.threads).finish_non_exhaustive()
    }
}

impl Drop for Waves {
    /// Lets waves go on that a client has stopped, once it has left.
    fn drop(&mut self) {
        let inspector = self.gpu.inspect();
        let watches = self.watches.iter().map(|(number, _)| number);
        let mine = self.breaks.values().chain(watches).chain(&self.others).chain(&self.dispatches);
        mine.for_each(|&number| {
            inspector.remove_break(number);
        });
        inspector.proceed();
    }
}

impl Waves {
    /// Halts the device for a client.
    pub(super) fn attach(gpu: Arc<Gpu>, symbols: Arc<Mutex<Symbols>>) -> Result<Self, InspectError> {
        let status = gpu.inspect().halt()?;
        let mut waves = Self {
            gpu,
            threads: BTreeMap::new(),
            next: 2,
            lane: 0,
            breaks: BTreeMap::new(),
            watches: Vec::new(),
            others: Vec::new(),
            dispatches: None,
            plan: Plan::Stay,
            told: BTreeSet::new(),
            current: status.wave,
            seen: None,
            description: registers::description(),
            symbols,
            untold: false,
            open: Vec::new(),
        };
        waves.look_for_code();
        waves.untold = waves.has_code();
        waves.told.extend(status.wave);
        waves.watch_dispatches()?;
        Ok(waves)
    }

    /// Removes a breakpoint that this client stands in for.
    pub(super) fn forget(&mut self, number: u32) {
        self.gpu.inspect().remove_break(number);
    }

    /// Has the device stop at dispatches, after it was looked whether another breakpoint is for them.
    pub(super) fn watch_dispatches(&mut self) -> Result<(), InspectError> {
        let inspector = self.gpu.inspect();
        // Of the breakpoints of a packet the first one counts: this is to be the last one.
        let number = inspector.add_break(BreakOn::Packet("KERNEL_DISPATCH".to_owned()))?;
        if let Some(old) = self.dispatches.replace(number) {
            inspector.remove_break(old);
        }
        Ok(())
    }

    /// Forgets the facts about waves, which no longer hold.
    pub(super) fn moved(&mut self) {
        self.seen = None;
    }

    /// The thread of a wave.
    pub(super) fn thread(&mut self, wave: WaveId) -> Tid {
        let next = &mut self.next;
        *self.threads.entry(wave).or_insert_with(|| {
            let number = NonZeroUsize::new(*next).unwrap_or(NonZeroUsize::MAX);
            *next += 1;
            number
        })
    }

    /// The wave of a thread.
    pub(super) fn wave(&self, thread: Tid) -> Option<WaveId> {
        self.threads.iter().find(|(_, known)| **known == thread).map(|(wave, _)| *wave)
    }

    /// A thread's wave with its registers; the device has none.
    pub(super) fn details(&mut self, thread: Tid) -> Option<&WaveDetails> {
        let wave = self.wave(thread)?;
        if self.seen.as_ref().is_none_or(|seen| seen.view.wave != wave) {
            self.seen = self.gpu.inspect().wave(wave, WaveParts::default()).ok();
        }
        self.seen.as_ref()
    }

    /// The registers of the architecture that GDB believes in.
    fn foreign(&mut self, thread: Tid) -> Foreign {
        let Some(wave) = self.details(thread) else { return Foreign::default() };
        let frame = wave.sgprs.get(FRAME).map_or(0, |value| value.0);
        Foreign { pc: wave.view.pc.0, frame: PRIVATE | frame }
    }

    /// Status of the device, and the waves that stay at breakpoints of this client and that it was not told of.
    pub(super) fn status(&self) -> (StatusView, Option<WaveId>) {
        let status = self.gpu.inspect().status();
        let mine = status
            .at
            .iter()
            .filter(|(wave, pc)| self.breaks.contains_key(&pc.0) && !self.told.contains(wave));
        let next = mine.map(|(wave, _)| *wave).next();
        (status, next)
    }

    /// Reads memory as a thread sees it. Returns the number of bytes read.
    pub(super) fn read(&mut self, thread: Tid, address: u64, bytes: &mut [u8]) -> usize {
        let (window, offset) = (address & WINDOW, address & !WINDOW);
        let lane = self.lane;
        let copy = |from: &[u8], bytes: &mut [u8]| {
            let from = usize::try_from(offset).ok().and_then(|offset| from.get(offset..)).unwrap_or_default();
            let count = from.len().min(bytes.len());
            bytes[..count].copy_from_slice(&from[..count]);
            count
        };
        match (window, self.wave(thread)) {
            (PRIVATE, Some(wave)) => {
                let of = BytesOf::Private { lane, offset: offset as u32 };
                self.gpu.inspect().bytes_of_wave(wave, of, bytes).unwrap_or(0)
            }
            (REGISTERS, Some(_)) => copy(&self.registers_as_memory(thread), bytes),
            (LDS, Some(wave)) => {
                self.gpu.inspect().bytes_of_wave(wave, BytesOf::Lds(offset as u32), bytes).unwrap_or(0)
            }
            (_, Some(wave)) => {
                self.gpu.inspect().bytes_of_wave(wave, BytesOf::Memory(address), bytes).unwrap_or(0)
            }
            (_, None) => self.read_any(address, bytes),
        }
    }

    /// Processes that have queues.
    fn processes(&self) -> BTreeSet<u16> {
        let queues = self.gpu.inspect().queues().unwrap_or_default();
        queues.iter().map(|queue| queue.pasid).filter(|pasid| *pasid != 0).collect()
    }

    /// Memory of the first process that has any there.
    pub(super) fn read_any(&self, address: u64, bytes: &mut [u8]) -> usize {
        let inspector = self.gpu.inspect();
        let mut reads = self
            .processes()
            .into_iter()
            .map(|pasid| inspector.bytes_of_process(pasid, address, bytes).unwrap_or(0));
        reads.find(|read| *read > 0).unwrap_or(0)
    }

    /// Writes memory as a thread sees it. Returns the number of bytes written.
    pub(super) fn write(&mut self, thread: Tid, address: u64, bytes: &[u8]) -> usize {
        let (window, offset) = (address & WINDOW, address & !WINDOW);
        let lane = self.lane;
        let written = match (window, self.wave(thread)) {
            (REGISTERS, Some(wave)) => self.write_register_window(wave, offset, bytes),
            (window, Some(wave)) => {
                let to = match window {
                    PRIVATE => BytesOf::Private { lane, offset: offset as u32 },
                    LDS => BytesOf::Lds(offset as u32),
                    _ => BytesOf::Memory(address),
                };
                self.gpu.inspect().write_of_wave(wave, to, bytes).unwrap_or(0)
            }
            (_, None) => self.write_any(address, bytes),
        };
        self.moved();
        written
    }

    /// Memory of the first process that has any there.
    fn write_any(&self, address: u64, bytes: &[u8]) -> usize {
        let inspector = self.gpu.inspect();
        let mut writes = self.processes().into_iter().map(|pasid| {
            let there = inspector.bytes_of_process(pasid, address, &mut [0]).unwrap_or(0) > 0;
            if there { inspector.write_of_process(pasid, address, bytes).unwrap_or(0) } else { 0 }
        });
        writes.find(|written| *written > 0).unwrap_or(0)
    }

    /// Whole registers of the selected lane.
    fn write_register_window(&self, wave: WaveId, offset: u64, bytes: &[u8]) -> usize {
        let (words, rest) = bytes.as_chunks::<4>();
        if !offset.is_multiple_of(4) || !rest.is_empty() {
            return 0;
        }
        let name = |at: u64| match at.checked_sub(SGPR_WINDOW) {
            Some(at) => u8::try_from(at / 4).ok().map(RegisterName::Scalar),
            None => u8::try_from(at / 4).ok().map(|number| RegisterName::Vector(number, self.lane)),
        };
        let set = |(at, word): (u64, &[u8; 4])| {
            let value = u32::from_le_bytes(*word).into();
            name(at).is_some_and(|name| self.gpu.inspect().set_register(wave, name, value).is_ok())
        };
        4 * (offset..).step_by(4).zip(words).take_while(|word| set(*word)).count()
    }

    /// Sets a register of a thread's wave, or the lane; false where that cannot be.
    fn set_register(&mut self, thread: Tid, register: Register, value: &[u8]) -> bool {
        if register == Register::Lane {
            let lane = value.first_chunk().map(|bytes| u32::from_le_bytes(*bytes));
            let lane = lane.filter(|lane| *lane < 64);
            self.lane = lane.unwrap_or(self.lane);
            return lane.is_some();
        }
        let Some(wave) = self.wave(thread) else { return false };
        let lanes = self.details(thread).map_or(0, |seen| seen.lanes);
        let gpu = Arc::clone(&self.gpu);
        let set = |(name, value)| gpu.inspect().set_register(wave, name, value).is_ok();
        let words = registers::written(register, value, lanes);
        let all = !words.is_empty() && words.into_iter().all(set);
        self.moved();
        all
    }

    /// Registers of the selected lane, one after the other.
    fn registers_as_memory(&mut self, thread: Tid) -> Vec<u8> {
        let lane = self.lane as usize;
        let Some(wave) = self.details(thread) else { return Vec::new() };
        let mut bytes = Vec::new();
        for (_, lanes) in wave.vgprs.iter().filter(|(name, _)| name.starts_with('v')) {
            bytes.extend((lanes.get(lane).map_or(0, |value| value.0) as u32).to_le_bytes());
        }
        bytes.resize(SGPR_WINDOW as usize, 0);
        wave.sgprs.iter().for_each(|value| bytes.extend((value.0 as u32).to_le_bytes()));
        bytes
    }
}

impl Target for Waves {
    type Arch = Gpu64;
    type Error = InspectError;

    fn base_ops(&mut self) -> BaseOps<'_, Gpu64, InspectError> {
        BaseOps::MultiThread(self)
    }

    fn support_breakpoints(&mut self) -> Option<BreakpointsOps<'_, Self>> {
        Some(self)
    }

    fn support_target_description_xml_override(
        &mut self,
    ) -> Option<TargetDescriptionXmlOverrideOps<'_, Self>> {
        Some(self)
    }

    fn support_libraries(&mut self) -> Option<LibrariesOps<'_, Self>> {
        Some(self)
    }

    fn support_host_io(&mut self) -> Option<HostIoOps<'_, Self>> {
        Some(self)
    }

    fn support_monitor_cmd(&mut self) -> Option<MonitorCmdOps<'_, Self>> {
        Some(self)
    }
}

impl MultiThreadBase for Waves {
    fn read_registers(&mut self, regs: &mut Foreign, tid: Tid) -> TargetResult<(), Self> {
        *regs = self.foreign(tid);
        Ok(())
    }

    /// GDB writes registers one by one.
    fn write_registers(&mut self, _regs: &Foreign, _tid: Tid) -> TargetResult<(), Self> {
        Err(TargetError::NonFatal)
    }

    fn support_single_register_access(&mut self) -> Option<SingleRegisterAccessOps<'_, Tid, Self>> {
        Some(self)
    }

    fn read_addrs(&mut self, start: u64, data: &mut [u8], tid: Tid) -> TargetResult<usize, Self> {
        match self.read(tid, start, data) {
            // EFAULT
            0 if !data.is_empty() => Err(TargetError::Errno(14)),
            read => Ok(read),
        }
    }

    fn write_addrs(&mut self, start: u64, data: &[u8], tid: Tid) -> TargetResult<(), Self> {
        // EFAULT
        if self.write(tid, start, data) == data.len() { Ok(()) } else { Err(TargetError::Errno(14)) }
    }

    fn list_active_threads(&mut self, active: &mut dyn FnMut(Tid)) -> Result<(), InspectError> {
        let mut waves: Vec<WaveId> = self.gpu.inspect().waves()?.waves.iter().map(|view| view.wave).collect();
        // A wave at a breakpoint may come late in the list, beyond its limit.
        if let Some(current) = self.current {
            if self.details(self.threads.get(&current).copied().unwrap_or(DEVICE)).is_some() {
                waves.retain(|wave| *wave != current);
                waves.insert(0, current);
            } else {
                self.current = None;
            }
        }
        self.threads.retain(|wave, _| waves.contains(wave));
        for wave in waves {
            active(self.thread(wave));
        }
        active(DEVICE);
        Ok(())
    }

    fn support_resume(&mut self) -> Option<MultiThreadResumeOps<'_, Self>> {
        Some(self)
    }

    fn support_thread_extra_info(&mut self) -> Option<ThreadExtraInfoOps<'_, Self>> {
        Some(self)
    }
}

impl SingleRegisterAccess<Tid> for Waves {
    fn read_register(&mut self, tid: Tid, register: Register, buf: &mut [u8]) -> TargetResult<usize, Self> {
        let (foreign, lane) = (self.foreign(tid), self.lane);
        let bytes = registers::read(self.details(tid), register, (lane, &foreign));
        let count = bytes.len().min(buf.len());
        buf[..count].copy_from_slice(&bytes[..count]);
        Ok(count)
    }

    fn write_register(&mut self, tid: Tid, register: Register, value: &[u8]) -> TargetResult<(), Self> {
        // EINVAL: not in the wave, or with no such value.
        if self.set_register(tid, register, value) { Ok(()) } else { Err(TargetError::Errno(22)) }
    }
}

impl ThreadExtraInfo for Waves {
    fn thread_extra_info(&self, tid: Tid, buf: &mut [u8]) -> Result<usize, InspectError> {
        let text = match self.wave(tid) {
            None => "device".to_owned(),
            Some(wave) => match self.gpu.inspect().wave(wave, WaveParts { vgpr: Some(0), lane: Some(0) }) {
                Ok(found) => format!("wave {wave} of {}: {}", found.view.kernel, found.view.waits),
                Err(_) => format!("wave {wave} has ended"),
            },
        };
        let text = plain(&text);
        let count = text.len().min(buf.len());
        buf[..count].copy_from_slice(&text.as_bytes()[..count]);
        Ok(count)
    }
}

impl TargetDescriptionXmlOverride for Waves {
    fn target_description_xml(
        &self,
        annex: &[u8],
        offset: u64,
        length: usize,
        buf: &mut [u8],
    ) -> TargetResult<usize, Self> {
        match annex {
            b"target.xml" => Ok(part(self.description.as_bytes(), offset, length, buf)),
            // ENOENT
            _ => Err(TargetError::Errno(2)),
        }
    }
}

/// Copies a part of something that GDB reads piece by piece. Returns the number of bytes copied.
pub(super) fn part(whole: &[u8], offset: u64, length: usize, buf: &mut [u8]) -> usize {
    let rest = usize::try_from(offset).ok().and_then(|offset| whole.get(offset..)).unwrap_or_default();
    let count = rest.len().min(length).min(buf.len());
    buf[..count].copy_from_slice(&rest[..count]);
    count
}

impl Breakpoints for Waves {
    fn support_sw_breakpoint(&mut self) -> Option<SwBreakpointOps<'_, Self>> {
        Some(self)
    }

    fn support_hw_watchpoint(&mut self) -> Option<HwWatchpointOps<'_, Self>> {
        Some(self)
    }
}

impl SwBreakpoint for Waves {
    fn add_sw_breakpoint(&mut self, address: u64, _kind: usize) -> TargetResult<bool, Self> {
        if self.breaks.contains_key(&address) {
            return Ok(true);
        }
        let Ok(number) = self.gpu.inspect().add_break(BreakOn::Pc(address)) else { return Ok(false) };
        self.breaks.insert(address, number);
        Ok(true)
    }

    fn remove_sw_breakpoint(&mut self, address: u64, _kind: usize) -> TargetResult<bool, Self> {
        let Some(number) = self.breaks.remove(&address) else { return Ok(false) };
        Ok(self.gpu.inspect().remove_break(number))
    }
}
