//! `belfry run --mode kvm` as a user runs it, on the KVM of the nested tier: an outer guest for each test.
//!
//! The outer guest is Debian's kernel in QEMU's translator with kvm_amd; nothing of this needs a /dev/kvm of the machine.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use std::time::Duration;

use belfry_guest::Stream;
use belfry_image::tools::{self, Tool};
use belfry_image::{Cache, Progress};
use belfry_tests::disks::Images;
use belfry_tests::guest_roles;
use belfry_tests::nested::{BELFRY, Nested};

/// Time limit of one belfry: many times what it needs even on a loaded machine.
const LIMIT: Duration = Duration::from_secs(900);
/// Path of the roles in L1.
const ROLES: &str = "/root/nested-roles";

/// Path in L1 of L2's root file system.
const ROOT: &str = "/root/tree.ext4";
/// Belfry's options for a guest with it.
const IN_ROOT: [&str; 7] = ["run", "--mode", "kvm", "--memory", "512M", "--root", ROOT];

/// Result of a program in L1.
struct Said {
    status: i32,
    stdout: String,
    stderr: String,
}

impl Said {
    #[track_caller]
    fn expect(&self, status: i32, out: &[&str], err: &[&str]) {
        let Self { stdout, stderr, .. } = self;
        assert_eq!(self.status, status, "{stdout}\n{stderr}");
        for part in out {
            assert!(stdout.contains(part), "no {part:?} in\n{stdout}\n{stderr}");
        }
        for part in err {
            assert!(stderr.contains(part), "no {part:?} in\n{stderr}");
        }
    }
}

fn run(nested: &mut Nested, argv: &[&str]) -> Said {
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let exit = nested
        .run(argv, LIMIT, &mut |stream, data| match stream {
            Stream::Stdout => stdout.extend_from_slice(data),
            Stream::Stderr => stderr.extend_from_slice(data),
        })
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let said = Said { status: exit.status, stdout: text(stdout), stderr: text(stderr) };
    eprintln!("{argv:?}: status {} after {:.1} s", said.status, exit.elapsed.as_secs_f64());
    said
}

fn belfry(nested: &mut Nested, arguments: &[&str]) -> Said {
    let mut argv = vec![BELFRY];
    argv.extend(arguments);
    run(nested, &argv)
}

/// The roles as a program without libraries.
fn roles() -> Vec<u8> {
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("nested-roles");
    let sources = ["roles.c", "network.c", "shares.c", "storm.c"];
    let sources = sources.map(|name| format!("{}/nested/{name}", env!("CARGO_MANIFEST_DIR")));
    let mut cc = Command::new("cc");
    cc.args(["-static", "-O1", "-Wall"]).args(sources).arg("-o").arg(&program);
    assert!(cc.status().expect("cc, of package gcc, is needed to build the roles").success(), "{cc:?}");
    fs::read(program).unwrap()
}

/// An outer guest with the roles in it.
///
/// The guest has one processor, so the tests of this file, each with an outer guest of its own, share the
/// machine's.
fn outer_guest() -> Nested {
    let mut nested = Nested::boot(&Progress::new()).unwrap();
    nested.guest().put_file(ROLES, 0o755, &roles()).unwrap();
    nested
}

#[test]
fn belfrys_own_machine_runs_the_examples() {
    let mut nested = outer_guest();
    without_kvm(&mut nested);
    nested.load_kvm().unwrap();
    let said =
        run(&mut nested, &[ROLES, "as-nobody", BELFRY, "run", "--mode", "kvm", "--guest", "bare-metal"]);
    said.expect(125, &[], &["/dev/kvm cannot be used", "group"]);

    belfry(&mut nested, &["run", "--mode", "kvm", "--guest", "bare-metal"]).expect(
        0,
        &["verified: 256 sums, 16 times, 16 interrupts, 400 doorbells"],
        &[],
    );
    auto_prefers_kvm_and_reports_the_same_summary(&mut nested);
    boot_is_measured_phase_by_phase(&mut nested);
    every_example_succeeds(&mut nested);
    gpus_are_recorded_and_replayed(&mut nested);
    guests_that_fail_are_told_apart(&mut nested);
    nested.power_off().unwrap();
}

