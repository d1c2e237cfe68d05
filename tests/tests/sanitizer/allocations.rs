//! The sanitizer's rules of memory that is given and taken: reads of memory that was never written, and
//! unmapping of memory that a dispatch may reach.

use std::sync::Arc;

use belfry_device::GpuConfig;
use belfry_device::chip;
use belfry_device::sanitize::{Rule, SanitizeOptions, SanitizeReport, Sanitizer};
use belfry_hosted_tests::assembly::{Kernel, assemble};
use belfry_kfd_hosted::HostedGpu;
use belfry_runtime::{Gpu, KernelArg, Runtime};
use belfry_runtime_hosted::HostedTransport;

/// A GPU of a chip that is checked.
struct Checked {
    sanitizer: Arc<Sanitizer>,
    runtime: Runtime,
    chip: &'static str,
}

impl Checked {
    fn new(chip: &'static str, rule: Rule) -> Self {
        Self::with(chip, &[rule], 128 << 20)
    }

    /// A GPU with `vram_size` bytes of VRAM.
    fn with(chip: &'static str, rules: &[Rule], vram_size: u64) -> Self {
        let rules = rules.iter().copied().collect();
        let sanitizer = Arc::new(Sanitizer::new(SanitizeOptions { rules, ..SanitizeOptions::default() }));
        let model = chip::Model::named(chip).unwrap();
        let config = GpuConfig {
            chip: model,
            cus: model.default.cus,
            xccs: model.default.xccs,
            vram_size,
            sanitizer: Some(Arc::clone(&sanitizer)),
            ..GpuConfig::default()
        };
        let transport = HostedTransport::open(&HostedGpu::new(config).unwrap()).unwrap();
        Self { sanitizer, runtime: Runtime::with_transport(transport).unwrap(), chip }
    }

    fn gpu(&self) -> &Gpu {
        self.runtime.gpu()
    }

    /// Code of kernel `k`.
    fn code(&self, body: &str, pointers: u32) -> Vec<u8> {
        let directives = if self.chip == "gfx942" { ".amdhsa_accum_offset 32" } else { "" };
        assemble(self.chip, &[Kernel { directives, pointers, ..Kernel::new("k", body) }]).unwrap()
    }

    fn report(&self) -> SanitizeReport {
        let report = self.sanitizer.report();
        assert!(!report.incomplete && report.beyond == 0);
        report
    }
}

/// The rule's findings of a wave of 32 lanes. Each lane has the offset of a dword of its own in `v1`; the host has
/// written `written` dwords of the memory.
fn loads(chip: &'static str, code: [&str; 2], written: usize) -> Vec<String> {
    loads_of(chip, code, written, false)
}

/// The rule's findings of that memory or, with `copied`, of a copy that an engine has made of it in VRAM.
fn loads_of(chip: &'static str, [argument, load]: [&str; 2], written: usize, copied: bool) -> Vec<String> {
    let checked = Checked::new(chip, Rule::MemoryUninitialized);
    let body = format!("{argument}\n v_lshlrev_b32 v1, 2, v0\n {load}\n s_endpgm");
    let module = checked.gpu().load(&checked.code(&body, 1)).unwrap();
    let memory = checked.gpu().vram().unwritten::<u32>(2048).unwrap();
    memory.write(0, &vec![7; written]).unwrap();
    let copy = checked.gpu().vram().unwritten::<u32>(2048).unwrap();
    if copied {
        let mut engine = checked.gpu().copy_queue().unwrap();
        engine.copy(&memory, &copy).unwrap();
        engine.finish(None).unwrap();
    }
    let memory = if copied { copy } else { memory };
    let queue = checked.gpu().queue().unwrap();
    let kernel = module.kernel("k").unwrap();
    kernel.launch(&queue).grid(32).block(32).args((&memory,)).run().unwrap();
    let report = checked.report();
    assert!(report.misuses.is_empty());
    assert!(report.findings.iter().all(|finding| finding.rule == Rule::MemoryUninitialized));
    report.findings.iter().map(|finding| format!("{finding}")).collect()
}

