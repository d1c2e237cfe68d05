//! The board of a machine with several GPUs: hives, switches and memory nodes, as a file or a preset of `--links` has them.
//!
//! ```toml
//! bus = true            # GPUs of no common hive reach each other over PCIe
//! numa_distance = 32    # from each memory node to each other one
//!
//! [[hive]]              # GPUs that XGMI joins, by their numbers
//! gpus = [0, 1, 2, 3]
//!
//! [[switch]]            # GPUs below one PCIe switch
//! gpus = [0, 1]
//!
//! [[numa]]              # GPUs at memory node 0; the next table is of node 1
//! gpus = [0, 1, 2, 3]
//! ```

use std::fmt;
use std::path::{Path, PathBuf};

use belfry_device::GpuConfig;
use belfry_device::memory::{Hive, Links};
use serde::Deserialize;

use crate::gpus::{Board, Gpus};

/// Most bytes of a file.
const MOST_BYTES: u64 = 64 << 10;
/// Most memory nodes.
const MOST_NODES: usize = 8;
/// Distances that are neither the own node's nor that of one out of reach.
const DISTANCES: std::ops::RangeInclusive<u8> = 11..=254;

/// Kinds of tables, each of which has GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    /// `[[hive]]`.
    Hive,
    /// `[[switch]]`.
    Switch,
    /// `[[numa]]`.
    Numa,
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Hive => "hive",
            Self::Switch => "switch",
            Self::Numa => "memory node",
        })
    }
}

/// Reasons for refusing a board.
#[derive(Debug, thiserror::Error)]
pub enum BoardError {
    /// The file cannot be read.
    #[error("cannot read links of {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file is larger than a board is.
    #[error("{path} has more than {MOST_BYTES} bytes: it is no file of links")]
    Large {
        /// The file.
        path: PathBuf,
    },
    /// The text is no TOML, or has keys that there are not.
    #[error("links: {0}")]
    Text(#[from] toml::de::Error),
    /// The machine does not have a GPU.
    #[error(
        "{table} {number} has GPU {gpu}, and the machine has {count}, from 0 on; --chip or --gpus asks for more"
    )]
    NoGpu {
        /// Kind of table.
        table: Table,
        /// Its number among those.
        number: usize,
        /// The GPU.
        gpu: usize,
        /// GPUs of the machine.
        count: usize,
    },
    /// A GPU is in two tables of a kind, or twice in one.
    #[error("GPU {gpu} is in {table} {first} and in {table} {second}; it can be in one")]
    Twice {
        /// Kind of table.
        table: Table,
        /// The GPU.
        gpu: usize,
        /// First table.
        first: usize,
        /// Other table, or the same.
        second: usize,
    },
    /// A hive of fewer than two.
    #[error("hive {0} has fewer than two GPUs")]
    Alone(usize),
    /// A switch with nothing below it.
    #[error("switch {0} has no GPU")]
    Empty(usize),
    /// Chips of a hive.
    #[error("hive {hive} joins {one} and {other}, and a hive is of one chip")]
    Chips {
        /// The hive.
        hive: usize,
        /// A chip.
        one: &'static str,
        /// Another one.
        other: &'static str,
    },
    /// A chip without XGMI.
    #[error("hive {hive} has GPU {gpu}, and {chip} has no XGMI")]
    NoXgmi {
        /// The hive.
        hive: usize,
        /// The GPU.
        gpu: usize,
        /// Its chip.
        chip: &'static str,
    },
    /// A GPU at no memory node, where there are some.
    #[error("GPU {0} is at no memory node; with tables [[numa]] each GPU is at one")]
    NoNode(usize),
    /// GPUs of a switch at two memory nodes.
    #[error(
        "switch {switch} is below one root port, and GPUs {one} and {other} are at different memory nodes"
    )]
    Torn {
        /// The switch.
        switch: usize,
        /// A GPU.
        one: usize,
        /// Another one.
        other: usize,
    },
    /// Too many memory nodes.
    #[error("{0} memory nodes: {MOST_NODES} at most")]
    Nodes(usize),
    /// A distance that no node has to another one.
    #[error("numa_distance {0}: from {low} to {high}", low = DISTANCES.start(), high = DISTANCES.end())]
    Distance(u8),
}

/// A list of GPUs.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Members {
    gpus: Vec<usize>,
}

/// A board as its file has it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BoardFile {
    #[serde(default = "yes")]
    bus: bool,
    #[serde(default = "usual_distance")]
    numa_distance: u8,
    #[serde(default)]
    hive: Vec<Members>,
    #[serde(default)]
    switch: Vec<Members>,
    #[serde(default)]
    numa: Vec<Members>,
}

fn yes() -> bool {
    true
}

/// Distance between the sockets of a board with two.
fn usual_distance() -> u8 {
    32
}

/// A board that has a name.
#[derive(Debug, PartialEq, Eq)]
pub struct Preset {
    /// Its name on the command line.
    pub name: &'static str,
    /// Its GPUs, as `--chip` names one.
    pub chip: &'static str,
    /// Number of them.
    pub gpus: usize,
    text: &'static str,
}

/// Boards that have names.
pub static PRESETS: [Preset; 2] = [
    Preset {
        name: "mi300x-8",
        chip: "gfx942:xccs=8",
        gpus: 8,
        text: include_str!("links_file/mi300x-8.toml"),
    },
    Preset { name: "7900xtx-2", chip: "gfx1100", gpus: 2, text: include_str!("links_file/7900xtx-2.toml") },
];