#[test]
fn belfrys_own_machine_gives_guests_disks_folders_a_network_and_snapshots() {
    let mut nested = outer_guest();
    nested.load_kvm().unwrap();
    files_disks_and_statuses_travel(&mut nested);
    disks_of_both_formats_are_read_written_and_zeroed(&mut nested);
    put_root(&mut nested);
    folders_are_shared(&mut nested);
    guests_have_a_network(&mut nested);
    guests_go_on_from_snapshots(&mut nested);
    torture_goes_on_from_a_snapshot(&mut nested);
    nested.power_off().unwrap();
}

/// Without /dev/kvm, kvm mode says so, and auto finds another way and says why.
fn without_kvm(nested: &mut Nested) {
    belfry(nested, &["run", "--mode", "kvm"]).expect(125, &[], &["/dev/kvm cannot be used", "kvm_amd"]);
    let said = belfry(nested, &["run", "--", "vector-add", "4096"]);
    said.expect(
        0,
        &["4096 floats verified", "(hosted)"],
        &["mode qemu: /dev/kvm cannot be used", "mode hosted: "],
    );
}

fn auto_prefers_kvm_and_reports_the_same_summary(nested: &mut Nested) {
    let options =
        ["run", "--json", "--cpus", "2", "--memory", "640M", "--vram", "64M", "--doorbell", "trapped"];
    let trace = ["--trace", "/tmp/t.pftrace"];
    let said = belfry(nested, &[&options[..], &trace, &["--", "vector-add", "65536"]].concat());
    said.expect(0, &[], &["mode kvm: a guest's kernel code runs at", "65536 floats verified"]);
    assert!(!said.stderr.contains("trace"), "{}", said.stderr);
    // Events of the device and of the guest's driver.
    let parts =
        ["vecadd", ": belfry-examples (", "dispatch end", "interrupt handled", "event set", "ioctl leave"];
    belfry(nested, &["trace", "summary", trace[1]]).expect(0, &parts, &[]);
    let summary: serde_json::Value = serde_json::from_str(&said.stdout).unwrap();
    for (field, value) in [
        ("mode", "kvm".into()),
        ("accelerator", "kvm".into()),
        ("program", "vector-add".into()),
        ("exit_status", 0.into()),
        ("dispatches", 1.into()),
        ("waves", (65536 / 32).into()),
        ("errors", serde_json::json!({})),
    ] {
        assert_eq!(summary[field], value, "{field} of {}", said.stdout);
    }
    assert!(summary["doorbells"]["trapped"].as_u64() > Some(0), "{}", said.stdout);
    all_phases_in_order(&summary["phases"]);
}

fn all_phases_in_order(phases: &serde_json::Value) {
    let reached = ["kernel_ms", "init_ms", "driver_ms", "dispatch_ms"]
        .map(|phase| phases[phase].as_f64().unwrap_or_else(|| panic!("no {phase} in {phases}")));
    assert!(reached[0] > 0.0 && reached.is_sorted(), "{phases}");
}

/// Here `bench vmm` boots Debian, which it does not where kernel code is emulated.
fn boot_is_measured_phase_by_phase(nested: &mut Nested) {
    let said = belfry(nested, &["bench", "vmm", "--json", "--samples", "20"]);
    said.expect(0, &[], &[]);
    let results: serde_json::Value = serde_json::from_str(&said.stdout).unwrap();
    assert_eq!(results["machine"]["ring0"], "native", "{}", said.stdout);
    let boot = &results["boot"];
    all_phases_in_order(&boot["debian"]);
    assert!(boot["why_no_debian"].is_null(), "{boot}");
    let bare_metal =
        ["kernel_ms", "driver_ms", "dispatch_ms"].map(|phase| boot["bare_metal"][phase].as_f64());
    assert!(bare_metal[0] > Some(0.0) && bare_metal.is_sorted(), "{boot}");
}

