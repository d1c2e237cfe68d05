//! A second page-table walker: from the published layout of the tables, one plain step after the other.
//!
//! Linux `amdgpu_vm.h` (entries), `amdgpu_vm_pt.c` (shifts), `gmc_v9_0.c` and `gmc_v12_0.c` (directories). It has memory of its own, which is to be kept like the device's.

use belfry_device::chip::PteFormat;
use belfry_device::vm::{FaultKind, Root, RootKind};
use belfry_isa::mem::Access;

/// A place in physical memory.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Physical {
    /// Offset in VRAM.
    Vram(u64),
    /// Guest-physical address.
    System(u64),
    /// No memory: a page that is not resident. Loads are 0, and stores are lost.
    Nowhere,
}

impl Physical {
    /// The place some bytes further on.
    #[must_use]
    pub fn plus(self, bytes: u64) -> Self {
        match self {
            Self::Vram(at) => Self::Vram(at.wrapping_add(bytes)),
            Self::System(at) => Self::System(at.wrapping_add(bytes)),
            Self::Nowhere => Self::Nowhere,
        }
    }

    fn new(system: bool, at: u64) -> Self {
        if system { Self::System(at) } else { Self::Vram(at) }
    }
}

/// Addresses that follow each other in physical memory, too.
#[derive(Clone, Copy, Debug)]
pub struct Block {
    /// First address.
    pub va: u64,
    /// Bytes.
    pub len: u64,
    /// Physical address.
    pub at: Physical,
    /// Reading, writing, executing.
    pub permissions: [bool; 3],
}

/// Kind of an entry.
enum Kind {
    Page,
    Table,
    /// Something that is not modelled.
    Other,
}

/// The walker.
#[derive(Debug)]
pub struct Walker {
    root: Root,
    memory: Vec<(Physical, Vec<u8>)>,
}

/// Bits first..=last of a number, from 0 on.
fn bits(value: u64, first: u32, last: u32) -> u64 {
    value >> first & (u64::MAX >> (63 - (last - first)))
}

impl Walker {
    /// Memory that is all zeros: bytes of VRAM, and ranges of guest memory.
    #[must_use]
    pub fn new(root: Root, vram: usize, ram: &[(u64, usize)]) -> Self {
        let mut memory = vec![(Physical::Vram(0), vec![0; vram])];
        memory.extend(ram.iter().map(|&(base, size)| (Physical::System(base), vec![0; size])));
        Self { root, memory }
    }

    /// All memory.
    pub fn memory(&self) -> impl Iterator<Item = (Physical, &[u8])> {
        self.memory.iter().map(|(at, bytes)| (*at, &bytes[..]))
    }

    fn find(&self, at: Physical) -> Option<(usize, usize)> {
        self.memory.iter().enumerate().find_map(|(nth, (base, bytes))| {
            let offset = match (*base, at) {
                (Physical::Vram(base), Physical::Vram(at))
                | (Physical::System(base), Physical::System(at)) => at.checked_sub(base)?,
                _ => return None,
            };
            (offset < bytes.len() as u64).then_some((nth, offset as usize))
        })
    }

    fn read(&self, at: Physical) -> Option<u64> {
        let (nth, offset) = self.find(at)?;
        let bytes = self.memory[nth].1.get(offset..offset + 8)?;
        Some(u64::from_le_bytes(*bytes.first_chunk()?))
    }

    /// Writes an entry. Returns true if there is memory for it.
    pub fn write(&mut self, at: Physical, entry: u64) -> bool {
        let Some((nth, offset)) = self.find(at) else { return false };
        let Some(bytes) = self.memory[nth].1.get_mut(offset..offset + 8) else { return false };
        bytes.copy_from_slice(&entry.to_le_bytes());
        true
    }

    /// Pages that an entry of a level covers, as a power of two.
    fn covers(&self, level: u32) -> u32 {
        [0, self.root.block_size, self.root.block_size + 9, self.root.block_size + 18][level as usize]
    }

