//! The views of the inspector on a device.

use belfry_tools::inspect::Inspect as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::driver::kernels::ready_to_spin;
use crate::driver::{Driver, Process, UserQueue, eventually};

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
    // The process as in the interrupt handler's table, and the queue on its slot.
    for part in ["pasid: 0x8001", "Mapped", "read_index: 0x0"] {
        assert!(after.contains(part), "{part} is not in:\n{after}");
    }
}

/// The number after the first `name: ` in a text.
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

#[test]
fn inspector_tells_of_a_running_grid_what_its_driver_has_set_up() {
    use belfry_tools::inspect::{MemoryAs, MemoryItem, WaveParts};

    let mut driver = Driver::up();
    let mut spin = ready_to_spin(&mut driver, 0x8001, 0x800);
    spin.start(&driver);
    let inspector = driver.gpu.inspect();

    let queues = inspector.queues().unwrap();
    let doorbell = spin.queue.doorbell;
    let listed = queues.iter().find(|queue| queue.doorbell == doorbell).unwrap();
    assert_eq!((listed.pasid, listed.state, listed.packets), (0x8001, "mapped", Some("aql")));
    assert!(listed.busy);
    assert!(queues.iter().any(|queue| queue.kernel && queue.packets == Some("mes")), "{queues:?}");
    let queue = inspector.queue(doorbell).unwrap();
    assert!(queue.registers.iter().any(|register| register.name == "CP_HQD_PQ_BASE"), "{queue:?}");
    assert_eq!((queue.queue.read_index, queue.queue.write_index), (Some(0), Some(1)));
    let packet = &queue.next[0];
    assert_eq!(packet.kind, "KERNEL_DISPATCH");
    assert_eq!(packet.fields["kernel_object"], format!("{:#x}", spin.kernel_object()));
    assert!(inspector.queue(doorbell + 2).is_err());

    let waves = inspector.waves().unwrap();
    let [dispatch] = &waves.dispatches[..] else { panic!("{waves:?}") };
    assert_eq!((dispatch.grid, dispatch.ended, waves.all), ([64, 1, 1], 0, 2));
    assert_eq!(dispatch.kernel, "spin");
    let wave = inspector.wave(waves.waves[1].wave, WaveParts::default()).unwrap();
    assert_eq!((wave.view.kernel.as_str(), wave.lanes, wave.view.exec.0), ("spin", 32, 0xffff_ffff));
    assert!(wave.code.iter().any(|line| line.next), "{:?}", wave.code);
    // The kernel waits in a loop.
    let back = |line: &&belfry_tools::inspect::CodeLine| line.target.is_some_and(|to| to <= line.address);
    assert!(wave.code.iter().find(back).is_some(), "{:?}", wave.code);
    let one = WaveParts { vgpr: Some(0), lane: Some(3) };
    let one = inspector.wave(waves.waves[1].wave, one).unwrap();
    assert_eq!((one.vgprs.len(), one.vgprs[0].1.len()), (1, 1));

    let at = spin.kernel_object();
    let walk = inspector.walk(0x8001, at).unwrap();
    let names: Vec<&str> = walk.levels.iter().map(|level| level.level.as_str()).collect();
    assert_eq!(names.first(), Some(&"PDB2"), "{walk:?}");
    let memory = walk.memory.clone().unwrap();
    let page = u64::from_str_radix(memory.strip_prefix("system 0x").unwrap(), 16).unwrap();
    let page = belfry_device::memory::Physical::system(page);
    let backwards = inspector.backwards(page).unwrap();
    assert!(
        backwards.complete && backwards.mapped.iter().any(|(pasid, va, _)| (*pasid, va.0) == (0x8001, at))
    );
    assert!(inspector.walk(0x8001, 0x1234_5678_9000).unwrap().memory.is_none());
    assert!(inspector.walk(0x7777, 0).is_err());

    let [MemoryItem::Fields(_, descriptor)] =
        &inspector.memory(0x8001, (at, 64), MemoryAs::Descriptors).unwrap()[..]
    else {
        panic!("one descriptor")
    };
    assert_eq!(descriptor["entry"], dispatch.entry.to_string());
    assert!(inspector.memory(0x8001, (at, 1 << 20), MemoryAs::Words).is_err());
    assert!(inspector.memory(0x8001, (0x1234_5678_9000, 16), MemoryAs::Words).is_err());
    let kernels = inspector.kernels().unwrap();
    assert!(kernels.iter().any(|kernel| kernel.name == "spin" && kernel.descriptor.0 == at), "{kernels:?}");

    let registers = inspector.registers(Some("osssys")).unwrap();
    let control = registers.iter().find(|register| register.name == "IH_RB_CNTL").unwrap();
    assert!(
        control.changed && control.fields.iter().any(|field| field.name == "rb_enable" && field.value == 1)
    );
    assert!(inspector.registers(Some("nothing")).is_err());
    assert!(inspector.registers(None).unwrap().iter().all(|register| register.changed));
    let doorbells = inspector.doorbells();
    assert!(
        doorbells
            .iter()
            .any(|listened| listened.doorbell == u64::from(doorbell) && listened.owner == "process")
    );

    driver.set_ram_u64(spin.stop, 1);
    eventually("the kernel completes", || driver.ram_u64(spin.done) == 0);
    eventually("its interrupt is in the ring", || {
        let rings = inspector.interrupts();
        rings[0].entries.iter().any(|entry| entry.name == Some("CP_EOP_INTERRUPT") && entry.pasid == 0x8001)
    });
    assert!(inspector.overview().dispatches == 1 && inspector.waves().unwrap().all == 0);
    driver.gpu.stop();
    assert!(inspector.queues().is_err());
}

