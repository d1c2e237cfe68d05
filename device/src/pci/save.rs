//! The PCI function as plain bytes.

use belfry_abi::pci::MSIX_VECTORS;
use belfry_pci::MSIX_ENTRY;
use serde::{Deserialize, Serialize};

use super::{Function, Msix};
use crate::save::{Broken, count};

const TABLE: usize = MSIX_VECTORS as usize * MSIX_ENTRY as usize;

/// Configuration space.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct SavedFunction(#[serde(with = "serde_bytes")] Vec<u8>);

/// The MSI-X table, and a bit for each vector that is pending.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct SavedMsix {
    #[serde(with = "serde_bytes")]
    table: Vec<u8>,
    pending: u64,
}

impl Function {
    /// Configuration space.
    pub(crate) fn save(&self) -> SavedFunction {
        SavedFunction(self.lock().bytes().to_vec())
    }

    /// Takes over the configuration space of another function, with its permissions.
    pub(crate) fn restore(&self, saved: &SavedFunction) -> Result<(), Broken> {
        let mut space = self.lock();
        let restored = space.restore(&saved.0);
        restored.map_err(|at| Broken { field: "constant byte of configuration space", value: at as u64 })?;
        self.publish(&space);
        Ok(())
    }
}

impl Msix {
    /// Table and pending bits.
    pub(crate) fn save(&self) -> SavedMsix {
        let (mut table, mut pending) = (vec![0; TABLE], [0; 8]);
        self.0.read_table(0, &mut table);
        self.0.read_pending(0, &mut pending);
        SavedMsix { table, pending: u64::from_le_bytes(pending) }
    }

    /// Restores the table and the pending bits of another function; reserved bits stay 0.
    pub(crate) fn restored(saved: &SavedMsix) -> Result<Self, Broken> {
        count("bytes of the MSI-X table", saved.table.len(), saved.table.len() == TABLE)?;
        let mut msix = Self::new();
        msix.0.write_table(0, &saved.table);
        let pending = (0..MSIX_VECTORS).filter(|vector| saved.pending >> vector & 1 == 1);
        pending.for_each(|vector| msix.0.set_pending(vector));
        Ok(msix)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::GpuConfig;
    use crate::chip::gfx1100;
    use crate::pci::{ConfigSpace, SharedControl};

    #[test]
    fn function_restores_what_it_may_do() {
        let function = || {
            let control = Arc::new(SharedControl::default());
            let space = ConfigSpace::new(&gfx1100::chip(8), &GpuConfig::default());
            (Function::new(space, Arc::clone(&control)), control)
        };
        let (original, _) = function();
        original.write(4, &[6, 4]);
        let (restored, control) = function();
        restored.restore(&original.save()).expect("the same function");
        assert!(control.bus_master() && control.get().pin_disabled());
        assert_eq!(restored.save().0, original.save().0);
        let mut other = original.save();
        other.0[2] ^= 1;
        let refused = restored.restore(&other).expect_err("another device");
        assert_eq!(refused, Broken { field: "constant byte of configuration space", value: 2 });
    }

    #[test]
    fn msix_restores_table_and_pending_vectors() {
        let mut msix = Msix::new();
        msix.write(belfry_abi::pci::MSIX_TABLE_OFFSET, &[0x12; 16]);
        msix.set_pending(0);
        let saved = msix.save();
        assert_eq!(saved.pending, 1);
        let restored = Msix::restored(&saved).expect("a table").save();
        assert_eq!((restored.table, restored.pending), (saved.table, saved.pending));
        assert!(Msix::restored(&SavedMsix { table: vec![0; 3], pending: 0 }).is_err());
    }
}
