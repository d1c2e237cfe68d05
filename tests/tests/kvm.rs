//! Belfry's own machine: the bare-metal guest on it, small kernels that end in every way, and files that are none.
//!
//! Needs a /dev/kvm that can be used; without one these tests fail and say so.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use belfry_device::GpuConfig;
use belfry_device::record::Recording;
use belfry_embedded::PARTS;
use belfry_image::Cache;
use belfry_machine::{Config, DoorbellMode, End, KernelError, KvmError, Machine, Outcome, bare_metal};

const MEMORY: u64 = 8 << 20;
const LIMIT: Duration = Duration::from_secs(60);
const START: u64 = 1 << 20;

fn gpu() -> GpuConfig {
    GpuConfig { vram_size: 64 << 20, ..GpuConfig::default() }
}

fn config(kernel: &Path) -> Config {
    Config {
        memory: MEMORY,
        gpus: vec![GpuConfig { vram_size: 16 << 20, workers: 1, ..GpuConfig::default() }],
        doorbells: DoorbellMode::Trapped,
        ..Config::new(kernel)
    }
}

/// A 64-bit ELF executable with one segment.
struct Elf {
    machine: u16,
    kind: u16,
    class: u8,
    entry: u64,
    address: u64,
    memory: u64,
    code: Vec<u8>,
}

impl Elf {
    fn new(code: &[u8]) -> Self {
        let memory = code.len() as u64;
        Self { machine: 62, kind: 2, class: 2, entry: START, address: START, memory, code: code.to_vec() }
    }

