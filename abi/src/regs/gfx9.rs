//! Registers of MI300X (GC 9.4.3 and the blocks beside it) that Navi 31 does not have.
//!
//! Their segments begin at [`layout::OWN`](super::layout::OWN); [`layout::GFX9`](super::layout::GFX9) has
//! their places in the blocks.

/// Graphics core.
///
/// Offsets: Linux `drivers/gpu/drm/amd/include/asic_reg`, `gc_9_4_3_offset.h`; fields: the `_sh_mask.h` beside it.
pub mod gc {
    registers! {
        ip GC;
        /// Run bits of the compute micro engines.
        CP_MEC_CNTL @ 0x80:0x8d Rw = 0x50000000 {
            pub mec_me2_halt, set_mec_me2_halt: 28;
            pub mec_me1_halt, set_mec_me1_halt: 30;
        }
        /// Place of this GPU's memory among those of other GPUs; 0 for a GPU that is alone.
        GCMC_VM_XGMI_LFB_CNTL @ 0x80:0x957 Rw = 0x0 {
            pub pf_lfb_region, set_pf_lfb_region: 3, 0;
            pub pf_max_region, set_pf_max_region: 7, 4;
        }
        /// Bytes that each GPU has of the addresses of all of them, in 16 MiB.
        GCMC_VM_XGMI_LFB_SIZE @ 0x80:0x958 Rw = 0x0 { pub pf_lfb_size, set_pf_lfb_size: 16, 0; }
        /// Time that queues wait before they sleep.
        CP_IQ_WAIT_TIME2 @ 0x80:0x10b0 Rw = 0x40404040 {}
        /// The place of the XCC in its partition.
        CP_HYP_XCP_CTL @ 0x81:0x5828 Rw = 0x8 {
            pub virtual_xcc_id, set_virtual_xcc_id: 2, 0;
            pub num_xcc_in_xcp, set_num_xcc_in_xcp: 6, 3;
        }
    }
}

/// SDMA engines.
///
/// Offsets: `sdma_4_4_2_offset.h`; fields: the `_sh_mask.h` beside it.
pub mod sdma {
    registers! {
        ip SDMA0;
        /// Status of the engine: here the bits of an idle one.
        SDMA_STATUS_REG @ 0x80:0x25 Ro = 0x46dee557 {}
    }
}

/// Memory hub of everything outside the graphics core: its reports of faults.
///
/// Offsets: `mmhub_1_8_0_offset.h`; fields as in the GC hub.
pub mod mmhub {
    registers! {
        ip MMHUB;
        /// Mask of the faults that are reported, and clearing of the status.
        MMVM_L2_PROTECTION_FAULT_CNTL @ 0x80:0xb67 Rw = 0x3ffffffc {
            pub clear_protection_fault_status_addr, set_clear_protection_fault_status_addr: 0;
        }
        /// Status of the last page fault.
        MMVM_L2_PROTECTION_FAULT_STATUS @ 0x80:0xb6b Ro = 0x0 {}
        /// Page number of the last page fault, low.
        MMVM_L2_PROTECTION_FAULT_ADDR_LO32 @ 0x80:0xb6c Ro = 0x0 {}
        /// Page number of the last page fault, high.
        MMVM_L2_PROTECTION_FAULT_ADDR_HI32 @ 0x80:0xb6d Ro = 0x0 {}
        /// Place of this GPU's memory among those of other GPUs; 0 for a GPU that is alone.
        MMMC_VM_XGMI_LFB_CNTL @ 0x80:0xc97 Rw = 0x0 {
            pub pf_lfb_region, set_pf_lfb_region: 3, 0;
            pub pf_max_region, set_pf_max_region: 7, 4;
        }
        /// Bytes that each GPU has of the addresses of all of them, in 16 MiB.
        MMMC_VM_XGMI_LFB_SIZE @ 0x80:0xc98 Rw = 0x0 { pub pf_lfb_size, set_pf_lfb_size: 16, 0; }
    }
}

