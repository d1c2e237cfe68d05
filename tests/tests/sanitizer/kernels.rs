//! The sanitizer of kernels: each rule is broken once and reported, and nothing is reported of kernels that keep them.

use std::sync::Arc;

use belfry_device::GpuConfig;
use belfry_device::chip;
use belfry_device::sanitize::{Finding, Rule, SanitizeOptions, Sanitizer};
use belfry_hosted_tests::assembly::{Kernel, assemble};
use belfry_kfd_hosted::HostedGpu;
use belfry_runtime::Runtime;
use belfry_runtime_hosted::HostedTransport;

/// Bytes of LDS.
const LDS: u32 = 256;
/// The argument in `s[4:5]`.
const ARGUMENT: &str = "s_load_b64 s[4:5], s[0:1], 0x0\n s_waitcnt lgkmcnt(0)\n";

/// Runs kernel `k` of a chip on two workgroups of two waves, with 1024 dwords of zeros. Returns the findings and the
/// memory.
fn run_on(name: &str, body: &str, options: SanitizeOptions) -> (Vec<Finding>, Vec<u32>) {
    let (found, values) = run_with(name, body, options, Memory::Dwords(1024));
    (found, values.unwrap())
}

/// Memory that a kernel gets.
#[derive(Clone, Copy)]
enum Memory {
    /// So many dwords of zeros.
    Dwords(usize),
    /// The address of a page that was freed before.
    Freed,
}

/// Runs a kernel as [`run_on`] does, on any memory. Returns its content, or the reason why the kernel did not end.
fn run_with(
    name: &str,
    body: &str,
    options: SanitizeOptions,
    memory: Memory,
) -> (Vec<Finding>, Result<Vec<u32>, String>) {
    let sanitizer = Arc::new(Sanitizer::new(options));
    let model = chip::Model::named(name).unwrap();
    let config = GpuConfig {
        chip: model,
        cus: model.default.cus,
        xccs: model.default.xccs,
        vram_size: 64 << 20,
        sanitizer: Some(Arc::clone(&sanitizer)),
        ..GpuConfig::default()
    };
    let runtime =
        Runtime::with_transport(HostedTransport::open(&HostedGpu::new(config).unwrap()).unwrap()).unwrap();
    let gpu = runtime.gpu();
    let wave64 = name == "gfx942";
    let directives = if wave64 { ".amdhsa_accum_offset 32" } else { "" };
    let kernel = Kernel { directives, ..Kernel::new("k", body) };
    let module = gpu.load(&assemble(name, &[kernel]).unwrap()).unwrap();
    let length = if let Memory::Dwords(length) = memory { length } else { 1024 };
    let out = gpu.gtt().buffer_from(&vec![0u32; length]).unwrap();
    let queue = gpu.queue().unwrap();
    let block = if wave64 { 128 } else { 64 };
    let kernel = module.kernel("k").unwrap();
    let launch = kernel.launch(&queue).grid(2 * block).block(block).shared(LDS);
    let values = match memory {
        Memory::Dwords(_) => launch.args((&out,)).run().map(|()| out.to_vec()),
        Memory::Freed => {
            let freed = gpu.gtt().buffer_from(&[0u32; 1024]).unwrap();
            let address = freed.address();
            drop(freed);
            // It would come to its place, if that were not kept for a while.
            let _next = gpu.gtt().buffer_from(&[0u32; 1024]).unwrap();
            out.write(0, &[address as u32, (address >> 32) as u32]).unwrap();
            launch.args((&out,)).run().map(|()| Vec::new())
        }
    };
    let values = values.map_err(|error| error.to_string());
    let report = sanitizer.report();
    assert!(!report.incomplete && report.beyond == 0);
    (report.findings, values)
}

fn findings(body: &str) -> Vec<Finding> {
    run_on("gfx1100", body, SanitizeOptions::default()).0
}

