//! Memory, decoded as words or structures.

use std::collections::BTreeMap;
use std::sync::Arc;

use belfry_abi::kernel_descriptor::KernelDescriptor;
use belfry_abi::signal::{
    AMD_SIGNAL_KIND_DOORBELL, AMD_SIGNAL_KIND_INVALID, AMD_SIGNAL_KIND_LEGACY_DOORBELL, AMD_SIGNAL_KIND_USER,
    AmdSignal,
};
use belfry_device::cp::KernelNames;
use belfry_device::vm::{AddressSpace, Fault};
use belfry_isa::wave::Wave;
use serde::Serialize;
use zerocopy::FromBytes as _;

use super::{Hex, InspectError, Inspector, PacketView, WaveId, packets, waves};

/// The most bytes of one answer.
pub const MAX_BYTES: u64 = 64 << 10;

/// Form in which memory is decoded.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum MemoryAs {
    /// Dwords.
    Words,
    /// AQL packets.
    Packets,
    /// `amd_signal_t`.
    Signals,
    /// `kernel_descriptor_t`.
    Descriptors,
}

/// A text that names no form in which memory is decoded.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{0:?} is none of words, packets, signals and descriptors")]
pub struct UnknownForm(pub String);

impl std::str::FromStr for MemoryAs {
    type Err = UnknownForm;

    fn from_str(text: &str) -> Result<Self, UnknownForm> {
        match text {
            "words" => Ok(Self::Words),
            "packets" => Ok(Self::Packets),
            "signals" => Ok(Self::Signals),
            "descriptors" => Ok(Self::Descriptors),
            _ => Err(UnknownForm(text.to_owned())),
        }
    }
}

/// A decoded part of memory.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum MemoryItem {
    /// Dwords from an address on.
    Words(Hex, Vec<Hex>),
    /// A packet.
    Packet(PacketView),
    /// A signal or a descriptor: its address, and its fields by name.
    Fields(Hex, BTreeMap<&'static str, String>),
}

/// Bytes that are wanted of a wave.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum BytesOf {
    /// Memory of its process, from an address on.
    Memory(u64),
    /// Private memory of a lane.
    Private {
        /// The lane.
        lane: u32,
        /// Offset of the first byte in the lane's memory.
        offset: u32,
    },
    /// LDS of its workgroup, from a byte on.
    Lds(u32),
}

/// Addresses of bytes of a wave that are in memory.
pub(super) fn places_of(wave: &Wave, of: BytesOf, count: usize) -> Vec<u64> {
    let bytes = 0..count as u64;
    match of {
        BytesOf::Lds(_) => Vec::new(),
        BytesOf::Memory(address) => bytes.map(|index| address.wrapping_add(index)).collect(),
        // Consecutive bytes of a lane are not consecutive in memory, so each dword has its own address.
        BytesOf::Private { lane, offset } => {
            bytes.map(|index| wave.private_address(lane, offset.wrapping_add(index as u32))).collect()
        }
    }
}

/// Reads up to the first byte that is not mapped; returns the number of bytes.
fn read_up_to(space: &AddressSpace, address: u64, bytes: &mut [u8]) -> usize {
    if space.read_bytes(address, bytes).is_ok() {
        return bytes.len();
    }
    read_each(space, (0..bytes.len() as u64).map(|index| address.wrapping_add(index)), bytes)
}

/// Reads bytes, each from its own address, up to the first one that is not mapped.
fn read_each(space: &AddressSpace, places: impl Iterator<Item = u64>, bytes: &mut [u8]) -> usize {
    let mut read = 0;
    for (byte, at) in bytes.iter_mut().zip(places) {
        if space.read_bytes(at, std::slice::from_mut(byte)).is_err() {
            break;
        }
        read += 1;
    }
    read
}

fn signal(bytes: &[u8]) -> Option<BTreeMap<&'static str, String>> {
    let signal = AmdSignal::read_from_bytes(bytes).ok()?;
    let kind = match signal.kind {
        AMD_SIGNAL_KIND_INVALID => "invalid".to_owned(),
        AMD_SIGNAL_KIND_USER => "user".to_owned(),
        AMD_SIGNAL_KIND_DOORBELL => "doorbell".to_owned(),
        AMD_SIGNAL_KIND_LEGACY_DOORBELL => "legacy doorbell".to_owned(),
        other => other.to_string(),
    };
    Some(BTreeMap::from([
        ("kind", kind),
        ("value", signal.value.to_string()),
        ("event_mailbox_ptr", Hex(signal.event_mailbox_ptr).to_string()),
        ("event_id", signal.event_id.to_string()),
        ("start_ts", signal.start_ts.to_string()),
        ("end_ts", signal.end_ts.to_string()),
        ("queue_ptr", Hex(signal.queue_ptr).to_string()),
    ]))
}

