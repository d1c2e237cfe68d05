//! Kernels that do something with each element of arrays, in waves that compiled code starts one after the other.
//! Memory must be as it is with each wave alone, for all addresses and bounds of the arrays.

use belfry_isa::exec::{Follower, Stop};
use belfry_isa::inst::{Arch, WaveSize};
use belfry_isa::lanes::Backend;
use belfry_isa::wave::WaveInit;

use super::common::{Args, Gpu, Objects, Random, mode, user_sgprs};
use super::lanes;
use super::succession::Launch;

const ELEMENTS: Objects<'_> = &[
    (Arch::Gfx1100, include_bytes!("../../../../guest-runtime/kernels/elements.gfx1100.hsaco")),
    (Arch::Gfx942, include_bytes!("../../../../guest-runtime/kernels/elements.gfx942.hsaco")),
    (Arch::Gfx950, include_bytes!("../../../../guest-runtime/kernels/elements.gfx950.hsaco")),
    (Arch::Gfx1151, include_bytes!("../../../../guest-runtime/kernels/elements.gfx1151.hsaco")),
    (Arch::Gfx1201, include_bytes!("../../../../guest-runtime/kernels/elements.gfx1201.hsaco")),
];

const KERNELS: [&str; 15] = [
    "add",
    "add_fixed",
    "bounded",
    "bounded_unsigned",
    "at_least",
    "number",
    "wide",
    "same",
    "narrow",
    "two",
    "shifted",
    "every_second",
    "in_place",
    "masked",
    "far",
];

const WORKGROUPS: u32 = 40;
/// Bytes of each array, of which elements of 16 bytes take most.
const BYTES: usize = 1 << 18;

/// Offset of each array, number of elements, number of the first lane, and whether the last lanes of a workgroup are
/// missing.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Case {
    offsets: [u64; 3],
    n: u32,
    first: u32,
    width: u32,
    /// The array that ends early: a page of it is not there, or may only be read.
    ends: Option<usize>,
    reads: bool,
}

const USUAL: Case = Case { offsets: [0; 3], n: 3000, first: 0, width: 128, ends: None, reads: false };

fn cases() -> Vec<Case> {
    let mut cases = vec![USUAL];
    // Elements that lie across pages.
    cases.extend([[4, 0, 0], [0, 16, 8], [4092, 4080, 100]].map(|offsets| Case { offsets, ..USUAL }));
    cases.extend([0, 1, 128, 5119, 5120, u32::MAX, 0x8000_0000, 0x7fff_ffff].map(|n| Case { n, ..USUAL }));
    // Lanes that wrap from workgroup to workgroup, or whose numbers become negative.
    cases.extend([1, 5, 0xffff_ffe0, 0x7fff_fff0].map(|first| Case { first, ..USUAL }));
    // Lanes that wrap between two for which a comparison holds.
    cases.extend([(0x7fff_fff0, 0x7fff_ffff), (0xffff_fff0, 0xffff_ffff)].map(|(first, n)| Case {
        first,
        n,
        ..USUAL
    }));
    cases.extend([100, 64, 33].map(|width| Case { width, ..USUAL }));
    cases.extend([0, 1, 2].map(|array| Case { ends: Some(array), ..USUAL }));
    cases.extend([0, 1].map(|array| Case { ends: Some(array), reads: true, ..USUAL }));
    cases
}

fn check(arch: Arch, backend: Backend, name: &str, case: Case) {
    let mut gpu = Gpu::of(arch, backend, 2 << 20);
    let kernel = gpu.load(ELEMENTS, name);
    let lanes_of_a_wave = if kernel.properties & 1 << 10 != 0 { 32 } else { 64 };
    let size = if lanes_of_a_wave == 32 { WaveSize::Wave32 } else { WaveSize::Wave64 };
    let mut random = Random(7);
    let content: Vec<u8> = (0..3 * BYTES).map(|_| (random.next() >> 40) as u8).collect();
    let base = gpu.alloc(content.len() + 4096).next_multiple_of(4096);
    let mut arrays = [0, 1, 2].map(|n| base + n * BYTES as u64 + case.offsets[n as usize]);
    if case.reads {
        // A page is loaded from before it is stored to.
        arrays[2] = arrays[0] + 4096;
    }
    // So that numbers that are negative, or small, are of the array's inside.
    let middle = |array: u64| array.wrapping_sub(u64::from(case.first).wrapping_mul(4));
    let args = Args::default().push(middle(arrays[0])).push(middle(arrays[1])).push(middle(arrays[2]));
    let block = case.width as u16;
    let args = args.push(case.n).hidden([WORKGROUPS, 1, 1], [block, 1, 1]);
    let kernarg = gpu.buffer(&args.0);
    if let Some(array) = case.ends {
        let page = arrays[array] + 3 * 4096;
        if case.reads { gpu.memory.protect(page) } else { gpu.memory.hide(page) }
    }
    let of = |x| user_sgprs(arch, &kernel, [0, kernarg], [x, 0, 0]);
    let (sgprs, others) = (of(0), of(1));
    let x_sgpr = (0..sgprs.len()).find(|&at| sgprs[at] != others[at]);
    let waves = case.width.div_ceil(lanes_of_a_wave);
    let follower = |number: u32| {
        let left = case.width - number * lanes_of_a_wave;
        let numbers = lanes(|lane| case.first.wrapping_add(number * lanes_of_a_wave + lane));
        let exec = if left >= 64 { u64::MAX } else { (1 << left) - 1 };
        Follower::new((exec, numbers), [number, 3], 0)
    };
    let init = WaveInit {
        arch,
        pc: kernel.entry,
        wave_size: size,
        vgpr_count: 32,
        accum_offset: if arch.is_gfx9() { 32 } else { 0 },
        sgprs: &sgprs,
        mode: mode(kernel.rsrc1),
        exec: 0,
        ..WaveInit::default()
    };
    let launch = || Launch::new(init, (0..waves).map(follower).collect(), (x_sgpr, WORKGROUPS));
    gpu.memory.write(base, &content);
    let (expected, last, alone) = launch().run_alone(&mut gpu);
    let left = gpu.fetch::<u8>(base, content.len());
    gpu.memory.write(base, &content);
    let (stop, wave, launch) = launch().run(&mut gpu);
    let same = gpu.fetch::<u8>(base, content.len()) == left;
    assert!(same, "{name} on {arch:?}, {:?} {:?}: {case:?}", backend.kind(), backend.tier());
    launch.check((&stop, &wave), (&expected, &last, &alone), backend);
    let fails = matches!(expected, Stop::Fault(_));
    assert!(fails || expected == Stop::EndProgram, "{name} {case:?}: {expected:?}");
    // A handler does the product of `narrow`, and what that does is not known; of arrays that begin elsewhere handlers do some elements.
    if case == USUAL && name != "narrow" {
        launch.follows(backend);
    }
}

#[test]
fn waves_that_follow_each_other_leave_what_each_of_them_leaves_alone() {
    for arch in [Arch::Gfx1100, Arch::Gfx942, Arch::Gfx950, Arch::Gfx1151, Arch::Gfx1201] {
        for (backend, name) in Backend::all().flat_map(|backend| KERNELS.map(|name| (backend, name))) {
            for case in cases() {
                check(arch, backend, name, case);
            }
        }
    }
}