/// The only finding, of this rule.
#[track_caller]
fn only(found: Vec<Finding>, rule: Rule) -> Finding {
    let told: Vec<String> = found.iter().map(ToString::to_string).collect();
    let [finding] = <[Finding; 1]>::try_from(found).unwrap_or_else(|_| panic!("{told:#?}"));
    assert_eq!((finding.rule, &*finding.kernel), (rule, "k"), "{told:#?}");
    finding
}

#[test]
fn two_waves_store_to_the_same_lds() {
    let finding = only(findings("v_mov_b32 v1, 0\n ds_store_b32 v1, v0\n s_endpgm"), Rule::LdsRace);
    assert_eq!(finding.here.instruction, "ds_store_b32 v1, v0");
    let against = finding.against.unwrap();
    assert_eq!((finding.here.workgroup, finding.here.pc), (against.workgroup, against.pc));
    assert_ne!(finding.here.wave, against.wave);
    assert_eq!(finding.here.does, "writes 4 bytes at LDS 0x0");
    // Once in each workgroup.
    assert_eq!(finding.count, 2);
}

#[test]
fn two_waves_store_to_the_same_memory() {
    let body = format!("{ARGUMENT} v_mov_b32 v1, 0\n global_store_b32 v1, v0, s[4:5]\n s_endpgm");
    let finding = only(findings(&body), Rule::GlobalRace);
    assert_eq!(finding.here.instruction, "global_store_b32 v1, v0, s[4:5]");
    // Four waves; each of them but the first meets another one.
    assert_eq!(finding.count, 3);
}

#[test]
fn stores_that_release_do_not_race_with_each_other() {
    let body = |before: &str| {
        format!("{ARGUMENT} v_mov_b32 v1, 0\n {before} global_store_b32 v1, v1, s[4:5]\n s_endpgm")
    };
    let release = "s_waitcnt vmcnt(0) lgkmcnt(0)\n s_waitcnt_vscnt null, 0x0\n";
    assert_eq!(findings(&body(release)), []);
    // Not just after the wait, or after a wait for some stores only.
    only(findings(&body(&format!("{release} v_mov_b32 v2, 0\n"))), Rule::GlobalRace);
    only(findings(&body("s_waitcnt_vscnt null, 0x1\n")), Rule::GlobalRace);
    let body =
        "s_load_dwordx2 s[4:5], s[0:1], 0x0\n s_waitcnt lgkmcnt(0)\n v_mov_b32 v1, 0\n buffer_wbl2 sc0 sc1\n
        s_waitcnt vmcnt(0)\n global_store_dword v1, v1, s[4:5] sc0 sc1\n s_endpgm";
    assert_eq!(run_on("gfx942", body, SanitizeOptions::default()).0, []);
}

#[test]
fn lds_is_read_that_nobody_has_written() {
    let body = "v_lshlrev_b32 v1, 2, v0\n ds_load_b32 v2, v1\n s_waitcnt lgkmcnt(0)\n s_endpgm";
    let finding = only(findings(body), Rule::LdsUninitialized);
    assert_eq!(finding.here.does, "reads 4 bytes at LDS 0x0");
    // An atomic that depends on the old value reads it as well; one that replaces it does not.
    let body = "v_lshlrev_b32 v1, 2, v0\n ds_add_u32 v1, v0\n s_endpgm";
    only(findings(body), Rule::LdsUninitialized);
    let body = "v_lshlrev_b32 v1, 2, v0\n ds_storexchg_rtn_b32 v2, v1, v0\n s_endpgm";
    assert_eq!(findings(body), []);
}

#[test]
fn lds_is_accessed_beyond_the_allocation() {
    let body = "v_lshlrev_b32 v1, 2, v0\n ds_store_b32 v1, v0 offset:448\n s_endpgm";
    let finding = only(findings(body), Rule::LdsOutOfBounds);
    assert_eq!(finding.here.lane, Some(16));
    // LDS comes in pieces of 512 bytes.
    assert!(finding.here.does.ends_with("at LDS 0x200; the workgroup has 512 bytes"), "{finding}");
}

