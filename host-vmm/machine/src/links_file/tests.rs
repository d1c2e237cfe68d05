//! Tests of boards that are taken, and of those that are refused by name.

use belfry_device::chip::{gfx942, gfx1100};

use super::*;

fn gpu(chip: &'static belfry_device::chip::Model) -> GpuConfig {
    GpuConfig { chip, cus: 8, vram_size: 64 << 20, ..GpuConfig::default() }
}

/// A machine with two MI300X, a Navi 31, and another MI300X.
fn gpus() -> Gpus {
    let large = GpuConfig { vram_size: 128 << 20, ..gpu(&gfx942::MODEL) };
    let others = vec![gpu(&gfx942::MODEL), gpu(&gfx1100::MODEL), large];
    Gpus { others, ..gpu(&gfx942::MODEL).into() }
}

fn place(text: &str) -> Result<Gpus, BoardError> {
    BoardFile::parse(text)?.place(gpus())
}

#[test]
fn gpus_are_in_the_hives_below_the_switches_and_at_the_nodes_that_the_file_has() {
    let plain = place("").unwrap();
    assert_eq!((plain.links, &plain.board), (Links::Pcie, &Board::default()));
    assert!(plain.all().iter().all(|gpu| gpu.hive.is_none()));
    let placed = place(
        "bus = false\nnuma_distance = 21\n[[hive]]\ngpus = [3, 0]\n[[switch]]\ngpus = [1, 2]\n\
         [[numa]]\ngpus = [0, 3]\n[[numa]]\ngpus = [2, 1]\n[[numa]]\ngpus = []\n",
    )
    .unwrap();
    assert_eq!(placed.links, Links::None);
    let at_node = vec![0, 1, 1, 0];
    let board = Board { switches: vec![vec![1, 2]], at_node, numa_nodes: 3, numa_distance: 21 };
    assert_eq!(placed.board, board);
    let hives: Vec<_> = placed.all().iter().map(|gpu| gpu.hive).collect();
    let hive = hives[0].unwrap();
    assert_eq!((hive.id, hive.node, hive.nodes, hive.segment), (0, 0, 2, 128 << 20));
    assert_eq!(hive.devices[..2], [0, 3]);
    assert_eq!(hives[3], Some(Hive { node: 1, ..hive }));
    assert_eq!(hives[1..3], [None, None]);
    let all = GpuConfig::of_machine(placed.links, placed.all());
    assert!(all.iter().all(|gpu| gpu.validate().is_ok()));
}

#[test]
fn boards_that_contradict_themselves_are_refused_by_name() {
    for (text, says) in [
        ("[[hive]]\ngpus = [0, 1]\n[[hive]]\ngpus = [1, 3]", "GPU 1 is in hive 0 and in hive 1"),
        ("[[hive]]\ngpus = [0, 0, 1]", "GPU 0 is in hive 0 and in hive 0"),
        ("[[hive]]\ngpus = [0, 2]", "hive 0 joins gfx942 and gfx1100"),
        ("[[hive]]\ngpus = [2]", "hive 0 has GPU 2, and gfx1100 has no XGMI"),
        ("[[hive]]\ngpus = [1]", "hive 0 has fewer than two"),
        ("[[hive]]\ngpus = [0, 1]\n[[hive]]\ngpus = []", "hive 1 has fewer than two"),
        ("[[hive]]\ngpus = [0, 4]", "hive 0 has GPU 4, and the machine has 4"),
        ("[[switch]]\ngpus = [9]", "switch 0 has GPU 9"),
        ("[[switch]]\ngpus = []", "switch 0 has no GPU"),
        ("[[switch]]\ngpus = [0]\n[[switch]]\ngpus = [0]", "GPU 0 is in switch 0 and in switch 1"),
        ("[[numa]]\ngpus = [0, 1, 2]", "GPU 3 is at no memory node"),
        (
            "[[numa]]\ngpus = [0, 1, 2, 3]\n[[numa]]\ngpus = [3]",
            "GPU 3 is in memory node 0 and in memory node 1",
        ),
        (
            "[[switch]]\ngpus = [0, 1]\n[[numa]]\ngpus = [0, 2]\n[[numa]]\ngpus = [1, 3]",
            "switch 0 is below one root port, and GPUs 0 and 1",
        ),
        ("numa_distance = 10", "numa_distance 10: from 11 to 254"),
        ("numa_distance = 300", "300"),
        ("link = 3", "unknown field `link`"),
        ("[[hive]]\ngpus = [0, 1]\nweight = 3", "unknown field `weight`"),
        ("[[hive]]", "missing field `gpus`"),
        ("[[hive]]\ngpus = [-1]", "-1"),
        ("[hive]\ngpus = [0, 1]", "hive"),
        ("gpus", "TOML"),
    ] {
        let error = place(text).unwrap_err().to_string();
        assert!(error.contains(says), "{text}: {error}");
    }
    let many = "[[numa]]\ngpus = []\n".repeat(9);
    assert!(place(&many).unwrap_err().to_string().contains("9 memory nodes"));
}