    fn bytes(&self) -> Vec<u8> {
        let mut file = vec![0x7f, b'E', b'L', b'F', self.class, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        file.extend(self.kind.to_le_bytes());
        file.extend(self.machine.to_le_bytes());
        file.extend(1u32.to_le_bytes());
        for value in [self.entry, 64, 0] {
            file.extend(value.to_le_bytes());
        }
        file.extend(0u32.to_le_bytes());
        for value in [64u16, 56, 1, 0, 0, 0] {
            file.extend(value.to_le_bytes());
        }
        file.extend(1u32.to_le_bytes());
        file.extend(7u32.to_le_bytes());
        for value in [120, self.address, self.address, self.code.len() as u64, self.memory, 1] {
            file.extend(value.to_le_bytes());
        }
        file.extend(&self.code);
        file
    }
}

fn file(directory: &tempfile::TempDir, content: &[u8]) -> PathBuf {
    let path = directory.path().join("kernel");
    std::fs::write(&path, content).unwrap();
    path
}

/// Runs machine code from its entry on.
fn run(code: &[u8], limit: Duration) -> Outcome {
    let directory = tempfile::tempdir().unwrap();
    let kernel = file(&directory, &Elf::new(code).bytes());
    Machine::new(config(&kernel)).unwrap().run(limit, &mut |_| {}).unwrap()
}

/// The machine of the bare-metal guest.
fn bare_metal_config(doorbells: DoorbellMode) -> Config {
    let kernel = belfry_image::bare_metal::obtain(&Cache::open().unwrap(), &PARTS).unwrap();
    bare_metal::config(&kernel, gpu(), doorbells)
}

#[test]
fn bare_metal_guest_verifies_with_every_way_of_doorbells() {
    for doorbells in [DoorbellMode::Trapped, DoorbellMode::Ioeventfd, DoorbellMode::Adaptive] {
        let mut text = Vec::new();
        let machine = Machine::new(bare_metal_config(doorbells)).unwrap();
        let outcome = machine.run(LIMIT, &mut |data| text.extend_from_slice(data)).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert_eq!(outcome.end, End::Exit(0), "{text}");
        assert!(text.contains("verified: 256 sums, 16 times, 16 interrupts, 400 doorbells"), "{text}");
        let stats = &outcome.stats;
        assert_eq!((stats.dispatches, stats.interrupts, stats.queues_mapped), (16, 16, 1));
        assert_eq!(stats.errors, Default::default());
        // The six of the kernel's own rings always trap. Those of the process are each counted once, unless they go to
        // memory: one look may find several of them.
        let ways = (stats.doorbells_trapped, stats.doorbells_woken, stats.doorbells_polled);
        match doorbells {
            DoorbellMode::Trapped => assert_eq!(ways, (6 + 400, 0, 0)),
            DoorbellMode::Ioeventfd => assert_eq!(ways, (6, 400, 0)),
            DoorbellMode::Adaptive => {
                let (trapped, woken, polled) = ways;
                assert!(trapped > 6 && woken == 0 && polled > 0 && trapped + polled <= 6 + 400, "{stats:?}");
            }
        }
    }
}

#[test]
fn no_doorbell_is_lost_by_any_way_while_the_bar_moves() {
    let cases = [
        (DoorbellMode::Trapped, 5_000),
        (DoorbellMode::Ioeventfd, 50_000),
        (DoorbellMode::Adaptive, 200_000),
    ];
    for (doorbells, rings) in cases {
        let mut text = Vec::new();
        let mut output = |data: &[u8]| text.extend_from_slice(data);
        // Seconds, where processors are to be had.
        let limit = Duration::from_secs(300);
        let outcome = bare_metal::stress(bare_metal_config(doorbells), rings, limit, &mut output).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert_eq!(outcome.end, End::Exit(0), "{doorbells:?}: {text}");
        assert!(text.contains(&format!("verified: {rings} doorbells")), "{text}");
        let stats = &outcome.stats;
        assert_eq!(stats.errors, Default::default(), "{doorbells:?}");
        let ways = (stats.doorbells_trapped, stats.doorbells_woken, stats.doorbells_polled);
        println!("{doorbells:?}: {text}{ways:?} in {:?}", outcome.ran);
        match doorbells {
            DoorbellMode::Trapped => assert_eq!(ways, (6 + rings, 0, 0)),
            DoorbellMode::Ioeventfd => assert_eq!(ways, (6, rings, 0)),
            // Every move leaves a page that traps, and most long pauses do.
            DoorbellMode::Adaptive => assert!(ways.0 > 18 && ways.1 == 0 && ways.2 > 500, "{ways:?}"),
        }
    }
}

#[test]
fn guest_says_how_it_ends() {
    let cases: [(&str, &[u8], End); 4] = [
        ("mov al, 7; out 0xf4, al", &[0xb0, 7, 0xe6, 0xf4, 0xf4], End::Exit(7)),
        ("mov eax, 0x109; out 0xf4, eax", &[0xb8, 9, 1, 0, 0, 0xe7, 0xf4, 0xf4], End::Exit(9)),
        ("mov al, 0xfe; out 0x64, al", &[0xb0, 0xfe, 0xe6, 0x64, 0xf4], End::Reset),
        ("mov al, 6; mov dx, 0xcf9; out dx, al", &[0xb0, 6, 0x66, 0xba, 0xf9, 0x0c, 0xee, 0xf4], End::Reset),
    ];
    for (what, code, end) in cases {
        assert_eq!(run(code, LIMIT).end, end, "{what}");
    }
}

#[test]
fn triple_fault_names_the_vcpu_and_where_it_was() {
    // Without a descriptor table of interrupts, the first exception is the last.
    let End::Crash(text) = run(&[0x0f, 0x0b], LIMIT).end else { panic!("it did not crash") };
    assert!(text.contains("vCPU 0") && text.contains("triple fault"), "{text}");
}

#[test]
fn guests_that_never_end_are_stopped() {
    for (what, code) in [("jmp $", &[0xeb, 0xfe][..]), ("cli; hlt; jmp hlt", &[0xfa, 0xf4, 0xeb, 0xfd])] {
        let limit = Duration::from_millis(50);
        assert_eq!(run(code, limit).end, End::Timeout(limit), "{what}");
    }
}

#[test]
fn output_is_bounded_and_whole() {
    // mov ecx, 100000; mov dx, 0x3f8; mov al, 'x'; 1: out dx, al; loop 1b; out 0xf4, al
    let code = [
        0xb9, 0xa0, 0x86, 0x01, 0x00, 0x66, 0xba, 0xf8, 0x03, 0xb0, b'x', 0xee, 0xe2, 0xfd, 0xe6, 0xf4, 0xf4,
    ];
    let directory = tempfile::tempdir().unwrap();
    let kernel = file(&directory, &Elf::new(&code).bytes());
    let mut written = 0;
    let outcome = Machine::new(config(&kernel))
        .unwrap()
        .run(LIMIT, &mut |data| {
            assert!(data.len() <= 64 << 10 && data.iter().all(|byte| *byte == b'x'));
            written += data.len();
        })
        .unwrap();
    assert_eq!((outcome.end, written), (End::Exit(b'x'), 100_000));
}

#[test]
fn what_is_typed_arrives_at_the_serial_port() {
    // 1: mov dx, 0x3fd; in al, dx; test al, 1; jz 1b; mov dx, 0x3f8; in al, dx; out dx, al; cmp al, '!'; jne 1b;
    // out 0xf4, al; hlt
    let code = [
        0x66, 0xba, 0xfd, 0x03, 0xec, 0xa8, 0x01, 0x74, 0xf7, 0x66, 0xba, 0xf8, 0x03, 0xec, 0xee, 0x3c, b'!',
        0x75, 0xed, 0xe6, 0xf4, 0xf4,
    ];
    let directory = tempfile::tempdir().unwrap();
    let kernel = file(&directory, &Elf::new(&code).bytes());
    let (reader, mut writer) = std::io::pipe().unwrap();
    writer.write_all(b"hello!").unwrap();
    let input = Some(File::from(std::os::fd::OwnedFd::from(reader)));
    let mut text = Vec::new();
    let outcome = Machine::new(Config { input, ..config(&kernel) })
        .unwrap()
        .run(LIMIT, &mut |data| text.extend_from_slice(data))
        .unwrap();
    assert_eq!((outcome.end, text.as_slice()), (End::Exit(b'!'), &b"hello!"[..]));
}

#[test]
fn files_that_are_no_kernels_are_refused_by_name() {
    let directory = tempfile::tempdir().unwrap();
    let good = Elf::new(&[0xf4]);
    let cases: [(&str, Vec<u8>, &str); 10] = [
        ("empty", vec![], "neither an ELF file nor a bzImage"),
        ("text", b"#!/bin/sh\nexit 0\n".to_vec(), "neither an ELF file nor a bzImage"),
        ("cut short", good.bytes()[..100].to_vec(), "cut short"),
        ("32 bits", Elf { class: 1, ..Elf::new(&[0xf4]) }.bytes(), "not a 64-bit ELF"),
        ("another machine", Elf { machine: 183, ..Elf::new(&[0xf4]) }.bytes(), "x86-64"),
        ("relocatable", Elf { kind: 3, ..Elf::new(&[0xf4]) }.bytes(), "fixed addresses"),
        (
            "behind memory",
            Elf { address: MEMORY, entry: MEMORY, ..Elf::new(&[0xf4]) }.bytes(),
            "does not fit",
        ),
        (
            "over the tables",
            Elf { address: 0x9000, entry: 0x9000, ..Elf::new(&[0xf4]) }.bytes(),
            "does not fit",
        ),
        ("endless", Elf { memory: u64::MAX, ..Elf::new(&[0xf4]) }.bytes(), "does not fit"),
        ("entry elsewhere", Elf { entry: 2 << 20, ..Elf::new(&[0xf4]) }.bytes(), "entry point"),
    ];
    for (what, content, expected) in cases {
        let kernel = file(&directory, &content);
        let error = Machine::new(config(&kernel)).unwrap_err();
        assert!(matches!(error, KvmError::Kernel(KernelError::NotAKernel { .. })), "{what}: {error:?}");
        assert!(error.to_string().contains(expected), "{what}: {error}");
    }
    let missing = directory.path().join("missing");
    let error = Machine::new(config(&missing)).unwrap_err();
    assert!(error.to_string().contains("missing"), "{error}");
    let contents = Elf { memory: 0, ..Elf::new(&[0xf4, 0xf4]) }.bytes();
    let kernel = file(&directory, &contents);
    assert!(Machine::new(config(&kernel)).unwrap_err().to_string().contains("smaller than its contents"));
}

#[test]
fn machines_out_of_range_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let kernel = file(&directory, &Elf::new(&[0xf4]).bytes());
    let cases = [
        Config { memory: 0, ..config(&kernel) },
        Config { memory: MEMORY + 1, ..config(&kernel) },
        Config { memory: !0xfff, ..config(&kernel) },
        Config { cpus: 0, ..config(&kernel) },
        Config { cpus: 255, ..config(&kernel) },
    ];
    for case in cases {
        assert!(matches!(Machine::new(case), Err(KvmError::Config(_))));
    }
    let record = Some(Recording::new(std::io::sink()));
    let recorded = Config {
        gpus: vec![GpuConfig { record, ..gpu() }],
        doorbells: DoorbellMode::Adaptive,
        ..config(&kernel)
    };
    assert!(matches!(Machine::new(recorded), Err(KvmError::Config(text)) if text.contains("Adaptive")));
    let odd = Config { gpus: vec![GpuConfig { cus: 3, ..GpuConfig::default() }], ..config(&kernel) };
    assert!(matches!(Machine::new(odd), Err(KvmError::Device(_))));
}

