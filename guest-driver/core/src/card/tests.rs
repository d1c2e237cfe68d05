//! The card's files on the bench.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use belfry_abi::kfd::memory::AllocFlags;
use belfry_abi::regs::gc;

use super::*;
use crate::lifetime;
use crate::memory;
use crate::testing::{Bench, lock};

const CARD: Card = Card {
    vram: 1 << 30,
    gtt: 3 << 30,
    device_id: 0x744c,
    unique_id: 0x6903,
    max_engine_clock: 2482,
    max_memory_clock: 1249,
    mec_version: 2140,
    sdma_version: 20,
    partitioned_xccs: 8,
    partitions: 2,
    hive: 0,
    hive_node: 1,
    hive_nodes: 3,
};

#[test]
fn card_of_a_hive_names_its_place_and_its_links_to_the_others() {
    for (path, shown) in [
        ("xgmi_device_id", "17\n"),
        ("xgmi_physical_id", "1\n"),
        ("xgmi_num_hops", "01 00 01 \n"),
        ("xgmi_num_links", "01 00 01 \n"),
    ] {
        assert_eq!(text(path, 0), shown);
        assert!(file(path).unwrap().is_of(&CARD));
        assert!(
            !file(path).unwrap().is_of(&Card { hive_node: 0, hive_nodes: 0, ..CARD }),
            "{path} of a card alone"
        );
    }
}

fn text(path: &str, busy_percent: u8) -> String {
    let figures = Figures { busy_percent, ..Figures::default() };
    String::from_utf8(file(path).unwrap().show(&CARD, &figures)).unwrap()
}

fn number(bench: &Bench, path: &str) -> u64 {
    let bytes = bench.gpu.card_read(path).unwrap();
    core::str::from_utf8(&bytes).unwrap().trim().parse().unwrap()
}

#[test]
fn every_path_is_there_once_and_every_text_is_whole_lines() {
    for (index, file) in FILES.iter().enumerate() {
        assert!(FILES[..index].iter().all(|other| other.path != file.path), "{}", file.path);
        for busy_percent in [0, 37, 100] {
            let bytes = file.show(&CARD, &Figures { busy_percent, ..Figures::default() });
            if file.path == "gpu_metrics" {
                assert_eq!(usize::from(u16::from_le_bytes([bytes[0], bytes[1]])), bytes.len());
            } else {
                assert!(bytes.ends_with(b"\n") && bytes.len() > 1, "{}", file.path);
            }
        }
    }
}

#[test]
fn what_a_file_shows_depends_on_no_more_than_it_says() {
    let idle = Figures::default();
    let memory = Figures {
        vram_used: 7 << 20,
        gtt_used: 9 << 20,
        boot_ns: 1234,
        uncorrectable: 3,
        corrected: 5,
        ..idle
    };
    let all = Figures { busy_percent: 50, busy_ns: 1_000_000_000, ..memory };
    for file in FILES {
        let shown: Vec<_> = [idle, memory, all].iter().map(|figures| file.show(&CARD, figures)).collect();
        match file.source {
            Source::Card => assert!(shown[0] == shown[1] && shown[1] == shown[2], "{}", file.path),
            Source::Memory => assert!(shown[0] != shown[1] && shown[1] == shown[2], "{}", file.path),
            Source::Activity => assert_ne!(shown[1], shown[2], "{}", file.path),
        }
    }
}

#[test]
fn clock_levels_are_as_linux_prints_them() {
    assert_eq!(text("pp_dpm_sclk", 0), "0: 500Mhz *\n1: 2482Mhz \n");
    assert_eq!(text("pp_dpm_sclk", 50), "0: 500Mhz \n1: 1491Mhz *\n2: 2482Mhz \n");
    assert_eq!(text("pp_dpm_sclk", 100), "0: 500Mhz \n1: 2482Mhz *\n");
    assert_eq!(text("pp_dpm_mclk", 0), "0: 96Mhz *\n1: 456Mhz \n2: 772Mhz \n3: 1249Mhz \n");
    assert_eq!(text("pp_dpm_mclk", 1), "0: 96Mhz \n1: 456Mhz \n2: 772Mhz \n3: 1249Mhz *\n");
    assert_eq!(text("unique_id", 0), "0000000000006903\n");
    assert_eq!(text("vbios_version", 0), "BELFRY-744C\n");
    assert_eq!(text("fw_version/mec_fw_version", 0), "0x0000085c\n");
    assert_eq!(text("ras/umc_err_count", 0), "ue: 0\nce: 0\nde: 0\n");
}