#[test]
fn waves_meet_at_different_barriers() {
    let body = "
        v_readfirstlane_b32 s6, v0
        s_cmp_lt_u32 s6, 32
        s_cbranch_scc1 .Lfirst
        s_barrier
        s_endpgm
    .Lfirst:
        s_barrier
        s_endpgm";
    let finding = only(findings(body), Rule::BarrierDivergence);
    assert_eq!(finding.here.instruction, "s_barrier");
}

#[test]
fn loads_are_not_waited_for() {
    let used_early = |name, wait_for_argument: &str, load: &str| {
        let body = format!(
            "s_load_b64 s[4:5], s[0:1], 0x0\n {wait_for_argument}\n v_mov_b32 v1, 0\n {load} v2, v1, s[4:5]\n
             v_mov_b32 v3, v2\n s_endpgm"
        );
        only(run_on(name, &body, SanitizeOptions::default()).0, Rule::MissingWait)
    };
    let finding = used_early("gfx1100", "s_waitcnt lgkmcnt(0)", "global_load_b32");
    assert!(finding.here.does.starts_with("uses v2, which the load at "), "{finding}");
    used_early("gfx1201", "s_wait_kmcnt 0x0", "global_load_b32");
    // Its assembler has older names.
    let body = "s_load_dwordx2 s[4:5], s[0:1], 0x0\n s_waitcnt lgkmcnt(0)\n v_mov_b32 v1, 0\n
        global_load_dword v2, v1, s[4:5]\n v_mov_b32 v3, v2\n s_endpgm";
    only(run_on("gfx942", body, SanitizeOptions::default()).0, Rule::MissingWait);
}

#[test]
fn waits_count_in_order() {
    // Of two loads that come back in order a wait for all but one is enough for the first, and not for the second.
    let body = |used: &str| {
        format!(
            "{ARGUMENT} v_mov_b32 v1, 0\n global_load_b32 v2, v1, s[4:5]\n global_load_b32 v3, v1, s[4:5]\n
             s_waitcnt vmcnt(1)\n v_mov_b32 v4, {used}\n s_endpgm"
        )
    };
    assert_eq!(findings(&body("v2")), []);
    only(findings(&body("v3")), Rule::MissingWait);
    // Scalar loads come back in any order.
    let body = "s_load_b64 s[4:5], s[0:1], 0x0\n s_load_b32 s8, s[0:1], 0x0\n s_waitcnt lgkmcnt(1)\n
        s_mov_b32 s9, s4\n s_endpgm";
    only(findings(body), Rule::MissingWait);
}

/// Waves exchange values over LDS with a barrier, add them up in memory with an atomic, and the last one of all writes
/// the sum to a place where the others wait for it, by loads that bypass caches.
const ORDERLY: &str = "
    s_load_b64 s[4:5], s[0:1], 0x0
    v_lshlrev_b32 v1, 2, v0
    v_sub_nc_u32 v2, 63, v0
    v_lshlrev_b32 v2, 2, v2
    ds_store_b32 v1, v0
    s_waitcnt lgkmcnt(0)
    s_barrier
    ds_load_b32 v3, v2
    s_waitcnt lgkmcnt(0)
    s_barrier
    ds_store_b32 v1, v3
    v_mov_b32 v5, 0
    global_atomic_add_u32 v5, v3, s[4:5]
    s_waitcnt_vscnt null, 0x0
    v_mov_b32 v6, 1
    v_cmp_eq_u32 vcc_lo, 0, v0
    s_and_saveexec_b32 s6, vcc_lo
    s_cbranch_execz .Ldone
    s_waitcnt lgkmcnt(0)
    global_atomic_add_u32 v7, v5, v6, s[4:5] offset:4 glc
    s_waitcnt vmcnt(0)
    v_cmp_eq_u32 vcc_lo, 1, v7
    s_cbranch_vccz .Llook
    global_store_b32 v5, v6, s[4:5] offset:12
    s_waitcnt_vscnt null, 0x0
    global_store_b32 v5, v6, s[4:5] offset:8
    s_branch .Ldone
