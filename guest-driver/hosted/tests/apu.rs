//! An APU: what a program asks of its GPU's memory is memory of the machine.

use std::sync::atomic::Ordering;

use belfry_abi::kfd::drm::{
    AMDGPU_IDS_FLAGS_FUSION, AMDGPU_INFO_DEV_INFO, DrmAmdgpuInfo, DrmAmdgpuInfoDevice, INFO,
};
use belfry_abi::kfd::ioctl as nr;
use belfry_abi::kfd::memory::{AllocFlags, GetAvailableMemoryArgs};
use belfry_device::GpuConfig;
use belfry_device::chip::{MODELS, Model};
use belfry_kfd_hosted::{HostedGpu, Node};

use crate::common::{Client, RW, config};

/// More than the VRAM that the GPU has.
const LARGE: u64 = 96 << 20;

fn client(chip: &'static Model) -> Client {
    Client::open(&HostedGpu::new(GpuConfig { chip, ..config() }).unwrap())
}

fn available(client: &Client) -> u64 {
    let mut args = GetAvailableMemoryArgs { gpu_id: client.gpu_id, ..Default::default() };
    client.ioctl(nr::AVAILABLE_MEMORY, &mut args).unwrap();
    args.available
}

/// Size of the memory bank that the GPU's node has.
fn bank(client: &Client) -> u64 {
    let text = client.process.sysfs_read("nodes/1/mem_banks/0/properties").unwrap();
    assert!(text.starts_with("heap_type 1\n"), "{text}");
    text.lines().find_map(|line| line.strip_prefix("size_in_bytes ")).unwrap().parse().unwrap()
}

fn ids_flags(client: &Client) -> u64 {
    let mut info = DrmAmdgpuInfoDevice::default();
    let return_size = size_of_val(&info) as u32;
    let mut request = DrmAmdgpuInfo {
        return_pointer: (&raw mut info) as u64,
        return_size,
        query: AMDGPU_INFO_DEV_INFO,
        ..Default::default()
    };
    client.process.ioctl(Node::Render, INFO, (&raw mut request).cast()).unwrap();
    info.ids_flags
}

#[test]
fn memory_of_an_apu_is_the_machines() {
    let is_apu = |chip: &&&'static Model| chip.name == "gfx1151";
    let chip = MODELS.iter().find(is_apu).unwrap();
    let client = client(chip);
    let before = available(&client);
    assert!(bank(&client) >= before && before > LARGE, "{before}");
    let memory = client.alloc(LARGE, AllocFlags::VRAM | RW).unwrap();
    memory.quad(LARGE - 8).store(7, Ordering::Relaxed);
    assert!(before - available(&client) >= LARGE);
    assert_eq!(ids_flags(&client), AMDGPU_IDS_FLAGS_FUSION);
    // A node of its own, without processors.
    assert_eq!((client.property("cpu_cores_count"), client.property("gfx_target_version")), (0, 110_501));
    assert_eq!(client.property("num_sdma_engines"), 1);
}

#[test]
fn memory_of_a_card_is_its_own() {
    for chip in MODELS.iter().filter(|chip| chip.name != "gfx1151") {
        let client = client(chip);
        assert!(client.alloc(LARGE, AllocFlags::VRAM | RW).is_err(), "{chip}");
        assert_eq!((bank(&client) < LARGE, ids_flags(&client)), (true, 0), "{chip}");
    }
}