const GFX11: &str = "s_load_b64 s[4:5], s[0:1], 0x0\n s_waitcnt lgkmcnt(0)";
const GFX12: &str = "s_load_b64 s[4:5], s[0:1], 0x0\n s_wait_kmcnt 0x0";
const GFX9: &str = "s_load_dwordx2 s[4:5], s[0:1], 0x0\n s_waitcnt lgkmcnt(0)";

#[test]
fn memory_is_read_that_nobody_has_written() {
    for (chip, argument, load) in [
        ("gfx1100", GFX11, "global_load_b32 v2, v1, s[4:5]"),
        ("gfx1201", GFX12, "global_load_b32 v2, v1, s[4:5]"),
        ("gfx942", GFX9, "global_load_dword v2, v1, s[4:5]"),
    ] {
        let told = loads(chip, [argument, load], 20);
        let [finding] = &told[..] else { panic!("{chip}: {told:#?}") };
        assert!(finding.starts_with("memory-uninitialized: k, dispatch 0: nothing has written"), "{finding}");
        // The first dword after those that the host has written is lane 20's.
        assert!(finding.contains(" lane 20, reads 4 bytes at "), "{finding}");
        assert_eq!(loads(chip, [argument, load], 32), [""; 0], "{chip}");
    }
}

#[test]
fn memory_is_written_by_the_kernel_that_reads_it() {
    let load = "global_load_b32 v2, v1, s[4:5]";
    let zeros = "v_mov_b32 v3, 0\n global_store_b32 v1, v3, s[4:5]\n s_waitcnt_vscnt null, 0x0\n";
    assert_eq!(loads("gfx1100", [GFX11, &format!("{zeros} {load}")], 0), [""; 0]);
    // An exchange need not know the old value, an addition has to know it.
    assert_eq!(loads("gfx1100", [GFX11, "global_atomic_swap_b32 v1, v0, s[4:5]"], 0), [""; 0]);
    let told = loads("gfx1100", [GFX11, "global_atomic_add_u32 v1, v0, s[4:5]"], 0);
    assert!(told.len() == 1 && told[0].contains(" lane 0, updates 4 bytes at "), "{told:#?}");
}

#[test]
fn a_copy_of_what_nobody_has_written_is_not_written_either() {
    for (chip, argument, load) in [
        ("gfx1100", GFX11, "global_load_b32 v2, v1, s[4:5]"),
        ("gfx1201", GFX12, "global_load_b32 v2, v1, s[4:5]"),
        ("gfx942", GFX9, "global_load_dword v2, v1, s[4:5]"),
    ] {
        let told = loads_of(chip, [argument, load], 20, true);
        let [finding] = &told[..] else { panic!("{chip}: {told:#?}") };
        assert!(finding.contains(" lane 20, reads 4 bytes at "), "{finding}");
        assert_eq!(loads_of(chip, [argument, load], 32, true), [""; 0], "{chip}");
    }
}

#[test]
fn scalar_load_of_nothing_but_what_nobody_has_written_is_told_of() {
    for (chip, argument, loads_dword, loads_four) in [
        ("gfx1100", GFX11, "s_load_b32 s6, s[4:5], 0x8", "s_load_b128 s[8:11], s[4:5], 0x0"),
        ("gfx1201", GFX12, "s_load_b32 s6, s[4:5], 0x8", "s_load_b128 s[8:11], s[4:5], 0x0"),
        ("gfx942", GFX9, "s_load_dword s6, s[4:5], 0x8", "s_load_dwordx4 s[8:11], s[4:5], 0x0"),
    ] {
        let told = loads(chip, [argument, loads_dword], 2);
        let [finding] = &told[..] else { panic!("{chip}: {told:#?}") };
        assert!(finding.contains("reads 4 bytes at ") && !finding.contains(" lane "), "{finding}");
        assert_eq!(loads(chip, [argument, loads_dword], 3), [""; 0], "{chip}");
        // Compilers load more than they use.
        assert_eq!(loads(chip, [argument, loads_four], 2), [""; 0], "{chip}");
        assert_eq!(loads(chip, [argument, loads_four], 0).len(), 1, "{chip}");
    }
}

