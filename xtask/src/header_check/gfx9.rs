//! The kernel's headers for MI300X: registers, MQDs, packets of the hardware scheduler, interrupts and page-table entries.

use belfry_abi::regs::layout::{self, Layout};
use belfry_abi::regs::{self, Description, Ip, Offset};
use belfry_abi::{gpuvm, ih, mqd, pm4};

use super::{Defines, Group};

/// One group per header.
pub(super) fn groups() -> Vec<(&'static str, Group)> {
    let mut groups = vec![
        ("mqd-9", compute_mqd()),
        ("sdma-mqd-9", sdma_mqd()),
        ("hws", packets()),
        ("pm4-9", opcodes()),
        ("pte-9", entries()),
        ("ih-9", interrupts()),
    ];
    let own = |all: &'static [&'static [Description]]| all.iter().copied().flatten().copied().collect();
    let files: [(&str, &str, Ip, Vec<Description>); 7] = [
        ("gc-9", "\"asic_reg/gc/gc_9_4_3_offset.h\"", Ip::GC, own(&[regs::gc::ALL, regs::gfx9::gc::ALL])),
        (
            "mmhub-1",
            "\"asic_reg/mmhub/mmhub_1_8_0_offset.h\"",
            Ip::MMHUB,
            own(&[regs::mmhub::ALL, regs::gfx9::mmhub::ALL]),
        ),
        (
            "osssys-4",
            "\"asic_reg/oss/osssys_4_4_2_offset.h\"",
            Ip::OSSSYS,
            own(&[regs::osssys::ALL, regs::gfx9::osssys::ALL]),
        ),
        ("athub-1", "\"asic_reg/athub/athub_1_8_0_offset.h\"", Ip::ATHUB, own(&[regs::gfx9::athub::ALL])),
        ("umc-12", "\"asic_reg/umc/umc_12_0_0_offset.h\"", Ip::UMC, own(&[regs::gfx9::umc::ALL])),
        (
            "nbio-7",
            "\"asic_reg/nbio/nbio_7_9_0_offset.h\"",
            Ip::NBIF,
            own(&[regs::nbio::ALL, regs::gfx9::nbio::ALL]),
        ),
        ("smuio-13", "\"asic_reg/smuio/smuio_13_0_3_offset.h\"", Ip::SMUIO, own(&[regs::smuio::ALL])),
    ];
    groups.extend(files.map(|(name, header, ip, all)| (name, registers(header, ip, &all))));
    groups
}

/// Every register that the chip has is where its header has it.
fn registers(header: &'static str, ip: Ip, all: &[Description]) -> Group {
    const LAYOUT: Layout = layout::GFX9;
    let conditions = all
        .iter()
        .filter(|register| LAYOUT.has(ip, register.at))
        .map(|register| {
            let name = published(ip, register.name);
            let Offset { segment, dword } = LAYOUT.place(ip, register.at);
            (
                format!("reg{name} == {dword} && reg{name}_BASE_IDX == {segment}"),
                format!("{name} is not at {segment}:{dword:#x}"),
            )
        })
        .collect();
    Group { includes: vec![header], conditions, ..Group::default() }
}

/// The header's name of a register: registers of hubs have no prefix, registers of the bus interface have their
/// function's.
fn published(ip: Ip, name: &'static str) -> String {
    let hub = [("GCVM_", "VM_"), ("GCMC_", "MC_"), ("MMVM_", "VM_"), ("MMMC_", "MC_")];
    if let Some((prefix, plain)) = hub.iter().find(|(prefix, _)| name.starts_with(prefix)) {
        return name.replacen(prefix, plain, 1);
    }
    match (ip, name) {
        (Ip::NBIF, "PCIE_INDEX2_HI") => "BIF_BX0_PCIE_INDEX2_HI".to_owned(),
        (Ip::NBIF, name) if name.starts_with("PARTITION_") => format!("BIF_BX_PF0_{name}"),
        (Ip::NBIF, name) => super::kernel::published(name),
        _ => name.to_owned(),
    }
}

