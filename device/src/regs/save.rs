//! The register file as plain values.

use std::sync::atomic::Ordering;

use serde::{Deserialize, Serialize};

use super::RegisterFile;
use super::unmodelled::SavedUses;
use crate::save::{Broken, check, count};

/// One block's own registers.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct SavedBlock {
    /// Hardware id and instance.
    ip: (u16, u8),
    values: Vec<u32>,
}

/// Everything that registers keep, except for state in other parts of the device.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct SavedRegisters {
    blocks: Vec<SavedBlock>,
    windows: [u32; 5],
    unmodelled: SavedUses,
}

impl RegisterFile {
    /// The values of all registers.
    pub(crate) fn save(&self) -> SavedRegisters {
        let block = |block: &dyn super::Block| {
            let (ip, instance) = block.ip();
            let values = block.kept().into_iter().map(|value| value.load(Ordering::Acquire)).collect();
            SavedBlock { ip: (ip.0, instance), values }
        };
        SavedRegisters {
            blocks: self.blocks.iter().map(|each| block(&**each)).collect(),
            windows: self.windows.kept().map(|value| value.load(Ordering::Acquire)),
            unmodelled: self.unmodelled.save(),
        }
    }

    /// Gives registers the values of another device's. Has none of the effects of a write.
    pub(crate) fn restore(&self, saved: &SavedRegisters) -> Result<(), Broken> {
        count("blocks with registers", saved.blocks.len(), saved.blocks.len() == self.blocks.len())?;
        for (block, saved) in self.blocks.iter().zip(&saved.blocks) {
            let (ip, instance) = block.ip();
            check("hardware id of a block", saved.ip.0, saved.ip == (ip.0, instance))?;
            let kept = block.kept();
            count("registers of a block", saved.values.len(), saved.values.len() == kept.len())?;
            kept.iter().zip(&saved.values).for_each(|(to, &value)| to.store(value, Ordering::Release));
        }
        let windows = self.windows.kept().into_iter().zip(saved.windows);
        windows.for_each(|(to, value)| to.store(value, Ordering::Release));
        self.unmodelled.restore(&saved.unmodelled)
    }
}