#[test]
fn machines_in_the_background_are_stopped_from_outside() {
    let directory = tempfile::tempdir().unwrap();
    let kernel = file(&directory, &Elf::new(&[0xeb, 0xfe]).bytes());
    let without_gpu = || Machine::new(Config { gpus: Vec::new(), ..config(&kernel) }).unwrap();
    let running = without_gpu().start(LIMIT, |_| {}).unwrap();
    let handle = running.handle();
    assert_eq!(handle.end(), None);
    assert!(!running.is_finished());
    handle.stop();
    assert_eq!(running.wait().unwrap().end, End::Stopped);
    assert_eq!(handle.end(), Some(End::Stopped));
    // Dropping stops and waits; stopping before the start is not lost.
    drop(without_gpu().start(LIMIT, |_| {}).unwrap());
    let machine = without_gpu();
    machine.handle().stop();
    assert_eq!(machine.run(LIMIT, &mut |_| {}).unwrap().end, End::Stopped);
}

#[test]
fn several_vcpus_and_machines_come_and_go() {
    let directory = tempfile::tempdir().unwrap();
    let kernel = file(&directory, &Elf::new(&[0xb0, 1, 0xe6, 0xf4, 0xf4]).bytes());
    for _ in 0..3 {
        let config = Config { cpus: 3, ..config(&kernel) };
        let outcome = Machine::new(config).unwrap().run(LIMIT, &mut |_| {}).unwrap();
        assert_eq!(outcome.end, End::Exit(1));
    }
}