.Llook:
    global_load_b32 v8, v5, s[4:5] offset:8 glc
    s_waitcnt vmcnt(0)
    v_cmp_eq_u32 vcc_lo, 1, v8
    s_cbranch_vccz .Llook
    buffer_gl1_inv
    buffer_gl0_inv
    global_load_b32 v9, v5, s[4:5] offset:12
    s_waitcnt vmcnt(0)
    v_add_nc_u32 v9, v9, 4
    global_store_b32 v5, v9, s[4:5] offset:16
.Ldone:
    s_endpgm";

#[test]
fn nothing_is_told_of_waves_that_keep_the_rules() {
    let (found, values) = run_on("gfx1100", ORDERLY, SanitizeOptions::default());
    let told: Vec<String> = found.iter().map(ToString::to_string).collect();
    assert!(found.is_empty(), "{told:#?}");
    // Both workgroups' 0 + 1 + .. + 63, both of them, the flag, what was there before, and what it was seen as.
    assert_eq!(values[..5], [4032, 2, 1, 1, 5]);
}

#[test]
fn lanes_that_a_wave_does_not_have_do_nothing() {
    // Lanes 32 to 63 would take their addresses from v2.
    let body =
        "s_mov_b32 exec_hi, -1\n v_lshlrev_b32 v1, 2, v0\n v_mov_b32 v2, 0\n ds_store_b32 v1, v0\n s_endpgm";
    assert_eq!(findings(body), []);
}

#[test]
fn only_what_is_wanted_is_checked() {
    let body = "v_mov_b32 v1, 0\n ds_store_b32 v1, v0\n s_endpgm";
    let options = |edit: &dyn Fn(&mut SanitizeOptions)| {
        let mut options = SanitizeOptions::default();
        edit(&mut options);
        run_on("gfx1100", body, options).0
    };
    assert_eq!(options(&|all| all.rules = [Rule::GlobalRace].into()), []);
    assert_eq!(options(&|all| all.kernels = vec!["other".into()]), []);
    assert_eq!(options(&|all| all.suppressions = vec!["lds-race:k".parse().unwrap()]), []);
    only(options(&|all| all.kernels = vec!["k".into()]), Rule::LdsRace);
    only(options(&|all| all.suppressions = vec!["global-race:*".parse().unwrap()]), Rule::LdsRace);
}

#[test]
fn memory_is_accessed_beyond_an_allocation() {
    // 1000 dwords of a page of 1024, and the memory after it and in front of it.
    let body = |offset: &str| {
        format!("{ARGUMENT} v_lshlrev_b32 v1, 2, v0\n global_load_b32 v2, v1, s[4:5] {offset}\n s_endpgm")
    };
    let run =
        |offset: &str| run_with("gfx1100", &body(offset), SanitizeOptions::default(), Memory::Dwords(1000));
    let (found, values) = run("offset:3840");
    let finding = only(found, Rule::GlobalOutOfBounds);
    // The first work-item whose dword is beyond is number 40.
    assert_eq!((finding.here.wave, finding.here.lane), (1, Some(8)));
    values.unwrap();
    assert!(finding.here.does.ends_with(" has 4000 bytes"), "{finding}");
    for offset in ["offset:4092", "offset:-4"] {
        let (found, values) = run(offset);
        only(found, Rule::GlobalOutOfBounds);
        values.unwrap_err();
    }
    assert_eq!(run("offset:3744").0, []);
}

#[test]
fn memory_is_accessed_that_was_freed() {
    let body = format!(
        "{ARGUMENT} s_load_b64 s[4:5], s[4:5], 0x0\n s_waitcnt lgkmcnt(0)\n v_mov_b32 v1, 0\n
         global_load_b32 v2, v1, s[4:5]\n s_endpgm"
    );
    let (found, outcome) = run_with("gfx1100", &body, SanitizeOptions::default(), Memory::Freed);
    let finding = only(found, Rule::UseAfterFree);
    assert!(finding.here.does.ends_with(" had 4096 bytes"), "{finding}");
    outcome.unwrap_err();
}

