//! Whole guests: a stock Debian kernel in QEMU, our driver module, and programs over the real /dev/kfd.
//!
//! Tests that need the usual guest share some; the others boot one of their own. Parts that the machine lacks are fetched once and
//! cached.

#[path = "guest/stock.rs"]
mod stock;

use std::time::Duration;

use belfry_abi::partition::ComputePartition;
use belfry_device::GpuConfig;
use belfry_device::chip;
use belfry_guest::{Guest, GuestConfig, MachineConfig, QemuConfig};
use belfry_image::Cache;
use belfry_machine::{DiskConfig, DiskFormat};
use belfry_test_roles::svm::swap;
use belfry_tests::disks::Images;
use belfry_tests::shared_guest::{self, ROLES, in_shared_guest};
use belfry_tests::trial::{Trial, TrialKernel};
use belfry_tests::{complaint, driver_interrupts, guest_image, trial, unload, wake};
use belfry_vfio_user::DoorbellMode;

/// Time limit of one program; far more than it needs even on a loaded machine.
const LIMIT: Duration = Duration::from_secs(240);
const SIGKILL: i32 = 9;

/// A guest with the driver loaded.
fn boot(config: &GuestConfig) -> Guest {
    let cache = Cache::open().unwrap();
    let image = guest_image(&cache).unwrap();
    let mut guest = Guest::boot(&image, config, &cache).unwrap();
    guest.load_driver().unwrap();
    guest
}

/// A guest with the driver and the roles; the roles' path in the guest comes with it.
fn boot_with_roles() -> (Guest, &'static str) {
    boot_with_roles_and(&GuestConfig::default())
}

fn boot_with_roles_and(config: &GuestConfig) -> (Guest, &'static str) {
    (shared_guest::boot_with_roles(config).unwrap(), ROLES)
}

/// Runs a program that has to succeed and returns its output.
fn succeed(guest: &mut Guest, argv: &[&str]) -> String {
    succeed_within(guest, argv, LIMIT)
}

fn succeed_within(guest: &mut Guest, argv: &[&str], limit: Duration) -> String {
    let (exit, stdout, stderr) = guest.run(argv, limit).unwrap();
    assert_eq!(exit.status, 0, "{argv:?} failed\n{stdout}{stderr}\n{}", guest.kernel_log().unwrap());
    stdout
}

/// Switches the guest off, after looking whether its kernel complained about the driver.
fn finish(mut guest: Guest) {
    let log = guest.kernel_log().unwrap();
    if let Some(complaint) = complaint(&log) {
        panic!("the guest's kernel complained:\n{complaint}");
    }
    guest.power_off().unwrap();
}

