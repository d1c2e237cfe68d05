use alloc::vec::Vec;

use belfry_abi::ih::{Client, Source};
use belfry_abi::partition::ComputePartition::{self, Cpx, Dpx, Qpx, Spx, Tpx};

use super::*;
use crate::asic;

const INFO: DeviceInfo = DeviceInfo {
    vendor_id: 0x1002,
    device_id: 0x74a1,
    revision_id: 0,
    subsystem_vendor_id: 0x1002,
    subsystem_id: 0,
    domain: 0,
    location_id: 0x300,
    render_minor: 128,
    partition_minors: [0; 7],
    numa_node: 0,
    hive: 0,
};

/// A GPU of so many graphics cores, each of which has another number of compute units, and two SDMA engines.
fn gpu(xccs: u32) -> Config {
    let cu_bitmap: Vec<u32> = (0..xccs).flat_map(|xcc| [(1 << (xcc + 1)) - 1, 1]).collect();
    Config {
        vram_size: 1 << 30,
        xccs,
        shader_engines: 2,
        arrays_per_engine: 1,
        cus: cu_bitmap.iter().map(|bitmap| bitmap.count_ones()).sum(),
        cu_bitmap,
        sdma_engines: 2 * xccs,
        ..Config::default()
    }
}

fn nodes(xccs: u32, mode: ComputePartition) -> Result<Arc<Nodes>> {
    Nodes::new(asic::find((9, 4, 3)).unwrap(), &INFO, &gpu(xccs), mode, &[])
}

#[test]
fn each_partition_is_a_node_with_its_part_of_the_gpu() {
    let nodes = nodes(8, Qpx).unwrap();
    assert_eq!((nodes.count(), nodes.mode()), (4, Qpx));
    let of = |node: &Node| (node.first_xcc, node.config.xccs, node.config.cus, node.config.sdma_engines);
    let found: Vec<_> = nodes.iter().map(of).collect();
    assert_eq!(found, [(0, 2, 5, 4), (2, 2, 9, 4), (4, 2, 13, 4), (6, 2, 17, 4)]);
    assert_eq!(nodes.get(1).config.cu_bitmap, [0b111, 1, 0b1111, 1]);
    // Two engines for transfers over PCIe, the others for links.
    assert!(nodes.iter().all(|node| (node.sdma.engines(), node.sdma.pcie_engines()) == (4, 2)));
    let places: Vec<_> = nodes.iter().map(|node| nodes.location_id(node, &INFO)).collect();
    assert_eq!(places, [0x300, 0x301, 0x302, 0x303]);
}

#[test]
fn names_are_each_node_s_own_and_the_same_every_time() {
    let ids = |xccs, mode| nodes(xccs, mode).unwrap().iter().map(|node| node.gpu_id).collect::<Vec<_>>();
    for (xccs, mode) in [(8, Cpx), (8, Qpx), (8, Dpx), (6, Tpx), (2, Cpx), (1, Spx)] {
        let found = ids(xccs, mode);
        assert_eq!(found, ids(xccs, mode));
        assert!((1..found.len()).all(|at| !found[..at].contains(&found[at])), "{found:x?}");
        assert!(!found.contains(&0));
    }
    // Names of another GPU's nodes are left out.
    let taken = ids(8, Cpx);
    let asic = asic::find((9, 4, 3)).unwrap();
    let second = Nodes::new(asic, &INFO, &gpu(8), Cpx, &taken).unwrap();
    let second: Vec<_> = second.iter().map(|node| node.gpu_id).collect();
    assert!(second.iter().all(|id| !taken.contains(id)), "{taken:x?} {second:x?}");
}

#[test]
fn name_of_a_whole_gpu_does_not_depend_on_its_cores() {
    let asic = asic::ANY;
    let config = Config { vram_size: 1 << 30, ..Config::default() };
    let one = Nodes::new(asic, &INFO, &config, Spx, &[]).unwrap();
    assert_eq!(one.first().gpu_id, nodes(8, Spx).unwrap().first().gpu_id);
    assert_eq!(one.location_id(one.first(), &INFO), 0x300);
}

#[test]
fn modes_that_the_cores_do_not_allow_are_refused() {
    for (xccs, mode) in [(8, Tpx), (2, Dpx), (4, Qpx), (1, Cpx), (6, Dpx)] {
        assert_eq!(nodes(xccs, mode).err(), Some(Errno::EINVAL), "{xccs} {mode}");
    }
}

#[test]
fn interrupts_belong_to_the_node_of_their_core_or_of_their_die_and_vmid() {
    let raised = |nodes: &Nodes, source: u8, vmid: u8| {
        let entry = IhEntry::new(Client::GRBM_CP, Source::CP_EOP_INTERRUPT, 0, vmid, 1).from_node(source);
        nodes.raised(&entry).number
    };
    let cpx = nodes(4, Cpx).unwrap();
    // VMIDs 4 to 9 are those of even nodes, 10 to 15 of odd ones.
    assert_eq!(raised(&cpx, node::of_xcc(2), 4), 2);
    assert_eq!(raised(&cpx, node::of_xcc(3), 15), 3);
    assert_eq!((raised(&cpx, node::of_die(1), 9), raised(&cpx, node::of_die(1), 10)), (2, 3));
    let dpx = nodes(8, Dpx).unwrap();
    assert_eq!((raised(&dpx, node::of_xcc(3), 3), raised(&dpx, node::of_xcc(4), 3)), (0, 1));
    assert_eq!((raised(&dpx, node::of_die(1), 15), raised(&dpx, node::of_die(2), 15)), (0, 1));
    // What a device that is not one says.
    assert_eq!((raised(&dpx, 255, 3), raised(&dpx, node::of_xcc(4), 0)), (0, 0));
}