#[test]
fn waves_stop_at_a_breakpoint_and_go_on_by_instructions_and_altogether() {
    use std::time::Duration;

    use belfry_tools::inspect::{BreakOn, WaveParts};

    const SOON: Duration = Duration::from_secs(60);
    /// Steps of one wave while the others stay.
    const STEPS: u64 = 200;
    let mut driver = Driver::up();
    let mut spin = ready_to_spin(&mut driver, 0x8001, 0x800);
    spin.start(&driver);
    let inspector = driver.gpu.inspect();
    let waves = inspector.waves().unwrap();
    let first = waves.waves[0].wave;
    assert!(inspector.step(first, 1).is_err(), "the device runs");
    let code = inspector.wave(first, WaveParts::default()).unwrap().code;
    let branch = code.iter().find(|line| line.target.is_some_and(|to| to <= line.address)).unwrap();
    let (at, to) = (branch.address.0, branch.target.unwrap().0);

    let number = inspector.add_break(BreakOn::Pc(at)).unwrap();
    for _ in 0..3 {
        let status = inspector.wait(SOON).unwrap();
        assert_eq!((status.halted, status.breakpoint), (true, Some(number)));
        let stopped = inspector.wave(status.wave.unwrap(), WaveParts::default()).unwrap();
        assert_eq!(stopped.view.pc.0, at);
        let executed = driver.gpu.stats().wave_instructions;
        assert!(inspector.proceed());
        eventually("waves run", || driver.gpu.stats().wave_instructions > executed);
    }
    let status = inspector.wait(SOON).unwrap();
    let wave = status.wave.unwrap();
    let pc = || inspector.wave(wave, WaveParts::default()).unwrap().view.pc.0;
    inspector.step(wave, 1).unwrap();
    assert!(pc() == to || pc() == at + 4, "{:#x}", pc());
    let after = pc();
    inspector.step(wave, 1).unwrap();
    assert_ne!(pc(), after);
    assert!(inspector.remove_break(number) && !inspector.remove_break(number));
    // All others stay where they are: no more executes than this wave's steps. A turn of another wave has many more instructions.
    let mut executed = driver.gpu.stats().wave_instructions + STEPS;
    for _ in 0..STEPS {
        inspector.step(wave, 1).unwrap();
    }
    assert!(driver.gpu.stats().wave_instructions <= executed);
    executed = driver.gpu.stats().wave_instructions;
    // One wave comes to its end by hand. The others do not, and nothing is lost.
    driver.set_ram_u64(spin.stop, 1);
    let steps = (0..1000).take_while(|_| inspector.step(wave, 1).is_ok()).count() as u64;
    assert!(inspector.wave(wave, WaveParts::default()).is_err(), "it has not ended after {steps} steps");
    assert!(driver.gpu.stats().wave_instructions <= executed + steps);
    assert_eq!((driver.ram_u64(spin.done), inspector.waves().unwrap().waves.len()), (1, 1));
    inspector.proceed();
    eventually("the kernel completes", || driver.ram_u64(spin.done) == 0);
    assert!(!inspector.status().halted);

    // A packet stays in the ring until the device goes on.
    let number = inspector.add_break(BreakOn::Kernel("spin".into())).unwrap();
    let mut other = ready_to_spin(&mut driver, 0x8002, 0x1000);
    driver.set_ram_u64(other.stop, 1);
    other.queue.put(&driver, &other.packet);
    let status = driver.gpu.inspect().wait(SOON).unwrap();
    assert_eq!((status.breakpoint, status.wave), (Some(number), None));
    assert_eq!(driver.ram_u64(other.done), 1);
    driver.gpu.inspect().proceed();
    eventually("the other kernel completes", || driver.ram_u64(other.done) == 0);

    let inspector = driver.gpu.inspect();
    inspector.clear_breaks();
    assert!(inspector.halt().unwrap().halted);
    assert!(inspector.proceed());
    inspector.break_on_register("GRBM_GFX_CNTL").unwrap();
    assert!(inspector.break_on_register("NO_SUCH_REGISTER").is_err());
    assert!(!inspector.wait(Duration::ZERO).unwrap().halted);
}