#[test]
fn files_that_are_none_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("links.toml");
    assert!(matches!(BoardFile::read(&path), Err(BoardError::Read { .. })));
    assert!(matches!(BoardFile::read(folder.path()), Err(BoardError::Read { .. })));
    std::fs::write(&path, b"bus = \xff").unwrap();
    assert!(matches!(BoardFile::read(&path), Err(BoardError::Read { .. })));
    std::fs::write(&path, "#".repeat(MOST_BYTES as usize + 1)).unwrap();
    assert!(matches!(BoardFile::read(&path), Err(BoardError::Large { .. })));
    std::fs::write(&path, "bus = false").unwrap();
    assert!(!BoardFile::read(&path).unwrap().bus);
}

#[test]
fn changed_texts_are_boards_or_errors() {
    let whole = PRESETS[0].text;
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as usize % below
    };
    let bytes = b" \n[]=,0123456789-.e#\"'{}gpush";
    let mut taken = 0;
    for _ in 0..4000 {
        let mut text: Vec<u8> = whole.bytes().collect();
        for _ in 0..1 + random(3) {
            let at = random(text.len());
            match random(3) {
                0 => text[at] = bytes[random(bytes.len())],
                1 => drop(text.drain(at..(at + random(40)).min(text.len()))),
                _ => {
                    let piece = text[at..(at + random(40)).min(text.len())].to_vec();
                    let to = random(text.len());
                    text.splice(to..to, piece);
                }
            }
        }
        let Ok(file) = BoardFile::parse(&String::from_utf8_lossy(&text)) else { continue };
        let eight = Gpus { others: vec![gpu(&gfx942::MODEL); 7], ..gpu(&gfx942::MODEL).into() };
        if let Ok(placed) = file.place(eight) {
            taken += 1;
            let all = GpuConfig::of_machine(placed.links, placed.all());
            assert!(all.iter().all(|gpu| gpu.validate().is_ok()), "{}", String::from_utf8_lossy(&text));
            assert!((0..8).all(|gpu| placed.board.numa_node(gpu) < placed.board.numa_nodes));
        }
    }
    assert!(taken > 100, "{taken} of the changed texts are boards");
}

#[test]
fn presets_are_boards_of_their_gpus() {
    for preset in &PRESETS {
        let chip = belfry_device::chip::Model::named(preset.chip.split(':').next().unwrap()).unwrap();
        let gpus = Gpus { others: vec![gpu(chip); preset.gpus - 1], ..gpu(chip).into() };
        let placed = preset.board().unwrap().place(gpus.clone()).unwrap();
        let in_hive = placed.all().iter().filter(|gpu| gpu.hive.is_some()).count();
        assert_eq!(in_hive, if chip.has_xgmi { preset.gpus } else { 0 }, "{}", preset.name);
        assert_eq!(Preset::named(preset.name), Some(preset));
    }
    let few = PRESETS[0].board().unwrap().place(gpus()).unwrap_err().to_string();
    assert!(few.contains("the machine has 4"), "{few}");
}
