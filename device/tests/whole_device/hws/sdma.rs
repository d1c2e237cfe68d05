//! SDMA queues of run lists: engines by the fields of MAP_QUEUES, MQDs of gfx9, interrupts of the engine's die.

use belfry_abi::ih::{Client, Source, node};
use belfry_abi::mqd::SdmaMqd;
use belfry_abi::sdma::Op;
use belfry_device::chip::Shape;
use vm_memory::{Bytes as _, GuestAddress};
use zerocopy::IntoBytes as _;

use super::driver::{ALL_NOT_STATIC, Hws, doorbell, map, map_process};
use crate::driver::{Process, eventually};
use crate::sdma::{Sdma, copy, fence, mqd, packet, trap};

/// A queue on an engine, with its MQD in the form of gfx9, and the list that maps it.
pub(super) fn queue(hws: &mut Hws, process: &mut Process, engine: u32) -> (Sdma, Vec<u32>) {
    let bell = doorbell(1, 0x100 + 10 * engine);
    let queue = Sdma::new(&mut hws.driver, process, bell, engine);
    let fields = mqd(&hws.driver, &queue.queue);
    let mut dwords = [0u32; 128];
    fields.write_v9(&mut dwords);
    hws.driver.put_ram(queue.queue.mqd_memory, &dwords);
    let engine_sel = match engine {
        0 | 1 => (2 + engine) << 26,
        2..8 => 1 << 2 | engine << 26,
        _ => 2 << 2 | (engine - 8) << 26,
    };
    let map = map(1 << 4 | 1 << 29 | engine_sel, bell, queue.queue.mqd, fields.wptr_poll());
    (queue, map)
}

#[test]
fn every_engine_copies_and_tells_of_it_as_its_die() {
    // Two XCCs have four engines.
    let mut hws = Hws::up(Shape { xccs: 4, cus: 4 });
    let mut process = hws.process(0x8001);
    let (data, va) = process.alloc(&mut hws.driver, 8192);
    let mut list = map_process(&process);
    let mut queues = Vec::new();
    for engine in [0, 1, 3, 4, 7] {
        let (queue, map) = queue(&mut hws, &mut process, engine);
        list.extend(map);
        queues.push((engine, queue));
    }
    hws.run(&list);
    for (engine, queue) in &mut queues {
        let value = 0x100 + *engine;
        hws.driver.put_ram(data, &[value; 256]);
        queue.put(&hws.driver, &[copy(va, va + 4096, 1024), fence(va + 2048, value), trap(value)]);
        eventually("the fence is written", || hws.driver.ram_u32(data + 2048) == value);
        assert!((0..256).all(|at| hws.driver.ram_u32(data + 4096 + at * 4) == value), "engine {engine}");
        let mut seen = Vec::new();
        eventually("the interrupt arrives", || {
            seen.extend(hws.driver.drain_interrupts());
            !seen.is_empty()
        });
        let clients = [Client(8), Client(9), Client(1), Client(4)];
        let (client, die) = (clients[*engine as usize % 4], node::of_die((*engine / 4) as u8));
        assert_eq!((seen[0].client(), seen[0].source(), seen[0].node()), (client, Source::SDMA4_TRAP, die));
        assert_eq!((seen[0].pasid(), seen[0].data[0]), (0x8001, value));
    }
    hws.unmap(ALL_NOT_STATIC, &[]);
    for (engine, queue) in &queues {
        let mut dwords = [0u32; 128];
        hws.driver.ram.read_slice(dwords.as_mut_bytes(), GuestAddress(queue.queue.mqd_memory)).unwrap();
        assert_ne!(SdmaMqd::from_v9(&dwords).read_pointer(), 0, "engine {engine}");
    }
    assert_eq!(hws.driver.gpu.stats().errors, Default::default());
}

#[test]
fn packets_that_sdma_4_does_not_have_stop_their_queue() {
    let mut hws = Hws::up(super::SMALL);
    let mut process = hws.process(0x8001);
    let (queue, map) = queue(&mut hws, &mut process, 1);
    hws.run(&[map_process(&process), map].concat());
    let mut queue = queue;
    queue.put(&hws.driver, &[packet(Op::GCR_REQ, &[0; 4])]);
    eventually("the queue stops", || hws.errors("SDMA packet refused") == 1);
    // The interrupt comes after the count.
    let mut entries = Vec::new();
    eventually("the driver is told", || {
        entries.extend(hws.driver.drain_interrupts());
        !entries.is_empty()
    });
    assert_eq!((entries[0].client(), entries[0].source()), (Client(9), Source::SDMA4_FROZEN));
}
