//! The profiler of kernels: everything that it counts of kernels whose counts are known.

use std::sync::Arc;

use belfry_device::GpuConfig;
use belfry_device::chip;
use belfry_device::profile::{KernelProfile, Limit, Pattern, ProfileOptions, ProfileReport, Profiler};
use belfry_device::sanitize::{SanitizeOptions, Sanitizer};
use belfry_hosted_tests::assembly::{Kernel, assemble};
use belfry_kfd_hosted::HostedGpu;
use belfry_runtime::Runtime;
use belfry_runtime_hosted::HostedTransport;

/// A loop of three rounds that stores to global memory and LDS, and a load with a stride of 128 bytes.
const GFX1100: &str = "
    s_load_b64 s[4:5], s[0:1], 0x0
    s_waitcnt lgkmcnt(0)
    v_lshlrev_b32 v1, 2, v0
    s_mov_b32 s6, 3
.Lloop:
    global_store_b32 v1, v0, s[4:5]
    ds_store_b32 v1, v0
    s_sub_u32 s6, s6, 1
    s_cmp_lg_u32 s6, 0
    s_cbranch_scc1 .Lloop
    s_waitcnt lgkmcnt(0)
    v_lshlrev_b32 v2, 7, v0
    global_load_b32 v3, v2, s[4:5]
    s_waitcnt vmcnt(0)
    s_endpgm";

/// The body of the kernel in the words of a chip's assembler.
fn body(name: &str) -> String {
    let words: &[(&str, &str)] = match name {
        "gfx1201" => &[
            ("s_waitcnt lgkmcnt(0)\n    v_lshlrev_b32 v1", "s_wait_kmcnt 0x0\n    v_lshlrev_b32 v1"),
            ("s_waitcnt lgkmcnt(0)", "s_wait_dscnt 0x0"),
            ("s_waitcnt vmcnt(0)", "s_wait_loadcnt 0x0"),
            ("s_sub_u32", "s_sub_co_u32"),
        ],
        "gfx942" => &[
            ("s_load_b64", "s_load_dwordx2"),
            ("global_store_b32", "global_store_dword"),
            ("global_load_b32", "global_load_dword"),
            ("ds_store_b32", "ds_write_b32"),
        ],
        _ => &[],
    };
    words.iter().fold(GFX1100.to_owned(), |text, (from, to)| text.replace(from, to))
}

struct Launch<'a> {
    chip: &'a str,
    grid: u32,
    block: u32,
    options: ProfileOptions,
    sanitizer: Option<Arc<Sanitizer>>,
}

/// Runs kernel `k`; the profile, and the instructions that the device has counted.
fn run(launch: &Launch<'_>, body: &str) -> (ProfileReport, u64) {
    let profiler = Arc::new(Profiler::new(launch.options.clone()));
    let model = chip::Model::named(launch.chip).unwrap();
    let config = GpuConfig {
        chip: model,
        cus: model.default.cus,
        xccs: model.default.xccs,
        vram_size: 64 << 20,
        profiler: Some(Arc::clone(&profiler)),
        sanitizer: launch.sanitizer.clone(),
        ..GpuConfig::default()
    };
    let hosted = HostedGpu::new(config).unwrap();
    let runtime = Runtime::with_transport(HostedTransport::open(&hosted).unwrap()).unwrap();
    let gpu = runtime.gpu();
    let directives = if launch.chip == "gfx942" { ".amdhsa_accum_offset 32" } else { "" };
    let kernel = Kernel { directives, ..Kernel::new("k", body) };
    let module = gpu.load(&assemble(launch.chip, &[kernel]).unwrap()).unwrap();
    let out = gpu.gtt().buffer_from(&[0u32; 4096]).unwrap();
    let queue = gpu.queue().unwrap();
    let kernel = module.kernel("k").unwrap();
    kernel.launch(&queue).grid(launch.grid).block(launch.block).shared(512).args((&out,)).run().unwrap();
    (profiler.report(), hosted.device().stats().wave_instructions)
}

fn only(report: ProfileReport) -> KernelProfile {
    assert_eq!(report.kernels_left_out, 0);
    let [kernel] = <[KernelProfile; 1]>::try_from(report.kernels).unwrap();
    assert_eq!((&*kernel.name, kernel.left_out), ("k", 0));
    kernel
}

