//! The state in which a kernel is entered: registers, segments, page tables.

use kvm_bindings::{kvm_regs, kvm_segment};
use kvm_ioctls::VcpuFd;
use vm_memory::{Bytes as _, GuestAddress, GuestMemoryMmap};

use crate::error::KernelError;

/// Addresses of the descriptor table and the page tables; kernels start after the first MiB.
const GDT: u64 = 0x500;
const PML4: u64 = 0x9000;
const PDPT: u64 = 0xa000;
const PD: u64 = 0xb000;

/// Null; 64-bit code; 64-bit code again as Linux's `__BOOT_CS`; data, `__BOOT_DS`; 32-bit code.
const GDT_ENTRIES: [u64; 5] =
    [0, 0x00af_9b00_0000_ffff, 0x00af_9b00_0000_ffff, 0x00cf_9300_0000_ffff, 0x00cf_9b00_0000_ffff];
const CODE_64: u16 = 0x10;
const DATA: u16 = 0x18;
const CODE_32: u16 = 0x20;
/// Type of a busy 32-bit task state segment.
const TSS_BUSY: u8 = 11;
const TSS_LIMIT: u32 = 0x67;

const PRESENT_WRITABLE: u64 = 3;
const LARGE: u64 = 1 << 7;
/// Page directories of the identity map: it has the first 4 GiB, in pages of 2 MiB.
const DIRECTORIES: u64 = 4;

const CR0_PE: u64 = 1;
const CR0_ET: u64 = 1 << 4;
const CR0_PG: u64 = 1 << 31;
const CR4_PAE: u64 = 1 << 5;
const EFER_LME: u64 = 1 << 8;
const EFER_LMA: u64 = 1 << 10;

/// Ways of entering a kernel.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Entry {
    /// In long mode, low memory mapped one to one, with the zero page in `rsi`.
    Long {
        /// Entry address.
        rip: u64,
        /// The zero page.
        rsi: u64,
    },
    /// In 32-bit protected mode without paging, with the start info in `ebx`.
    Protected {
        /// Entry address.
        eip: u32,
        /// The start info.
        ebx: u32,
    },
}

/// Writes the descriptor table and the page tables.
pub(super) fn tables(memory: &GuestMemoryMmap) -> Result<(), KernelError> {
    let put = |at: u64, value: u64| {
        memory.write_obj(value.to_le(), GuestAddress(at)).map_err(|_| KernelError::NoMemory)
    };
    for (at, entry) in (GDT..).step_by(8).zip(GDT_ENTRIES) {
        put(at, entry)?;
    }
    put(PML4, PDPT | PRESENT_WRITABLE)?;
    for directory in 0..DIRECTORIES {
        put(PDPT + directory * 8, (PD + directory * 4096) | PRESENT_WRITABLE)?;
        for page in 0..512 {
            let address = directory << 30 | page << 21;
            put(PD + directory * 4096 + page * 8, address | PRESENT_WRITABLE | LARGE)?;
        }
    }
    Ok(())
}

/// Sets the first vCPU to the entry point.
pub(crate) fn enter(vcpu: &VcpuFd, entry: Entry) -> Result<(), kvm_ioctls::Error> {
    let mut sregs = vcpu.get_sregs()?;
    let data = kvm_segment {
        base: 0,
        limit: 0xffff_ffff,
        selector: DATA,
        type_: 3,
        present: 1,
        db: 1,
        s: 1,
        g: 1,
        ..Default::default()
    };
    for segment in [&mut sregs.ds, &mut sregs.es, &mut sregs.fs, &mut sregs.gs, &mut sregs.ss] {
        *segment = data;
    }
    sregs.gdt.base = GDT;
    sregs.gdt.limit = (GDT_ENTRIES.len() * 8 - 1) as u16;
    let mut regs = kvm_regs { rflags: 2, ..Default::default() };
    match entry {
        Entry::Long { rip, rsi } => {
            sregs.cs = kvm_segment { selector: CODE_64, type_: 11, db: 0, l: 1, ..data };
            sregs.cr3 = PML4;
            sregs.cr0 = CR0_PE | CR0_ET | CR0_PG;
            sregs.cr4 = CR4_PAE;
            sregs.efer = EFER_LME | EFER_LMA;
            (regs.rip, regs.rsi) = (rip, rsi);
        }
        Entry::Protected { eip, ebx } => {
            sregs.cs = kvm_segment { selector: CODE_32, type_: 11, ..data };
            sregs.tr = kvm_segment { limit: TSS_LIMIT, type_: TSS_BUSY, present: 1, ..Default::default() };
            sregs.cr0 = CR0_PE | CR0_ET;
            sregs.cr4 = 0;
            (regs.rip, regs.rbx) = (eip.into(), ebx.into());
        }
    }
    vcpu.set_sregs(&sregs)?;
    vcpu.set_regs(&regs)
}