#[test]
fn metrics_are_of_version_1_3_and_say_what_the_other_files_say() {
    let figures = Figures { busy_percent: 40, boot_ns: 5_000_000_000, ..Figures::default() };
    let bytes = file("gpu_metrics").unwrap().show(&CARD, &figures);
    let half = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
    assert_eq!((bytes.len(), half(0), bytes[2], bytes[3]), (120, 120, 1, 3));
    assert_eq!(half(16), 40);
    assert_eq!(text("hwmon/temp1_input", 40), format!("{}000\n", half(4)));
    assert_eq!(text("hwmon/power1_average", 40), format!("{}000000\n", half(22)));
    assert_eq!(text("hwmon/freq1_input", 40), format!("{}000000\n", half(54)));
    // No figure of memory controllers and video engines.
    assert_eq!((half(18), half(20)), (0xffff, 0xffff));
    // 5 s at rest.
    assert_eq!(&bytes[24..32], (80u64 << 16).to_le_bytes());
    assert_eq!(&bytes[32..40], 5_000_000_000u64.to_le_bytes());
    assert_eq!(&bytes[96..104], 500_000_000u64.to_le_bytes());
}

#[test]
fn writes_are_answered_as_linux_does() {
    for (path, content, expected) in [
        ("power_dpm_force_performance_level", "auto\n", Ok(())),
        ("power_dpm_force_performance_level", "auto", Ok(())),
        ("power_dpm_force_performance_level", "high\n", Err(Errno::EINVAL)),
        ("power_dpm_force_performance_level", "rubbish", Err(Errno::EINVAL)),
        ("power_dpm_force_performance_level", "", Err(Errno::EINVAL)),
        ("pp_dpm_sclk", "1", Err(Errno::EINVAL)),
        ("pp_dpm_pcie", "0", Err(Errno::EINVAL)),
        ("hwmon/power1_cap", "339000000\n", Ok(())),
        ("hwmon/power1_cap", "340000000\n", Err(Errno::EINVAL)),
        ("hwmon/power1_cap", "-1", Err(Errno::EINVAL)),
        ("hwmon/power1_cap", "99999999999999", Err(Errno::EINVAL)),
        ("hwmon/pwm1_enable", "2\n", Ok(())),
        ("hwmon/pwm1_enable", "1\n", Err(Errno::EINVAL)),
        ("gpu_busy_percent", "1", Err(Errno::EACCES)),
        ("mem_info_vram_used", "0", Err(Errno::EACCES)),
        ("pp_od_clk_voltage", "0", Err(Errno::ENOENT)),
    ] {
        let result = file(path).and_then(|file| file.store(&CARD, content.as_bytes()));
        assert_eq!(result, expected, "{path} {content:?}");
    }
    assert_eq!(file("hwmon/power1_cap").unwrap().store(&CARD, &[0xff, 0xfe]), Err(Errno::EINVAL));
    assert_eq!(file("gpu_busy_percent").unwrap().store(&CARD, &[0xff, 0xfe]), Err(Errno::EACCES));
}