fn every_example_succeeds(nested: &mut Nested) {
    for chip in ["gfx1100", "gfx1201", "gfx942:xccs=2"] {
        let said = belfry(nested, &["run", "--mode", "kvm", "--chip", chip, "--", "all"]);
        eprintln!("{}", said.stdout);
        said.expect(0, &["kvm): exit status 0"], &[]);
        for name in belfry_examples::NAMES.iter().filter(|name| !["all", "launch", "peers"].contains(name)) {
            let line = said.stdout.lines().find(|line| line.split_whitespace().next() == Some(name));
            let Said { stdout, stderr, .. } = &said;
            assert!(line.is_some_and(|line| line.contains(" ok ")), "{chip}, {name}\n{stdout}\n{stderr}");
        }
    }
    // Over the bus, and as a hive.
    for chip in ["gfx1100", "gfx942"] {
        let said = belfry(nested, &["run", "--mode", "kvm", "--gpus", "2", "--chip", chip, "--", "peers"]);
        eprintln!("{}", said.stdout);
        said.expect(0, &["kvm): exit status 0"], &[]);
    }
}

/// The GPU of either guest repeats its work without the guest.
fn gpus_are_recorded_and_replayed(nested: &mut Nested) {
    const FILE: &str = "/tmp/record";
    let kvm = ["run", "--mode", "kvm", "--record", FILE];
    let program = ["--memory", "512M", "--", "vector-add", "4096"];
    for (guest, verified) in
        [(&["--guest", "bare-metal"][..], "verified: 256 sums"), (&program[..], "4096 floats verified")]
    {
        let said = belfry(nested, &[&kvm[..], guest].concat());
        assert!(said.stdout.contains(verified) || said.stderr.contains(verified), "{}", said.stderr);
        said.expect(0, &[], &["belfry: recorded"]);
        eprintln!("{}", said.stderr);
        belfry(nested, &["replay", "--times", "2", FILE]).expect(0, &["the same, 2 times"], &[]);
        let back = belfry(nested, &["replay", "--until", "dispatch:1", "--back", "10", FILE]);
        back.expect(0, &["event "], &[]);
    }
}

/// One boot: the guest is kept warm, and saved in the middle of a grid; all other guests go on from one or the other.
fn guests_go_on_from_snapshots(nested: &mut Nested) {
    const COUNTED: [&str; 5] = ["exit_status", "dispatches", "waves", "wave_instructions", "errors"];
    const FILE: &str = "/tmp/snapshot";
    let summary = |said: &Said| -> serde_json::Value {
        let summary = serde_json::from_str(&said.stdout);
        summary.unwrap_or_else(|error| panic!("{error}: {}\n{}", said.stdout, said.stderr))
    };
    let warm = ["run", "--mode", "kvm", "--memory", "512M", "--json", "--warm"];
    let take = ["--snapshot", FILE, "--snapshot-at", "workgroup:4"];
    let program = ["--", "vector-add", "262144"];
    let first = belfry(nested, &[&warm[..], &take, &program].concat());
    first.expect(
        0,
        &[],
        &["kept for the next run: saved 0 waves", "belfry: saved ", "262144 floats verified"],
    );
    eprintln!("{}", first.stderr);
    let whole = summary(&first);
    for _ in 0..2 {
        let said = belfry(nested, &["run", "--json", "--from", FILE]);
        said.expect(0, &[], &["262144 floats verified"]);
        let resumed = summary(&said);
        for field in COUNTED {
            assert_eq!(resumed[field], whole[field], "{field} of {resumed}");
        }
        eprintln!(
            "resumed in {} ms, to the end of the program {} ms",
            resumed["boot_ms"], resumed["program_ms"]
        );
    }
    let said = belfry(nested, &[&warm[..], &program].concat());
    said.expect(0, &[], &["going on from a guest that has booted", "262144 floats verified"]);
    let again = summary(&said);
    assert_eq!(again["exit_status"], 0, "{again}");
    eprintln!("cold: {}\nwarm: {}", whole["phases"], again["phases"]);
    // Another machine is another guest, which is not kept yet.
    belfry(nested, &["run", "--mode", "kvm", "--warm", "--image", "rocm", "--", "rocminfo"]).expect(
        125,
        &[],
        &["--warm keeps no guests with disks"],
    );
}

