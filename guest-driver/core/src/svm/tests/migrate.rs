//! Pages that move to VRAM and back.

use belfry_abi::gpuvm::PTE_SYSTEM;

use super::*;

fn prefetch(to: u32) -> SvmAttribute {
    attribute(KFD_IOCTL_SVM_ATTR_PREFETCH_LOC, to)
}

fn gpu(bench: &Bench) -> u32 {
    u32::from(bench.device.gpu_id())
}

/// Returns whether the GPU finds each page in VRAM; `None` where it finds none.
fn places(bench: &Bench, process: &Process<FakeOs>, count: u64) -> Vec<Option<bool>> {
    (0..count)
        .map(|index| page(bench, process, VA + index * PAGE).map(|(_, entry)| entry & PTE_SYSTEM == 0))
        .collect()
}

fn quiet(bench: &Bench) {
    let trace = lock(&bench.os().trace).clone();
    assert!(trace.iter().all(|what| !what.contains("under a lock")), "{trace:?}");
}

#[test]
fn prefetch_moves_pages_and_the_gpu_follows_them() {
    let bench = Bench::new();
    let (process, ..) = with_queue(&bench);
    lock(&bench.os().notices).clear();
    set(&process, VA, 4 * PAGE, &[access(&bench)]).unwrap();
    let free = bench.device.vram.free_bytes();
    assert_eq!(places(&bench, &process, 4), [Some(false); 4]);
    // Memory of files is among them.
    lock(&bench.os().users.unmovable).push(VA + PAGE..VA + 2 * PAGE);
    set(&process, VA, 4 * PAGE, &[prefetch(gpu(&bench))]).unwrap();
    let moved = [Some(true), Some(false), Some(true), Some(true)];
    assert_eq!(places(&bench, &process, 4), moved);
    assert_eq!(bench.device.vram.free_bytes(), free - 3 * PAGE, "what did not move has no frame");
    let frames = lock(&bench.os().users.in_vram).clone();
    assert_eq!(page(&bench, &process, VA).map(|(pa, _)| pa), Some(frames[&VA]));
    // Queues have rested meanwhile, and go on.
    assert_eq!(queue_steps(&bench), ["add", "remove"]);
    assert_eq!(bench.os().run_work(), 1);
    assert_eq!(queue_steps(&bench), ["add", "remove", "add"]);
    // Once more changes nothing but that it happens.
    set(&process, VA, 4 * PAGE, &[prefetch(gpu(&bench))]).unwrap();
    bench.os().run_work();
    assert_eq!(places(&bench, &process, 4), moved);
    assert_eq!(bench.device.vram.free_bytes(), free - 3 * PAGE);
    // Back, of a part.
    set(&process, VA, PAGE, &[prefetch(0)]).unwrap();
    bench.os().run_work();
    assert_eq!(places(&bench, &process, 4), [Some(false), Some(false), Some(true), Some(true)]);
    set(&process, VA, 4 * PAGE, &[prefetch(0)]).unwrap();
    bench.os().run_work();
    assert_eq!(places(&bench, &process, 4), [Some(false); 4]);
    assert_eq!(bench.device.vram.free_bytes(), free);
    quiet(&bench);
}

#[test]
fn memory_that_the_gpu_does_not_reach_moves_as_well_and_preferences_move_nothing() {
    let bench = Bench::new();
    let process = bench.process(1);
    set(&process, VA, 2 * PAGE, &[attribute(KFD_IOCTL_SVM_ATTR_PREFERRED_LOC, gpu(&bench))]).unwrap();
    assert_eq!(lock(&bench.os().users.in_vram).len(), 0);
    set(&process, VA, 2 * PAGE, &[prefetch(gpu(&bench))]).unwrap();
    assert_eq!(lock(&bench.os().users.in_vram).len(), 2);
    assert_eq!(places(&bench, &process, 2), [None; 2]);
    set(&process, VA, 2 * PAGE, &[access(&bench)]).unwrap();
    assert_eq!(places(&bench, &process, 2), [Some(true); 2]);
    quiet(&bench);
}

