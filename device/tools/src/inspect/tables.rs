//! Page tables, level by level, and backwards from a physical page.

use belfry_device::chip::Entry;
use belfry_device::memory::{Aperture, Physical};
use serde::Serialize;

use super::{Hex, InspectError, Inspector};

/// A walk of the page tables.
#[derive(Clone, Debug, Serialize)]
pub struct WalkView {
    /// The address.
    pub address: Hex,
    /// Its process.
    pub pasid: u16,
    /// Entries from the root on.
    pub levels: Vec<LevelView>,
    /// Location of the address in memory, if it is mapped.
    pub memory: Option<String>,
    /// Accesses that are allowed: some of `r`, `w` and `x`.
    pub allowed: Option<String>,
    /// Bytes of the page, or of the fragment, that it is in.
    pub page: Option<Hex>,
}

/// An entry of a page table.
#[derive(Clone, Debug, Serialize)]
pub struct LevelView {
    /// Its table: `PTB`, `PDB0` and so on.
    pub level: String,
    /// Its number in the table.
    pub index: u64,
    /// Location of the entry.
    pub at: String,
    /// The entry; `None` if there is no memory.
    pub entry: Option<Hex>,
    /// Meaning of the entry.
    pub meaning: String,
}

/// Addresses that lead to a page.
#[derive(Clone, Debug, Serialize)]
pub struct Backwards {
    /// The page.
    pub page: String,
    /// PASID, first address and bytes of each.
    pub mapped: Vec<(u16, Hex, Hex)>,
    /// True if all tables of all processes with queues were searched.
    pub complete: bool,
}

fn place(Physical { aperture, offset: at }: Physical) -> String {
    match aperture {
        Aperture::Local => format!("vram {at:#x}"),
        Aperture::Peer(number) => format!("peer {number} {at:#x}"),
        Aperture::System => format!("system {at:#x}"),
        Aperture::Nowhere => "nowhere".to_owned(),
    }
}

fn meaning(entry: Entry) -> String {
    match entry {
        Entry::Absent => "maps nothing".to_owned(),
        Entry::NotResident => "not resident: reads as 0".to_owned(),
        Entry::Unmodelled => "has what is not modelled".to_owned(),
        Entry::Table(table) => format!("table at {}", place(table.at)),
        Entry::Page(page) => {
            let allowed = allowed(page.readable, page.writable, page.executable);
            format!("page at {} {allowed} fragment {}", place(page.at), page.fragment)
        }
    }
}

fn allowed(readable: bool, writable: bool, executable: bool) -> String {
    [(readable, 'r'), (writable, 'w'), (executable, 'x')]
        .into_iter()
        .map(|(on, name)| if on { name } else { '-' })
        .collect()
}

impl Inspector<'_> {
    /// Walks the page tables of a process for an address; PASID 0 is the kernel.
    ///
    /// # Errors
    ///
    /// No such process.
    pub fn walk(&self, pasid: u16, address: u64) -> Result<WalkView, InspectError> {
        let space = self.space(pasid)?;
        let levels = space.levels(address).into_iter().map(|level| LevelView {
            level: level.level.checked_sub(1).map_or("PTB".to_owned(), |number| format!("PDB{number}")),
            index: level.index,
            at: place(level.at),
            entry: level.bits.map(Hex),
            meaning: meaning(level.entry),
        });
        let translation = space.peek(address);
        Ok(WalkView {
            address: Hex(address),
            pasid,
            levels: levels.collect(),
            memory: translation.and_then(|found| found.locate(address)).map(place),
            allowed: translation.map(|found| allowed(found.readable, found.writable, found.executable)),
            page: translation.map(|found| Hex(found.len)),
        })
    }

    /// Finds the addresses that a physical page is mapped at, in the kernel's tables and in those of
    /// processes with queues.
    ///
    /// # Errors
    ///
    /// A device that is stopped.
    pub fn backwards(&self, page: Physical) -> Result<Backwards, InspectError> {
        let mut spaces: Vec<_> = self.device.kernel_space().map(|space| (0, space)).into_iter().collect();
        for queue in self.seen_queues()? {
            if let Some(space) = queue.space.filter(|_| !queue.kernel)
                && !spaces.iter().any(|(pasid, _)| *pasid == queue.pasid)
            {
                spaces.push((queue.pasid, space));
            }
        }
        let (mut mapped, mut complete) = (Vec::new(), true);
        for (pasid, space) in spaces {
            let (found, whole) = space.addresses_of(page);
            mapped.extend(found.into_iter().map(|found| (pasid, Hex(found.va), Hex(found.len))));
            complete &= whole;
        }
        Ok(Backwards { page: place(page), mapped, complete })
    }
}
