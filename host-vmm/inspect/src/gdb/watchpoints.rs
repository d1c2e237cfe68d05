//! Watchpoints: accesses of global memory and LDS after which a wave stops.

use belfry_tools::inspect::{AccessRange, BreakOn, Inspect as _, StatusView, WaveId};
use gdbstub::target::TargetResult;
use gdbstub::target::ext::breakpoints::{HwWatchpoint, WatchKind};

use super::resume::Stop;
use super::target::{WINDOW, Waves};
use crate::windows::{LDS, PRIVATE, REGISTERS};

/// A watchpoint as GDB knows it: address, bytes, kind.
pub(super) type Watched = (u64, u64, WatchKind);

impl Waves {
    /// Finds the watchpoint that a wave has met and the client was not told of.
    pub(super) fn next_watch(&mut self, status: &StatusView) -> Option<Stop> {
        let mine = |number: u32| self.watches.iter().find(|(known, _)| *known == number);
        let met: Option<(WaveId, Watched)> = status.accesses.iter().find_map(|(wave, number, _)| {
            let (_, watched) = mine(*number).filter(|_| !self.told.contains(wave))?;
            Some((*wave, *watched))
        });
        let (wave, (addr, _, kind)) = met?;
        self.told.insert(wave);
        self.current = Some(wave);
        Some(Stop::Watch { tid: self.thread(wave), kind, addr })
    }
}

/// The bytes of a watchpoint; none for registers and private memory, whose accesses are not observed.
fn range((address, length, kind): Watched) -> Option<AccessRange> {
    let (window, offset) = (address & WINDOW, address & !WINDOW);
    let (lds, first) = match window {
        LDS => (true, offset),
        PRIVATE | REGISTERS => return None,
        _ => (false, address),
    };
    let last = first.checked_add(length.checked_sub(1)?)?;
    let (reads, writes) = match kind {
        WatchKind::Write => (false, true),
        WatchKind::Read => (true, false),
        WatchKind::ReadWrite => (true, true),
    };
    Some(AccessRange { lds, first, last, reads, writes })
}

impl HwWatchpoint for Waves {
    fn add_hw_watchpoint(&mut self, addr: u64, len: u64, kind: WatchKind) -> TargetResult<bool, Self> {
        let watched = (addr, len, kind);
        if self.watches.iter().any(|(_, known)| *known == watched) {
            return Ok(true);
        }
        let Some(range) = range(watched) else { return Ok(false) };
        let Ok(number) = self.gpu.inspect().add_break(BreakOn::Access(range)) else { return Ok(false) };
        self.watches.push((number, watched));
        Ok(true)
    }

    fn remove_hw_watchpoint(&mut self, addr: u64, len: u64, kind: WatchKind) -> TargetResult<bool, Self> {
        let watched = (addr, len, kind);
        let Some(at) = self.watches.iter().position(|(_, known)| *known == watched) else { return Ok(false) };
        let (number, _) = self.watches.swap_remove(at);
        Ok(self.gpu.inspect().remove_break(number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_of_memory_or_lds_and_of_nothing_else() {
        let memory = range((0x1000, 4, WatchKind::Write)).unwrap();
        assert_eq!((memory.lds, memory.first, memory.last), (false, 0x1000, 0x1003));
        assert!(memory.writes && !memory.reads);
        let lds = range((LDS | 0x20, 8, WatchKind::ReadWrite)).unwrap();
        assert_eq!((lds.lds, lds.first, lds.last, lds.reads, lds.writes), (true, 0x20, 0x27, true, true));
        for (address, length) in [(PRIVATE | 8, 4), (REGISTERS, 4), (0x1000, 0), (0xfff0 << 48, u64::MAX)] {
            assert_eq!(range((address, length, WatchKind::Read)), None, "{address:#x} {length}");
        }
    }
}
