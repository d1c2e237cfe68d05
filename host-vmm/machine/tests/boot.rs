//! Small kernels in every form that the machine boots: their entries, their ends, and their input.
//!
//! Needs a /dev/kvm that can be used; without one these tests fail and say so.

#[path = "../src/boot/handmade.rs"]
mod handmade;

use std::fs::File;
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::mpsc;
use std::time::Duration;

use belfry_machine::{Config, End, HugePages, Initramfs, KvmError, Machine, Outcome, SharedFolder};
use handmade::elf;

const MIB: u64 = 1 << 20;
const LIMIT: Duration = Duration::from_secs(60);

/// Makes a bzImage with its code at the 64-bit entry point, that needs 1 MiB at 2 MiB.
fn bzimage(code: &[u8]) -> Vec<u8> {
    let mut file = vec![0; 2 * 512 + 4096];
    let mut put = |at: usize, bytes: &[u8]| file[at..at + bytes.len()].copy_from_slice(bytes);
    put(0x1f1, &[1]);
    put(0x1f4, &256u32.to_le_bytes());
    put(0x1fe, &[0x55, 0xaa]);
    put(0x202, b"HdrS\x0f\x02");
    put(0x211, &[1]);
    put(0x22c, &0x7fff_ffffu32.to_le_bytes());
    put(0x236, &1u16.to_le_bytes());
    put(0x238, &2047u32.to_le_bytes());
    put(0x258, &(2 * MIB).to_le_bytes());
    put(0x260, &(MIB as u32).to_le_bytes());
    put(2 * 512 + 0x200, code);
    file
}

struct Files(tempfile::TempDir);

impl Files {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn machine(&self, kernel: &[u8]) -> Config {
        let path: PathBuf = self.0.path().join("kernel");
        std::fs::write(&path, kernel).unwrap();
        Config { memory: 8 * MIB, ..Config::new(path) }
    }
}

/// Runs a machine to its end; returns the outcome and the output.
fn run(config: Config) -> (Outcome, String) {
    let mut text = Vec::new();
    let outcome = Machine::new(config).unwrap().run(LIMIT, &mut |data| text.extend_from_slice(data)).unwrap();
    (outcome, String::from_utf8(text).unwrap())
}

#[test]
fn bzimage_reads_its_command_line_and_powers_off() {
    let code = [
        0x8b, 0xbe, 0x28, 0x02, 0x00, 0x00, // mov edi, [rsi + 0x228]: cmd_line_ptr
        0x66, 0xba, 0xf8, 0x03, // mov dx, 0x3f8
        0x8a, 0x07, 0x84, 0xc0, 0x74, 0x05, // 1: mov al, [rdi]; test al, al; jz 2f
        0xee, 0xff, 0xc7, 0xeb, 0xf5, // out dx, al; inc edi; jmp 1b
        0x66, 0xba, 0x04, 0x06, // 2: mov dx, 0x604: PM1a control
        0x66, 0xb8, 0x00, 0x34, // mov ax, SLP_EN | 5 << 10
        0x66, 0xef, 0xf4, // out dx, ax; hlt
    ];
    let files = Files::new();
    let (outcome, text) = run(Config {
        command_line: "console=ttyS0 quiet".into(),
        initramfs: Some(Initramfs::Bytes(vec![1; 100])),
        ..files.machine(&bzimage(&code))
    });
    assert_eq!((outcome.end, text.as_str()), (End::PowerOff, "console=ttyS0 quiet"));
}

#[test]
fn kernel_with_a_pvh_note_is_entered_in_32_bits_with_its_start_info() {
    let code = [
        0x81, 0x3b, 0x78, 0xc5, 0x6e, 0x33, // cmp dword [ebx], 0x336ec578
        0x75, 0x09, // jne 1f
        0xb8, 0x22, 0, 0, 0,    // mov eax, 0x22
        0x48, // dec eax; in 64 bits a prefix
        0xe6, 0xf4, 0xf4, // out 0xf4, al; hlt
        0xb0, 0x01, 0xe6, 0xf4, 0xf4, // 1: mov al, 1; out 0xf4, al; hlt
    ];
    let files = Files::new();
    assert_eq!(run(files.machine(&elf(&code, Some(MIB as u32)))).0.end, End::Exit(0x21));
    // Without its note it is entered in 64 bits.
    let code = [0xb8, 0x22, 0, 0, 0, 0x48, 0xe6, 0xf4, 0xf4];
    assert_eq!(run(files.machine(&elf(&code, None))).0.end, End::Exit(0x22));
}