/// A field of a C structure at a dword.
fn dword(c_type: &'static str, field: &'static str, at: usize) -> (String, String) {
    (
        format!("__builtin_offsetof(struct {c_type}, {field}) == {}", at * 4),
        format!("{field} of {c_type} is not dword {at}"),
    )
}

fn compute_mqd() -> Group {
    use mqd::v9;
    let first = |register: usize| register / 4;
    let mut fields = vec![
        ("header", 0),
        ("compute_pgm_rsrc1", core::mem::offset_of!(mqd::ComputeMqd, compute_pgm_rsrc1) / 4),
        ("compute_user_data_0", core::mem::offset_of!(mqd::ComputeMqd, compute_user_data) / 4),
        ("cp_mqd_base_addr_lo", first(core::mem::offset_of!(mqd::ComputeMqd, cp_mqd_base_addr_lo))),
        ("cp_hqd_pq_control", first(core::mem::offset_of!(mqd::ComputeMqd, cp_hqd_pq_control))),
        ("cp_hqd_ctx_save_size", first(core::mem::offset_of!(mqd::ComputeMqd, cp_hqd_ctx_save_size))),
        ("cp_hqd_aql_control", first(core::mem::offset_of!(mqd::ComputeMqd, cp_hqd_aql_control))),
        ("cp_hqd_pq_wptr_hi", first(core::mem::offset_of!(mqd::ComputeMqd, cp_hqd_pq_wptr_hi))),
        ("queue_doorbell_id0", core::mem::offset_of!(mqd::ComputeMqd, queue_doorbell_id) / 4),
    ];
    fields.extend([
        ("compute_tba_lo", v9::COMPUTE_TBA_LO.0),
        ("compute_tma_lo", v9::COMPUTE_TMA_LO.0),
        ("compute_relaunch", v9::COMPUTE_RELAUNCH.0),
        ("compute_wave_restore_addr_lo", v9::COMPUTE_WAVE_RESTORE_ADDR_LO.0),
        ("compute_wave_restore_control", v9::COMPUTE_WAVE_RESTORE_CONTROL.0),
        ("compute_current_logic_xcc_id", v9::COMPUTE_CURRENT_LOGIC_XCC_ID.0),
        ("compute_restart_cg_tg_id", v9::COMPUTE_RESTART_CG_TG_ID.0),
        ("compute_tg_chunk_size", v9::COMPUTE_TG_CHUNK_SIZE.0),
        ("compute_restore_tg_chunk_size", v9::COMPUTE_RESTORE_TG_CHUNK_SIZE.0),
        ("pm4_target_xcc_in_xcp", v9::PM4_TARGET_XCC_IN_XCP.0),
        ("cp_mqd_stride_size", v9::CP_MQD_STRIDE_SIZE.0),
    ]);
    let conditions = fields.into_iter().map(|(field, at)| dword("v9_mqd", field, at)).collect();
    Group { includes: vec!["\"v9_structs.h\""], conditions, ..Group::default() }
}

