//! PM4 packets that tests submit.
#![allow(dead_code, reason = "every test binary uses another part")]

use belfry_abi::pm4::{ComputeRegister, Opcode, Pm4Header};

pub(crate) fn packet(opcode: Opcode, body: &[u32]) -> Vec<u32> {
    [&[Pm4Header::type3(opcode, body.len() as u32).bits()], body].concat()
}

pub(crate) fn halves(value: u64) -> [u32; 2] {
    [value as u32, (value >> 32) as u32]
}

pub(crate) fn write(at: u64, value: u32) -> Vec<u32> {
    packet(Opcode::WRITE_DATA, &[&[5 << 8 | 1 << 20][..], &halves(at), &[value]].concat())
}

pub(crate) fn set(register: ComputeRegister, values: &[u32]) -> Vec<u32> {
    packet(Opcode::SET_SH_REG, &[&[register.0][..], values].concat())
}