#[test]
fn memory_in_use_is_that_of_the_buffer_objects() {
    let bench = Bench::new();
    let process = bench.process(1);
    let before = ["mem_info_vram_used", "mem_info_gtt_used"].map(|path| number(&bench, path));
    let vram = bench.memory(&process, 0x1000_0000, 0x20_0000, AllocFlags::VRAM);
    let gtt = bench.memory(&process, 0x2000_0000, 0x3000, AllocFlags::GTT);
    // Page tables take VRAM, too.
    assert!(number(&bench, "mem_info_vram_used") >= before[0] + 0x20_0000);
    assert_eq!(number(&bench, "mem_info_gtt_used"), before[1] + 0x3000);
    for handle in [vram, gtt] {
        memory::unmap_memory(&process, process.nodes.first(), handle).unwrap();
        memory::free_memory(&process, handle).unwrap();
    }
    assert!(number(&bench, "mem_info_vram_used") < before[0] + 0x20_0000);
    assert_eq!(number(&bench, "mem_info_gtt_used"), before[1]);
}

#[test]
fn client_is_found_by_its_file_and_holds_what_it_has_allocated() {
    let bench = Bench::new();
    let process = bench.process(1);
    let empty = process.client_memory(1).unwrap();
    bench.memory(&process, 0x1000_0000, 0x20_0000, AllocFlags::VRAM);
    bench.memory(&process, 0x2000_0000, 0x3000, AllocFlags::GTT);
    bench.memory(&process, 0x3000_0000, 0x5000, AllocFlags::USERPTR);
    let memory = process.client_memory(1).unwrap();
    assert_eq!((empty.vram, empty.gtt), (0, 0));
    assert_eq!((memory.pasid, memory.vram, memory.gtt), (process.pasid, 0x20_0000, 0x8000));
    assert_eq!(process.client_memory(2), None);
    lifetime::tear_down(&bench.processes, &process);
    assert_eq!(process.client_memory(1), None);
}

#[test]
fn busy_is_what_the_counter_says_of_the_time_and_reading_often_is_one_look() {
    let bench = Bench::new();
    let hw = &bench.device.hw;
    *lock(&hw.os().manual_clock) = true;
    let set = |ticks: u64| {
        hw.write(gc::GRBM_PERFCOUNTER0_LO(ticks as u32));
        hw.write(gc::GRBM_PERFCOUNTER0_HI((ticks >> 32) as u32));
    };
    assert_eq!(number(&bench, "gpu_busy_percent"), 0);
    assert_eq!(hw.read::<gc::GRBM_PERFCOUNTER0_SELECT>().perf_sel(), 2, "waves that are executed");
    // A second later, of which half was busy, across the low half.
    set(u64::from(u32::MAX) - 10);
    hw.os().advance_clock(1_000_000_000);
    number(&bench, "gpu_busy_percent");
    set(u64::from(u32::MAX) - 10 + 50_000_000);
    hw.os().advance_clock(1_000_000_000);
    assert_eq!(number(&bench, "gpu_busy_percent"), 50);
    set(u64::from(u32::MAX) + 60_000_000);
    assert_eq!(number(&bench, "gpu_busy_percent"), 50, "no time has passed");
    let before = number(&bench, "hwmon/power1_average");
    assert_eq!(before, 177_000_000);
    // The energy is that of the time and of the load, and is never less than it was.
    let energy = || {
        let bytes = bench.gpu.card_read("gpu_metrics").unwrap();
        u64::from_le_bytes(bytes[24..32].try_into().unwrap())
    };
    let first = energy();
    set(u64::from(u32::MAX) + 160_000_000);
    hw.os().advance_clock(2_000_000_000);
    let second = energy();
    // A second of load, and a second without: 339 J and 16 J more than nothing.
    let joules = (second - first) as f64 / 65536.0;
    assert!((354.0..356.0).contains(&joules), "{joules}");
}

#[test]
fn removed_device_has_no_figures() {
    let bench = Bench::new();
    bench.device.hw.detach();
    assert_eq!(bench.gpu.card_read("gpu_busy_percent"), Err(Errno::ENODEV));
    assert_eq!(bench.gpu.card_write("hwmon/pwm1_enable", b"2"), Err(Errno::ENODEV));
    assert_eq!(bench.gpu.card_read("../config"), Err(Errno::ENOENT));
}
