//! A 64-bit ELF kernel, put into memory and entered in long mode with low memory mapped one to one.

use std::fs::File;
use std::io::{Cursor, Read as _};
use std::path::Path;

use kvm_bindings::{kvm_regs, kvm_segment};
use kvm_ioctls::VcpuFd;
use linux_loader::loader::{Elf, KernelLoader as _};
use object::read::elf::{FileHeader as _, ProgramHeader as _};
use vm_memory::{Address as _, Bytes as _, GuestAddress, GuestMemoryBackend as _, GuestMemoryMmap};

use super::KernelError;

/// Where the descriptor table and the page tables are; kernels start behind the first MiB.
const GDT: u64 = 0x500;
const PML4: u64 = 0x9000;
const PDPT: u64 = 0xa000;
const PD: u64 = 0xb000;
const KERNEL_START: u64 = 1 << 20;
/// Kernels larger than this are none.
const KERNEL_LIMIT: u64 = 1 << 30;

/// Null, 64-bit code, data.
const GDT_ENTRIES: [u64; 3] = [0, 0x00af_9b00_0000_ffff, 0x00cf_9300_0000_ffff];
const CODE: u16 = 0x08;
const DATA: u16 = 0x10;

const PRESENT_WRITABLE: u64 = 3;
const LARGE: u64 = 1 << 7;
/// Mapped one to one: the first 4 GiB, in pages of 2 MiB.
const DIRECTORIES: u64 = 4;

const CR0_PE: u64 = 1;
const CR0_ET: u64 = 1 << 4;
const CR0_PG: u64 = 1 << 31;
const CR4_PAE: u64 = 1 << 5;
const EFER_LME: u64 = 1 << 8;
const EFER_LMA: u64 = 1 << 10;

/// Loads a kernel and answers its entry point.
pub(super) fn load(memory: &GuestMemoryMmap, path: &Path) -> Result<u64, KernelError> {
    let io = |source| KernelError::Read { path: path.to_owned(), source };
    let bad = |why: String| KernelError::NotAKernel { path: path.to_owned(), why };
    let mut file = File::open(path).map_err(io)?;
    let length = file.metadata().map_err(io)?.len();
    if length > KERNEL_LIMIT {
        return Err(bad(format!("it has {length} bytes")));
    }
    let mut content = Vec::new();
    file.read_to_end(&mut content).map_err(io)?;
    check(memory, &content).map_err(bad)?;
    let loaded = Elf::load(memory, None, &mut Cursor::new(&content), Some(GuestAddress(KERNEL_START)))
        .map_err(|error| bad(error.to_string()))?;
    Ok(loaded.kernel_load.raw_value())
}

/// What the loader takes for granted: the machine, and segments that leave the tables below alone.
fn check(memory: &GuestMemoryMmap, content: &[u8]) -> Result<(), String> {
    let header = object::elf::FileHeader64::<object::Endianness>::parse(content)
        .map_err(|_| "it is not a 64-bit ELF file".to_owned())?;
    let endian = header.endian().map_err(|_| "it is not a little-endian ELF file".to_owned())?;
    if header.e_machine(endian) != object::elf::EM_X86_64 || header.e_type(endian) != object::elf::ET_EXEC {
        return Err("it is not an x86-64 executable with fixed addresses".to_owned());
    }
    let segments = header
        .program_headers(endian, content)
        .map_err(|_| "its program headers are cut short".to_owned())?;
    let mut entered = false;
    for segment in segments.iter().filter(|segment| segment.p_type(endian) == object::elf::PT_LOAD) {
        let (at, size) = (segment.p_paddr(endian), segment.p_memsz(endian));
        if size < segment.p_filesz(endian) {
            return Err(format!("the segment at {at:#x} is smaller than its contents"));
        }
        if size == 0 {
            continue;
        }
        let end = at.checked_add(size).filter(|_| at >= KERNEL_START);
        let inside = |end: u64| memory.check_range(GuestAddress(at), size as usize) && end < 1 << 32;
        if !end.is_some_and(inside) {
            return Err(format!("its segment of {size:#x} bytes at {at:#x} does not fit the guest's memory"));
        }
        entered |= (at..at + size).contains(&header.e_entry(endian));
    }
    if entered { Ok(()) } else { Err("its entry point is in none of its segments".to_owned()) }
}

/// Writes the tables the kernel is entered with.
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

/// Puts the first vCPU at the entry point.
pub(super) fn enter(vcpu: &VcpuFd, entry: u64) -> Result<(), kvm_ioctls::Error> {
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
    sregs.cs = kvm_segment { selector: CODE, type_: 11, db: 0, l: 1, ..data };
    for segment in [&mut sregs.ds, &mut sregs.es, &mut sregs.fs, &mut sregs.gs, &mut sregs.ss] {
        *segment = data;
    }
    sregs.gdt.base = GDT;
    sregs.gdt.limit = (GDT_ENTRIES.len() * 8 - 1) as u16;
    sregs.cr3 = PML4;
    sregs.cr0 = CR0_PE | CR0_ET | CR0_PG;
    sregs.cr4 = CR4_PAE;
    sregs.efer = EFER_LME | EFER_LMA;
    vcpu.set_sregs(&sregs)?;
    vcpu.set_regs(&kvm_regs { rip: entry, rflags: 2, ..Default::default() })
}