/// The only finding, which must be of a register; its description.
#[track_caller]
fn of_register(body: &str) -> String {
    let body = format!("{ARGUMENT} v_mov_b32 v1, 0\n {body}\n .Lend:\n s_endpgm");
    // Some of the addresses are in no buffer.
    let rules = [Rule::RegisterUninitialized].into();
    let options = SanitizeOptions { rules, ..SanitizeOptions::default() };
    let (found, _) = run_with("gfx1100", &body, options, Memory::Dwords(1024));
    only(found, Rule::RegisterUninitialized).here.does
}

#[test]
fn registers_are_used_that_nothing_has_written() {
    for (body, does) in [
        (
            "v_mov_b32 v3, v2\n v_lshlrev_b32 v4, 2, v3\n global_load_b32 v5, v4, s[4:5]",
            "has v4 in an address",
        ),
        ("global_load_b32 v5, v1, s[20:21]", "has s20 in an address"),
        ("s_load_b32 s6, s[8:9], 0x0", "has s8 in an address"),
        ("ds_load_b32 v5, v9", "has v9 in an address"),
        ("v_add_nc_u32 v3, v2, v0\n ds_store_b32 v0, v3", "stores v3"),
        ("s_cmp_eq_u32 s20, 0\n s_cbranch_scc1 .Lend", "goes on as scc says"),
        ("v_cmp_lt_u32 vcc_lo, v2, v0\n s_cbranch_vccz .Lend", "goes on as vcc_lo says"),
        ("v_cmp_lt_u32 s8, v2, v0\n s_and_saveexec_b32 s9, s8", "goes on as s8 says"),
        ("v_cmpx_lt_u32 v2, v0", "goes on as exec_lo says"),
        // The lanes that were off have nothing.
        (
            "s_mov_b32 exec_lo, 1\n v_mov_b32 v3, 0\n s_mov_b32 exec_lo, 3\n global_load_b32 v5, v3, s[4:5]",
            "has v3 in an address",
        ),
    ] {
        assert_eq!(of_register(body), does, "{body}");
    }
}

#[test]
fn registers_may_be_copied_and_chosen_from_that_nothing_has_written() {
    for body in [
        // Copies, and sums that are not used.
        "v_mov_b32 v3, v2\n v_add_nc_u32 v4, v3, v2\n s_add_u32 s8, s20, s21",
        // A choice that takes the other one, by lane and by wave.
        "v_cmp_le_u32 vcc_lo, 0, v0\n v_cndmask_b32 v3, v2, v0, vcc_lo\n v_lshlrev_b32 v3, 2, v3\n global_load_b32 v4, v3, s[4:5]",
        "s_cmp_eq_u32 s2, s2\n s_cselect_b32 s8, 0, s20\n v_mov_b32 v3, s8\n global_load_b32 v4, v3, s[4:5]",
        // Lanes of a mask that are off, as compilers merge masks.
        "s_and_not1_b32 s8, s20, exec_lo\n s_and_b32 s9, 0, exec_lo\n s_or_b32 s8, s8, s9\n s_and_saveexec_b32 s9, s8",
        // The low word of a sum needs no more than low words.
        "v_mov_b32 v6, 0\n v_mad_u64_u32 v[4:5], null, v0, 4, v[6:7]\n global_load_b32 v8, v4, s[4:5]",
        "v_dual_mov_b32 v4, v0 :: v_dual_mov_b32 v7, v2\n v_lshlrev_b32 v4, 2, v4\n global_load_b32 v8, v4, s[4:5]",
    ] {
        let body = format!("{ARGUMENT} v_mov_b32 v1, 0\n {body}\n s_endpgm");
        let rules = [Rule::RegisterUninitialized].into();
        let options = SanitizeOptions { rules, ..SanitizeOptions::default() };
        assert_eq!(run_on("gfx1100", &body, options).0, [], "{body}");
    }
}