#[test]
fn system_memory_is_zeros_from_the_beginning() {
    let checked = Checked::new("gfx1100", Rule::MemoryUninitialized);
    assert!(checked.gpu().gtt().unwritten::<u32>(4096).unwrap().to_vec().iter().all(|&dword| dword == 0));
    let vram = checked.gpu().vram().unwritten::<u32>(4096).unwrap().to_vec();
    assert!(vram.iter().filter(|&&dword| dword != 0).count() > 4000);
    // Without the rule, no pattern is put into memory.
    let other = Checked::new("gfx1100", Rule::GlobalRace);
    assert!(other.gpu().vram().unwritten::<u32>(4096).unwrap().to_vec().iter().all(|&dword| dword == 0));
}

/// An argument that is an address, and keeps nothing.
fn address(address: u64) -> KernelArg {
    KernelArg::Buffer { address, memory: Arc::new(()) }
}

/// Loads that bypass caches until there is something.
const SPINS: &str = "
    s_load_b64 s[4:5], s[0:1], 0x0
    s_waitcnt lgkmcnt(0)
    v_mov_b32 v1, 0
    v_mov_b32 v3, 1
    global_store_b32 v1, v3, s[4:5] offset:4
.Llook:
    global_load_b32 v2, v1, s[4:5] glc
    s_waitcnt vmcnt(0)
    v_readfirstlane_b32 s6, v2
    s_cmp_eq_u32 s6, 0
    s_cbranch_scc1 .Llook
    s_endpgm";

#[test]
fn memory_is_unmapped_under_a_dispatch_that_may_reach_it() {
    let checked = Checked::new("gfx1100", Rule::UnmappedInFlight);
    let gpu = checked.gpu();
    let module = gpu.load(&checked.code(SPINS, 2)).unwrap();
    let flag = gpu.gtt().buffer::<u32>(1024).unwrap();
    let [data, other] = [(); 2].map(|()| gpu.vram().buffer::<u32>(1024).unwrap());
    let queue = gpu.queue().unwrap();
    let kernel = module.kernel("k").unwrap();
    let inside = data.address() + 64;
    let running = kernel.launch(&queue).grid(32).block(32).args((&flag, address(inside))).submit().unwrap();
    while flag.get(1).unwrap() == 0 {
        std::thread::yield_now();
    }
    // Nothing points there.
    drop(other);
    assert!(checked.report().is_clean());
    let place = data.address();
    drop(data);
    let report = checked.report();
    let [misuse] = &report.misuses[..] else { panic!("{report:#?}") };
    assert_eq!((misuse.rule, misuse.address), (Rule::UnmappedInFlight, Some(place)));
    assert!(misuse.packet.is_some() && misuse.doorbell.is_some() && misuse.process.is_some(), "{misuse}");
    let found = format!("4096 bytes at {place:#x}, and argument byte 0x8 is {inside:#x}");
    assert_eq!((&misuse.found, misuse.count), (&found, 1));
    flag.write(0, &[1]).unwrap();
    running.wait().unwrap();
    assert!(report.findings.is_empty());
}

#[test]
fn memory_is_unmapped_when_its_dispatch_has_completed() {
    let checked = Checked::new("gfx1100", Rule::UnmappedInFlight);
    let gpu = checked.gpu();
    let module = gpu.load(&checked.code(SPINS, 2)).unwrap();
    let queue = gpu.queue().unwrap();
    for _ in 0..10 {
        let flag = gpu.gtt().buffer_from(&[1u32; 1024]).unwrap();
        let data = gpu.vram().buffer::<u32>(1024).unwrap();
        let kernel = module.kernel("k").unwrap();
        kernel.launch(&queue).grid(32).block(32).args((&flag, address(data.address()))).run().unwrap();
    }
    let report = checked.report();
    assert!(report.is_clean(), "{report:#?}");
}

#[test]
fn examples_of_all_chips_keep_the_rules() {
    for chip in ["gfx1100", "gfx1201", "gfx942"] {
        let rules = [Rule::MemoryUninitialized, Rule::UnmappedInFlight];
        let checked = Checked::with(chip, &rules, GpuConfig::default().vram_size);
        let mut out = Vec::new();
        belfry_examples::run("all", &checked.runtime, &[], &mut out)
            .unwrap_or_else(|error| panic!("{chip}: {error:?}\n{}", String::from_utf8_lossy(&out)));
        let report = checked.report();
        let told: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
        assert!(report.is_clean(), "{chip}: {told:#?}, {:#?}", report.misuses);
    }
}