/// Interrupt handler.
///
/// Offsets: `osssys_4_4_2_offset.h`.
pub mod osssys {
    registers! {
        ip OSSSYS;
        /// PASID of VMID 0 in the memory hub of the die that `IH_VMID_LUT_INDEX` selects; VMID n is n dwords further.
        IH_VMID_0_LUT_MM @ 0x80:0x10 Rw = 0x0 { pub pasid, set_pasid: 15, 0; }
        /// Doorbell of the retry filter.
        IH_DOORBELL_RETRY_CAM @ 0x80:0x88 Rw = 0x0 {}
        /// Address bits 39:8 of ring 1.
        IH_RB_BASE_RING1 @ 0x80:0x8d Rw = 0x0 {}
        /// Address bits 47:40 of ring 1.
        IH_RB_BASE_HI_RING1 @ 0x80:0x8e Rw = 0x0 {}
        /// Doorbell of the read pointer of ring 1.
        IH_DOORBELL_RPTR_RING1 @ 0x80:0x93 Rw = 0x0 {}
        /// Gives an entry of the retry filter back, by its number.
        IH_RETRY_CAM_ACK @ 0x80:0xa4 Rw = 0x0 {}
        /// Control of the retry filter (linux `vega20_ih.c`, `IH_RETRY_INT_CAM_CNTL_ALDEBARAN`).
        IH_RETRY_INT_CAM_CNTL @ 0x80:0xea Rw = 0x0 { pub enable, set_enable: 16; }
        /// Selects the tables of VMIDs: 4 * die + (XCC of the die) + 1 for `IH_VMID_0_LUT`, 4 * die for `IH_VMID_0_LUT_MM`
        /// (linux `amdgpu_amdkfd_gc_9_4_3.c`, `kgd_gfx_v9_4_3_set_pasid_vmid_mapping`).
        IH_VMID_LUT_INDEX @ 0x80:0xec Rw = 0x0 { pub index, set_index: 3, 0; }
    }
}

/// Address translation hub: which process a VMID belongs to.
///
/// Offsets: `athub_1_8_0_offset.h`; fields: the `_sh_mask.h` beside it.
pub mod athub {
    registers! {
        ip ATHUB;
        /// One bit per VMID whose mapping was changed; a write of 1 clears it.
        ATC_VMID_PASID_MAPPING_UPDATE_STATUS @ 0x80:0x3e Rw = 0x0 {}
        /// PASID of VMID 0; VMID n is n dwords further.
        ATC_VMID0_PASID_MAPPING @ 0x80:0x3f Rw = 0x0 {
            pub pasid, set_pasid: 15, 0;
            pub no_invalidation, set_no_invalidation: 30;
            pub valid, set_valid: 31;
        }
    }
}

/// Memory controller (UMC): the counts of its channel 0.
///
/// Offsets: `umc_12_0_0_offset.h`.
pub mod umc {
    registers! {
        ip UMC;
        /// Errors that were corrected, in 16 bits; a driver writes where it is to count from (linux `umc_v12_0.c`,
        /// `UMC_V12_0_CE_CNT_INIT`).
        UMCCH0_OdEccErrCnt @ 0x80:0x32d Rw = 0x0 {}
    }
}

/// Bus interface: partitions, and the high half of the far index.
///
/// Offsets: `nbio_7_9_0_offset.h` (`BIF_BX0_PCIE_INDEX2_HI`, `BIF_BX_PF0_PARTITION_*`); fields: the `_sh_mask.h` beside it.
pub mod nbio {
    registers! {
        ip NBIF;
        /// Address bits 39:32 of an indirect access.
        PCIE_INDEX2_HI @ 0x80:0x11 Rw = 0x0 {}
        /// Modes that compute can be partitioned into: a bit for each of [`ComputePartition`](crate::partition::ComputePartition).
        PARTITION_COMPUTE_CAP @ 0x82:0x161 Ro = 0x0 {}
        /// Modes that memory can be partitioned into: bit n for n + 1 partitions.
        PARTITION_MEM_CAP @ 0x82:0x162 Ro = 0x1 {}
        /// Partition mode of compute: the number of a
        /// [`ComputePartition`](crate::partition::ComputePartition).
        PARTITION_COMPUTE_STATUS @ 0x82:0x163 Rw = 0x0 {
            pub change_status, set_change_status: 3, 0;
            pub partition_mode, set_partition_mode: 7, 4;
        }
        /// Partition mode of memory: bit n of the mode for n + 1 partitions.
        PARTITION_MEM_STATUS @ 0x82:0x164 Rw = 0x10 {
            pub change_state, set_change_state: 3, 0;
            pub nps_mode, set_nps_mode: 11, 4;
        }
    }
}