/// The MQD of SDMA queues: a mark in each field of ours is where the header has the field.
fn sdma_mqd() -> Group {
    let mark = |set: fn(&mut mqd::SdmaMqd)| {
        let mut dwords = [0; 128];
        let mut mqd = mqd::SdmaMqd::from_v9(&dwords);
        set(&mut mqd);
        mqd.write_v9(&mut dwords);
        dwords.iter().position(|&dword| dword != 0).unwrap_or(usize::MAX / 8)
    };
    type Set = fn(&mut mqd::SdmaMqd);
    let fields: [(&str, Set); 11] = [
        ("sdmax_rlcx_rb_cntl", |mqd| mqd.sdmax_rlcx_rb_cntl = mqd::SdmaRbCntl::from_bits(1)),
        ("sdmax_rlcx_rb_base", |mqd| mqd.sdmax_rlcx_rb_base = 1),
        ("sdmax_rlcx_rb_base_hi", |mqd| mqd.sdmax_rlcx_rb_base_hi = 1),
        ("sdmax_rlcx_rb_rptr", |mqd| mqd.sdmax_rlcx_rb_rptr = 1),
        ("sdmax_rlcx_rb_wptr", |mqd| mqd.sdmax_rlcx_rb_wptr = 1),
        ("sdmax_rlcx_rb_rptr_addr_hi", |mqd| mqd.sdmax_rlcx_rb_rptr_addr_hi = 1),
        ("sdmax_rlcx_rb_rptr_addr_lo", |mqd| mqd.sdmax_rlcx_rb_rptr_addr_lo = 1),
        ("sdmax_rlcx_doorbell", |mqd| mqd.sdmax_rlcx_doorbell = 1),
        ("sdmax_rlcx_doorbell_offset", |mqd| mqd.sdmax_rlcx_doorbell_offset = 1),
        ("sdmax_rlcx_rb_wptr_poll_addr_hi", |mqd| mqd.sdmax_rlcx_rb_wptr_poll_addr_hi = 1),
        ("sdmax_rlcx_rb_wptr_poll_addr_lo", |mqd| mqd.sdmax_rlcx_rb_wptr_poll_addr_lo = 1),
    ];
    let conditions = fields.map(|(field, set)| dword("v9_sdma_mqd", field, mark(set)));
    Group { includes: vec!["\"v9_structs.h\""], conditions: conditions.into(), ..Group::default() }
}

/// Packets of the HIQ and of run lists: their lengths, whole dwords, and where their bits are.
fn packets() -> Group {
    let body = |size: usize| size + 4;
    let sizes = [
        ("pm4_mes_map_process_aldebaran", body(size_of::<pm4::MapProcess>())),
        ("pm4_mes_map_queues", body(size_of::<pm4::MapQueues>())),
        ("pm4_mes_runlist", body(size_of::<pm4::RunList>())),
        ("pm4_mes_unmap_queues", body(size_of::<pm4::UnmapQueues>())),
        ("pm4_mes_query_status", body(size_of::<pm4::QueryStatus>())),
        ("pm4_mes_set_resources", body(size_of::<pm4::SetResources>())),
    ];
    let mut conditions: Vec<(String, String)> = sizes
        .iter()
        .map(|(name, size)| (format!("sizeof(struct {name}) == {size}"), format!("size of {name}")))
        .collect();
    macro_rules! at {
        ($c_type:literal, $rust:ident: $($field:ident = $c_field:literal),* $(,)?) => {
            $(conditions.push(dword($c_type, $c_field, 1 + core::mem::offset_of!(pm4::$rust, $field) / 4));)*
        };
    }
    at!("pm4_mes_map_process_aldebaran", MapProcess:
        page_table_base_lo = "vm_context_page_table_base_addr_lo32",
        page_table_base_hi = "vm_context_page_table_base_addr_hi32",
        sh_mem_bases = "sh_mem_bases", sh_mem_config = "sh_mem_config",
        sq_shader_tba_lo = "sq_shader_tba_lo", sq_shader_tba_hi = "sq_shader_tba_hi",
        sq_shader_tma_lo = "sq_shader_tma_lo", gds_addr_lo = "gds_addr_lo",
        spi_gdbg_per_vmid_cntl = "spi_gdbg_per_vmid_cntl", tcp_watch_cntl = "tcp_watch_cntl[0]",
        completion_signal_lo = "completion_signal_lo");
    at!("pm4_mes_map_queues", MapQueues: mqd_addr_lo = "mqd_addr_lo", mqd_addr_hi = "mqd_addr_hi",
        wptr_addr_lo = "wptr_addr_lo", wptr_addr_hi = "wptr_addr_hi");
    at!("pm4_mes_runlist", RunList: ib_base_hi = "ib_base_hi");
    at!("pm4_mes_query_status", QueryStatus: addr_lo = "addr_lo", data_lo = "data_lo");
    at!("pm4_mes_set_resources", SetResources: queue_mask_lo = "queue_mask_lo", gws_mask_lo = "gws_mask_lo");
    let includes = vec!["\"../amdkfd/kfd_pm4_headers_ai.h\"", "\"../amdkfd/kfd_pm4_headers_aldebaran.h\""];
    Group { includes, conditions, ..Group::default() }
}

