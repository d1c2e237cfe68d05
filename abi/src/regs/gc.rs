//! Graphics core: command processor, scheduler, shader array, GC hub of the memory system.
//!
//! Offsets: Linux `drivers/gpu/drm/amd/include/asic_reg`, `gc_11_0_0_offset.h`; fields: the `_sh_mask.h` beside it.

registers! {
    ip GC;
    /// Status of the first SDMA engine: here the bits of an idle one.
    SDMA0_STATUS_REG @ 0:0x25 Ro = 0x46dee557 {}
    /// Status of the second SDMA engine.
    SDMA1_STATUS_REG @ 0:0x625 Ro = 0x46dee557 {}
    /// Busy bits of the blocks around the graphics pipeline.
    GRBM_STATUS2 @ 0:0xda2 Ro = 0x0 {
        pub sdma_busy, set_sdma_busy: 21;
        pub cpf_busy, set_cpf_busy: 28;
        pub cpc_busy, set_cpc_busy: 29;
    }
    /// Busy bits of the graphics blocks.
    GRBM_STATUS @ 0:0xda4 Ro = 0x0 {
        pub spi_busy, set_spi_busy: 22;
        pub cp_busy, set_cp_busy: 29;
        pub gui_active, set_gui_active: 31;
    }
    /// Busy bits of the first shader engine.
    GRBM_STATUS_SE0 @ 0:0xda5 Ro = 0x0 { pub spi_busy, set_spi_busy: 27; }
    /// Busy bits of the second shader engine.
    GRBM_STATUS_SE1 @ 0:0xda6 Ro = 0x0 {}
    /// Busy bits of the third shader engine.
    GRBM_STATUS_SE2 @ 0:0xdae Ro = 0x0 {}
    /// Busy bits of the fourth shader engine.
    GRBM_STATUS_SE3 @ 0:0xdaf Ro = 0x0 {}
    /// Busy bits of the compute half of the command processor.
    CP_CPC_STATUS @ 0:0xe24 Ro = 0x0 {
        pub mec1_busy, set_mec1_busy: 0;
        pub cpc_busy, set_cpc_busy: 31;
    }
    /// Busy parts of the compute half: pipe n of the first micro engine is bit 10 + n.
    CP_CPC_BUSY_STAT @ 0:0xe25 Ro = 0x0 { pub mec1_pipes_busy, set_mec1_pipes_busy: 13, 10; }
    /// Reasons that the compute half waits for.
    CP_CPC_STALLED_STAT1 @ 0:0xe26 Ro = 0x0 {}
    /// Busy bits of the command processor's fetcher.
    CP_CPF_STATUS @ 0:0xe27 Ro = 0x0 {
        pub hqd_busy, set_hqd_busy: 15;
        pub cpf_cmp_busy, set_cpf_cmp_busy: 27;
        pub cpf_busy, set_cpf_busy: 31;
    }
    /// Busy parts of the fetcher.
    CP_CPF_BUSY_STAT @ 0:0xe28 Ro = 0x0 { pub hqd_pq_busy, set_hqd_pq_busy: 30; }
    /// Reasons that the fetcher waits for.
    CP_CPF_STALLED_STAT1 @ 0:0xe29 Ro = 0x0 {}
    /// Reasons that the command processor waits for.
    CP_STALLED_STAT3 @ 0:0xf3c Ro = 0x0 {}
    /// More reasons that the command processor waits for.
    CP_STALLED_STAT1 @ 0:0xf3d Ro = 0x0 {}
    /// More reasons that the command processor waits for.
    CP_STALLED_STAT2 @ 0:0xf3e Ro = 0x0 {}
    /// Busy bits of the graphics half of the command processor, which has no work here; 0 is idle.
    CP_STAT @ 0:0xf40 Ro = 0x0 {}
    /// Shader arrays fused off.
    CC_GC_SA_UNIT_DISABLE @ 0:0xfe9 Ro = 0x0 { pub sa_disable, set_sa_disable: 23, 8; }
    /// WGPs fused off in the shader array GRBM_GFX_INDEX selects.
    CC_GC_SHADER_ARRAY_CONFIG @ 0:0x100f Ro = 0x0 { pub inactive_wgps, set_inactive_wgps: 31, 16; }
    /// Switches of the depth block, which does not exist here.
    DB_DEBUG2 @ 0:0x13ad Rw = 0x0 {}
    /// Render back ends fused off.
    CC_RB_BACKEND_DISABLE @ 0:0x13dd Ro = 0x0 {}
    /// Memory tiling configuration.
    GB_ADDR_CONFIG @ 0:0x13de Rw = 0x545 {}
    /// Base that a PTE address is relative to, in 16 MiB.
    GCMC_VM_FB_OFFSET @ 0:0x15a7 Rw = 0x0 {}
    /// Mask of the faults that are reported, and clearing of the status.
    GCVM_L2_PROTECTION_FAULT_CNTL @ 0:0x15c4 Rw = 0x3ffffffc {
        pub clear_protection_fault_status_addr, set_clear_protection_fault_status_addr: 0;
    }
    /// Status of the last page fault.
    GCVM_L2_PROTECTION_FAULT_STATUS @ 0:0x15c8 Ro = 0x0 {
        pub more_faults, set_more_faults: 0;
        pub walker_error, set_walker_error: 3, 1;
        pub permission_faults, set_permission_faults: 7, 4;
        pub mapping_error, set_mapping_error: 8;
        pub cid, set_cid: 17, 9;
        pub rw, set_rw: 18;
        pub atomic, set_atomic: 19;
        pub vmid, set_vmid: 23, 20;
        pub vf, set_vf: 24;
        pub vfid, set_vfid: 28, 25;
        pub prt, set_prt: 29;
    }
    /// Page number of the last page fault, low.
    GCVM_L2_PROTECTION_FAULT_ADDR_LO32 @ 0:0x15c9 Ro = 0x0 {}
    /// Page number of the last page fault, high.
    GCVM_L2_PROTECTION_FAULT_ADDR_HI32 @ 0:0x15ca Ro = 0x0 {}
    /// First address of the frame buffer in VMID 0, in 16 MiB.
    GCMC_VM_FB_LOCATION_BASE @ 0:0x1678 Rw = 0x8000 { pub fb_base, set_fb_base: 23, 0; }
    /// Last address of the frame buffer in VMID 0, in 16 MiB.
    GCMC_VM_FB_LOCATION_TOP @ 0:0x1679 Rw = 0x0 { pub fb_top, set_fb_top: 23, 0; }
    /// Page table shape of VMID 0; VMID n is n dwords further.
    GCVM_CONTEXT0_CNTL @ 0:0x1688 Rw = 0x1fffe00 {
        pub enable_context, set_enable_context: 0;
        pub page_table_depth, set_page_table_depth: 2, 1;
        pub page_table_block_size, set_page_table_block_size: 6, 3;
    }
    /// Semaphore of invalidation engine 0; engine n is n dwords further. A read acquires it.
    GCVM_INVALIDATE_ENG0_SEM @ 0:0x1699 Ro = 0x0 {}
    /// Request of invalidation engine 0; engine n is n dwords further.
    GCVM_INVALIDATE_ENG0_REQ @ 0:0x16ab Rw = 0x2f80000 {
        pub per_vmid_invalidate_req, set_per_vmid_invalidate_req: 15, 0;
        pub flush_type, set_flush_type: 18, 16;
    }
    /// Acknowledgement of invalidation engine 0, one bit per VMID; engine n is n dwords further.
    GCVM_INVALIDATE_ENG0_ACK @ 0:0x16bd Ro = 0x0 { pub per_vmid_invalidate_ack, set_per_vmid_invalidate_ack: 15, 0; }
    /// Page table root of VMID 0, low; VMID n is 2n dwords further. Bit 0 is VALID.
    GCVM_CONTEXT0_PAGE_TABLE_BASE_ADDR_LO32 @ 0:0x16f3 Rw = 0x0 {}
    /// Page table root of VMID 0, high; VMID n is 2n dwords further.
    GCVM_CONTEXT0_PAGE_TABLE_BASE_ADDR_HI32 @ 0:0x16f4 Rw = 0x0 {}
    /// First page of VMID 0, bits 31:0 of the page number; VMID n is 2n dwords further.
    GCVM_CONTEXT0_PAGE_TABLE_START_ADDR_LO32 @ 0:0x1713 Rw = 0x0 {}
    /// First page of VMID 0, high; VMID n is 2n dwords further.
    GCVM_CONTEXT0_PAGE_TABLE_START_ADDR_HI32 @ 0:0x1714 Rw = 0x0 {}
    /// Last page of VMID 0, bits 31:0 of the page number; VMID n is 2n dwords further.
    GCVM_CONTEXT0_PAGE_TABLE_END_ADDR_LO32 @ 0:0x1733 Rw = 0x0 {}
    /// Last page of VMID 0, high; VMID n is 2n dwords further.
    GCVM_CONTEXT0_PAGE_TABLE_END_ADDR_HI32 @ 0:0x1734 Rw = 0x0 {}
    /// First doorbell of the compute queues, in bytes.
    CP_MEC_DOORBELL_RANGE_LOWER @ 0:0x1dfc Rw = 0x110 {}
    /// Last doorbell of the compute queues, in bytes.
    CP_MEC_DOORBELL_RANGE_UPPER @ 0:0x1dfd Rw = 0xffc {}
    /// Polling of write pointers in memory.
    CP_PQ_WPTR_POLL_CNTL @ 0:0x1e23 Rw = 0x1 { pub en, set_en: 31; }
    /// Doorbell state of the queues.
    CP_PQ_STATUS @ 0:0x1e58 Rw = 0x0 { pub doorbell_enable, set_doorbell_enable: 1; }
    /// MQD of the selected queue, low.
    CP_MQD_BASE_ADDR @ 0:0x1fa9 Rw = 0x0 {}
    /// MQD of the selected queue, high.
    CP_MQD_BASE_ADDR_HI @ 0:0x1faa Rw = 0x0 {}
    /// Nonzero while the selected queue runs; a write of 1 starts it.
    CP_HQD_ACTIVE @ 0:0x1fab Rw = 0x0 { pub active, set_active: 0; pub busy_gate, set_busy_gate: 1; }
    /// VMID of the selected queue.
    CP_HQD_VMID @ 0:0x1fac Rw = 0x0 { pub vmid, set_vmid: 3, 0; }
    /// Preload and switching modes.
    CP_HQD_PERSISTENT_STATE @ 0:0x1fad Rw = 0xbe05501 {}
    /// Ring address bits 39:8.
    CP_HQD_PQ_BASE @ 0:0x1fb1 Rw = 0x0 {}
    /// Ring address bits 63:40.
    CP_HQD_PQ_BASE_HI @ 0:0x1fb2 Rw = 0x0 {}
    /// Read pointer.
    CP_HQD_PQ_RPTR @ 0:0x1fb3 Rw = 0x0 {}
    /// Address for reports of the read pointer, low.
    CP_HQD_PQ_RPTR_REPORT_ADDR @ 0:0x1fb4 Rw = 0x0 {}
    /// Address for reports of the read pointer, high.
    CP_HQD_PQ_RPTR_REPORT_ADDR_HI @ 0:0x1fb5 Rw = 0x0 {}
    /// Write pointer in memory, low.
    CP_HQD_PQ_WPTR_POLL_ADDR @ 0:0x1fb6 Rw = 0x0 {}
    /// Write pointer in memory, high.
    CP_HQD_PQ_WPTR_POLL_ADDR_HI @ 0:0x1fb7 Rw = 0x0 {}
    /// Doorbell of the selected queue, a dword offset in the doorbell BAR.
    CP_HQD_PQ_DOORBELL_CONTROL @ 0:0x1fb8 Rw = 0x0 {
        pub doorbell_mode, set_doorbell_mode: 0;
        pub doorbell_bif_drop, set_doorbell_bif_drop: 1;
        pub doorbell_offset, set_doorbell_offset: 27, 2;
        pub doorbell_source, set_doorbell_source: 28;
        pub doorbell_schd_hit, set_doorbell_schd_hit: 29;
        pub doorbell_en, set_doorbell_en: 30;
        pub doorbell_hit, set_doorbell_hit: 31;
    }
    /// Ring size (2^(QUEUE_SIZE+1) dwords) and modes.
    CP_HQD_PQ_CONTROL @ 0:0x1fba Rw = 0x308509 {
        pub queue_size, set_queue_size: 5, 0;
        pub wptr_carry, set_wptr_carry: 6;
        pub rptr_carry, set_rptr_carry: 7;
        pub rptr_block_size, set_rptr_block_size: 13, 8;
        pub queue_full_en, set_queue_full_en: 14;
        pub pq_empty, set_pq_empty: 15;
        pub slot_based_wptr, set_slot_based_wptr: 19, 18;
        pub min_avail_size, set_min_avail_size: 21, 20;
        pub tmz, set_tmz: 22;
        pub exe_disable, set_exe_disable: 23;
        pub cache_policy, set_cache_policy: 25, 24;
        pub pq_volatile, set_pq_volatile: 26;
        pub no_update_rptr, set_no_update_rptr: 27;
        pub unord_dispatch, set_unord_dispatch: 28;
        pub tunnel_dispatch, set_tunnel_dispatch: 29;
        pub priv_state, set_priv_state: 30;
        pub kmd_queue, set_kmd_queue: 31;
    }
    /// Takes the selected queue off the hardware: 1 drains, 2 resets.
    CP_HQD_DEQUEUE_REQUEST @ 0:0x1fc1 Rw = 0x0 { pub dequeue_req, set_dequeue_req: 3, 0; }
    /// Attributes for reading the MQD.
    CP_MQD_CONTROL @ 0:0x1fcb Rw = 0x100 {}
    /// End-of-pipe buffer bits 39:8.
    CP_HQD_EOP_BASE_ADDR @ 0:0x1fce Rw = 0x0 {}
    /// End-of-pipe buffer bits 63:40.
    CP_HQD_EOP_BASE_ADDR_HI @ 0:0x1fcf Rw = 0x0 {}
    /// End-of-pipe buffer size.
    CP_HQD_EOP_CONTROL @ 0:0x1fd0 Rw = 0x6 {}
    /// Error that stopped the selected queue.
    CP_HQD_ERROR @ 0:0x1fdc Rw = 0x0 {}
    /// AQL mode.
    CP_HQD_AQL_CONTROL @ 0:0x1fde Rw = 0x0 { pub control0, set_control0: 14, 0; pub control0_en, set_control0_en: 15; }
    /// Write pointer, low.
    CP_HQD_PQ_WPTR_LO @ 0:0x1fdf Rw = 0x0 {}
    /// Write pointer, high.
    CP_HQD_PQ_WPTR_HI @ 0:0x1fe0 Rw = 0x0 {}
    /// Address watch 0: bits 47:32 of its address.
    TCP_WATCH0_ADDR_H @ 0:0x2048 Rw = 0x0 { pub address, set_address: 15, 0; }
    /// Address watch 0: bits 31:7 of its address.
    TCP_WATCH0_ADDR_L @ 0:0x2049 Rw = 0x0 {}
    /// Address watch 1: bits 47:32 of its address.
    TCP_WATCH1_ADDR_H @ 0:0x204b Rw = 0x0 { pub address, set_address: 15, 0; }
    /// Address watch 1: bits 31:7 of its address.
    TCP_WATCH1_ADDR_L @ 0:0x204c Rw = 0x0 {}
    /// Address watch 2: bits 47:32 of its address.
    TCP_WATCH2_ADDR_H @ 0:0x204e Rw = 0x0 { pub address, set_address: 15, 0; }
    /// Address watch 2: bits 31:7 of its address.
    TCP_WATCH2_ADDR_L @ 0:0x204f Rw = 0x0 {}
    /// Address watch 3: bits 47:32 of its address.
    TCP_WATCH3_ADDR_H @ 0:0x2051 Rw = 0x0 { pub address, set_address: 15, 0; }
    /// Address watch 3: bits 31:7 of its address.
    TCP_WATCH3_ADDR_L @ 0:0x2052 Rw = 0x0 {}
    /// Selects the bank of the HQD and SH_MEM registers.
    GRBM_GFX_CNTL @ 1:0x900 Rw = 0x0 {
        pub pipeid, set_pipeid: 1, 0;
        pub meid, set_meid: 3, 2;
        pub vmid, set_vmid: 7, 4;
        pub queueid, set_queueid: 10, 8;
        pub ctxid, set_ctxid: 13, 11;
    }
    /// Handshake with the RLC; CMD reads 0 once taken.
    RLC_SAFE_MODE @ 1:0x980 Rw = 0x0 { pub cmd, set_cmd: 0; }
    /// Number of the queue that is the KIQ: {valid 7, me 6:5, pipe 4:3, queue 2:0}.
    RLC_CP_SCHEDULERS @ 1:0x98a Rw = 0x3038 {}
    /// Apertures of the selected VMID: private in 15:0, shared in 31:16, each bits 63:48 of the address.
    SH_MEM_BASES @ 1:0x9e3 Rw = 0x0 {
        pub private_base, set_private_base: 15, 0;
        pub shared_base, set_shared_base: 31, 16;
    }
    /// Address mode of the selected VMID.
    SH_MEM_CONFIG @ 1:0x9e4 Rw = 0xc000 {
        pub address_mode, set_address_mode: 0;
        pub alignment_mode, set_alignment_mode: 3, 2;
        pub initial_inst_prefetch, set_initial_inst_prefetch: 15, 14;
    }
    /// First of the scratch registers.
    SCRATCH_REG0 @ 1:0x2040 Rw = 0x0 {}
    /// Last of the scratch registers.
    SCRATCH_REG7 @ 1:0x2047 Rw = 0x0 {}
    /// Selects shader engine, array and instance.
    GRBM_GFX_INDEX @ 1:0x2200 Rw = 0xe0000000 {
        pub instance_index, set_instance_index: 7, 0;
        pub sa_index, set_sa_index: 15, 8;
        pub se_index, set_se_index: 23, 16;
        pub sa_broadcast_writes, set_sa_broadcast_writes: 29;
        pub instance_broadcast_writes, set_instance_broadcast_writes: 30;
        pub se_broadcast_writes, set_se_broadcast_writes: 31;
    }
    /// Run bits of the scheduler.
    CP_MES_CNTL @ 1:0x2807 Rw = 0x40000000 {
        pub mes_invalidate_icache, set_mes_invalidate_icache: 4;
        pub mes_pipe0_reset, set_mes_pipe0_reset: 16;
        pub mes_pipe1_reset, set_mes_pipe1_reset: 17;
        pub mes_pipe0_active, set_mes_pipe0_active: 26;
        pub mes_pipe1_active, set_mes_pipe1_active: 27;
        pub mes_halt, set_mes_halt: 30;
    }
    /// Version of the firmware of the selected pipe: version 11:0, API 23:12.
    CP_MES_GP3_LO @ 1:0x2849 Ro = 0x0 {}
    /// Count of the event that `GRBM_PERFCOUNTER0_SELECT` selects, low.
    GRBM_PERFCOUNTER0_LO @ 1:0x3040 Ro = 0x0 {}
    /// Count of the event that `GRBM_PERFCOUNTER0_SELECT` selects, high.
    GRBM_PERFCOUNTER0_HI @ 1:0x3041 Ro = 0x0 {}
    /// Event that the counter counts: `GRBM_PERF_SEL_*` of `soc21_enum.h`, of which 2 is `GUI_ACTIVE`.
    GRBM_PERFCOUNTER0_SELECT @ 1:0x3840 Rw = 0x0 { pub perf_sel, set_perf_sel: 5, 0; }
    /// Run bit of the RLC.
    RLC_CNTL @ 1:0x4c00 Rw = 0x1 { pub rlc_enable_f32, set_rlc_enable_f32: 0; }
    /// Bit 31: the RLC has loaded every firmware.
    RLC_RLCS_BOOTLOAD_STATUS @ 1:0x4e82 Ro = 0x80000000 { pub bootload_complete, set_bootload_complete: 31; }
}