/// One workgroup writes and sets a flag; another one waits for the flag and reads.
fn handed_over(load: &str) -> String {
    format!(
        "{ARGUMENT}
        v_readfirstlane_b32 s6, v0
        s_cmp_lg_u32 s6, 0
        s_cbranch_scc1 .Ldone
        s_mov_b32 exec_lo, 1
        v_mov_b32 v1, 0
        v_mov_b32 v2, 1
        s_cmp_lg_u32 s2, 0
        s_cbranch_scc1 .Llook
        global_store_b32 v1, v2, s[4:5] offset:12
        s_waitcnt_vscnt null, 0x0
        global_atomic_add_u32 v1, v2, s[4:5] offset:8
        s_branch .Ldone
    .Llook:
        global_load_b32 v3, v1, s[4:5] offset:8 glc
        s_waitcnt vmcnt(0)
        v_cmp_eq_u32 vcc_lo, 1, v3
        s_cbranch_vccz .Llook
        {load}
        s_waitcnt vmcnt(0)
        global_store_b32 v1, v4, s[4:5] offset:16
    .Ldone:
        s_endpgm"
    )
}

#[test]
fn caches_are_not_invalidated() {
    let load = "global_load_b32 v4, v1, s[4:5] offset:12";
    for before in ["", "buffer_gl0_inv\n", "buffer_gl1_inv\n"] {
        let finding = only(findings(&handed_over(&format!("{before}{load}"))), Rule::CacheNotInvalidated);
        assert_eq!(finding.here.instruction, load);
        assert_eq!(finding.against.unwrap().instruction, "global_store_b32 v1, v2, s[4:5] offset:12");
    }
    let both = format!("buffer_gl1_inv\n buffer_gl0_inv\n {load}");
    for good in [&*both, "global_load_b32 v4, v1, s[4:5] offset:12 glc"] {
        let (found, values) = run_on("gfx1100", &handed_over(good), SanitizeOptions::default());
        assert_eq!((found, values[4]), (vec![], 1));
    }
}

#[test]
fn caches_are_not_written_back() {
    let body = |back: &str, store: &str, inv: &str| {
        format!(
            "s_load_dwordx2 s[4:5], s[0:1], 0x0
            s_waitcnt lgkmcnt(0)
            v_readfirstlane_b32 s6, v0
            s_cmp_lg_u32 s6, 0
            s_cbranch_scc1 .Ldone
            s_mov_b64 exec, 1
            v_mov_b32 v1, 0
            v_mov_b32 v2, 1
            s_cmp_lg_u32 s2, 0
            s_cbranch_scc1 .Llook
            global_store_dword v1, v2, s[4:5] offset:12 {store}
            {back}
            s_waitcnt vmcnt(0)
            global_atomic_add v1, v2, s[4:5] offset:8 sc1
            s_branch .Ldone
        .Llook:
            global_load_dword v3, v1, s[4:5] offset:8 sc1
            s_waitcnt vmcnt(0)
            v_cmp_eq_u32 vcc, 1, v3
            s_cbranch_vccz .Llook
            {inv}
            global_load_dword v4, v1, s[4:5] offset:12
            s_waitcnt vmcnt(0)
            global_store_dword v1, v4, s[4:5] offset:16
        .Ldone:
            s_endpgm"
        )
    };
    let found = |back, store, inv| run_on("gfx942", &body(back, store, inv), SanitizeOptions::default()).0;
    only(found("", "", "buffer_inv sc1"), Rule::CacheNotWrittenBack);
    only(found("buffer_wbl2 sc0", "", "buffer_inv sc1"), Rule::CacheNotWrittenBack);
    only(found("buffer_wbl2 sc1", "", "buffer_inv sc0"), Rule::CacheNotInvalidated);
    assert_eq!(found("buffer_wbl2 sc1", "", "buffer_inv sc1"), []);
    assert_eq!(found("", "sc1", "buffer_inv sc1"), []);
}
