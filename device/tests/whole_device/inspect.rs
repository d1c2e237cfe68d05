//! What the device shows of itself.

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
    // The process as the interrupt handler's table has it, and the queue on its slot.
    for part in ["pasid: 0x8001", "Mapped", "read_index: 0x0"] {
        assert!(after.contains(part), "{part} is not in:\n{after}");
    }
}
