//! Packets in words.

use std::collections::BTreeMap;

use belfry_abi::aql::{
    AQL_PACKET_SIZE, BarrierPacket, BarrierValuePacket, KernelDispatchPacket, PacketHeader, PacketType,
    Pm4IbPacket,
};
use belfry_abi::mes::API_FRAME_SIZE_IN_DWORDS;
use belfry_abi::pm4::Pm4Header;
use belfry_abi::sdma;
use belfry_device::cp::{KernelNames, aql_kind};
use belfry_device::look::{SeenPackets, SeenRing};
use belfry_device::vm::AddressSpace;
use serde::Serialize;
use zerocopy::{FromBytes, IntoBytes as _};

use super::Hex;

/// Most packets that are shown of a ring.
const MOST: u64 = 32;
/// Most dwords that are shown of a packet that is not AQL.
const WORDS: usize = 16;

/// One packet.
#[derive(Clone, Debug, Serialize)]
pub struct PacketView {
    /// Its place in the queue since the queue was made: in packets for AQL, otherwise in dwords.
    pub index: u64,
    /// Address of the packet.
    pub address: Hex,
    /// Name of the packet.
    pub kind: String,
    /// Its fields by name.
    pub fields: BTreeMap<&'static str, String>,
    /// Its dwords, the first ones of a long packet.
    pub words: Vec<Hex>,
}

/// The packets of a ring that have not been retired.
pub(super) fn of_ring(ring: &SeenRing, space: &AddressSpace) -> Vec<PacketView> {
    let written = ring.write_index.map_or(0, |written| written.wrapping_sub(ring.read_index));
    if ring.bytes == 0 || written > ring.bytes {
        return Vec::new();
    }
    let mut names = KernelNames::default();
    let mut found = Vec::new();
    if ring.packets == SeenPackets::Aql {
        for index in (0..written.min(MOST)).map(|ahead| ring.read_index.wrapping_add(ahead)) {
            let address = ring.base.wrapping_add(index.wrapping_mul(AQL_PACKET_SIZE) % ring.bytes);
            let Ok(words) = space.read::<[u32; 16]>(address) else { break };
            found.push(aql(index, address, &words, Some((space, &mut names))));
        }
        return found;
    }
    let mut ahead = 0;
    while ahead < written && (found.len() as u64) < MOST {
        let at = |more: u64| {
            let index = ring.read_index.wrapping_add(ahead).wrapping_add(more);
            ring.base.wrapping_add(index.wrapping_mul(4) % ring.bytes)
        };
        let Ok(first) = space.load_u32(at(0)) else { break };
        let (kind, dwords) = match ring.packets {
            SeenPackets::Mes => ("MES frame".to_owned(), API_FRAME_SIZE_IN_DWORDS as u64),
            SeenPackets::Sdma => {
                let op = sdma::Op(first as u8);
                // Only the engine knows the length of this packet: packets after it are not shown.
                (op.name().map_or_else(|| format!("operation {}", op.0), str::to_owned), written - ahead)
            }
            _ => {
                let header = Pm4Header::from_bits(first);
                let opcode = header.opcode();
                let name = opcode.name().map_or_else(|| format!("opcode {:#x}", opcode.0), str::to_owned);
                (name, 1 + u64::from(header.body_dwords()))
            }
        };
        let words = (0..dwords.min(WORDS as u64).min(written - ahead))
            .map_while(|more| space.load_u32(at(more)).ok());
        found.push(PacketView {
            index: ring.read_index.wrapping_add(ahead),
            address: Hex(at(0)),
            kind,
            fields: BTreeMap::new(),
            words: words.map(|word| Hex(word.into())).collect(),
        });
        ahead += dwords;
    }
    found
}

/// The kernel object of a dispatch; also of a retired one, whose header no longer says that it was a
/// dispatch.
pub(super) fn kernel_object(words: &[u32; 16]) -> Option<u64> {
    let header = PacketHeader::from_bits(words[0] as u16).packet_type();
    let packet: KernelDispatchPacket = parsed(words)?;
    let possible = [PacketType::KERNEL_DISPATCH, PacketType::INVALID].contains(&header);
    (possible && packet.kernel_object != 0 && packet.kernel_object.is_multiple_of(64))
        .then_some(packet.kernel_object)
}

fn parsed<T: FromBytes>(words: &[u32; 16]) -> Option<T> {
    T::read_from_bytes(words.as_bytes()).ok()
}

/// An AQL packet; kernels have their names if there is memory to find them in.
pub(super) fn aql(
    index: u64,
    address: u64,
    words: &[u32; 16],
    names: Option<(&AddressSpace, &mut KernelNames)>,
) -> PacketView {
    let header = PacketHeader::from_bits(words[0] as u16);
    let kind = aql_kind(header, words[0]);
    let mut fields = BTreeMap::from([
        ("barrier", header.barrier().to_string()),
        ("acquire", scope(header.acquire_scope())),
        ("release", scope(header.release_scope())),
    ]);
    let mut add = |name, value: String| {
        fields.insert(name, value);
    };
    match kind {
        "KERNEL_DISPATCH" => {
            if let Some(packet) = parsed::<KernelDispatchPacket>(words) {
                let KernelDispatchPacket {
                    workgroup_size_x: x,
                    workgroup_size_y: y,
                    workgroup_size_z: z,
                    ..
                } = packet;
                add("workgroup", format!("{x} x {y} x {z}"));
                let KernelDispatchPacket { grid_size_x: x, grid_size_y: y, grid_size_z: z, .. } = packet;
                add("grid", format!("{x} x {y} x {z}"));
                add("private_segment_size", packet.private_segment_size.to_string());
                add("group_segment_size", packet.group_segment_size.to_string());
                add("kernel_object", Hex(packet.kernel_object).to_string());
                add("kernarg_address", Hex(packet.kernarg_address).to_string());
                add("completion_signal", Hex(packet.completion_signal).to_string());
                if let Some((space, names)) = names {
                    add("kernel", names.get(space, packet.kernel_object).to_owned());
                }
            }
        }
        "BARRIER_AND" | "BARRIER_OR" => {
            if let Some(packet) = parsed::<BarrierPacket>(words) {
                let signals = packet.dep_signal.iter().filter(|&&signal| signal != 0);
                add(
                    "dep_signal",
                    signals.map(|&signal| Hex(signal).to_string()).collect::<Vec<_>>().join(" "),
                );
                add("completion_signal", Hex(packet.completion_signal).to_string());
            }
        }
        "BARRIER_VALUE" => {
            if let Some(packet) = parsed::<BarrierValuePacket>(words) {
                add("signal", Hex(packet.signal).to_string());
                add("value", packet.value.to_string());
                add("mask", Hex(packet.mask.cast_unsigned()).to_string());
                add("cond", packet.cond.to_string());
                add("completion_signal", Hex(packet.completion_signal).to_string());
            }
        }
        "PM4_IB" => {
            if let Some(packet) = parsed::<Pm4IbPacket>(words) {
                let [_, lo, hi, size] = packet.ib_jump;
                add("buffer", Hex(u64::from(hi) << 32 | u64::from(lo)).to_string());
                add("dwords", (size & 0xf_ffff).to_string());
                add("completion_signal", Hex(packet.completion_signal).to_string());
            }
        }
        _ => {}
    }
    let words = words.iter().map(|&word| Hex(word.into())).collect();
    PacketView { index, address: Hex(address), kind: kind.to_owned(), fields, words }
}

fn scope(scope: u8) -> String {
    ["none", "agent", "system"]
        .get(usize::from(scope))
        .map_or_else(|| scope.to_string(), |&name| name.to_owned())
}