#[test]
fn a_kernel_is_counted_exactly_on_each_chip() {
    for (chip, lanes) in [("gfx1100", 32u64), ("gfx1201", 32), ("gfx942", 64)] {
        let block = 2 * lanes as u32;
        let launch =
            Launch { chip, grid: 2 * block, block, options: ProfileOptions::default(), sanitizer: None };
        let (report, device) = run(&launch, &body(chip));
        let kernel = only(report);
        assert_eq!((kernel.launches, kernel.workgroups, kernel.waves), (1, 2, 4), "{chip}");
        assert!(kernel.descriptor.is_some(), "{chip}");
        let classes: Vec<(&str, u64)> =
            kernel.instructions.iter().map(|(class, count)| (class.name(), count / kernel.waves)).collect();
        let expected = [
            ("vector", 2),
            ("scalar", 7),
            ("control", 4),
            ("scalar_memory", 1),
            ("load", 1),
            ("store", 3),
            ("lds", 3),
            ("wait", 3),
        ];
        assert_eq!(classes, expected, "{chip}");
        assert_eq!((kernel.total(), device), (4 * 24, 4 * (24 - 3)), "{chip}");
        assert_eq!(kernel.sites.iter().map(|site| site.executions).sum::<u64>(), kernel.total());
        let of_lanes: Vec<(usize, u64)> =
            kernel.lanes.iter().copied().enumerate().filter(|(_, count)| *count > 0).collect();
        assert_eq!(of_lanes, [(lanes as usize, 4 * 9)], "{chip}");

        let blocks: Vec<(u64, usize, u64, u64)> = belfry_tools::profile::blocks(&kernel)
            .iter()
            .map(|block| {
                let first = block.sites[0].pc - kernel.entry;
                (first, block.sites.len(), block.executions, block.instructions)
            })
            .collect();
        let [(looped, 5, 12, 60), (behind, 5, 4, 20), (0, 4, 4, 16)] = blocks[..] else {
            panic!("{chip}: {blocks:?}");
        };
        assert!(0 < looped && looped < behind, "{chip}");

        let lines = lanes * 4 / 128;
        let site = |part: &str| kernel.sites.iter().find(|site| site.text.contains(part)).unwrap();
        let store = site("global_store").global.unwrap();
        assert_eq!((store.accesses, store.bytes, store.lines), (12, 12 * lanes * 4, 12 * lines), "{chip}");
        assert_eq!((store.patterns.coalesced, u64::from(store.most_lines)), (12, lines), "{chip}");
        let load = site("global_load").global.unwrap();
        assert_eq!((load.accesses, load.bytes, load.lines), (4, 4 * lanes * 4, 4 * lanes), "{chip}");
        assert_eq!(load.patterns.usual(), Some(Pattern::Strided(128)), "{chip}");
        let lds = site("ds_").lds.unwrap();
        let counted = (lds.accesses, lds.bytes, lds.passes, lds.conflicts);
        assert_eq!(counted, (12, 12 * lanes * 4, 12 * lanes / 32, 0), "{chip}");

        let (occupancy, resources) = (kernel.occupancy.unwrap(), kernel.resources.unwrap());
        assert_eq!((resources.waves, resources.lds), (2, 512), "{chip}");
        if chip == "gfx942" {
            // 100 SGPRs, and those after them, are 112.
            assert_eq!((occupancy.per_simd(), occupancy.limit), (7.0, Limit::Sgprs));
        } else {
            assert_eq!((occupancy.per_simd(), occupancy.limit), (16.0, Limit::WaveSlots), "{chip}");
        }
    }
}

#[test]
fn lanes_that_are_off_are_seen_and_bank_conflicts() {
    // Each lane stores to the bank of the lane before it, four dwords on: 8 lanes of each bank that is used.
    let body = "v_lshlrev_b32 v1, 4, v0\n v_and_b32 v1, 0x1ff, v1\n ds_store_b32 v1, v0\n s_endpgm";
    let options = ProfileOptions::default();
    let launch = Launch { chip: "gfx1100", grid: 40, block: 64, options, sanitizer: None };
    let kernel = only(run(&launch, body).0);
    assert_eq!((kernel.waves, kernel.total()), (2, 8));
    assert_eq!((kernel.lanes[32], kernel.lanes[8]), (3, 3));
    // 32 lanes have 32 dwords in 8 banks: 4 passes. 8 lanes have 8 dwords in 8 banks: one.
    let lds = kernel.sites.iter().find_map(|site| site.lds).unwrap();
    assert_eq!((lds.passes, lds.conflicts, lds.most_passes), (5, 3, 4));
    assert_eq!(lds.patterns.usual(), Some(Pattern::Strided(16)));
}

#[test]
fn kernels_are_chosen_by_name_and_the_sanitizer_sees_the_same_waves() {
    let options = ProfileOptions { kernels: vec!["other".into()] };
    let launch = Launch { chip: "gfx1100", grid: 64, block: 64, options, sanitizer: None };
    assert_eq!(run(&launch, GFX1100).0, ProfileReport::default());

    let sanitizer = Arc::new(Sanitizer::new(SanitizeOptions::default()));
    let options = ProfileOptions { kernels: vec!["k".into()] };
    let launch = Launch { options, sanitizer: Some(Arc::clone(&sanitizer)), ..launch };
    let race = "v_mov_b32 v1, 0\n ds_store_b32 v1, v0\n s_endpgm";
    assert_eq!(only(run(&launch, race).0).total(), 2 * 3);
    assert_eq!(sanitizer.report().findings.len(), 1);
}
