//! The compute registers of a queue: SET_SH_REG writes them, and dispatches are launched from them.

use std::fmt;

use belfry_abi::pm4::{COMPUTE_REGISTERS, COMPUTE_REGISTERS_FIRST, ComputeRegister};

/// The registers, in the order of their numbers and of the MQD.
#[derive(Clone, PartialEq, serde::Deserialize, serde::Serialize)]
#[serde(try_from = "Vec<u32>", into = "Vec<u32>")]
pub(super) struct ComputeRegisters(Box<[u32; COMPUTE_REGISTERS]>);

/// Registers that a dispatch uses.
const OF_DISPATCH: [ComputeRegister; 26] = [
    ComputeRegister::DISPATCH_INITIATOR,
    ComputeRegister::DIM_X,
    ComputeRegister::DIM_Y,
    ComputeRegister::DIM_Z,
    ComputeRegister::START_X,
    ComputeRegister::START_Y,
    ComputeRegister::START_Z,
    ComputeRegister::NUM_THREAD_X,
    ComputeRegister::NUM_THREAD_Y,
    ComputeRegister::NUM_THREAD_Z,
    ComputeRegister::PGM_LO,
    ComputeRegister::PGM_HI,
    ComputeRegister::DISPATCH_SCRATCH_BASE_LO,
    ComputeRegister::DISPATCH_SCRATCH_BASE_HI,
    ComputeRegister::PGM_RSRC1,
    ComputeRegister::PGM_RSRC2,
    ComputeRegister::PGM_RSRC3,
    ComputeRegister::TMPRING_SIZE,
    ComputeRegister::STATIC_THREAD_MGMT_SE0,
    ComputeRegister::STATIC_THREAD_MGMT_SE1,
    ComputeRegister::STATIC_THREAD_MGMT_SE2,
    ComputeRegister::STATIC_THREAD_MGMT_SE3,
    ComputeRegister::STATIC_THREAD_MGMT_SE4,
    ComputeRegister::STATIC_THREAD_MGMT_SE5,
    ComputeRegister::STATIC_THREAD_MGMT_SE6,
    ComputeRegister::STATIC_THREAD_MGMT_SE7,
];

/// Registers that are not 0, by name.
impl fmt::Debug for ComputeRegisters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = (COMPUTE_REGISTERS_FIRST..).zip(*self.0).filter(|&(_, value)| value != 0).map(
            |(register, value)| {
                let name = ComputeRegister(register).name().unwrap_or("reserved");
                (format_args!("{name}").to_string(), format!("{value:#x}"))
            },
        );
        f.debug_map().entries(named).finish()
    }
}

impl Default for ComputeRegisters {
    fn default() -> Self {
        Self(Box::new([0; COMPUTE_REGISTERS]))
    }
}

impl From<ComputeRegisters> for Vec<u32> {
    fn from(registers: ComputeRegisters) -> Self {
        registers.0.to_vec()
    }
}

impl TryFrom<Vec<u32>> for ComputeRegisters {
    type Error = &'static str;

    fn try_from(values: Vec<u32>) -> Result<Self, Self::Error> {
        values.try_into().map(Self).map_err(|_| "another number of compute registers than there are")
    }
}

impl ComputeRegisters {
    /// Makes registers with the values of an MQD.
    pub(super) fn of(values: &[u32]) -> Self {
        let mut registers = Self::default();
        registers.0.iter_mut().zip(values).for_each(|(register, &value)| *register = value);
        registers
    }

    pub(super) fn values(&self) -> &[u32] {
        &self.0[..]
    }

    fn position(register: ComputeRegister) -> Option<usize> {
        register.name()?;
        register.0.checked_sub(COMPUTE_REGISTERS_FIRST).map(|at| at as usize)
    }

    /// Reads a register; one that does not exist reads 0.
    pub(super) fn get(&self, register: ComputeRegister) -> u32 {
        Self::position(register).map_or(0, |at| self.0[at])
    }

    /// Writes a register. Returns false if it does not exist.
    pub(super) fn set(&mut self, register: ComputeRegister, value: u32) -> bool {
        let position = Self::position(register);
        if let Some(at) = position {
            self.0[at] = value;
        }
        position.is_some()
    }

    /// Reads two registers as 64 bits, the lower half first.
    pub(super) fn pair(&self, lo: ComputeRegister, hi: ComputeRegister) -> u64 {
        u64::from(self.get(lo)) | u64::from(self.get(hi)) << 32
    }

    /// Reads the three registers of a dimension, from the one of x on.
    pub(super) fn three(&self, x: ComputeRegister) -> [u32; 3] {
        [0, 1, 2].map(|dim| self.get(ComputeRegister(x.0 + dim)))
    }

    /// Returns the user data, from the first register on.
    pub(super) fn user_data(&self) -> &[u32] {
        let first = ComputeRegister::USER_DATA_0.0 - COMPUTE_REGISTERS_FIRST;
        &self.0[first as usize..]
    }

    /// Returns a copy with only the registers that a dispatch uses.
    pub(super) fn of_dispatch(&self) -> Self {
        let mut registers = Self::default();
        for register in dispatch_registers() {
            registers.set(register, self.get(register));
        }
        registers
    }

    /// Writes the registers that a dispatch uses: a mask of those that are not 0, and then their values.
    pub(super) fn put(&self, bytes: &mut Vec<u8>) {
        let values = || dispatch_registers().map(|register| self.get(register));
        let mask = (0..).zip(values()).fold(0u64, |mask, (at, value)| mask | u64::from(value != 0) << at);
        bytes.extend(mask.to_le_bytes());
        bytes.extend(values().filter(|&value| value != 0).flat_map(u32::to_le_bytes));
    }

    /// Reads registers that [`put`](Self::put) has written; `word` gives the next value.
    pub(super) fn take<E>(mask: u64, mut word: impl FnMut() -> Result<u32, E>) -> Result<Self, E> {
        let mut registers = Self::default();
        for (at, register) in (0..).zip(dispatch_registers()) {
            if mask >> at & 1 != 0 {
                registers.set(register, word()?);
            }
        }
        Ok(registers)
    }
}

fn dispatch_registers() -> impl Iterator<Item = ComputeRegister> {
    let user_data = ComputeRegister::USER_DATA_0.0..=ComputeRegister::USER_DATA_15.0;
    OF_DISPATCH.into_iter().chain(user_data.map(ComputeRegister))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_of_a_dispatch_go_through_bytes_and_back_unchanged() {
        let mut registers = ComputeRegisters::default();
        assert!(registers.set(ComputeRegister::PGM_HI, 7) && registers.set(ComputeRegister::USER_DATA_15, 9));
        assert!(registers.set(ComputeRegister::RESOURCE_LIMITS, 5), "nothing to a dispatch");
        assert!(!registers.set(ComputeRegister(0x223), 1) && !registers.set(ComputeRegister(0x1ff), 1));
        let mut bytes = Vec::new();
        registers.put(&mut bytes);
        let mask = u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes"));
        let mut words = bytes[8..].chunks(4).map(|word| u32::from_le_bytes(word.try_into().expect("four")));
        let taken = ComputeRegisters::take(mask, || words.next().ok_or(()));
        assert_eq!(taken, Ok(registers.of_dispatch()));
        assert_eq!(bytes.len(), 16);
        let shown = format!("{registers:?}");
        assert!(shown.contains("COMPUTE_RESOURCE_LIMITS") && !shown.contains("PGM_LO"), "{shown}");
    }
}