#[test]
fn second_vcpu_starts_in_real_mode_where_it_is_told_to() {
    let code = [
        0xbf, 0x00, 0x80, 0x00, 0x00, // mov edi, 0x8000
        0xc7, 0x07, 0xb0, 0x2a, 0xe6, 0xf4, // its code: mov al, 42; out 0xf4, al;
        0xc6, 0x47, 0x04, 0xf4, // hlt
        0xb8, 0x00, 0x03, 0xe0, 0xfe, // mov eax, 0xfee00300
        0xc7, 0x80, 0xf0, 0xfd, 0xff, 0xff, 0xff, 0x01, 0, 0, // [0xfee000f0] = 0x1ff: on
        0xc7, 0x40, 0x10, 0, 0, 0, 1, // to APIC 1:
        0xc7, 0x00, 0x00, 0x45, 0, 0, // INIT
        0xb9, 0x00, 0x10, 0, 0, 0xe2, 0xfe, // 1: wait
        0xc7, 0x00, 0x08, 0x46, 0, 0, // SIPI, vector 8: only the first one it waits for counts
        0xeb, 0xf1, // jmp 1b
    ];
    let files = Files::new();
    let (outcome, _) = run(Config { cpus: 2, ..files.machine(&elf(&code, None)) });
    assert_eq!(outcome.end, End::Exit(42));
}

#[test]
fn clock_is_read_through_its_ports() {
    let code = [
        0x66, 0xba, 0xf8, 0x03, // mov dx, 0x3f8
        0xb0, 0x32, 0xe6, 0x70, 0xe4, 0x71, // century
        0x66, 0x83, 0xc0, 0x10, 0xee, // add ax, 0x10; out dx, al: '0' from 0x20
        0xb0, 0x0d, 0xe6, 0x70, 0xe4, 0x71, // status D
        0xe6, 0xf4, 0xf4, // out 0xf4, al; hlt
    ];
    let files = Files::new();
    let (outcome, text) = run(files.machine(&elf(&code, None)));
    assert_eq!((outcome.end, text.as_str()), (End::Exit(0x80), "0"));
}

/// Code that writes typed keys back, up to a `!`.
const ECHO: [u8; 22] = [
    0x66, 0xba, 0xfd, 0x03, 0xec, 0xa8, 0x01, 0x74,
    0xf7, // 1: mov dx, 0x3fd; in al, dx; test al, 1; jz 1b
    0x66, 0xba, 0xf8, 0x03, 0xec, 0xee, // mov dx, 0x3f8; in al, dx; out dx, al
    0x3c, b'!', 0x75, 0xed, // cmp al, '!'; jne 1b
    0xe6, 0xf4, 0xf4, // out 0xf4, al; hlt
];

#[test]
fn everything_typed_arrives_from_pipes_and_files() {
    let typed: String = (0..700).map(|number| format!("{number} ")).chain(["!".into()]).collect();
    let files = Files::new();
    let path = files.0.path().join("typed");
    std::fs::write(&path, &typed).unwrap();
    let (reader, mut writer) = std::io::pipe().unwrap();
    writer.write_all(typed.as_bytes()).unwrap();
    for input in [File::open(&path).unwrap(), File::from(OwnedFd::from(reader))] {
        let config = Config { input: Some(input), ..files.machine(&elf(&ECHO, None)) };
        let (outcome, text) = run(config);
        assert_eq!((outcome.end, text.as_str()), (End::Exit(b'!'), typed.as_str()));
    }
}

