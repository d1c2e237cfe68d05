//! A guest whose kernel's own `amdgpu` drives the GPU.

use belfry_device::GpuConfig;
use belfry_guest::{Guest, GuestConfig};
use belfry_image::Cache;
use belfry_tests::stock::complaints;
use belfry_tests::{stock_image, unload};

use super::{finish, succeed};

/// Most accesses to registers of a load and an unload. One wait of the driver's that never ends by itself takes more: it looks
/// 100,000 times.
const MOST_ACCESSES: u64 = 100_000;

/// Runs a kernel, and looks whether driver or device have anything to complain of.
fn works(guest: &mut Guest) {
    guest.check_bound().unwrap();
    assert!(succeed(guest, &["/bin/belfry-examples", "gpuinfo"]).contains("gfx1100"));
    for argv in [&["vector-add", "4096"][..], &["context-save"], &["copy-engines"]] {
        succeed(guest, &[&["/bin/belfry-examples"], argv].concat());
    }
    let log = guest.kernel_log().unwrap();
    assert_eq!(complaints(&log), Vec::<&str>::new(), "{log}");
    // The driver's own test of the scheduler.
    let tests = log.lines().filter(|line| line.contains("ib test pass")).count();
    assert!(tests >= 3, "{log}");
    let stats = guest.gpu().unwrap().stats();
    assert!(stats.errors.is_empty(), "{:?}", stats.errors);
}

#[test]
fn driver_of_the_distribution_runs_kernels_and_is_loaded_again() {
    let cache = Cache::open().unwrap();
    let gpu = GpuConfig::default();
    let gpu = GpuConfig { rom: gpu.card_rom(), ..gpu };
    let config = GuestConfig { gpus: vec![gpu], ..GuestConfig::default() };
    let mut guest = Guest::boot(&stock_image(&cache).unwrap(), &config, &cache).unwrap();
    guest.load_driver().unwrap();
    works(&mut guest);
    unload(&mut guest).unwrap();
    let stats = guest.gpu().unwrap().stats();
    let accesses = stats.register_reads + stats.register_writes;
    println!("{accesses} accesses to registers");
    assert!(accesses < MOST_ACCESSES, "{accesses} accesses to registers");
    // It finds a PSP that lives, and resets the device first.
    guest.load_driver().unwrap();
    assert_eq!(guest.gpu().unwrap().stats().resets, stats.resets + 1);
    works(&mut guest);
    finish(guest);
}

#[test]
fn warnings_that_no_line_allows_are_complaints() {
    let log = "<4>[    0.1] before the driver\n<6>[    1.0] [drm] amdgpu kernel modesetting enabled.\n\
               <4>[    1.1] amdgpu 0000:00:03.0: amdgpu: GPU reset begin!\n<3>[    1.2] amdgpu 0000:00:03.0: ring timeout\n\
               <4>[    1.3] WARNING: elsewhere\n<6>[    1.4] fine";
    assert_eq!(
        complaints(log),
        ["<3>[    1.2] amdgpu 0000:00:03.0: ring timeout", "<4>[    1.3] WARNING: elsewhere"]
    );
}