/// Operations of packets, and bits of packets of the kernel's queues that have macros.
fn opcodes() -> Group {
    use pm4::Opcode;
    let mut conditions: Vec<(String, String)> = [
        ("NOP", Opcode::NOP),
        ("WRITE_DATA", Opcode::WRITE_DATA),
        ("ACQUIRE_MEM", Opcode::ACQUIRE_MEM),
        ("RELEASE_MEM", Opcode::RELEASE_MEM),
        ("WAIT_REG_MEM", Opcode::WAIT_REG_MEM),
        ("COND_EXEC", Opcode::COND_EXEC),
        ("PRED_EXEC", Opcode::PRED_EXEC),
        ("INDIRECT_BUFFER", Opcode::INDIRECT_BUFFER),
        ("COPY_DATA", Opcode::COPY_DATA),
        ("SET_SH_REG", Opcode::SET_SH_REG),
        ("DISPATCH_DIRECT", Opcode::DISPATCH_DIRECT),
        ("MAP_QUEUES", Opcode::MAP_QUEUES),
        ("UNMAP_QUEUES", Opcode::UNMAP_QUEUES),
        ("QUERY_STATUS", Opcode::QUERY_STATUS),
        ("SET_RESOURCES", Opcode::SET_RESOURCES),
    ]
    .into_iter()
    .map(|(name, opcode)| {
        (format!("PACKET3_{name} == {:#x}", opcode.0), format!("PACKET3_{name} is not {:#x}", opcode.0))
    })
    .collect();
    let queues = |set: fn(&mut pm4::MapQueuesControl)| {
        let mut control = pm4::MapQueuesControl::from_bits(0);
        set(&mut control);
        control.bits()
    };
    for (macro_call, bits) in [
        ("PACKET3_MAP_QUEUES_QUEUE_SEL(1)", queues(|word| word.set_queue_sel(1))),
        ("PACKET3_MAP_QUEUES_VMID(5)", queues(|word| word.set_vmid(5))),
        ("PACKET3_MAP_QUEUES_QUEUE(5)", queues(|word| word.set_queue(5))),
        ("PACKET3_MAP_QUEUES_PIPE(1)", queues(|word| word.set_pipe(1))),
        ("PACKET3_MAP_QUEUES_ME(1)", queues(|word| word.set_me(1))),
        ("PACKET3_MAP_QUEUES_QUEUE_TYPE(2)", queues(|word| word.set_queue_type(2))),
        ("PACKET3_MAP_QUEUES_ENGINE_SEL(5)", queues(|word| word.set_engine_sel(5))),
        ("PACKET3_MAP_QUEUES_NUM_QUEUES(1)", queues(|word| word.set_num_queues(1))),
    ] {
        conditions.push((format!("({macro_call}) == {bits:#x}"), format!("{macro_call} is not {bits:#x}")));
    }
    for (name, opcode) in [("IT_MAP_PROCESS", Opcode::MAP_PROCESS), ("IT_RUN_LIST", Opcode::RUN_LIST)] {
        conditions.push((format!("{name} == {:#x}", opcode.0), format!("{name} is not {:#x}", opcode.0)));
    }
    let defines = vec![Defines { file: "../amdgpu/soc15d.h", prefix: "PACKET3_" }];
    Group { includes: vec!["\"../amdkfd/kfd_pm4_opcodes.h\""], defines, conditions, ..Group::default() }
}

