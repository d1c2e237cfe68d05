//! The parameters of amdgpu, as `/sys/module/amdgpu/parameters` shows them: those of Linux 6.12 (`amdgpu_drv.c`,
//! `module_param_named`), with the values of a driver that was given none. No value contradicts Belfry's driver: it
//! saves waves that are interrupted (`cwsr_enable`), its queues are scheduled by firmware (`sched_policy`), and it
//! does not run on the maker's emulator (`emu_mode`).

/// -1: the driver decides.
const AUTO: [&str; 34] = [
    "abmlevel",
    "agp",
    "aspm",
    "audio",
    "backlight",
    "bad_page_threshold",
    "bapm",
    "compute_multipipe",
    "damageclips",
    "dc",
    "discovery",
    "dpm",
    "force_asic_type",
    "fw_load_type",
    "gpu_recovery",
    "hws_max_conc_proc",
    "lbpw",
    "mcbp",
    "modeset",
    "msi",
    "noretry",
    "num_kcq",
    "pcie_gen2",
    "ras_enable",
    "reset_method",
    "runpm",
    "seamless",
    "sg_display",
    "smu_pptable_id",
    "tmz",
    "vm_block_size",
    "vm_fragment_size",
    "vm_size",
    "vm_update_mode",
];

/// 0: off, or no such thing.
const ZERO: [&str; 29] = [
    "cik_support",
    "dcdebugmask",
    "debug_mask",
    "deep_color",
    "disp_priority",
    "emu_mode",
    "exp_hw_support",
    "forcelongtraining",
    "freesync_video",
    "halt_if_hws_hang",
    "hw_i2c",
    "mes",
    "mes_kiq",
    "mes_log_enable",
    "mtype_local",
    "no_queue_eviction_on_vm_fault",
    "pcie_gen_cap",
    "pcie_lane_cap",
    "sched_policy",
    "send_sigterm",
    "si_support",
    "smu_memory_pool_size",
    "timeout_period",
    "umsch_mm",
    "umsch_mm_fwlog",
    "vcnfw_log",
    "vis_vramlimit",
    "visualconfirm",
    "vm_fault_stop",
];

/// `N`.
const NO: [&str; 5] = [
    "debug_evictions",
    "enforce_isolation",
    "hws_gws_support",
    "no_system_mem_limit",
    "timeout_fatal_disable",
];

/// All others that every user may read.
const OTHERS: [(&str, &str); 18] = [
    ("async_gfx_ring", "1"),
    ("cg_mask", "18446744073709551615"),
    ("cwsr_enable", "1"),
    ("dcfeaturemask", "2"),
    ("disable_cu", "(null)"),
    ("ip_block_mask", "4294967295"),
    ("lockup_timeout", ""),
    ("max_num_of_queues_per_device", "4096"),
    ("pg_mask", "4294967295"),
    ("ppfeaturemask", "0xfff7bfff"),
    ("queue_preemption_timeout_ms", "9000"),
    ("ras_mask", "4294967295"),
    ("sched_hw_submission", "2"),
    ("sched_jobs", "32"),
    ("sdma_phase_quantum", "32"),
    ("svm_default_granularity", "9"),
    ("uni_mes", "1"),
    ("use_xgmi_p2p", "1"),
];

/// The rest, some of which only the owner may read.
const LAST: [(&str, &str, u32); 7] = [
    ("gartsize", "4294967295", 0o400),
    ("gttsize", "-1", 0o400),
    ("moverate", "-1", 0o400),
    ("user_partt_mode", "4294967294", 0o444),
    ("virtual_display", "(null)", 0o444),
    ("vramlimit", "-1", 0o400),
    ("wbrf", "-1", 0o444),
];

/// Returns name, content and mode of each file.
pub(super) fn all() -> impl Iterator<Item = (&'static str, String, u32)> {
    let plain = |name, value: &str| (name, format!("{value}\n"), 0o444);
    let auto = AUTO.into_iter().map(move |name| plain(name, "-1"));
    let zero = ZERO.into_iter().map(move |name| plain(name, "0"));
    let no = NO.into_iter().map(move |name| plain(name, "N"));
    let others = OTHERS.into_iter().map(move |(name, value)| plain(name, value));
    let last = LAST.into_iter().map(|(name, value, mode)| (name, format!("{value}\n"), mode));
    auto.chain(zero).chain(no).chain(others).chain(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_parameter_is_there_once() {
        let mut names: Vec<&str> = all().map(|(name, ..)| name).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        // As many parameters as `modinfo` lists for Debian's 6.12.117.
        assert_eq!((count, names.len()), (93, 93));
    }
}