/// The fields of a kernel descriptor, which is at an address.
pub(super) fn descriptor(address: u64, bytes: &[u8]) -> Option<BTreeMap<&'static str, String>> {
    let found = KernelDescriptor::read_from_bytes(bytes).ok()?;
    let entry = address.wrapping_add_signed(found.kernel_code_entry_byte_offset);
    Some(BTreeMap::from([
        ("group_segment_fixed_size", found.group_segment_fixed_size.to_string()),
        ("private_segment_fixed_size", found.private_segment_fixed_size.to_string()),
        ("kernarg_size", found.kernarg_size.to_string()),
        ("entry", Hex(entry).to_string()),
        ("compute_pgm_rsrc1", Hex(found.compute_pgm_rsrc1.bits().into()).to_string()),
        ("compute_pgm_rsrc2", Hex(found.compute_pgm_rsrc2.bits().into()).to_string()),
        ("compute_pgm_rsrc3", Hex(found.compute_pgm_rsrc3.bits().into()).to_string()),
        ("kernel_code_properties", Hex(found.kernel_code_properties.bits().into()).to_string()),
        ("kernarg_preload", Hex(found.kernarg_preload.into()).to_string()),
    ]))
}

impl Inspector<'_> {
    /// Reads memory as a wave sees it, private memory of one of its lanes, or LDS; returns the number of
    /// bytes that could be read.
    ///
    /// # Errors
    ///
    /// No such wave.
    pub fn bytes_of_wave(&self, wave: WaveId, of: BytesOf, bytes: &mut [u8]) -> Result<usize, InspectError> {
        let (mut found, mut from_lds) = (None, 0);
        self.look(&mut |seen| {
            if waves::id(seen) != wave {
                return;
            }
            let places = match of {
                BytesOf::Private { .. } => places_of(seen.wave, of, bytes.len()),
                BytesOf::Memory(_) => Vec::new(),
                BytesOf::Lds(offset) => {
                    let lds = seen.lds.get(offset as usize..).unwrap_or_default();
                    from_lds = lds.len().min(bytes.len());
                    bytes[..from_lds].copy_from_slice(&lds[..from_lds]);
                    Vec::new()
                }
            };
            found = Some((Arc::clone(seen.dispatch.space), places));
        })?;
        let (space, places) = found.ok_or(InspectError::Wave(wave))?;
        Ok(match of {
            BytesOf::Memory(address) => read_up_to(&space, address, bytes),
            BytesOf::Private { .. } => read_each(&space, places.into_iter(), bytes),
            BytesOf::Lds(_) => from_lds,
        })
    }

    /// Reads memory of a process; returns the number of bytes that could be read. PASID 0 is the kernel.
    ///
    /// # Errors
    ///
    /// No such process.
    pub fn bytes_of_process(
        &self,
        pasid: u16,
        address: u64,
        bytes: &mut [u8],
    ) -> Result<usize, InspectError> {
        Ok(read_up_to(&*self.space(pasid)?, address, bytes))
    }

    /// Memory of a process; PASID 0 is the kernel. Bytes that do not fill an item are left out.
    ///
    /// # Errors
    ///
    /// Memory that cannot be read, or more than [`MAX_BYTES`].
    pub fn memory(
        &self,
        pasid: u16,
        (address, len): (u64, u64),
        what: MemoryAs,
    ) -> Result<Vec<MemoryItem>, InspectError> {
        if len > MAX_BYTES {
            return Err(InspectError::TooLong(len));
        }
        let space = self.space(pasid)?;
        let mut bytes = vec![0; len as usize];
        let failed = |fault: Fault| InspectError::Memory(Hex(fault.va), format!("{:?}", fault.kind));
        space.read_bytes(address, &mut bytes).map_err(failed)?;
        let mut names = KernelNames::default();
        let size = if what == MemoryAs::Words { 16 } else { 64 };
        let items = bytes.chunks(size).zip((address..).step_by(size)).filter_map(|(part, at)| match what {
            MemoryAs::Words => {
                let (words, _) = part.as_chunks::<4>();
                let words: Vec<Hex> =
                    words.iter().map(|&word| Hex(u32::from_le_bytes(word).into())).collect();
                (!words.is_empty()).then_some(MemoryItem::Words(Hex(at), words))
            }
            MemoryAs::Packets => {
                let words = <[u32; 16]>::read_from_bytes(part).ok()?;
                let index = (at - address) / 64;
                Some(MemoryItem::Packet(packets::aql(index, at, &words, Some((&*space, &mut names)))))
            }
            MemoryAs::Signals => Some(MemoryItem::Fields(Hex(at), signal(part)?)),
            MemoryAs::Descriptors => Some(MemoryItem::Fields(Hex(at), descriptor(at, part)?)),
        });
        Ok(items.collect())
    }
}
