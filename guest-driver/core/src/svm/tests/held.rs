//! Changes of which the driver is told before they happen.

use super::*;

#[test]
fn pages_that_are_about_to_change_leave_the_gpu_before_and_come_back_after() {
    let bench = Bench::new();
    let (process, ..) = with_queue(&bench);
    // Those of the queue's own buffers are about pins.
    lock(&bench.os().notices).clear();
    set(&process, VA, 2 * PAGE, &[access(&bench)]).unwrap();
    let entry = |index: u64| page(&bench, &process, VA + index * PAGE).map(|(pa, _)| pa);
    let before = [entry(0), entry(1)];
    assert!(before.iter().all(Option::is_some));
    // Outside of the range: no queue is stopped.
    tell_before(&bench, VA + 2 * PAGE, VA + 3 * PAGE, false);
    assert_eq!((queue_steps(&bench), bench.os().run_work()), (vec!["add"], 0));
    let hold = bench.device.vram.allocate(bench.device.vram.free_bytes(), false).unwrap();
    let pins = lock(&bench.os().trace).len();
    tell_before(&bench, VA + PAGE, VA + 2 * PAGE, false);
    assert_eq!(queue_steps(&bench), ["add", "remove"]);
    assert_eq!([entry(0), entry(1)], [None; 2]);
    let after = lock(&bench.os().trace)[pins..].to_vec();
    assert!(!after.iter().any(|what| what.contains("pin")), "{after:?}");
    // All of memory is taken, and there is room for them all the same.
    assert_eq!(bench.os().run_work(), 1);
    assert_eq!([entry(0), entry(1)], before);
    assert_eq!(queue_steps(&bench), ["add", "remove", "add"]);
    drop(hold);
    let trace = lock(&bench.os().trace).clone();
    assert!(trace.iter().all(|what| !what.contains("under a lock")), "{trace:?}");
}

/// `svm_range_evict` unmaps such pages from the GPU and stops no queue.
#[test]
fn queues_go_on_while_pages_change_that_their_waves_may_wait_for() {
    let always = attribute(KFD_IOCTL_SVM_ATTR_SET_FLAGS, KFD_IOCTL_SVM_FLAG_GPU_ALWAYS_MAPPED);
    for (held, always, steps) in [
        (false, None, vec!["add"]),
        (true, None, vec!["add"]),
        (false, Some(always), vec!["add", "remove", "add"]),
        (true, Some(always), vec!["add", "remove", "add"]),
    ] {
        let bench = Bench::new();
        let (process, ..) = with_queue(&bench);
        let list: Vec<_> = [access(&bench)].into_iter().chain(always).collect();
        set(&process, VA, 2 * PAGE, &list).unwrap();
        process.state.lock().xnack = true;
        let before = page(&bench, &process, VA);
        assert!(before.is_some());
        tell_change(&bench, &Change { start: VA, end: VA + PAGE, unmapped: false, held });
        let gone = page(&bench, &process, VA).is_none();
        assert!(gone || always.is_some() && !held, "held {held}");
        assert_eq!(bench.os().run_work(), 1);
        assert_eq!(page(&bench, &process, VA), before);
        assert_eq!(queue_steps(&bench), steps, "held {held}");
        let trace = lock(&bench.os().trace).clone();
        assert!(trace.iter().all(|what| !what.contains("under a lock")), "{trace:?}");
    }
}

#[test]
fn pages_that_are_about_to_go_leave_the_gpu_and_the_ranges_and_their_mirrors_go_later() {
    let bench = Bench::new();
    let (process, ..) = with_queue(&bench);
    // Those of the queue's own buffers are about pins.
    lock(&bench.os().notices).clear();
    let used = bench.processes.system().used();
    set(&process, VA, 4 * PAGE, &[access(&bench)]).unwrap();
    let before = lock(&bench.os().trace).len();
    tell_before(&bench, VA + PAGE, VA + 2 * PAGE, true);
    let mapped: Vec<bool> = (0..4).map(|index| page(&bench, &process, VA + index * PAGE).is_some()).collect();
    assert_eq!(mapped, [true, false, true, true]);
    assert_eq!(bench.processes.system().used(), used + 3 * PAGE);
    assert_eq!(queue_steps(&bench), ["add"], "nobody had to rest");
    assert_eq!(bench.os().run_work(), 1);
    // The rest goes on with the mirror that it has, and then that goes.
    assert_eq!(lock(&bench.os().trace).len(), before);
    tell_before(&bench, VA, VA + 4 * PAGE, true);
    assert_eq!(lock(&bench.os().trace).len(), before);
    assert_eq!(bench.os().run_work(), 1);
    assert_eq!(lock(&bench.os().trace)[before..], ["unpin"]);
    assert_eq!(bench.processes.system().used(), used);
    // The end of everything, and then of the process.
    set(&process, VA, PAGE, &[access(&bench)]).unwrap();
    tell_before(&bench, 0, u64::MAX, false);
    assert!(page(&bench, &process, VA).is_none());
    assert_eq!(queue_steps(&bench), ["add", "remove"]);
    tell_before(&bench, 0, u64::MAX, true);
    assert_eq!(shown(&process), []);
    bench.kfd.exit(process.key());
    assert_eq!(bench.os().run_work(), 1);
    assert_eq!(queue_steps(&bench), ["add", "remove"], "it does not come back");
}

