//! Memory: by address, in pages for the device, and mapped above 4 GiB.

use core::arch::asm;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Bytes of a page.
pub const PAGE: u64 = 4096;
/// Pages for the device come from here, after everything that is linked; they are zero when the machine starts.
static NEXT: AtomicU64 = AtomicU64::new(4 << 20);
const END: u64 = 32 << 20;

/// Bits of an x86-64 page table entry: present and writable; a large page.
const PRESENT: u64 = 3;
const LARGE: u64 = 1 << 7;
/// For ring 3 too.
const USER: u64 = 1 << 2;
const ADDRESS: u64 = 0xf_ffff_ffff_f000;

/// The quadword at an address that is mapped one to one.
pub fn quad(address: u64) -> &'static AtomicU64 {
    assert!(address.is_multiple_of(8));
    // SAFETY: addresses that this kernel passes are in RAM it has allocated, or in a BAR it has mapped, and are reached
    // by atomics only.
    unsafe { AtomicU64::from_ptr(core::ptr::with_exposed_provenance_mut(address as usize)) }
}

/// The dword at an address that is mapped one to one.
pub fn word(address: u64) -> &'static AtomicU32 {
    assert!(address.is_multiple_of(4));
    // SAFETY: as in `quad`.
    unsafe { AtomicU32::from_ptr(core::ptr::with_exposed_provenance_mut(address as usize)) }
}

/// Reads a quadword.
pub fn peek(address: u64) -> u64 {
    quad(address).load(Ordering::Acquire)
}

/// Writes a quadword.
pub fn poke(address: u64, value: u64) {
    quad(address).store(value, Ordering::Release);
}

/// Reads a device's dword, with exactly one instruction.
pub fn read32(address: u64) -> u32 {
    let value;
    // SAFETY: as in `quad`.
    unsafe { asm!("mov {:e}, [{}]", out(reg) value, in(reg) address, options(nostack)) };
    value
}

/// Writes a device's dword, with exactly one instruction.
pub fn write32(address: u64, value: u32) {
    // SAFETY: as in `quad`.
    unsafe { asm!("mov [{}], {:e}", in(reg) address, in(reg) value, options(nostack)) };
}

/// Copies a structure out, dword by dword.
pub fn put<T: IntoBytes + Immutable>(address: u64, value: &T) {
    for (at, part) in value.as_bytes().chunks_exact(4).enumerate() {
        let dword = u32::from_le_bytes([part[0], part[1], part[2], part[3]]);
        word(address + at as u64 * 4).store(dword, Ordering::Relaxed);
    }
}

/// Copies a structure in, dword by dword.
pub fn get<T: FromBytes + IntoBytes>(address: u64) -> T {
    let mut value = T::new_zeroed();
    for (at, part) in value.as_mut_bytes().chunks_exact_mut(4).enumerate() {
        part.copy_from_slice(&word(address + at as u64 * 4).load(Ordering::Acquire).to_le_bytes());
    }
    value
}

/// Allocates zeroed pages; gives their address.
pub fn pages(bytes: u64) -> u64 {
    let at = NEXT.fetch_add(bytes.next_multiple_of(PAGE), Ordering::Relaxed);
    assert!(at + bytes <= END, "out of memory");
    at
}

/// Maps the GiB an address is in, one to one.
pub fn map(address: u64) {
    let root: u64;
    // SAFETY: reading CR3 changes nothing.
    unsafe { asm!("mov {}, cr3", out(reg) root, options(nomem, nostack)) };
    assert!(address < 512 << 30, "the first 512 GiB have one directory");
    let directory = (peek(root & !0xfff) & !0xfff) + (address >> 30) * 8;
    if peek(directory) != 0 {
        return;
    }
    let table = pages(PAGE);
    for large in 0..512 {
        poke(table + large * 8, address >> 30 << 30 | large << 21 | PRESENT | LARGE);
    }
    // Nothing was there, so that no translation is cached.
    poke(directory, table | PRESENT);
}

/// Lets ring 3 access everything that is mapped: there is no other program to protect.
pub fn open_to_users() {
    fn open(table: u64, level: u32) {
        for at in (table..table + PAGE).step_by(8) {
            let entry = peek(at);
            if entry & PRESENT == 0 {
                continue;
            }
            poke(at, entry | USER);
            if level > 1 && entry & LARGE == 0 {
                open(entry & ADDRESS, level - 1);
            }
        }
    }
    let root: u64;
    // SAFETY: reading CR3 changes nothing.
    unsafe { asm!("mov {}, cr3", out(reg) root, options(nomem, nostack)) };
    // Directories are at level 2: no page is smaller than 2 MiB here.
    open(root & ADDRESS, 4);
    // SAFETY: the tables map the same memory; translations with fewer rights are forgotten.
    unsafe { asm!("mov cr3, {}", in(reg) root, options(nostack)) };
}
