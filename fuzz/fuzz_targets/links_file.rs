//! Files of `--links`: each is a board that the machine's GPUs can be on, or is refused; whole ones are taken by the rules of a model.

#![no_main]

use std::collections::BTreeSet;
use std::fmt::Write as _;

use arbitrary::Arbitrary;
use belfry_device::GpuConfig;
use belfry_device::chip::{Model, gfx942, gfx950, gfx1100};
use belfry_machine::links_file::BoardFile;
use belfry_machine::{Gpus, MAX_GPUS};
use libfuzzer_sys::fuzz_target;

/// Most tables of a kind, more than there can be memory nodes.
const MOST_TABLES: usize = 10;
/// Most GPUs of a table, more than a machine has.
const MOST_MEMBERS: usize = 10;

#[derive(Arbitrary, Debug)]
struct Input {
    chips: Vec<u8>,
    bus: Option<bool>,
    distance: Option<u8>,
    hives: Vec<Vec<u8>>,
    switches: Vec<Vec<u8>>,
    nodes: Vec<Vec<u8>>,
    /// Bytes of the text that are replaced, put in or taken out, by what is left of the first number.
    edits: Vec<(u16, u8)>,
}

type Tables = Vec<Vec<usize>>;

fn tables(wild: &[Vec<u8>]) -> Tables {
    let members = |table: &Vec<u8>| {
        // One number more than there can be GPUs.
        table.iter().take(MOST_MEMBERS).map(|&gpu| usize::from(gpu) % (MAX_GPUS + 1)).collect()
    };
    wild.iter().take(MOST_TABLES).map(members).collect()
}

fn text(input: &Input, kinds: [(&str, &Tables); 3]) -> String {
    let mut text = String::new();
    if let Some(bus) = input.bus {
        let _ = writeln!(text, "bus = {bus}");
    }
    if let Some(distance) = input.distance {
        let _ = writeln!(text, "numa_distance = {distance}");
    }
    for (name, tables) in kinds {
        for members in tables {
            let _ = writeln!(text, "[[{name}]]\ngpus = {members:?}");
        }
    }
    text
}

fn edited(text: String, edits: &[(u16, u8)]) -> String {
    let mut bytes = text.into_bytes();
    for &(at, byte) in edits {
        let place = usize::from(at / 3) % (bytes.len() + 1);
        match at % 3 {
            0 => bytes.insert(place, byte),
            1 if place < bytes.len() => drop(bytes.remove(place)),
            _ if place < bytes.len() => bytes[place] = byte,
            _ => {}
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The table of a kind that a GPU is in.
fn table_of(tables: &Tables, gpu: usize) -> Option<usize> {
    tables.iter().position(|members| members.contains(&gpu))
}

/// Returns true if the GPUs can be on the board.
fn can_be(chips: &[&'static Model], distance: Option<u8>, [hives, switches, nodes]: [&Tables; 3]) -> bool {
    let is_sound = |tables: &Tables| {
        let all: Vec<usize> = tables.concat();
        let distinct: BTreeSet<usize> = all.iter().copied().collect();
        distinct.len() == all.len() && all.iter().all(|&gpu| gpu < chips.len())
    };
    let distance = distance.unwrap_or(32);
    distance > 10
        && distance < 255
        && nodes.len() <= 8
        && [hives, switches, nodes].into_iter().all(is_sound)
        && hives.iter().all(|members| {
            let first = members.first().map(|&gpu| chips[gpu]);
            members.len() > 1
                && first.is_some_and(|chip| chip.has_xgmi)
                && members.iter().all(|&gpu| Some(chips[gpu].name) == first.map(|chip| chip.name))
        })
        && (nodes.is_empty() || (0..chips.len()).all(|gpu| table_of(nodes, gpu).is_some()))
        && switches.iter().all(|members| {
            let at: BTreeSet<_> = members.iter().map(|&gpu| table_of(nodes, gpu)).collect();
            at.len() == 1
        })
}

fuzz_target!(|input: Input| {
    let chip = |number: &u8| [&gfx942::MODEL, &gfx950::MODEL, &gfx1100::MODEL][usize::from(*number) % 3];
    let mut chips: Vec<&'static Model> = input.chips.iter().take(MAX_GPUS).map(chip).collect();
    if chips.is_empty() {
        chips.push(&gfx942::MODEL);
    }
    let (hives, switches, nodes) = (tables(&input.hives), tables(&input.switches), tables(&input.nodes));
    let whole = text(&input, [("hive", &hives), ("switch", &switches), ("numa", &nodes)]);
    let text = edited(whole.clone(), &input.edits);
    let mut gpus = chips.iter().map(|&chip| GpuConfig {
        chip,
        cus: chip.default.cus,
        xccs: chip.default.xccs,
        vram_size: 64 << 20,
        ..GpuConfig::default()
    });
    let first = gpus.next().unwrap_or_default();
    let gpus = Gpus { others: gpus.collect(), ..first.into() };
    let placed = BoardFile::parse(&text).and_then(|file| file.place(gpus));
    if text == whole {
        let can_be = can_be(&chips, input.distance, [&hives, &switches, &nodes]);
        assert_eq!(placed.is_ok(), can_be, "{text}\n{placed:?}");
    }
    let Ok(placed) = placed else { return };
    assert_eq!(placed.count(), chips.len());
    let board = &placed.board;
    assert!((0..chips.len()).all(|gpu| board.numa_node(gpu) < board.numa_nodes), "{text}");
    let below: Vec<usize> = board.switches.concat();
    assert_eq!(below.iter().collect::<BTreeSet<_>>().len(), below.len(), "{text}");
    let all = GpuConfig::of_machine(placed.links, placed.all());
    for (number, gpu) in all.iter().enumerate() {
        assert!(gpu.validate().is_ok(), "{text}\n{gpu:?}");
        let Some(hive) = gpu.hive else { continue };
        let members = hive.members();
        assert_eq!(members.get(usize::from(hive.node)).copied().map(usize::from), Some(number), "{text}");
        let is_same =
            |&member: &u8| all.get(usize::from(member)).is_some_and(|other| other.chip.name == gpu.chip.name);
        assert!(members.iter().all(is_same), "{text}");
    }
});