/// Page-table entries.
fn entries() -> Group {
    let values = [
        ("AMDGPU_PTE_VALID", gpuvm::PTE_VALID),
        ("AMDGPU_PTE_SYSTEM", gpuvm::PTE_SYSTEM),
        ("AMDGPU_PTE_SNOOPED", gpuvm::PTE_SNOOPED),
        ("AMDGPU_PTE_EXECUTABLE", gpuvm::PTE_EXECUTABLE),
        ("AMDGPU_PTE_READABLE", gpuvm::PTE_READABLE),
        ("AMDGPU_PTE_WRITEABLE", gpuvm::PTE_WRITEABLE),
        ("AMDGPU_PTE_PRT", gpuvm::PTE_PRT),
        ("AMDGPU_PTE_TF", gpuvm::PTE_TF),
        ("AMDGPU_PDE_PTE", gpuvm::PDE_PTE),
        ("AMDGPU_PDE_BFS(9)", gpuvm::gfx9::pde_bfs(9)),
        // Entry of a page at which waves are not to wait, as the driver writes it.
        ("AMDGPU_VM_NORETRY_FLAGS_TF", gpuvm::PTE_VALID | gpuvm::PTE_SYSTEM | gpuvm::PTE_PRT),
        ("AMDGPU_PTE_MTYPE_VG10_SHIFT(1ULL)", gpuvm::gfx9::pte_mtype(1)),
        ("AMDGPU_PTE_MTYPE_VG10_SHIFT(3ULL)", gpuvm::gfx9::pte_mtype(3)),
    ];
    let conditions = values
        .map(|(name, value)| (format!("({name}) == {value:#x}ull"), format!("{name} is not {value:#x}")));
    let defines = ["AMDGPU_PTE_", "AMDGPU_PDE_", "AMDGPU_VM_NORETRY"]
        .map(|prefix| Defines { file: "../amdgpu/amdgpu_vm.h", prefix });
    Group { defines: defines.into(), conditions: conditions.into(), ..Group::default() }
}

/// Clients and sources of interrupts.
fn interrupts() -> Group {
    use ih::{Client, Source};
    let conditions: Vec<(String, String)> = [
        ("SOC15_IH_CLIENTID_GRBM_CP", Client::GRBM_CP.0),
        ("SOC15_IH_CLIENTID_SE0SH", Client::SE0SH.0),
        ("SOC15_IH_CLIENTID_SE3SH", Client::SE0SH.0 + 3),
        ("SOC15_IH_CLIENTID_VMC", Client::VMC.0),
        ("SOC15_IH_CLIENTID_VMC1", Client::VMC1.0),
        ("SOC15_IH_CLIENTID_UTCL2", Client::UTCL2.0),
        ("SOC15_IH_CLIENTID_SDMA0", Client::SDMA[0].0),
        ("SOC15_IH_CLIENTID_SDMA1", Client::SDMA[1].0),
        ("SOC15_IH_CLIENTID_SDMA2", Client::SDMA[2].0),
        ("SOC15_IH_CLIENTID_SDMA3", Client::SDMA[3].0),
        ("GFX_9_0__SRCID__CP_EOP_INTERRUPT", Source::CP_EOP_INTERRUPT.0),
        ("GFX_9_0__SRCID__CP_BAD_OPCODE_ERROR", Source::CP_BAD_OPCODE_ERROR.0),
        ("GFX_9_0__SRCID__SQ_INTERRUPT_ID", Source::SQ_INTERRUPT.0),
        ("SDMA0_4_0__SRCID__SDMA_TRAP", Source::SDMA4_TRAP.0),
        ("SDMA0_4_0__SRCID__SDMA_FROZEN", Source::SDMA4_FROZEN.0),
    ]
    .into_iter()
    .map(|(name, value)| (format!("{name} == {value:#x}"), format!("{name} is not {value:#x}")))
    .collect();
    Group {
        includes: vec![
            "\"soc15_ih_clientid.h\"",
            "\"ivsrcid/gfx/irqsrcs_gfx_9_0.h\"",
            "\"ivsrcid/sdma0/irqsrcs_sdma0_4_0.h\"",
        ],
        conditions,
        ..Group::default()
    }
}
