//! Kernels of the code objects that queues have dispatched from.

use std::collections::{BTreeMap, BTreeSet};

use belfry_device::cp::kernels_beside;
use belfry_device::look::SeenPackets;
use serde::Serialize;

use super::{Hex, InspectError, Inspector, memory, packets};

/// Most kernels of an answer.
const MOST: usize = 1024;
/// Most packets of a ring that are read, retired ones included.
const PACKETS: u64 = 256;

/// A kernel.
#[derive(Clone, Debug, Serialize)]
pub struct KernelView {
    /// Its process.
    pub pasid: u16,
    /// Its name.
    pub name: String,
    /// Address of its descriptor.
    pub descriptor: Hex,
    /// Address that its code object is loaded at.
    pub code_object: Hex,
    /// The descriptor's fields by name.
    pub fields: BTreeMap<&'static str, String>,
}

impl Inspector<'_> {
    /// All kernels of code objects from which a kernel was dispatched whose packet is still in the ring of an AQL queue.
    ///
    /// # Errors
    ///
    /// A device that is stopped.
    pub fn kernels(&self) -> Result<Vec<KernelView>, InspectError> {
        let mut objects = BTreeSet::new();
        let mut kernels: Vec<KernelView> = Vec::new();
        for queue in self.seen_queues()? {
            let (Some(ring), Some(space)) = (queue.ring, queue.space) else { continue };
            if ring.packets != SeenPackets::Aql || ring.bytes < 64 {
                continue;
            }
            let slots = (ring.bytes / 64).min(PACKETS);
            // From the newest one on backwards.
            let newest = ring.write_index.unwrap_or(ring.read_index);
            for index in (1..=slots).map_while(|back| newest.checked_sub(back)) {
                let at = ring.base.wrapping_add(index.wrapping_mul(64) % ring.bytes);
                let Ok(words) = space.read::<[u32; 16]>(at) else { break };
                let Some(object) = packets::kernel_object(&words) else { continue };
                if kernels.len() >= MOST || !objects.insert((queue.pasid, object)) {
                    continue;
                }
                let Some((base, found)) = kernels_beside(&space, object, MOST - kernels.len()) else {
                    continue;
                };
                for (address, name) in found {
                    objects.insert((queue.pasid, address));
                    let bytes = space.read::<[u8; 64]>(address).ok();
                    let fields = bytes.and_then(|bytes| memory::descriptor(address, &bytes));
                    kernels.push(KernelView {
                        pasid: queue.pasid,
                        name,
                        descriptor: Hex(address),
                        code_object: Hex(base),
                        fields: fields.unwrap_or_default(),
                    });
                }
            }
        }
        Ok(kernels)
    }
}
