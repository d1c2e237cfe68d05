//! The hardware queues' registers as plain values.

use serde::{Deserialize, Serialize};

use super::HqdBanks;
use crate::save::{Broken, count};

/// The registers of one queue.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
struct SavedHqd {
    /// Its position among all queues.
    at: u16,
    activation: u32,
    registers: Vec<u32>,
}

/// The registers of every queue that has been used.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct SavedHqds(Vec<SavedHqd>);

impl HqdBanks {
    /// Saves the registers of all queues.
    pub(crate) fn save(&self) -> SavedHqds {
        let banks = self.lock();
        let used = (0..)
            .zip(banks.iter())
            .filter(|(_, hqd)| hqd.activation != 0 || hqd.registers.iter().any(|&value| value != 0));
        let saved = used.map(|(at, hqd)| SavedHqd {
            at,
            activation: hqd.activation,
            registers: hqd.registers.to_vec(),
        });
        SavedHqds(saved.collect())
    }

    /// Takes over the registers of another device's queues.
    pub(crate) fn restore(&self, saved: &SavedHqds) -> Result<(), Broken> {
        let mut banks = Self::empty(self.xccs());
        for SavedHqd { at, activation, registers } in &saved.0 {
            let none = || Broken { field: "number of a hardware queue", value: (*at).into() };
            let hqd = banks.get_mut(usize::from(*at)).ok_or_else(none)?;
            count("registers of a queue", registers.len(), registers.len() == hqd.registers.len())?;
            hqd.registers.copy_from_slice(registers);
            hqd.activation = *activation;
        }
        *self.lock() = banks;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::{HQD_FIRST, HqdId};

    #[test]
    fn registers_go_through_bytes_and_back_unchanged() {
        let original = HqdBanks::default();
        for (id, value) in [(HqdId::MES, 7), (HqdId { me: 1, pipe: 2, queue: 3 }, 9)] {
            original.hqd(id, |hqd| {
                hqd.write(HQD_FIRST, value);
                hqd.activate();
            });
        }
        let bytes = postcard::to_allocvec(&original.save()).expect("plain values");
        let restored = HqdBanks::default();
        restored.restore(&postcard::from_bytes(&bytes).expect("the same values")).expect("queues");
        assert_eq!(restored.save(), original.save());
        assert_eq!(restored.active(3).len(), 1);
        let mut other = original.save();
        other.0[0].at = 128;
        assert_eq!(restored.restore(&other).expect_err("too many").value, 128);
        other = original.save();
        other.0[1].registers.pop();
        assert_eq!(restored.restore(&other).expect_err("too few").field, "registers of a queue");
    }
}