#[test]
fn queues_of_an_address_space_that_goes_do_not_come_back_before_the_process_is_torn_down() {
    let bench = Bench::new();
    let (process, ..) = with_queue(&bench);
    // Those of the queue's own buffers are about pins.
    lock(&bench.os().notices).clear();
    set(&process, VA, 2 * PAGE, &[access(&bench)]).unwrap();
    // The end of an address space: it is released, and then each part is unmapped. The part that the queue is saved in
    // would end the queue by itself.
    *lock(&bench.os().users.ended) = true;
    tell_before(&bench, VA, VA + 2 * PAGE, false);
    tell_before(&bench, VA, VA + 2 * PAGE, true);
    bench.os().run_work();
    assert_eq!(queue_steps(&bench), ["add", "remove"], "a queue runs whose pages are gone");
    bench.kfd.exit(process.key());
    assert_eq!(queue_steps(&bench), ["add", "remove"]);
}

#[test]
fn device_that_does_not_forget_pages_that_go_is_reset() {
    let bench = Bench::new();
    let (process, ..) = with_queue(&bench);
    // Those of the queue's own buffers are about pins.
    lock(&bench.os().notices).clear();
    set(&process, VA, 2 * PAGE, &[access(&bench)]).unwrap();
    bench.device.hw.write_at(8, belfry_abi::regs::osssys::IH_VMID_0_LUT(u32::from(process.pasid)));
    *lock(&bench.os().deaf) = true;
    let epoch = bench.device.epoch();
    tell_before(&bench, VA, VA + PAGE, true);
    assert_eq!(bench.device.epoch(), epoch + 1);
}

#[test]
fn ranges_without_access_go_with_their_memory_too() {
    for told in [tell, tell_before] {
        let bench = Bench::new();
        let process = bench.process(1);
        let used = bench.processes.system().used();
        let preferred = attribute(KFD_IOCTL_SVM_ATTR_PREFERRED_LOC, u32::from(bench.device.gpu_id()));
        set(&process, VA, 4 * PAGE, &[preferred]).unwrap();
        set(&process, VA + 2 * PAGE, 4 * PAGE, &[preferred]).unwrap();
        told(&bench, VA + PAGE, VA + 5 * PAGE, true);
        assert_eq!(shown(&process), [(VA, VA + PAGE, false), (VA + 5 * PAGE, VA + 6 * PAGE, false)]);
        assert_eq!(bench.processes.system().used(), used + 2 * PAGE);
        bench.os().run_work();
        assert!(process.state.lock().svm.gone.is_empty());
        // New memory at that place is registered anew, and watched anew.
        set(&process, VA, 6 * PAGE, &[preferred]).unwrap();
        told(&bench, VA, VA + 6 * PAGE, true);
        assert_eq!(shown(&process), []);
        assert_eq!(bench.processes.system().used(), used);
    }
}

#[test]
fn memory_that_changes_while_it_is_looked_at_is_looked_at_again() {
    let bench = Bench::new();
    let process = bench.process(1);
    // The first is the watch over the range, and then they are mirrors.
    for restless in [1, 2, 5] {
        *lock(&bench.os().users.restless) = restless;
        set(&process, VA, PAGE, &[access(&bench)]).unwrap();
        assert_eq!(*lock(&bench.os().users.restless), 0);
        assert!(page(&bench, &process, VA).is_some());
        tell_before(&bench, VA, VA + PAGE, true);
        bench.os().run_work();
    }
    // Not for ever: the program hears of it, and nothing is left.
    *lock(&bench.os().users.restless) = u32::MAX;
    assert_eq!(set(&process, VA, PAGE, &[access(&bench)]), Err(Errno::EAGAIN));
    assert_eq!((shown(&process), page(&bench, &process, VA)), (vec![], None));
    // A range that is watched already is mapped later.
    let preferred = attribute(KFD_IOCTL_SVM_ATTR_PREFERRED_LOC, u32::from(bench.device.gpu_id()));
    *lock(&bench.os().users.restless) = 0;
    set(&process, VA, PAGE, &[preferred]).unwrap();
    *lock(&bench.os().users.restless) = u32::MAX;
    assert_eq!(set(&process, VA, PAGE, &[access(&bench)]), Err(Errno::EAGAIN));
    assert_eq!(page(&bench, &process, VA), None);
    let trace = lock(&bench.os().trace).clone();
    assert!(trace.iter().all(|what| *what == "unpin"), "{trace:?}");
}
