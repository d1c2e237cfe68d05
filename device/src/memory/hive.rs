//! Devices whose VRAM is one range of addresses, as XGMI joins them.
//!
//! An entry of a page table without `SYSTEM` holds an address of that range: each device has a segment of it, in the order of their numbers
//! (linux 6.12 `gfxhub_v1_2.c`, `gfxhub_v1_2_get_xgmi_info`; `vram_base_offset` in `amdgpu_vm.c`). The fields of the registers are those of
//! `gc_9_4_3_sh_mask.h`.

use serde::{Deserialize, Serialize};

use super::{Aperture, MAX_PEERS, Memory, Physical};

/// Unit of a segment's size in `MC_VM_XGMI_LFB_SIZE`.
const UNIT: u64 = 16 << 20;

/// Place of a device in its hive.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Hive {
    /// Number of the hive among those of the machine. No register has it.
    pub id: u8,
    /// Its number: which segment is its own.
    pub node: u8,
    /// Devices of the hive, 2 to [`MAX_PEERS`].
    pub nodes: u8,
    /// Numbers that the devices have in the machine, by their places; zeros behind the last one.
    pub devices: [u8; MAX_PEERS],
    /// Bytes of a segment: at least as many as the VRAM of each device, whole units of 16 MiB.
    pub segment: u64,
}

impl Hive {
    /// Returns the places of devices in hive `id`, each by its number in the machine and with its size of VRAM: `None` for one device, which
    /// has none, and for more than reach each other.
    #[must_use]
    pub fn places(id: u8, members: &[(u8, u64)]) -> Option<Vec<Self>> {
        let nodes = u8::try_from(members.len()).ok().filter(|&nodes| nodes > 1)?;
        let most = members.iter().map(|&(_, vram)| vram).max()?;
        let segment = most.checked_next_multiple_of(UNIT)?;
        let mut devices = [0; MAX_PEERS];
        for (at, &(number, _)) in members.iter().enumerate() {
            *devices.get_mut(at)? = number;
        }
        Some((0..nodes).map(|node| Self { id, node, nodes, devices, segment }).collect())
    }

    /// Returns true if a device with this much VRAM can have this place.
    #[must_use]
    pub fn fits(self, vram: u64) -> bool {
        let Self { node, nodes, segment, .. } = self;
        let counts = nodes >= 2 && usize::from(nodes) <= MAX_PEERS && node < nodes;
        // In the order of their numbers, so that none is there twice.
        let members = self.members();
        let ordered = members.is_sorted_by(|one, next| one < next);
        let numbered = members.iter().all(|&number| usize::from(number) < MAX_PEERS);
        counts
            && ordered
            && numbered
            && segment >= vram
            && segment.is_multiple_of(UNIT)
            && segment <= 0x1_ffff * UNIT
    }

    /// Returns the numbers that its devices have in the machine, by their places.
    #[must_use]
    pub fn members(&self) -> &[u8] {
        self.devices.get(..usize::from(self.nodes)).unwrap_or_default()
    }

    /// Bytes of the whole range.
    pub(crate) fn size(self) -> u64 {
        self.segment * u64::from(self.nodes)
    }

    /// The fields of `MC_VM_XGMI_LFB_CNTL` and `MC_VM_XGMI_LFB_SIZE`: own segment, last segment, and bytes of one in 16 MiB.
    pub(crate) fn registers(self) -> (u32, u32, u32) {
        (self.node.into(), u32::from(self.nodes) - 1, (self.segment / UNIT) as u32)
    }

    /// The place that an address of the range is. Addresses behind the range are no place: no peer has their number.
    fn place(self, address: u64) -> Physical {
        let (node, offset) = (address / self.segment, address % self.segment);
        match u8::try_from(node) {
            Ok(node) if node == self.node => Physical::local(offset),
            Ok(node) if node < self.nodes => {
                let number = self.devices.get(usize::from(node)).copied().unwrap_or(u8::MAX);
                Physical::peer(number, offset)
            }
            _ => Physical::peer(u8::MAX, offset),
        }
    }
}

impl Memory {
    /// Makes the device one of a hive.
    pub(crate) fn with_hive(self, hive: Option<Hive>) -> Self {
        Self { hive, ..self }
    }

    /// The device's place in its hive.
    pub(crate) fn hive(&self) -> Option<Hive> {
        self.hive
    }

    /// The place that an entry of a page table names: in a hive, addresses of VRAM are those of all devices.
    #[inline]
    pub(crate) fn placed(&self, at: Physical) -> Physical {
        match self.hive {
            Some(hive) if at.aperture == Aperture::Local => hive.place(at.offset),
            _ => at,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_the_range_are_places_in_the_segments_of_devices() {
        let members = [(1, UNIT), (2, 2 * UNIT), (5, UNIT)];
        let places = Hive::places(0, &members).expect("three devices");
        let second = places[1];
        assert_eq!((second.node, second.nodes, second.segment, second.size()), (1, 3, 2 * UNIT, 6 * UNIT));
        assert!(second.fits(2 * UNIT));
        assert_eq!(second.place(5), Physical::peer(1, 5));
        assert_eq!(second.place(2 * UNIT + 5), Physical::local(5));
        assert_eq!(second.place(4 * UNIT + 5), Physical::peer(5, 5));
        for behind in [6 * UNIT, u64::MAX] {
            assert_eq!(second.place(behind), Physical::peer(u8::MAX, behind % (2 * UNIT)));
        }
        assert_eq!((Hive::places(0, &members[..1]), Hive::places(0, &[])), (None, None));
        assert_eq!(Hive::places(0, &[(0, UNIT); MAX_PEERS + 1]), None);
    }

    #[test]
    fn places_that_no_device_can_have_are_refused() {
        let devices = [0, 1, 0, 0, 0, 0, 0, 0];
        let place = Hive { id: 0, node: 1, nodes: 2, devices, segment: 2 * UNIT };
        assert!(place.fits(2 * UNIT));
        for wrong in [
            Hive { node: 2, ..place },
            Hive { nodes: 9, ..place },
            Hive { devices: [0; MAX_PEERS], ..place },
            Hive { devices: [0, 8, 0, 0, 0, 0, 0, 0], ..place },
            Hive { node: 0, nodes: 1, ..place },
            Hive { segment: UNIT, ..place },
            Hive { segment: 2 * UNIT + 1, ..place },
            Hive { segment: 0x2_0000 * UNIT, ..place },
        ] {
            assert!(!wrong.fits(2 * UNIT), "{wrong:?}");
        }
    }
}
