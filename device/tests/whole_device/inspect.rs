//! What the device shows of itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::driver::{Driver, Process, UserQueue, eventually};
use crate::kernels::ready_to_spin;

#[test]
fn device_shows_its_live_state_by_name() {
    let mut driver = Driver::up();
    let mut process = Process::new(&mut driver, 0x8001);
    let queue = UserQueue::new(&mut driver, &mut process, 0x800);
    let before = format!("{:#x?}", driver.gpu);
    for part in ["MesScheduler", "CP_HQD_PQ_BASE", "Serving", "IhRing", "Nbif"] {
        assert!(before.contains(part), "{part} is not in:\n{before}");
    }
    assert!(!before.contains("AqlQueue"), "{before}");

    assert!(queue.add(&mut driver, &process));
    eventually("the queue gets a slot", || format!("{:#x?}", driver.gpu).contains("AqlQueue"));
    let after = format!("{:#x?}", driver.gpu);
    // The process as the interrupt handler's table has it, and the queue on its slot.
    for part in ["pasid: 0x8001", "Mapped", "read_index: 0x0"] {
        assert!(after.contains(part), "{part} is not in:\n{after}");
    }
}

/// The number behind the first `name: ` in a text.
fn hexadecimal(text: &str, name: &str) -> u64 {
    let (_, rest) =
        text.split_once(&format!("{name}: 0x")).unwrap_or_else(|| panic!("no {name} in:\n{text}"));
    let end = rest.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(rest.len());
    u64::from_str_radix(&rest[..end], 16).unwrap()
}

#[test]
fn running_dispatch_is_shown_with_its_packet_and_the_state_of_its_waves() {
    let mut driver = Driver::up();
    let mut spin = ready_to_spin(&mut driver, 0x8001, 0x800);
    let idle = format!("{:#x?}", driver.gpu);
    assert!(idle.contains("active_queues: 0") && !idle.contains("KernelDispatch"), "{idle}");
    spin.start(&driver);
    driver.gpu.pause();
    let text = format!("{:#x?}", driver.gpu);
    assert_eq!(hexadecimal(&text, "kernel_object"), spin.kernel_object());
    // The kernel's code is in the same object as its descriptor, and each of its two waves is somewhere in it.
    let (entry, pc) = (hexadecimal(&text, "entry"), hexadecimal(&text, "pc"));
    assert!((entry..entry + 0x1000).contains(&pc), "{pc:#x} is not in the kernel at {entry:#x}");
    for part in [
        "grid: [64, 1, 1]",
        "paused: 1,",
        "done: 0,",
        "permission: Some(",
        "Suspended",
        "Ready Wave {",
        "lds_bytes: 0",
        "at_barrier: 0",
        "VALID",
        "waves: 2 of 256",
        "1 not retired, 1 running",
    ] {
        assert!(text.contains(part), "{part} is not in:\n{text}");
    }
    driver.gpu.resume();
    driver.set_ram_u64(spin.stop, 1);
    eventually("the kernel completes", || driver.ram_u64(spin.done) == 0);
    eventually("the engine is empty", || format!("{:#x?}", driver.gpu).contains("waves: 0 of 256"));
}

#[test]
fn state_can_be_shown_while_queues_run_and_come_and_go() {
    let mut driver = Driver::up();
    let mut spin = ready_to_spin(&mut driver, 0x8001, 0x800);
    spin.start(&driver);
    let over = AtomicBool::new(false);
    let gpu = Arc::clone(&driver.gpu);
    std::thread::scope(|scope| {
        let shown = scope.spawn(|| {
            let mut shown = 0;
            while !over.load(Ordering::SeqCst) || shown == 0 {
                let text = format!("{gpu:#x?}");
                assert!(text.contains("ShaderEngine"), "{text}");
                shown += 1;
            }
        });
        for round in 0..20u16 {
            let mut other = ready_to_spin(&mut driver, 0x8002 + round, 0x1000 + u32::from(round) * 2);
            other.start(&driver);
            driver.set_ram_u64(other.stop, 1);
            eventually("the kernel completes", || driver.ram_u64(other.done) == 0);
            assert!(driver.remove(other.queue.doorbell, other.queue.gang));
        }
        over.store(true, Ordering::SeqCst);
        shown.join().unwrap();
    });
    driver.set_ram_u64(spin.stop, 1);
    eventually("the kernel completes", || driver.ram_u64(spin.done) == 0);
}