/// A device that is gone takes its guest with it, and another guest goes on from the snapshot of the first one.
fn torture_goes_on_from_a_snapshot(nested: &mut Nested) {
    const FILE: &str = "/tmp/finding.json";
    let arguments = [
        "torture",
        "--mode",
        "kvm",
        "--jobs",
        "1",
        "--limit",
        "60",
        "--vram",
        "64M",
        "--",
        "vector-add",
        "256",
    ];
    let finding = serde_json::json!({
        "version": 1, "arguments": arguments, "limit": 600, "plan": "removal@200", "finding": "Hang"
    });
    nested.guest().put_file(FILE, 0o644, finding.to_string().as_bytes()).unwrap();
    let said = belfry(nested, &["torture", "--replay", FILE]);
    said.expect(0, &["again    no; in the last run: it ended with", "in a guest from a snapshot"], &[]);
    let last = said.stdout.split("in the last run: ").nth(1).unwrap();
    assert!(!last.contains("; "), "a finding: {last}");
    eprintln!("{}", said.stdout);
}

/// A static program by path, a file beside it, a disk that forgets writes, the kernel's arguments, and the program's own
/// status.
fn files_disks_and_statuses_travel(nested: &mut Nested) {
    nested.guest().put_file("/root/note", 0o644, b"carried along\n").unwrap();
    let mut disk = b"sector 0\n".to_vec();
    disk.resize(1 << 20, 0);
    nested.guest().put_file("/root/disk.img", 0o644, &disk).unwrap();
    let options = ["run", "--mode", "kvm", "--file", "/root/note:deep/note", "--disk", "/root/disk.img"];
    let append = ["--append", "belfry.noted=1"];
    let program = ["--", ROLES, "look", "deep/note", "/dev/vda"];
    let said = belfry(nested, &[&options[..], &append, &program].concat());
    said.expect(7, &["belfry.noted=1", "file: carried along", "disk: sector 0", "exit status 7"], &[]);
    assert!(nested.guest().get_file("/root/disk.img").unwrap() == disk, "the guest wrote to the image");
    let said = belfry(nested, &["run", "--mode", "kvm", "--disk", "/root/no-such.img"]);
    said.expect(125, &[], &["no-such.img"]);
}

/// A qcow2 image that takes writes and a raw one that takes none, under the guest's own driver.
fn disks_of_both_formats_are_read_written_and_zeroed(nested: &mut Nested) {
    const NAMES: [&str; 2] = ["/root/disk.qcow2", "/root/disk.raw"];
    let images = Images::new().unwrap();
    let program = guest_roles().unwrap();
    nested.guest().put_file("/root/guest-roles", 0o755, &program).unwrap();
    for (name, path) in NAMES.iter().zip(images.paths()) {
        nested.guest().put_file(name, 0o644, &fs::read(path).unwrap()).unwrap();
    }
    let disks = ["run", "--mode", "kvm", "--disk", NAMES[0], "--disk", &format!("{},ro", NAMES[1])];
    let said = belfry(nested, &[&disks[..], &["--", "/root/guest-roles", "disk"]].concat());
    said.expect(0, &["disks belfry-0 and belfry-1: verified"], &[]);
    images.check(NAMES.map(|name| nested.guest().get_file(name).unwrap())).unwrap();
}

/// A root file system for L2 with the roles in it.
fn put_root(nested: &mut Nested) {
    let directory = tempfile::tempdir().unwrap();
    let (tree, disk) = (directory.path().join("tree"), directory.path().join("disk"));
    for folder in ["bin", "etc"] {
        fs::create_dir_all(tree.join(folder)).unwrap();
    }
    let program = tree.join("bin/nested-roles");
    fs::write(&program, roles()).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let Tool { program, arguments } = tools::mke2fs(&Cache::open().unwrap(), &Progress::new()).unwrap();
    let mut mke2fs = Command::new(program);
    mke2fs.args(arguments).args(["-q", "-t", "ext4", "-d"]).arg(tree).arg(&disk).arg("16M");
    assert!(mke2fs.status().unwrap().success(), "{mke2fs:?}");
    nested.guest().put_file(ROOT, 0o644, &fs::read(disk).unwrap()).unwrap();
}

