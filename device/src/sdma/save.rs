//! An SDMA queue between two turns, as plain values.

use serde::{Deserialize, Serialize};

use super::moments::Watched;
use super::{SdmaConfig, SdmaEnv, SdmaQueue};
use crate::queue::DmaContext;
use crate::save::{Broken, check};
use crate::vm::{SpaceList, Spaces, VMIDS};

/// An SDMA queue; the packet that it is in is read again.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct SavedSdma {
    config: SdmaConfig,
    /// Number of its address space.
    space: u32,
    read_index: u64,
    reported: Option<u64>,
    context: DmaContext,
    /// VMID of its indirect buffer.
    buffer_vmid: u8,
    stopped: bool,
}

impl SdmaQueue {
    /// Saves the queue, while nothing serves it and its engine is held.
    pub(crate) fn save(&self, spaces: &mut SpaceList) -> SavedSdma {
        SavedSdma {
            config: self.config,
            space: spaces.number(&self.space),
            read_index: self.read_index,
            reported: self.reported,
            context: self
                .moving
                .as_ref()
                .map_or(self.context, |moving| DmaContext { done: moving.done(), ..self.context }),
            buffer_vmid: self.buffer_vmid,
            stopped: self.stopped,
        }
    }

    /// Makes a queue in the state of a saved one.
    pub(crate) fn restored(saved: &SavedSdma, spaces: &Spaces, env: &SdmaEnv) -> Result<Self, Broken> {
        let bytes = saved.config.ring_bytes;
        check("bytes of a ring", bytes, bytes.is_power_of_two() && (4..=1 << 33).contains(&bytes))?;
        check("read pointer of a ring", saved.read_index, saved.read_index.is_multiple_of(4))?;
        saved.context.check()?;
        check("VMID of an indirect buffer", saved.buffer_vmid, usize::from(saved.buffer_vmid) < VMIDS)?;
        let mut restored = Self {
            config: saved.config,
            space: spaces.get(saved.space)?,
            env: env.clone(),
            read_index: saved.read_index,
            reported: saved.reported,
            context: saved.context,
            buffer_vmid: saved.buffer_vmid,
            buffer_space: None,
            moving: None,
            stopped: saved.stopped,
            hangs: false,
            watched: Watched::default(),
        };
        restored.buffer_space = restored.space_of(saved.buffer_vmid);
        Ok(restored)
    }
}
