//! Memory in page tables: its pages may be of any kind, and those that follow each other are mapped together.

use core::any::Any;
use core::ops::Range;

use crate::asic::PageRights;
use crate::errno::{Errno, Result};
use crate::os::{Backing, BoPage, Os, PAGE_SIZE};
use crate::vm::Vm;
use crate::vram::VramMemory;

/// Returns whether a page is in system memory, and its address as entries of page tables name it; nothing where there is none.
///
/// # Errors
///
/// `ENODEV` when the device is gone.
pub(super) fn place<O: Os>(vm: &Vm<O>, backing: &dyn Backing, index: u64) -> Result<Option<(bool, u64)>> {
    match backing.page(index) {
        Some(BoPage::Vram(offset)) => {
            let memory = backing.as_vram().and_then(<dyn Any>::downcast_ref::<VramMemory<O>>);
            let own = (vm.own_place(offset), false);
            let (at, system) = memory.map_or(own, |memory| vm.place_of(memory.hw(), offset));
            Ok(Some((system, at)))
        }
        Some(BoPage::System { bus, .. } | BoPage::User(Some(bus))) => Ok(Some((true, bus))),
        Some(BoPage::User(None)) => Ok(None),
        None => Err(Errno::ENODEV),
    }
}

/// Maps memory, to be unmapped as a whole. What is not there is left out.
///
/// # Errors
///
/// `ENODEV` when the device is gone, `ENOMEM`; a part may be mapped then.
pub(crate) fn map_backing<O: Os>(
    vm: &mut Vm<O>,
    va: u64,
    backing: &dyn Backing,
    bytes: Range<u64>,
    rights: PageRights,
) -> Result<()> {
    each_run((vm, va), backing, bytes, rights, Vm::map)
}

/// Maps memory in small pages that stand for themselves, or makes such of those that are there.
///
/// # Errors
///
/// As [`map_backing`].
pub(super) fn map_small<O: Os>(
    vm: &mut Vm<O>,
    va: u64,
    backing: &dyn Backing,
    bytes: Range<u64>,
    rights: PageRights,
) -> Result<()> {
    each_run((vm, va), backing, bytes, rights, Vm::map_small)
}

/// Calls `map` once for all pages that follow each other: with their GPU virtual address, where they are, their bytes and flags.
fn each_run<O: Os>(
    (vm, va): (&mut Vm<O>, u64),
    backing: &dyn Backing,
    bytes: Range<u64>,
    rights: PageRights,
    map: impl Fn(&mut Vm<O>, u64, u64, u64, u64) -> Result<()>,
) -> Result<()> {
    let (begin, end) = (bytes.start / PAGE_SIZE, bytes.end / PAGE_SIZE);
    let mut first = begin;
    while first < end {
        let Some((system, start)) = place(vm, backing, first)? else {
            first += 1;
            continue;
        };
        let mut next = first + 1;
        while next < end && place(vm, backing, next)? == Some((system, start + (next - first) * PAGE_SIZE)) {
            next += 1;
        }
        let flags = vm.page_bits(PageRights { system, ..rights });
        map(vm, va + (first - begin) * PAGE_SIZE, start, (next - first) * PAGE_SIZE, flags)?;
        first = next;
    }
    Ok(())
}
