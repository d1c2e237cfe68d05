//! Work of several rings in one submission.

use super::*;
use belfry_tools::inspect::Inspect as _;

/// A wait for memory to be a value or more: a ring may be in the next round already.
fn wait_at_least(at: u64, value: u32) -> Vec<u32> {
    packet(Opcode::WAIT_REG_MEM, &[&[5 | 1 << 4][..], &halves(at), &[value, u32::MAX, 4]].concat())
}

#[test]
fn work_of_several_rings_begins_together() {
    let gpu = gpu();
    let file = File::open(&gpu);
    let data = file.memory(PAGE, GTT);
    for round in 1..10 {
        // Other rings may be in the last round still: each round has indirect buffers of its own.
        let ibs = [(); 4].map(|()| file.memory(PAGE, GTT));
        // Each ring says that it is there, and waits for all others: none ends before all have begun.
        let mut work = Work::default();
        for (ring, ib) in ibs.into_iter().enumerate() {
            let said = write(data.va + ring as u64 * 4, round);
            let heard = (0..4).map(|other| wait_at_least(data.va + other * 4, round));
            let packets: Vec<u32> = std::iter::once(said).chain(heard).flatten().collect();
            File::fill(ib, &packets);
            work = work.ib_on(ib, packets.len(), AMDGPU_HW_IP_COMPUTE, (ring as u32 + 2) % 4);
        }
        // The ring of the last indirect buffer is the one that the number belongs to.
        let number = file.submit(&work).unwrap();
        assert_eq!(number, u64::from(round));
        assert_eq!(file.wait_on(number, (AMDGPU_HW_IP_COMPUTE, 1), FOREVER), Ok(0));
        assert_eq!(file.wait_on(1, (AMDGPU_HW_IP_COMPUTE, 2), 0), Err(Errno::EINVAL), "another ring's");
    }
    assert_eq!(gpu.device().stats().errors, Default::default());
}

#[test]
fn compute_and_a_copy_engine_work_in_one_submission() {
    let gpu = gpu();
    let file = File::open(&gpu);
    let (from, to) = (file.memory(PAGE, GTT), file.memory(PAGE, VRAM));
    from.words.iter().enumerate().for_each(|(at, word)| word.store(at as u32 + 1, Ordering::Relaxed));
    let [dma, compute] = [(); 2].map(|()| file.memory(PAGE, GTT));
    let copied = copy(from.va, to.va, PAGE as u32);
    File::fill(dma, &copied);
    // The last word of the copy is waited for on the other engine.
    let after = [wait_mem(to.va + PAGE - 4, PAGE as u32 / 4), write(from.va, 77)].concat();
    File::fill(compute, &after);
    let work = Work::default().ib(dma, copied.len(), AMDGPU_HW_IP_DMA).ib(
        compute,
        after.len(),
        AMDGPU_HW_IP_COMPUTE,
    );
    let number = file.submit(&work).unwrap();
    assert_eq!(file.wait(number, AMDGPU_HW_IP_COMPUTE), Ok(0));
    assert_eq!(from.words[0].load(Ordering::Acquire), 77);
    assert!((1..1024).all(|at| to.words[at].load(Ordering::Relaxed) == at as u32 + 1));
}

#[test]
fn work_of_rings_goes_on_when_the_device_was_suspended() {
    let gpu = gpu();
    let file = File::open(&gpu);
    let [gate, data, target, compute, dma] = [(); 5].map(|()| file.memory(PAGE, VRAM));
    for round in 1..4 {
        let word = |at: usize| data.words[at].load(Ordering::Acquire);
        let packets =
            [write(data.va, round), wait_at_least(gate.va, round), write(data.va + 4, round)].concat();
        File::fill(compute, &packets);
        let waits = file.submit(&Work::default().ib(compute, packets.len(), AMDGPU_HW_IP_COMPUTE)).unwrap();
        while word(0) != round {
            std::thread::yield_now();
        }
        gpu.suspend().unwrap();
        gpu.resume().unwrap();
        assert_eq!(word(1), round - 1, "what waits has gone on by itself");
        let copied = copy(data.va, target.va, 4);
        File::fill(dma, &copied);
        let number = file.submit(&Work::default().ib(dma, copied.len(), AMDGPU_HW_IP_DMA)).unwrap();
        assert_eq!(file.wait(number, AMDGPU_HW_IP_DMA), Ok(0));
        assert_eq!(target.words[0].load(Ordering::Acquire), round);
        gate.words[0].store(round, Ordering::Release);
        assert_eq!(file.wait(waits, AMDGPU_HW_IP_COMPUTE), Ok(0));
        assert_eq!(word(1), round);
    }
}

/// The file of a partition's render node has its work done there.
#[test]
fn work_of_a_partition_s_file_is_done_by_its_engines() {
    use belfry_abi::partition::ComputePartition::Cpx;
    let shape = crate::common::config();
    let chip = &belfry_device::chip::gfx942::MODEL;
    let gpu =
        HostedGpu::new(belfry_device::GpuConfig { chip, xccs: 2, cus: 2, partition: Cpx, ..shape }).unwrap();
    for (number, engine) in [(0, "sdma 0 "), (1, "sdma 2 ")] {
        let file = File::on(HostedProcess::open(&gpu).unwrap(), Node::Partition(number));
        let (from, to) = (file.memory(PAGE, GTT), file.memory(PAGE, VRAM));
        from.words[5].store(0x1234 + number, Ordering::Relaxed);
        let ib = file.memory(PAGE, GTT);
        let copied = copy(from.va, to.va, PAGE as u32);
        File::fill(ib, &copied);
        let work = file.submit(&Work::default().ib(ib, copied.len(), AMDGPU_HW_IP_DMA)).unwrap();
        assert_eq!(file.wait(work, AMDGPU_HW_IP_DMA), Ok(0));
        assert_eq!(to.words[5].load(Ordering::Acquire), 0x1234 + number);
        let queues = gpu.device().inspect().queues().unwrap();
        let own = queues.iter().filter(|queue| queue.packets == Some("sdma"));
        let slots: Vec<_> = own.filter_map(|queue| queue.slot.clone()).collect();
        assert!(slots.len() == 1 && slots[0].starts_with(engine), "{slots:?}");
    }
    assert_eq!(gpu.device().stats().errors, Default::default());
}

#[test]
fn fault_of_one_ring_ends_the_work_of_all() {
    let gpu = gpu();
    let file = File::open(&gpu);
    let gate = file.memory(PAGE, GTT);
    let [bad, waits] = [(); 2].map(|()| file.memory(PAGE, GTT));
    let packets = [wait_mem(gate.va, 0), write(0x7000_0000_0000, 1)].concat();
    File::fill(bad, &packets);
    let never = wait_mem(gate.va, 5);
    File::fill(waits, &never);
    let work = Work::default().ib_on(bad, packets.len(), AMDGPU_HW_IP_COMPUTE, 3).ib_on(
        waits,
        never.len(),
        AMDGPU_HW_IP_COMPUTE,
        0,
    );
    let number = file.submit(&work).unwrap();
    assert_eq!(file.wait(number, AMDGPU_HW_IP_COMPUTE), Err(Errno::ETIME));
}
