//! Accesses after which waves stop, and changes of their state by a client in the meantime.

use std::time::Duration;

use belfry_tools::inspect::{AccessRange, BreakOn, BytesOf, Hex, Inspect as _, RegisterName, WaveParts};

use crate::driver::kernels::{VECADD, dispatch, hidden, load, signal};
use crate::driver::{Driver, Process, UserQueue, eventually};

const SOON: Duration = Duration::from_secs(60);
const PASID: u16 = 0x8001;

#[test]
fn store_of_an_element_stops_its_wave_and_memory_and_registers_are_changed() {
    const COUNT: u32 = 256;
    let mut driver = Driver::up();
    let mut process = Process::new(&mut driver, PASID);
    let mut queue = UserQueue::new(&mut driver, &mut process, 0x800);
    assert!(queue.add(&mut driver, &process));
    let kernel = load(&mut driver, &mut process, VECADD, "vecadd.kd");
    let mut vector = || process.alloc(&mut driver, u64::from(COUNT) * 4);
    let ((a, a_va), (b, b_va), (c, c_va)) = (vector(), vector(), vector());
    for i in 0..COUNT {
        driver.put_ram(a + u64::from(i) * 4, &(i as f32).to_bits());
        driver.put_ram(b + u64::from(i) * 4, &1f32.to_bits());
    }
    let (kernarg, kernarg_va) = process.alloc(&mut driver, 4096);
    for (at, value) in [(0, a_va), (8, b_va), (16, c_va), (24, COUNT.into())] {
        driver.set_ram_u64(kernarg + at, value);
    }
    hidden(&driver, kernarg + 32, COUNT, 256);
    let (done, done_va) = signal(&mut driver, &mut process, 42);

    let inspector = driver.gpu.inspect();
    let range = |first, last| AccessRange { lds: false, first, last, reads: false, writes: true };
    // Loads of `a` are none of its stores.
    inspector.add_break(BreakOn::Access(range(a_va, a_va + u64::from(COUNT) * 4 - 1))).unwrap();
    let store = inspector.add_break(BreakOn::Access(range(c_va + 40 * 4, c_va + 40 * 4 + 3))).unwrap();
    let kernels = inspector.add_break(BreakOn::Kernel("vecadd".into())).unwrap();
    let hundred = 100f32.to_bits().to_le_bytes();
    assert!(inspector.write_of_process(PASID, a_va, &hundred).is_err(), "the device runs");
    queue.put(&driver, &dispatch(kernel, kernarg_va, COUNT, 256, done_va));
    assert_eq!(inspector.wait(SOON).unwrap().breakpoint, Some(kernels));
    assert_eq!(inspector.write_of_process(PASID, a_va + 40 * 4, &hundred), Ok(4));
    assert_eq!(inspector.write_of_process(PASID, 0x1234_5678_9000, &hundred), Ok(0));
    inspector.proceed();

    let status = inspector.wait(SOON).unwrap();
    let wave = status.wave.unwrap();
    assert_eq!(status.breakpoint, Some(store), "{status:?}");
    assert_eq!(status.accesses, [(wave, store, Hex(c_va + 160))]);
    assert_eq!(wave.wave, 1, "element 40 is of the second wave of 32 lanes");
    assert_eq!(f32::from_bits(driver.ram_u32(c + 160)), 101.0, "it stops behind the store");
    // Registers that are set have their values, and registers that the wave does not have are refused.
    let read = |register| {
        let parts = WaveParts { vgpr: Some(register), lane: Some(3) };
        inspector.wave(wave, parts).unwrap().vgprs[0].1[0].0
    };
    let before = read(1);
    inspector.set_register(wave, RegisterName::Vector(1, 3), 0xdead_beef).unwrap();
    assert_eq!(read(1), 0xdead_beef);
    inspector.set_register(wave, RegisterName::Vector(1, 3), before).unwrap();
    assert!(inspector.set_register(wave, RegisterName::Vector(255, 3), 0).is_err());
    assert!(inspector.set_register(wave, RegisterName::Pc, 2).is_err());
    // The wave can be stopped at another place after that.
    let seven = 7f32.to_bits().to_le_bytes();
    assert_eq!(inspector.write_of_wave(wave, BytesOf::Memory(c_va + 160), &seven), Ok(4));
    assert_eq!(inspector.write_of_wave(wave, BytesOf::Lds(0), &seven), Ok(0), "the kernel has no LDS");
    inspector.clear_breaks();
    inspector.proceed();
    eventually("the kernel completes", || driver.ram_u64(done + 8) == 0);
    for i in 0..COUNT {
        let expected = if i == 40 { 7.0 } else { i as f32 + 1.0 };
        assert_eq!(f32::from_bits(driver.ram_u32(c + u64::from(i) * 4)), expected, "element {i}");
    }
    assert!(inspector.status().accesses.is_empty());
    assert!(inspector.set_register(wave, RegisterName::Vcc, 0).is_err());
}