impl Preset {
    /// Returns the one of a name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        PRESETS.iter().find(|preset| preset.name == name)
    }

    /// Returns its board.
    ///
    /// # Errors
    ///
    /// A text that is not one, which a test rules out.
    pub fn board(&self) -> Result<BoardFile, BoardError> {
        BoardFile::parse(self.text)
    }
}

impl BoardFile {
    /// Reads a board's text.
    ///
    /// # Errors
    ///
    /// Text that is no TOML, unknown keys, and values out of their ranges.
    pub fn parse(text: &str) -> Result<Self, BoardError> {
        let file: Self = toml::from_str(text)?;
        if !DISTANCES.contains(&file.numa_distance) {
            return Err(BoardError::Distance(file.numa_distance));
        }
        if file.numa.len() > MOST_NODES {
            return Err(BoardError::Nodes(file.numa.len()));
        }
        Ok(file)
    }

    /// Reads a file.
    ///
    /// # Errors
    ///
    /// A file that cannot be read or is too large, and the errors of [`Self::parse`].
    pub fn read(path: &Path) -> Result<Self, BoardError> {
        use std::io::Read as _;
        let failed = |source| BoardError::Read { path: path.to_owned(), source };
        let mut text = String::new();
        let file = std::fs::File::open(path).map_err(failed)?;
        file.take(MOST_BYTES + 1).read_to_string(&mut text).map_err(failed)?;
        if text.len() as u64 > MOST_BYTES {
            return Err(BoardError::Large { path: path.to_owned() });
        }
        Self::parse(&text)
    }

    /// Puts the GPUs of a machine on the board.
    ///
    /// # Errors
    ///
    /// A board that these GPUs cannot be on.
    pub fn place(&self, gpus: Gpus) -> Result<Gpus, BoardError> {
        let mut all = gpus.all();
        let hives = members(self.hive.len(), &tables(Table::Hive, &self.hive, all.len())?);
        let switches = members(self.switch.len(), &tables(Table::Switch, &self.switch, all.len())?);
        let at_node = tables(Table::Numa, &self.numa, all.len())?;
        for (number, members) in hives.iter().enumerate() {
            join(number, members, &mut all)?;
        }
        let mut board = Board { switches, ..Board::default() };
        if !self.numa.is_empty() {
            for (gpu, node) in at_node.into_iter().enumerate() {
                let node = node.ok_or(BoardError::NoNode(gpu))?;
                board.at_node.push(u32::try_from(node).unwrap_or(u32::MAX));
            }
            board.numa_nodes = u32::try_from(self.numa.len()).unwrap_or(u32::MAX);
            board.numa_distance = self.numa_distance.into();
        }
        for (switch, members) in board.switches.iter().enumerate() {
            let &one = members.first().ok_or(BoardError::Empty(switch))?;
            let far = |&&other: &&usize| board.numa_node(other) != board.numa_node(one);
            if let Some(&other) = members.iter().find(far) {
                return Err(BoardError::Torn { switch, one, other });
            }
        }
        let links = if self.bus { Links::Pcie } else { Links::None };
        let mut all = all.into_iter();
        let Some(first) = all.next() else { return Ok(gpus) };
        Ok(Gpus { first, others: all.collect(), links, board })
    }
}

/// Returns the number of the table of a kind that each GPU is in.
fn tables(table: Table, all: &[Members], count: usize) -> Result<Vec<Option<usize>>, BoardError> {
    let mut found = vec![None; count];
    for (number, members) in all.iter().enumerate() {
        for &gpu in &members.gpus {
            let place = found.get_mut(gpu).ok_or(BoardError::NoGpu { table, number, gpu, count })?;
            if let Some(first) = place.replace(number) {
                return Err(BoardError::Twice { table, gpu, first, second: number });
            }
        }
    }
    Ok(found)
}

/// Returns the GPUs in each of so many tables, in the order of their numbers.
fn members(count: usize, tables: &[Option<usize>]) -> Vec<Vec<usize>> {
    let of = |number| (0..tables.len()).filter(|&gpu| tables[gpu] == Some(number)).collect();
    (0..count).map(of).collect()
}

/// Joins GPUs to a hive.
fn join(hive: usize, members: &[usize], all: &mut [GpuConfig]) -> Result<(), BoardError> {
    let mut sizes = Vec::new();
    let mut one: Option<&'static str> = None;
    for &gpu in members {
        let Some(config) = all.get(gpu) else { continue };
        let chip = config.chip.name;
        if !config.chip.has_xgmi {
            // The more telling error comes first where there are two.
            if let Some(one) = one.filter(|&one| one != chip) {
                return Err(BoardError::Chips { hive, one, other: chip });
            }
            return Err(BoardError::NoXgmi { hive, gpu, chip });
        }
        match one {
            Some(one) if one != chip => return Err(BoardError::Chips { hive, one, other: chip }),
            _ => one = Some(chip),
        }
        sizes.push((u8::try_from(gpu).unwrap_or(u8::MAX), config.vram_size));
    }
    let id = u8::try_from(hive).unwrap_or(u8::MAX);
    let places = Hive::places(id, &sizes).ok_or(BoardError::Alone(hive))?;
    for (&gpu, place) in members.iter().zip(places) {
        all[gpu].hive = Some(place);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