    /// Distance of an address from the tables' first one, in bytes, if it is in their range.
    fn offset(&self, va: u64) -> Option<u64> {
        let upper = va >> 48;
        let negative = va >> 47 & 1 == 1;
        if upper != 0 && !(upper == 0xffff && negative) {
            return None;
        }
        let va = bits(va, 0, 47);
        if va < self.root.start || va > self.root.end { None } else { Some(va - self.root.start) }
    }

    /// Place of the entry for an address in a table that an entry or the root names.
    #[must_use]
    pub fn entry(&self, table: u64, level: u32, va: u64) -> Option<Physical> {
        let page = self.offset(va)? >> 12;
        let mut index = page >> self.covers(level);
        if level != self.root.depth {
            index %= if level == 0 { 1 << self.root.block_size } else { 512 };
        }
        Some(Physical::new(bits(table, 1, 1) == 1, (bits(table, 6, 47) << 6) + index * 8))
    }

    /// Walks; a fault is its kind and level.
    pub fn walk(&self, va: u64, access: Access) -> Result<Block, (FaultKind, u32)> {
        if let RootKind::Vmid0 { fb_start, fb_end, fb_offset } = self.root.kind
            && fb_start <= va
            && va <= fb_end
        {
            let at = Physical::Vram(fb_offset);
            return Ok(Block { va: fb_start, len: fb_end - fb_start + 1, at, permissions: [true; 3] });
        }
        let mut entry = self.root.base;
        for level in (0..=self.root.depth).rev() {
            let at = self.entry(entry, level, va).ok_or((FaultKind::NotPresent, level))?;
            entry = self.read(at).ok_or((FaultKind::Bus, level))?;
            if bits(entry, 0, 0) == 0 {
                return self.not_resident(entry, level, va, access).map_err(|kind| (kind, level));
            }
            match self.kind(entry, level) {
                Kind::Page => return self.page(entry, level, va, access).map_err(|kind| (kind, level)),
                Kind::Table => {}
                Kind::Other => return Err((FaultKind::Bus, level)),
            }
        }
        unreachable!("the last level is a page");
    }

    /// Block of an entry that is not valid: a page that is not resident, or none.
    fn not_resident(&self, entry: u64, level: u32, va: u64, access: Access) -> Result<Block, FaultKind> {
        let is = |bit| bits(entry, bit, bit) == 1;
        let marked = match self.root.format {
            PteFormat::Gfx11 => is(51) && (level == 0 || is(54)),
            PteFormat::Gfx12 => is(56) && (level == 0 || is(63)),
            PteFormat::Gfx9 => is(51) && if level < 2 { !is(56) } else { is(54) },
        };
        match access {
            _ if !marked => Err(FaultKind::NotPresent),
            Access::Execute => Err(FaultKind::NoExecute),
            Access::Read | Access::Write | Access::Atomic => {
                let permissions = [true, true, false];
                Ok(Block { va: va / 4096 * 4096, len: 4096, at: Physical::Nowhere, permissions })
            }
        }
    }

    /// Kind of a valid entry.
    fn kind(&self, entry: u64, level: u32) -> Kind {
        let is = |bit| bits(entry, bit, bit) == 1;
        match (self.root.format, level) {
            (_, 0) => Kind::Page,
            // PDE_PTE.
            (PteFormat::Gfx11, _) if is(54) => Kind::Page,
            (PteFormat::Gfx11, _) => Kind::Table,
            // IS_PTE.
            (PteFormat::Gfx12, _) if is(63) => Kind::Page,
            (PteFormat::Gfx12, _) => Kind::Table,
            // TF: an entry that is not translated further is a page.
            (PteFormat::Gfx9, 1) if is(56) => Kind::Table,
            (PteFormat::Gfx9, 1) => Kind::Page,
            (PteFormat::Gfx9, _) if is(54) => Kind::Page,
            // The entries of a PDB1 give the number of entries of a PDB0, BLOCK_FRAGMENT_SIZE: 512 alone are modelled.
            (PteFormat::Gfx9, 2) if bits(entry, 59, 63) != 9 => Kind::Other,
            (PteFormat::Gfx9, _) => Kind::Table,
        }
    }