#[test]
fn events_tell_where_memory_moves_and_why() {
    let bench = Bench::new();
    let process = bench.process(1);
    let fd = bench.device.smi.open(process.pasid(), 0).unwrap() as usize - 1;
    let client = lock(&bench.os().smi)[fd].clone();
    client.write(&0x30u64.to_le_bytes()).unwrap();
    let said = || {
        let mut bytes = [0; 1024];
        let len = client.read(&mut bytes).unwrap_or(0);
        let text = String::from_utf8(bytes[..len].to_vec()).unwrap();
        // Without the time.
        text.lines()
            .map(|line| {
                line.split(' ').enumerate().filter(|(at, _)| *at != 1).map(|(_, word)| word).collect()
            })
            .map(|words: Vec<&str>| words.join(" "))
            .collect::<Vec<String>>()
    };
    set(&process, VA, 2 * PAGE, &[prefetch(0)]).unwrap();
    assert_eq!(said(), Vec::<String>::new(), "nothing is in VRAM");
    set(&process, VA, 2 * PAGE, &[prefetch(gpu(&bench))]).unwrap();
    let id = gpu(&bench);
    assert_eq!(
        said(),
        [
            format!("5 -499 @7f0000000(2) 0->{id:x} {id:x}:ffffffff 0"),
            format!("6 -499 @7f0000000(2) 0->{id:x} 0")
        ]
    );
    set(&process, VA, 2 * PAGE, &[prefetch(0)]).unwrap();
    assert_eq!(
        said(),
        [format!("5 -499 @7f0000000(2) {id:x}->0 0:ffffffff 0"), format!("6 -499 @7f0000000(2) {id:x}->0 0")]
    );
}

#[test]
fn buffer_objects_take_the_place_of_pages_of_programs() {
    let bench = Bench::new();
    let (process, other) = (bench.process(1), bench.process(2));
    let size = bench.device.vram.free_bytes() / PAGE * PAGE;
    set(&process, VA, size, &[access(&bench), prefetch(gpu(&bench))]).unwrap();
    bench.os().run_work();
    let left = bench.device.vram.free_bytes();
    assert!(left > 0, "some is kept for page tables");
    // As much as fits has moved, and the rest is reached where it is.
    let moved = lock(&bench.os().users.in_vram).len() as u64;
    assert!(moved > 0 && moved < size / PAGE, "{moved}");
    let found = places(&bench, &process, size / PAGE);
    assert!(found.iter().all(Option::is_some));
    assert_eq!(found.iter().filter(|place| **place == Some(true)).count() as u64, moved);
    let wanted = left + PAGE;
    bench.memory(&other, 0x5000_0000, wanted, AllocFlags::VRAM);
    bench.os().run_work();
    let after = lock(&bench.os().users.in_vram).len() as u64;
    assert!(after < moved, "{after} of {moved}");
    let found = places(&bench, &process, size / PAGE);
    assert!(found.iter().all(Option::is_some));
    assert_eq!(found.iter().filter(|place| **place == Some(true)).count() as u64, after);
    quiet(&bench);
}

#[test]
fn what_cannot_move_stays() {
    let bench = Bench::new();
    let process = bench.process(1);
    set(&process, VA, 2 * PAGE, &[access(&bench)]).unwrap();
    let hold = bench.device.vram.allocate(bench.device.vram.free_bytes(), false).unwrap();
    set(&process, VA, 2 * PAGE, &[prefetch(gpu(&bench))]).unwrap();
    assert_eq!(places(&bench, &process, 2), [Some(false); 2]);
    drop(hold);
    *lock(&bench.os().users.gone) = true;
    let free = bench.device.vram.free_bytes();
    set(&process, VA, 2 * PAGE, &[prefetch(gpu(&bench))]).unwrap();
    assert_eq!(bench.device.vram.free_bytes(), free, "frames that were not taken are free again");
    assert_eq!(places(&bench, &process, 2), [Some(false); 2]);
}