/// A folder to write to and one to read, as stock Linux uses them; files beside them stay as they are.
fn folders_are_shared(nested: &mut Nested) {
    let guest = nested.guest();
    for folder in ["open", "closed"] {
        guest.put_file(&format!("/root/{folder}/input"), 0o644, b"from L1\n").unwrap();
    }
    guest.put_file("/root/outside", 0o644, b"nobody's\n").unwrap();
    run(nested, &[ROLES, "link", "../outside", "/root/open/outside"]).expect(0, &[], &[]);
    let shares = ["--share", "/root/open", "--share", "/root/closed:ro"];
    let said =
        belfry(nested, &[&IN_ROOT[..], &shares, &["--", "nested-roles", "share", "/root/open"]].concat());
    said.expect(0, &["input: from L1", "the folder was used", "exit status 0"], &[]);
    let left = nested.guest().get_file("/root/open/folder/moved").unwrap();
    // The pattern of the role, in which a mapping has left its mark, cut back to its size.
    let mut expected: Vec<u8> = (0..1 << 20).map(|at| (at * 13 + at / 4093) as u8).collect();
    expected[4096..4102].copy_from_slice(b"mapped");
    assert!(left == expected, "{} bytes that differ", left.len());
    let said = belfry(
        nested,
        &[&IN_ROOT[..], &shares, &["--", "nested-roles", "share-read-only", "/root/closed"]].concat(),
    );
    said.expect(0, &["input: from L1", "the folder was read"], &[]);
    assert_eq!(nested.guest().get_file("/root/closed/input").unwrap(), b"from L1\n");
    let said = belfry(
        nested,
        &[&IN_ROOT[..], &shares, &["--", "nested-roles", "storm", "/root/open", "/root/closed"]].concat(),
    );
    said.expect(0, &["the storm is over", "exit status 0"], &[]);
    assert_eq!(nested.guest().get_file("/root/closed/input").unwrap(), b"from L1\n");
    assert_eq!(nested.guest().get_file("/root/outside").unwrap(), b"nobody's\n");
}

/// A quarter of a megabyte each way between a guest and a listener of L1, which nothing but the card connects. The guest that
/// has it has a root file system and a shared folder as well.
fn guests_have_a_network(nested: &mut Nested) {
    let packages = tools::packaged_passt(&Cache::open().unwrap(), &Progress::new()).unwrap();
    for (from, to) in [
        ("usr/bin/passt", "/bin/passt"),
        ("usr/lib64/ld-linux-x86-64.so.2", "/lib64/ld-linux-x86-64.so.2"),
        ("usr/lib/x86_64-linux-gnu/libc.so.6", "/lib/x86_64-linux-gnu/libc.so.6"),
    ] {
        nested.guest().put_file(to, 0o755, &fs::read(packages.join(from)).unwrap()).unwrap();
    }
    // passt becomes this user.
    let users = b"root:x:0:0::/root:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n";
    nested.guest().put_file("/etc/passwd", 0o644, users).unwrap();
    // The second one has a port of its own: the first one's connection is remembered for a minute.
    let mut call = |port: &str, options: &[&str], before: &[&str]| {
        let listening = [ROLES, "answer", port, ROLES, "in-root", BELFRY];
        let program = [&["--", "nested-roles"], before, &["call", "10.0.2.2", port]].concat();
        run(nested, &[&listening[..], &IN_ROOT, options, &program].concat())
    };
    let expected = [
        "input: from L1",
        "the folder was read",
        "resolver: nameserver 10.0.2.3",
        "called 10.0.2.2: 262144 bytes each way",
        "answered 262144 bytes",
    ];
    let folder = "/root/closed";
    let options = ["--net", "user", "--share", "/root/closed:ro"];
    call("7788", &options, &["share-read-only", folder]).expect(0, &expected, &[]);
    call("7789", &[], &[]).expect(1, &[], &["10.0.2.2: Network is unreachable", "nobody was answered"]);
}

fn guests_that_fail_are_told_apart(nested: &mut Nested) {
    let said = belfry(nested, &["run", "--mode", "kvm", "--timeout", "2", "--", ROLES, "asleep"]);
    said.expect(125, &["asleep"], &["no end within 2s while running a program"]);
    let said = belfry(nested, &["run", "--mode", "kvm", "--", ROLES, "panic"]);
    said.expect(125, &[], &["the guest's kernel panicked while running a program", "sysrq"]);
    let said = run(nested, &[ROLES, "terminate", BELFRY, "run", "--mode", "kvm", "--", ROLES, "asleep"]);
    said.expect(0, &["ended with status 143"], &[]);
}
