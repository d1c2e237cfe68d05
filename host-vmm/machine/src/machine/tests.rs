//! Machines with several GPUs, before their processors run.

use std::io::Write as _;

use belfry_bus::line_of;

use super::*;
use crate::boot::handmade::elf;

const GPU: [u8; 4] = [0x02, 0x10, 0x4c, 0x74];
const COMMAND: u32 = 4;
const LINE: u32 = 0x3c;

fn machine(gpus: usize) -> Result<Machine, KvmError> {
    // It halts, and is never run.
    let mut kernel = tempfile::NamedTempFile::new().unwrap();
    kernel.write_all(&elf(&[0xf4], Some(1 << 20))).unwrap();
    let gpu = GpuConfig { vram_size: 16 << 20, workers: 1, ..GpuConfig::default() };
    Machine::new(Config { memory: 8 << 20, gpus: vec![gpu; gpus], ..Config::new(kernel.path()) })
}

impl Machine {
    fn select(&self, device: u8, offset: u32) {
        let address = 1 << 31 | u32::from(device) << 11 | offset & 0xfc;
        self.board.bus.port_write(0xcf8, &address.to_le_bytes());
    }

    fn config(&self, device: u8, offset: u32) -> u32 {
        let mut data = [0; 4];
        self.select(device, offset);
        self.board.bus.port_read(0xcfc, &mut data);
        u32::from_le_bytes(data)
    }

    /// Addresses of VRAM and of the doorbells.
    fn bars(&self, device: u8) -> [u64; 2] {
        [0x10, 0x18].map(|at| {
            let (low, high) = (self.config(device, at), self.config(device, at + 4));
            u64::from(high) << 32 | u64::from(low & !0xf)
        })
    }
}

#[test]
fn machine_of_two_gpus_has_two_functions_with_bars_memory_and_lines_of_their_own() {
    let machine = machine(2).unwrap();
    let found: Vec<u8> = (0..32).filter(|&at| machine.config(at, 0).to_le_bytes() == GPU).collect();
    assert_eq!(found, [1, 31]);
    let bars = [1, 31].map(|device| machine.bars(device));
    let sizes = [16 << 20, DOORBELL_BAR_SIZE];
    let mut ranges: Vec<_> = bars.iter().flat_map(|bars| bars.iter().zip(sizes)).collect();
    ranges.sort_unstable();
    assert!(
        ranges.windows(2).all(|pair| *pair[0].0 > 0 && pair[0].0 + pair[0].1 <= *pair[1].0),
        "{ranges:x?}"
    );
    for device in [1, 31] {
        machine.select(device, COMMAND);
        machine.board.bus.port_write(0xcfc, &[6, 0]);
        assert_eq!(machine.config(device, LINE) & 0xff, line_of(device, 0), "{device}");
    }
    for (gpu, [vram, _]) in bars.into_iter().enumerate() {
        assert!(machine.board.bus.write(vram + 0x1000, &[gpu as u8 + 1; 8]));
    }
    let words = [0, 1].map(|gpu: usize| {
        let mut word = [0; 8];
        machine.gpus()[gpu].bar_read(0, 0x1000, &mut word).unwrap();
        word
    });
    assert_eq!(words, [[1; 8], [2; 8]]);
    let numbers = machine.gpus().iter().map(|gpu| gpu.config().number);
    assert_eq!(numbers.collect::<Vec<_>>(), [0, 1]);
    let refused = machine.saver().save(std::path::Path::new("/nowhere/snapshot")).unwrap_err().to_string();
    assert!(refused.contains("several GPUs"), "{refused}");
}

#[test]
fn machine_has_no_more_gpus_than_reach_each_other() {
    let refused = machine(9).unwrap_err().to_string();
    assert!(refused.contains("9 GPUs"), "{refused}");
    assert!(machine(0).unwrap().gpu().is_none());
}