/// Starts a role and returns once the file it announces itself with is there.
fn start_role(guest: &mut Guest, argv: &[&str], announces: &str) -> (belfry_guest::ProgramId, String) {
    let argv: Vec<String> = argv.iter().map(|&argument| argument.to_owned()).collect();
    let id = guest.spawn(&argv, &[], "/root").unwrap();
    for _ in 0..1200 {
        if let Ok(text) = guest.get_file(announces) {
            return (id, String::from_utf8(text).unwrap());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let mut said = String::new();
    let exit =
        guest.wait(id, Duration::from_secs(1), &mut |_, data| said.push_str(&String::from_utf8_lossy(data)));
    panic!("{argv:?} did not announce itself in {announces}: {exit:?} {said}");
}

#[test]
fn examples_run_on_chips_other_than_the_usual_one() {
    for chip in chip::MODELS.iter().filter(|chip| **chip != chip::DEFAULT) {
        let gpu = GpuConfig { chip, ..GpuConfig::default() };
        let config = GuestConfig { gpus: vec![gpu], ..GuestConfig::default() };
        let (mut guest, roles) = boot_with_roles_and(&config);
        assert!(succeed(&mut guest, &["/bin/belfry-examples", "gpuinfo"]).contains(chip.name));
        // Eighteen programs, under a translator, beside other guests.
        succeed_within(&mut guest, &["/bin/belfry-examples", "all"], LIMIT * 3);
        assert!(succeed(&mut guest, &[roles, "illegal"]).contains("refused"));
        assert!(succeed(&mut guest, &[roles, "work"]).contains("verified"));
        finish(guest);
    }
}

#[test]
fn partitions_have_render_nodes_of_their_own() {
    let gpu = GpuConfig {
        chip: &chip::gfx942::MODEL,
        xccs: 4,
        cus: 4,
        partition: ComputePartition::Cpx,
        ..GpuConfig::default()
    };
    let config = GuestConfig { gpus: vec![gpu], ..GuestConfig::default() };
    let (mut guest, roles) = boot_with_roles_and(&config);
    let said = succeed_within(&mut guest, &[roles, "partitions", "4"], LIMIT);
    assert!(said.contains("4 render nodes"), "{said}");
    let said = succeed_within(&mut guest, &[roles, "partition-switch"], LIMIT);
    assert!(said.contains("4 render nodes after"), "{said}");
    unload(&mut guest).unwrap();
    guest.load_driver().unwrap();
    assert!(succeed(&mut guest, &[roles, "work"]).contains("verified"));
    finish(guest);
}

#[test]
fn driver_reloads_twenty_times_with_work_in_between() {
    in_shared_guest(|guest| {
        for round in 0..20 {
            assert!(succeed(guest, &[ROLES, "work"]).contains("verified"), "round {round}");
            unload(guest).unwrap();
            guest.load_driver().unwrap();
        }
        assert!(succeed(guest, &[ROLES, "work"]).contains("verified"));
    });
}

#[test]
fn driver_is_clean_under_the_allocators_checks() {
    // Red zones, poison, owners and order of every object; poisoned pages; pages and objects zeroed when they are freed.
    let append = "slub_debug=FZPU page_poison=1 init_on_alloc=1 kfence.sample_interval=10 panic_on_warn=0";
    let config = GuestConfig { append: vec![append.to_owned()], ..GuestConfig::default() };
    let (mut guest, roles) = boot_with_roles_and(&config);
    let read = |guest: &mut Guest, path: &str| String::from_utf8(guest.get_file(path).unwrap()).unwrap();
    let command_line = read(&mut guest, "/proc/cmdline");
    assert!(command_line.contains(append) && command_line.contains("no_timer_check"), "{command_line}");
    // Programs and compilers find a processor that exists and has the features they are built for.
    let processor = read(&mut guest, "/proc/cpuinfo");
    assert!(!(processor.contains("AuthenticAMD") && processor.contains("cpu family\t: 6\n")), "{processor}");
    assert_eq!(succeed(&mut guest, &[roles, "processor"]), "x86-64-v2 yes\nx86-64-v3 yes\n");
    for check in ["red_zone", "poison", "sanity_checks", "store_user"] {
        let path = format!("/sys/kernel/slab/kmalloc-64/{check}");
        assert_eq!(read(&mut guest, &path).trim(), "1", "the kernel does not check {check}");
    }
    for round in 0..3 {
        assert!(succeed(&mut guest, &[roles, "work"]).contains("verified"), "round {round}");
        assert!(succeed(&mut guest, &[roles, "bad-ioctls"]).contains("refused"));
        assert!(succeed(&mut guest, &[roles, "illegal"]).contains("refused"));
        let announcement = format!("/tmp/spinning-{round}");
        let (spinner, _) = start_role(&mut guest, &[roles, "spin", &announcement], &announcement);
        guest.kill(spinner, SIGKILL).unwrap();
        assert_eq!(guest.wait(spinner, LIMIT, &mut |_, _| {}).unwrap().status, 128 + SIGKILL);
        unload(&mut guest).unwrap();
        guest.load_driver().unwrap();
    }
    succeed(&mut guest, &["/bin/belfry-examples", "all"]);
    assert!(succeed(&mut guest, &[roles, "svm"]).contains("verified"));
    unload(&mut guest).unwrap();
    finish(guest);
}

/// Makes orphans, and succeeds once nothing is left of them.
const ORPHANS: &str = r#"
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

int main(void) {
    enum { COUNT = 20 };
    pid_t orphans[COUNT];
    int pipes[2];
    if (pipe(pipes)) return 2;
    for (int i = 0; i < COUNT; i++) {
        pid_t child = fork();
        if (child == 0) {
            pid_t parent = getpid(), orphan = fork();
            if (orphan == 0) {
                while (getppid() == parent) usleep(1000);
                _exit(0);
            }
            _exit(write(pipes[1], &orphan, sizeof orphan) != sizeof orphan);
        }
        if (waitpid(child, NULL, 0) != child || read(pipes[0], &orphans[i], sizeof orphans[i]) != sizeof orphans[i])
            return 2;
    }
    for (int tries = 0; tries < 3000; tries++) {
        int left = 0;
        for (int i = 0; i < COUNT; i++) left += !(kill(orphans[i], 0) && errno == ESRCH);
        if (!left) return 0;
        usleep(10000);
    }
    puts("orphans stay in the process table");
    return 1;
}
"#;

#[test]
fn init_reaps_orphans_and_refuses_files_in_its_own_place() {
    let directory = tempfile::tempdir().unwrap();
    let (source, program) = (directory.path().join("orphans.c"), directory.path().join("orphans"));
    std::fs::write(&source, ORPHANS).unwrap();
    let mut cc = std::process::Command::new("cc");
    assert!(cc.arg("-static").arg(&source).arg("-o").arg(&program).status().unwrap().success());
    let mut guest = boot(&GuestConfig::default());
    guest.put_file("/root/orphans", 0o755, &std::fs::read(program).unwrap()).unwrap();
    succeed(&mut guest, &["/root/orphans"]);
    // A program that cannot be executed has a child, too, for a moment.
    let (exit, _, stderr) = guest.run(&["/root/nothing"], LIMIT).unwrap();
    assert_eq!(exit.status, 127, "{stderr}");
    succeed(&mut guest, &["/root/orphans"]);
    for path in ["/root/../../init", "/init", "/lib/modules/amdgpu.ko", "init"] {
        let error = guest.put_file(path, 0o755, b"not init").unwrap_err().to_string();
        assert!(error.contains(path), "{error}");
    }
    finish(guest);
}

#[test]
fn driver_unloads_after_a_process_died_with_its_queue_running() {
    in_shared_guest(|guest| {
        let (spinner, _) = start_role(guest, &[ROLES, "spin", "/tmp/spinning"], "/tmp/spinning");
        guest.kill(spinner, SIGKILL).unwrap();
        assert_eq!(guest.wait(spinner, LIMIT, &mut |_, _| {}).unwrap().status, 128 + SIGKILL);
        unload(guest).unwrap();
        guest.load_driver().unwrap();
        assert!(succeed(guest, &[ROLES, "work"]).contains("verified"));
    });
}

#[test]
fn killed_process_leaves_the_next_one_working() {
    in_shared_guest(|guest| {
        for round in 0..3 {
            let announcement = format!("/tmp/spinning-{round}");
            let (spinner, _) = start_role(guest, &[ROLES, "spin", &announcement], &announcement);
            // Another process's work goes on beside the endless kernel.
            assert!(succeed(guest, &[ROLES, "work"]).contains("verified"));
            guest.kill(spinner, SIGKILL).unwrap();
            assert_eq!(guest.wait(spinner, LIMIT, &mut |_, _| {}).unwrap().status, 128 + SIGKILL);
            assert!(succeed(guest, &[ROLES, "work"]).contains("verified"), "round {round}");
        }
    });
}

#[test]
fn processes_cannot_reach_each_others_memory() {
    in_shared_guest(|guest| {
        let (holder, address) =
            start_role(guest, &[ROLES, "hold", "/tmp/address", "/tmp/release"], "/tmp/address");
        let thief = succeed(guest, &[ROLES, "steal", &address]);
        assert!(thief.contains("refused"), "{thief}");
        guest.put_file("/tmp/release", 0o644, b"now").unwrap();
        assert_eq!(guest.wait(holder, LIMIT, &mut |_, _| {}).unwrap().status, 0);
        assert!(succeed(guest, &[ROLES, "work"]).contains("verified"));
    });
}

#[test]
fn work_goes_on_while_the_clock_is_set() {
    let (mut guest, roles) = boot_with_roles();
    let said = succeed(&mut guest, &[roles, "clocks", "200"]);
    assert!(said.contains("200 copies verified"), "{said}");
    assert!(succeed(&mut guest, &[roles, "work"]).contains("verified"));
    finish(guest);
}

#[test]
fn work_goes_on_when_the_system_has_slept() {
    for chip in [chip::DEFAULT, &chip::gfx942::MODEL] {
        let gpu = GpuConfig { chip, ..GpuConfig::default() };
        let (mut guest, roles) =
            boot_with_roles_and(&GuestConfig { gpus: vec![gpu], ..GuestConfig::default() });
        // As far as the drivers, and as far as the functions' power.
        for depth in ["devices", "platform"] {
            let said = succeed(&mut guest, &[roles, "suspend", depth]);
            assert!(said.contains("3 times, work and memory verified"), "{depth} on {chip}: {said}");
        }
        let log = guest.kernel_log().unwrap();
        assert_eq!(log.matches("the device is resumed").count(), 6, "{log}");
        assert!(succeed(&mut guest, &[roles, "work"]).contains("verified"));
        unload(&mut guest).unwrap();
        finish(guest);
    }
}

#[test]
fn work_goes_on_when_the_system_has_slept_with_its_memory_powered_alone() {
    const TIMES: usize = 3;
    for (chip, doorbell) in
        [(chip::DEFAULT, DoorbellMode::Trapped), (&chip::gfx942::MODEL, DoorbellMode::Polled)]
    {
        let (mut guest, roles) = boot_with_roles_and(&GuestConfig {
            machine: MachineConfig::Qemu(QemuConfig { doorbell, ..QemuConfig::default() }),
            gpus: vec![GpuConfig { chip, ..GpuConfig::default() }],
            ..GuestConfig::default()
        });
        assert!(!guest.wake().unwrap(), "a guest that runs sleeps");
        let resets = guest.gpu().unwrap().stats().resets;
        let argv = [roles, "suspend", "memory"].map(str::to_owned);
        let id = guest.spawn(&argv, &[], "/root").unwrap();
        for time in 0..TIMES {
            wake(&mut guest, id, LIMIT).unwrap_or_else(|error| panic!("sleep {time} of {chip}: {error:#}"));
        }
        let mut said = String::new();
        let exit =
            guest.wait(id, LIMIT, &mut |_, data| said.push_str(&String::from_utf8_lossy(data))).unwrap();
        let log = guest.kernel_log().unwrap();
        assert!(
            exit.status == 0 && said.contains("3 times, work and memory verified"),
            "{chip}: {said}\n{log}"
        );
        assert_eq!(log.matches("Waking up from system sleep state S3").count(), TIMES, "{log}");
        assert_eq!(log.matches("the device is resumed").count(), TIMES, "{log}");
        // The machine has reset the function each time.
        assert!(guest.gpu().unwrap().stats().resets >= resets + TIMES as u64);
        let before = driver_interrupts(&mut guest).unwrap();
        assert!(succeed(&mut guest, &[roles, "work"]).contains("verified"));
        assert!(driver_interrupts(&mut guest).unwrap() > before, "no interrupt reaches the driver any more");
        unload(&mut guest).unwrap();
        guest.load_driver().unwrap();
        assert!(succeed(&mut guest, &[roles, "work"]).contains("verified"));
        finish(guest);
    }
}

#[test]
fn illegal_instruction_stops_its_queue_and_nothing_else() {
    in_shared_guest(|guest| {
        assert!(succeed(guest, &[ROLES, "illegal"]).contains("refused"));
        assert!(succeed(guest, &[ROLES, "work"]).contains("verified"));
    });
}

#[test]
fn processes_share_memory_by_descriptors() {
    in_shared_guest(|guest| {
        for _ in 0..2 {
            assert!(succeed(guest, &[ROLES, "share"]).contains("the same pages"));
        }
        assert!(succeed(guest, &[ROLES, "work"]).contains("verified"));
        // Nothing holds the module.
        unload(guest).unwrap();
        guest.load_driver().unwrap();
    });
}

#[test]
fn bad_ioctls_are_refused_as_linux_refuses_them() {
    in_shared_guest(|guest| {
        assert!(succeed(guest, &[ROLES, "bad-ioctls"]).contains("refused"));
        assert!(succeed(guest, &[ROLES, "work"]).contains("verified"));
    });
}

#[test]
fn render_nodes_share_memory_and_refuse_as_amdgpu_does() {
    in_shared_guest(|guest| {
        assert!(succeed(guest, &[ROLES, "render"]).contains("memory is shared between files"));
        assert_eq!(succeed(guest, &[ROLES, "syncobj"]), "syncobj: verified\n");
        assert!(succeed(guest, &[ROLES, "work"]).contains("verified"));
    });
}

#[test]
fn process_killed_while_its_queue_stores_into_its_memory_leaves_the_pages_alone() {
    let (mut guest, roles) = boot_with_roles();
    for round in 0..3 {
        let (shared, started) = (format!("/tmp/shared-{round}"), format!("/tmp/storing-{round}"));
        let (storer, _) = start_role(&mut guest, &[roles, "store", &shared, &started], &started);
        guest.kill(storer, SIGKILL).unwrap();
        assert_eq!(guest.wait(storer, LIMIT, &mut |_, _| {}).unwrap().status, 128 + SIGKILL);
        assert!(
            succeed(&mut guest, &[roles, "settled", &shared]).contains("nothing changed"),
            "round {round}"
        );
    }
    let log = guest.kernel_log().unwrap();
    assert!(!log.contains("GPU memory fault"), "pages went before the queue:\n{log}");
    finish(guest);
}

#[test]
fn programs_share_their_memory_with_the_gpu_while_it_changes() {
    in_shared_guest(|guest| {
        let nodes = "/sys/devices/virtual/kfd/kfd/topology/nodes/1/properties";
        let properties = String::from_utf8(guest.get_file(nodes).unwrap()).unwrap();
        let capability = properties.lines().find_map(|line| line.strip_prefix("capability "));
        let capability: u32 = capability.unwrap().parse().unwrap();
        assert_ne!(capability & 1 << 27, 0, "the driver does not say that it has SVM: {capability:#x}");
        assert!(succeed(guest, &[ROLES, "svm"]).contains("verified"));
        assert!(succeed(guest, &[ROLES, "work"]).contains("verified"));
        unload(guest).unwrap();
        guest.load_driver().unwrap();
    });
}

#[test]
fn shared_memory_is_swapped_while_the_gpu_works_in_it() {
    let directory = tempfile::tempdir().unwrap();
    let disk = directory.path().join("swap");
    std::fs::File::create(&disk).unwrap().set_len(swap::DISK).unwrap();
    let disks = vec![DiskConfig { format: DiskFormat::Raw, ..DiskConfig::new(disk) }];
    let config = GuestConfig { memory: swap::MEMORY, disks, ..GuestConfig::default() };
    let (mut guest, roles) = boot_with_roles_and(&config);
    assert!(succeed(&mut guest, &[roles, "svm-swap"]).contains("verified"));
    assert!(succeed(&mut guest, &[roles, "work"]).contains("verified"));
    unload(&mut guest).unwrap();
    finish(guest);
}

#[test]
fn process_that_ends_while_its_queue_stores_into_shared_memory_leaves_the_pages_alone() {
    let (mut guest, roles) = boot_with_roles();
    for round in 0..3 {
        let (shared, started) = (format!("/tmp/shared-{round}"), format!("/tmp/storing-{round}"));
        let (storer, _) = start_role(&mut guest, &[roles, "svm-store", &shared, &started], &started);
        guest.kill(storer, SIGKILL).unwrap();
        assert_eq!(guest.wait(storer, LIMIT, &mut |_, _| {}).unwrap().status, 128 + SIGKILL);
        let said = succeed(&mut guest, &[roles, "settled", &shared]);
        assert!(said.contains("nothing changed"), "round {round}");
    }
    // A process that becomes another program has another address space.
    let said = succeed(&mut guest, &[roles, "svm-store", "/tmp/shared", "/tmp/storing", "settled"]);
    assert!(said.contains("nothing changed"), "{said}");
    unload(&mut guest).unwrap();
    let log = guest.kernel_log().unwrap();
    assert!(!log.contains("GPU memory fault"), "pages went before the queue:\n{log}");
    finish(guest);
}

#[test]
fn unbound_function_leaves_files_that_refuse_and_mappings_without_pages() {
    in_shared_guest(|guest| {
        assert!(succeed(guest, &[ROLES, "unbind"]).contains("nothing of the device was left"));
        assert!(succeed(guest, &[ROLES, "work"]).contains("verified"));
    });
}

#[test]
fn unbinding_under_open_files_mappings_and_work_leaves_a_working_gpu() {
    // The long form is `cargo xtask guest-race`.
    let said = trial::run(TrialKernel::Stock, &GuestConfig::default(), Trial::Race(12), LIMIT).unwrap();
    assert!(said.contains("12 rounds survived"), "{said}");
}

#[test]
fn process_has_a_directory_in_sysfs_with_one_for_each_queue() {
    in_shared_guest(|guest| {
        assert_eq!(succeed(guest, &[ROLES, "proc-files"]), "proc-files: verified\n");
    });
}

#[test]
fn processes_killed_at_random_points_leave_nothing() {
    // The long form is `cargo xtask guest-kills`.
    let said = trial::run(TrialKernel::Stock, &GuestConfig::default(), Trial::Kills(24), LIMIT).unwrap();
    assert!(said.contains("24 killed"), "{said}");
}

#[test]
fn disks_of_both_formats_are_read_written_zeroed_and_forgotten() {
    let images = Images::new().unwrap();
    // The second guest finds the files as the first one did.
    for _ in 0..2 {
        let config = GuestConfig { disks: images.disks(), ..GuestConfig::default() };
        let (mut guest, roles) = boot_with_roles_and(&config);
        let said = succeed(&mut guest, &[roles, "disk"]);
        assert_eq!(said, "disks belfry-0 and belfry-1: verified\n");
        finish(guest);
    }
    images.check(images.paths().map(|path| std::fs::read(path).unwrap())).unwrap();
}

#[test]
fn every_example_succeeds_with_trapped_doorbells() {
    in_shared_guest(|guest| {
        // `peers` needs several GPUs.
        let left_out = ["all", "launch", "peers"];
        for name in belfry_examples::NAMES.iter().filter(|name| !left_out.contains(name)) {
            succeed(guest, &["/bin/belfry-examples", name]);
        }
    });
}

#[test]
fn examples_succeed_with_polled_doorbells() {
    let machine = MachineConfig::Qemu(QemuConfig { doorbell: DoorbellMode::Polled, ..QemuConfig::default() });
    let mut guest = boot(&GuestConfig { machine, ..GuestConfig::default() });
    for name in ["vector-add", "many-queues", "barriers-and-signals"] {
        succeed(&mut guest, &["/bin/belfry-examples", name]);
    }
    let stats = guest.gpu().unwrap().stats();
    assert!(stats.doorbells_polled > 0, "no doorbell was seen by polling: {stats:?}");
    finish(guest);
}
