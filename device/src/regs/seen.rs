//! Every register that has a model, for tools that inspect the device.

use belfry_abi::regs::{Description, Field, Ip, Offset, gc, gfx9, mmhub, mp, mp1, nbio, osssys, sdma, smuio};

use super::{Block, RegisterFile, unmodelled};

/// One register.
#[derive(Clone, Debug)]
pub struct SeenRegister {
    /// Its block.
    pub ip: Ip,
    /// Number of the block, if there are several.
    pub instance: u8,
    /// Upstream's name.
    pub name: String,
    /// Absolute dword index.
    pub dword: u32,
    /// Value that a driver would read.
    pub value: u32,
    /// Value after reset; `None` if it is not known.
    pub reset: Option<u32>,
    /// Its fields.
    pub fields: &'static [Field],
}

/// Finds the description of a register in the layouts of its block.
fn description(ip: Ip, at: Offset) -> Option<&'static Description> {
    let tables: &[&'static [Description]] = match ip {
        Ip::GC => &[gc::ALL, gfx9::gc::ALL, sdma::ALL],
        Ip::MMHUB => &[mmhub::ALL, gfx9::mmhub::ALL],
        Ip::OSSSYS => &[osssys::ALL, gfx9::osssys::ALL],
        Ip::NBIF => &[nbio::ALL, gfx9::nbio::ALL],
        Ip::UMC => &[gfx9::umc::ALL],
        Ip::SMUIO => &[smuio::ALL],
        Ip::MP0 => &[mp::ALL],
        Ip::MP1 => &[mp1::ALL],
        _ => &[],
    };
    tables.iter().find_map(|table| {
        table.binary_search_by_key(&at, |register| register.at).ok().map(|position| &table[position])
    })
}

impl RegisterFile {
    /// Registers of all blocks, as a driver would read them now: banked ones are those of the selected queue
    /// or VMID. None of this counts as an access.
    pub(crate) fn seen(&self) -> Vec<SeenRegister> {
        self.blocks.iter().flat_map(|block| self.seen_of(&**block)).collect()
    }

    /// The absolute dword index of the register with a name; of the first instance, if there are several.
    pub(crate) fn named(&self, name: &str) -> Option<(String, u32)> {
        let mut found = self.seen().into_iter().filter(|seen| seen.name.eq_ignore_ascii_case(name));
        found.next().map(|seen| (seen.name, seen.dword))
    }

    fn seen_of(&self, block: &dyn Block) -> Vec<SeenRegister> {
        let (ip, instance) = block.ip();
        let claims = block.claims().into_iter();
        let places = claims.flat_map(|run| (0..run.count).map(move |n| run.first.plus(n)));
        let seen = |at: Offset| {
            let dword = self.chip.dword(ip, instance, at).filter(|&dword| self.decodes(dword))?;
            let known = description(ip, at);
            let name = known.map(|known| known.name.to_owned());
            Some(SeenRegister {
                ip,
                instance,
                name: name.unwrap_or_else(|| unmodelled::near_name(&*self.chip, dword)),
                dword,
                value: block.read(at),
                reset: known.map(|known| known.reset),
                fields: known.map_or(&[], |known| known.fields),
            })
        };
        let mut seen: Vec<_> = places.filter_map(seen).collect();
        seen.sort_by_key(|register| register.dword);
        seen.dedup_by_key(|register| register.dword);
        seen
    }
}

/// The registers of a table, with the values that `read` returns.
pub(crate) fn pairs(
    registers: &'static [Description],
    read: impl Fn(Offset) -> u32,
) -> impl Iterator<Item = (&'static str, u32)> {
    registers.iter().map(move |register| (register.name, read(register.at)))
}
