//! GPU virtual memory: page-directory and page-table entries of gfx11, and in [`gfx12`] and [`gfx9`] the bits
//! that differ there.
//!
//! 48-bit addresses, 4 KiB pages, four levels PDB2 -> PDB1 -> PDB0 -> PTB of nine bits each. VMID 0 (the kernel's GART) is
//! flat: its base points at page-table entries directly, beside the frame-buffer aperture that maps VRAM linearly.
//!
//! Sources: linux `amdgpu_vm.h` (`AMDGPU_PTE_*`, `AMDGPU_PDE_*`), `amdgpu_vm_pt.c` (`amdgpu_vm_pt_level_shift`),
//! `gmc_v11_0.c` (`gmc_v11_0_get_vm_pde`, `gmc_v11_0_map_mtype`).

use bitfield::bitfield;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// log2 of the page size, `AMDGPU_GPU_PAGE_SHIFT`.
pub const PAGE_SHIFT: u32 = 12;
/// Bytes of a page, `AMDGPU_GPU_PAGE_SIZE`.
pub const PAGE_SIZE: u64 = 1 << PAGE_SHIFT;
/// log2 of the entries in a PDB2, PDB1 or PDB0, and in a PTB of the usual block size.
pub const LEVEL_BITS: u32 = 9;
/// Virtual address bits the walker decodes, `GMC_V11_VA` (`amdgpu_vm_adjust_size(…, 48)`).
pub const VA_BITS: u32 = 48;
/// log2 of the pages a PDB0 entry covers when the `PAGE_TABLE_BLOCK_SIZE` register field is zero.
pub const BLOCK_SIZE_BASE: u32 = 9;
/// Bits 47:12, the physical page of a page-table entry.
pub const PTE_ADDRESS_MASK: u64 = 0x0000_ffff_ffff_f000;
/// Bits 47:6, the physical base of the next table in a page-directory entry.
pub const PDE_ADDRESS_MASK: u64 = 0x0000_ffff_ffff_ffc0;

/// `AMDGPU_PTE_VALID`.
pub const PTE_VALID: u64 = 1 << 0;
/// `AMDGPU_PTE_SYSTEM`: the address is a system (guest-physical or bus) address, not a VRAM offset.
pub const PTE_SYSTEM: u64 = 1 << 1;
/// `AMDGPU_PTE_SNOOPED`.
pub const PTE_SNOOPED: u64 = 1 << 2;
/// `AMDGPU_PTE_TMZ`.
pub const PTE_TMZ: u64 = 1 << 3;
/// `AMDGPU_PTE_EXECUTABLE`.
pub const PTE_EXECUTABLE: u64 = 1 << 4;
/// `AMDGPU_PTE_READABLE`.
pub const PTE_READABLE: u64 = 1 << 5;
/// `AMDGPU_PTE_WRITEABLE`.
pub const PTE_WRITEABLE: u64 = 1 << 6;
/// `AMDGPU_PTE_PRT`: partially resident texture page.
pub const PTE_PRT: u64 = 1 << 51;
/// `AMDGPU_PDE_PTE`: a directory entry that maps a huge page itself.
pub const PDE_PTE: u64 = 1 << 54;
/// `AMDGPU_PTE_LOG`.
pub const PTE_LOG: u64 = 1 << 55;
/// `AMDGPU_PTE_TF`: translate further.
pub const PTE_TF: u64 = 1 << 56;
/// `AMDGPU_PTE_NOALLOC`.
pub const PTE_NOALLOC: u64 = 1 << 58;

/// log2 of pages in the fragment that a PTE belongs to, `AMDGPU_PTE_FRAG(x)`.
#[must_use]
pub const fn pte_fragment(log2_pages: u64) -> u64 {
    (log2_pages & 0x1f) << 7
}

/// Memory type of gfx10 and gfx11 entries, `AMDGPU_PTE_MTYPE_NV10(flags, mtype)`.
#[must_use]
pub const fn pte_mtype(mtype: u64) -> u64 {
    (mtype & 7) << 48
}

/// `MTYPE_NC`: not coherent.
pub const MTYPE_NC: u64 = 0;
/// `MTYPE_WC`: write combined.
pub const MTYPE_WC: u64 = 1;
/// `MTYPE_CC`: cache coherent.
pub const MTYPE_CC: u64 = 2;
/// `MTYPE_UC`: uncached.
pub const MTYPE_UC: u64 = 3;

