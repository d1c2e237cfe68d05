//! Packets of the kernel interface queue that every PM4 stream takes: on registers, and on memory in VMID 0.

use belfry_abi::pm4::{Opcode, Pm4Header};
use belfry_abi::regs::gc;
use belfry_device::chip::gfx1100::dword;

use crate::driver::Driver;

fn packet(opcode: Opcode, body: &[u32]) -> Vec<u32> {
    [&[Pm4Header::type3(opcode, body.len() as u32).bits()], body].concat()
}

#[test]
fn kiq_moves_values_between_registers_and_memory() {
    let mut driver = Driver::up();
    let (memory, address) = driver.gart_alloc(64);
    let at = |offset: u64| [(address + offset) as u32, ((address + offset) >> 32) as u32];
    let scratch = dword::<gc::SCRATCH_REG7>();
    let [lo, hi] = at(0);
    driver.kiq(&packet(Opcode::WRITE_DATA, &[5 << 8, lo, hi, 0x11, 0x22]));
    driver.kiq(&packet(Opcode::SET_UCONFIG_REG, &[scratch - 0xc000, 0x77]));
    // Register to memory, memory to register.
    let [lo, hi] = at(8);
    driver.kiq(&packet(Opcode::COPY_DATA, &[5 << 8, scratch, 0, lo, hi]));
    let [lo, hi] = at(4);
    driver.kiq(&packet(Opcode::COPY_DATA, &[1, lo, hi, scratch, 0]));
    // A condition on memory that holds, and one on a register.
    driver.kiq(&packet(Opcode::WAIT_REG_MEM, &[3 | 1 << 4, lo, hi, 0x22, 0xff, 4]));
    driver.kiq(&packet(Opcode::WAIT_REG_MEM, &[5, scratch, 0, 0x21, 0xff, 4]));
    let [lo, hi] = at(16);
    driver.kiq(&packet(Opcode::RELEASE_MEM, &[20 | 5 << 8, 2 << 29, lo, hi, 0x55, 0x66, 0]));
    driver.kiq_test();
    assert_eq!([0, 4, 8].map(|offset| driver.ram_u32(memory + offset)), [0x11, 0x22, 0x77]);
    assert_eq!((driver.read(scratch), driver.ram_u64(memory + 16)), (0x22, 0x66_0000_0055));
    assert_eq!(driver.gpu.stats().errors, Default::default());
}

#[test]
fn packet_the_kiq_cannot_execute_is_refused_by_name_and_the_next_one_runs() {
    let mut driver = Driver::up();
    let (_, address) = driver.gart_alloc(8);
    let [lo, hi] = [address as u32, (address >> 32) as u32];
    // The ring test has another one.
    let scratch = dword::<gc::SCRATCH_REG7>();
    let rows: [(&str, Opcode, &[u32]); 9] = [
        ("PM4 opcode this queue does not know", Opcode::DISPATCH_DIRECT, &[1, 1, 1, 1]),
        ("PM4 packet of the wrong length", Opcode::COPY_DATA, &[0, scratch]),
        ("PM4 packet that is not modelled", Opcode::WRITE_DATA, &[7 << 8, lo, hi, 1]),
        ("PM4 packet with an unmapped address", Opcode::WRITE_DATA, &[5 << 8, 0, 0x10, 1]),
        ("WAIT_REG_MEM with a function that does not exist", Opcode::WAIT_REG_MEM, &[7, scratch, 0, 0, 0, 4]),
        ("WAIT_REG_MEM for what never comes", Opcode::WAIT_REG_MEM, &[3, scratch, 0, 1, 1, 4]),
        (
            "WAIT_REG_MEM on memory, for which the KIQ does not wait",
            Opcode::WAIT_REG_MEM,
            &[3 | 1 << 4, lo, hi, 1, 1, 4],
        ),
        (
            "INDIRECT_BUFFER on the KIQ, which is not modelled",
            Opcode::INDIRECT_BUFFER,
            &[lo, hi, 2 | 1 << 23],
        ),
        (
            "UNMAP_QUEUES other than by doorbell, which is not modelled",
            Opcode::UNMAP_QUEUES,
            &[2 << 4, 0, 0, 0, 0],
        ),
    ];
    for (name, opcode, body) in rows {
        driver.kiq(&packet(opcode, body));
        driver.kiq_test();
        assert_eq!(driver.errors(name), 1, "{name}: {:?}", driver.gpu.stats().errors);
    }
    assert_eq!(driver.drain_interrupts().len(), rows.len());
}