#[test]
fn signals_end_the_machine_and_not_the_process() {
    // mov dx, 0x3f8; out dx, al; jmp $
    let code = [0x66, 0xba, 0xf8, 0x03, 0xee, 0xeb, 0xfe];
    let files = Files::new();
    let config = Config { catch_signals: true, cpus: 2, ..files.machine(&elf(&code, None)) };
    let (sender, written) = mpsc::channel();
    let running = Machine::new(config)
        .unwrap()
        .start(LIMIT, move |_| {
            let _ = sender.send(());
        })
        .unwrap();
    written.recv().unwrap();
    rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::TERM).unwrap();
    assert_eq!(running.wait().unwrap().end, End::Signal(15));
}

/// Code that writes the device IDs of devices 3 and 4 of the root bus: the low byte of each.
const DEVICES: [u8; 44] = [
    0xb9, 0x00, 0x18, 0, 0x80, // mov ecx, 0x80001800: device 3
    0x66, 0xba, 0xf8, 0x0c, 0x89, 0xc8, 0xef, // 1: mov dx, 0xcf8; mov eax, ecx; out dx, eax
    0x66, 0xba, 0xfc, 0x0c, 0xed, // mov dx, 0xcfc; in eax, dx
    0xc1, 0xe8, 0x10, // shr eax, 16: its number
    0x66, 0xba, 0xf8, 0x03, 0xee, // mov dx, 0x3f8; out dx, al
    0x81, 0xc1, 0x00, 0x08, 0, 0, // add ecx, 0x800
    0x81, 0xf9, 0x00, 0x28, 0, 0x80, // cmp ecx, 0x80002800
    0x75, 0xde, // jne 1b
    0xb0, 0x07, 0xe6, 0xf4, 0xf4, // mov al, 7; out 0xf4, al; hlt
];

#[test]
fn shared_folders_and_a_network_card_are_on_the_bus() {
    let files = Files::new();
    let share = |path: PathBuf| SharedFolder { tag: "folder".into(), path, read_only: false };
    let network = || Some(UnixStream::pair().unwrap().0);
    let machine = || files.machine(&elf(&DEVICES, None));
    let shares = vec![share(files.0.path().to_owned())];
    let (outcome, text) = run(Config { shares: shares.clone(), network: network(), ..machine() });
    // virtio 9 and 1: the device IDs 0x1049 and 0x1041.
    assert_eq!((outcome.end, text.as_str()), (End::Exit(7), "IA"));
    let absent = Config { shares: vec![share("/no/such/folder".into())], ..machine() };
    let error = Machine::new(absent).unwrap_err().to_string();
    assert!(error.contains("cannot share /no/such/folder: No such file"), "{error}");
    let many = Config { shares: vec![shares[0].clone(); 28], network: network(), ..machine() };
    let error = Machine::new(many).unwrap_err().to_string();
    assert!(error.contains("28 shared folders and 1 network cards"), "{error}");
}

#[test]
fn huge_pages_are_used_or_their_want_is_named() {
    let kernel = elf(&[0xb0, 7, 0xe6, 0xf4, 0xf4], None);
    let files = Files::new();
    let with = |huge_pages| Config { huge_pages, ..files.machine(&kernel) };
    assert_eq!(run(with(HugePages::Transparent)).0.end, End::Exit(7));
    // The host may have a pool of huge pages; none is that large.
    match Machine::new(with(HugePages::Reserved)) {
        Ok(machine) => {
            let mappings = std::fs::read_to_string("/proc/self/smaps").unwrap();
            let (_, ram) = mappings.split_once("/memfd:belfry-ram").expect("the guest's memory");
            let size = ram.lines().find(|line| line.starts_with("KernelPageSize:")).unwrap();
            assert!(size.ends_with(" 2048 kB"), "{size}");
            assert_eq!(machine.run(LIMIT, &mut |_| {}).unwrap().end, End::Exit(7));
        }
        Err(error) => {
            assert!(matches!(error, KvmError::HugePages { pages: 4, .. }), "{error}");
            assert!(error.to_string().contains("echo 4 > /proc/sys/vm/nr_hugepages"), "{error}");
        }
    }
    let large = Config { memory: 256 << 30, ..with(HugePages::Reserved) };
    assert!(matches!(Machine::new(large), Err(KvmError::HugePages { pages: 131_072, .. })));
    let odd = Config { memory: 5 * MIB, ..with(HugePages::Reserved) };
    assert!(matches!(Machine::new(odd), Err(KvmError::Config(_))));
}