    /// Returns true if a page has something that is not modelled: PRT, and TF where it would lead further
    /// than a table.
    fn is_unmodelled(&self, entry: u64, level: u32) -> bool {
        let is = |bit| bits(entry, bit, bit) == 1;
        match self.root.format {
            PteFormat::Gfx11 => is(51) || is(56),
            PteFormat::Gfx12 => is(56),
            PteFormat::Gfx9 => is(51) || level == 0 && is(56),
        }
    }

    /// Bit that makes an entry of a directory a page.
    #[must_use]
    pub fn huge(&self, level: u32) -> u64 {
        match self.root.format {
            PteFormat::Gfx11 => 1 << 54,
            PteFormat::Gfx12 => 1 << 63,
            PteFormat::Gfx9 if level == 1 => 0,
            PteFormat::Gfx9 => 1 << 54,
        }
    }

    /// An entry of a directory that leads to a table, from one that has the address.
    #[must_use]
    pub fn directory(&self, entry: u64, level: u32) -> u64 {
        match self.root.format {
            PteFormat::Gfx11 => entry & !(1 << 54),
            PteFormat::Gfx12 => entry & !(1 << 63),
            PteFormat::Gfx9 if level == 1 => entry | 1 << 56,
            PteFormat::Gfx9 if level == 2 => entry & !(1 << 54 | 0x1f << 59) | 9 << 59,
            PteFormat::Gfx9 => entry & !(1 << 54),
        }
    }

    fn page(&self, entry: u64, level: u32, va: u64, access: Access) -> Result<Block, FaultKind> {
        if self.is_unmodelled(entry, level) {
            return Err(FaultKind::Bus);
        }
        let permissions = [5, 6, 4].map(|bit| bits(entry, bit, bit) == 1);
        let [readable, writable, executable] = permissions;
        match access {
            Access::Read if !readable => return Err(FaultKind::NoRead),
            Access::Write if !writable => return Err(FaultKind::ReadOnly),
            Access::Atomic if !(readable && writable) => return Err(FaultKind::ReadOnly),
            Access::Execute if !executable => return Err(FaultKind::NoExecute),
            _ => {}
        }
        let page = 4096u64 << self.covers(level);
        let frame = bits(entry, 12, 47) * 4096 / page * page;
        // A fragment of up to 2 MiB, where address and frame are in the same place of one.
        let fragment = 4096u64 << bits(entry, 7, 11).min(9);
        let first = va / page * page;
        let len = if fragment > page && first % fragment == frame % fragment { fragment } else { page };
        let at = Physical::new(bits(entry, 1, 1) == 1, frame / len * len);
        Ok(Block { va: va / len * len, len, at, permissions })
    }

    /// Goes through bytes in order, up to the first that cannot be accessed: its address, and why.
    ///
    /// An entry counts until its block ends, even if the tables are written meanwhile.
    pub fn each(
        &mut self,
        va: u64,
        length: usize,
        access: Access,
        mut operation: impl FnMut(&mut u8),
    ) -> Result<(), (u64, FaultKind, Option<u32>)> {
        let mut block: Option<Block> = None;
        for nth in 0..length as u64 {
            let at = va.wrapping_add(nth);
            let inside = block.filter(|block| at >= block.va && at - block.va < block.len);
            let now = match inside {
                Some(block) => block,
                None => self.walk(at, access).map_err(|(kind, level)| (at, kind, Some(level)))?,
            };
            if matches!(now.at, Physical::Nowhere) {
                operation(&mut 0);
            } else {
                let place = self.find(now.at.plus(at - now.va));
                let (range, offset) = place.ok_or((at, FaultKind::Bus, None))?;
                operation(&mut self.memory[range].1[offset]);
            }
            block = Some(now);
        }
        Ok(())
    }
}