bitfield! {
    /// Page-table entry, or a directory entry with [`PteFlags::pde_pte`] set.
    ///
    /// 8 bytes little endian. Source: linux `amdgpu_vm.h`, `AMDGPU_PTE_*`.
    #[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
    #[repr(transparent)]
    pub struct PteFlags(u64);
    impl Debug;
    /// The entry translates.
    pub valid, set_valid: 0;
    /// The address is a system address.
    pub system, set_system: 1;
    /// CPU caches are snooped.
    pub snooped, set_snooped: 2;
    /// Instructions may be fetched.
    pub executable, set_executable: 4;
    /// Loads are allowed.
    pub readable, set_readable: 5;
    /// Stores and atomics are allowed.
    pub writeable, set_writeable: 6;
    /// log2 of the pages in the fragment.
    pub u8, fragment, set_fragment: 11, 7;
    /// Physical page number.
    pub page, set_page: 47, 12;
    /// Memory type, `MTYPE_*`.
    pub u8, mtype, set_mtype: 50, 48;
    /// Partially resident.
    pub prt, set_prt: 51;
    /// A directory entry that maps a page itself.
    pub pde_pte, set_pde_pte: 54;
    /// Translate further.
    pub translate_further, set_translate_further: 56;
}

impl PteFlags {
    /// The entry with these raw bits.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// The raw bits.
    #[must_use]
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// Physical address of the page: a VRAM offset, or a system address if [`Self::system`].
    #[must_use]
    pub const fn address(self) -> u64 {
        self.0 & PTE_ADDRESS_MASK
    }

    /// Physical address of the next table, for a directory entry.
    #[must_use]
    pub const fn table_address(self) -> u64 {
        self.0 & PDE_ADDRESS_MASK
    }
}

const _: () = assert!(size_of::<PteFlags>() == 8);
const _: () = assert!(PAGE_SHIFT + 4 * LEVEL_BITS == VA_BITS);

/// Bits that are elsewhere on gfx12 than on gfx11; all others are in the same place.
///
/// Source: linux `amdgpu_vm.h` (`AMDGPU_PTE_*_GFX12`, `AMDGPU_PDE_*_GFX12`), `gmc_v12_0.c`.
pub mod gfx12 {
    /// `AMDGPU_PTE_PRT_GFX12`: partially resident; such an entry is not valid.
    pub const PTE_PRT: u64 = 1 << 56;
    /// `AMDGPU_PTE_IS_PTE`, `AMDGPU_PDE_PTE_GFX12`: an entry above the last level that maps memory. In the last level it says
    /// nothing.
    pub const PTE_IS_PTE: u64 = 1 << 63;

    /// Memory type, one of [`MTYPE_NC`](super::MTYPE_NC) and [`MTYPE_UC`](super::MTYPE_UC), `AMDGPU_PTE_MTYPE_GFX12`.
    #[must_use]
    pub const fn pte_mtype(mtype: u64) -> u64 {
        (mtype & 3) << 54
    }
}

/// Bits that are elsewhere on gfx9 than on gfx11, or that gfx11 does not have; all others are in the same
/// place.
///
/// MI300X walks PDB2, PDB1, PDB0 and PTB, as Navi does, but its `PAGE_TABLE_DEPTH` is 2 and its `PAGE_TABLE_BLOCK_SIZE` 9, because
/// the driver sets `translate_further`. An entry of a PDB1 has 9 in its bits 63:59 ([`PDE_BFS_SHIFT`](gfx9::PDE_BFS_SHIFT)).
/// An entry of a PDB0 leads to a PTB if it has [`PTE_TF`], and maps 2 MiB itself if it has not. An entry above maps a page if it
/// has [`PDE_PTE`].
///
/// Source: linux `amdgpu_vm.h` (`AMDGPU_PTE_MTYPE_VG10`, `AMDGPU_PDE_BFS`), `gmc_v9_0.c` (`gmc_v9_0_get_vm_pde`).
pub mod gfx9 {
    /// log2 of the entries of the table that a PDB1 entry leads to, `AMDGPU_PDE_BFS`: bits 63:59.
    pub const PDE_BFS_SHIFT: u32 = 59;
    /// `MTYPE_RW`: cached, and coherent within the GPU alone.
    pub const MTYPE_RW: u64 = 1;

    /// `AMDGPU_PDE_BFS(entries)`.
    #[must_use]
    pub const fn pde_bfs(log2_entries: u64) -> u64 {
        (log2_entries & 0x1f) << PDE_BFS_SHIFT
    }

    /// Memory type, `AMDGPU_PTE_MTYPE_VG10(flags, mtype)`: [`MTYPE_NC`](super::MTYPE_NC), [`MTYPE_RW`], [`MTYPE_CC`](super::MTYPE_CC), [`MTYPE_UC`](super::MTYPE_UC).
    #[must_use]
    pub const fn pte_mtype(mtype: u64) -> u64 {
        (mtype & 3) << 57
    }
}

/// Aperture of group (LDS) memory: bits 63:48 of its flat addresses, `SH_MEM_BASES.SHARED_BASE` (linux `gfx_v11_0.c`, `DEFAULT_SH_MEM_BASES`).
pub const SHARED_APERTURE_HI16: u64 = 1;
/// Aperture of private (scratch) memory: bits 63:48 of its flat addresses, `SH_MEM_BASES.PRIVATE_BASE`.
pub const PRIVATE_APERTURE_HI16: u64 = 2;
