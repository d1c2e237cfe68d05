//! Instructions whose results are more than a number for each lane: the words of the code, and the state before and behind it.
//!
//! ```text
//! case ds_load_b32 d8d80001 06000000
//! in exec = 1
//! in v0 = 0
//! in lds 0 = d0804081 d0804182
//! out v6 = 82d08040
//! end
//! ```
//!
//! Several values of a vector register go round the lanes; those of a scalar one are those of the registers behind it, and those of
//! memory lie one behind the other. `@NAME` stands for the words of a `data` line before it. What is not named is 0 before,
//! but EXEC, which has all of 32 lanes, and is not looked at behind.

use super::file::{Error, Lists, Reader};
use crate::engine::{CODE, DATA_SIZE, LDS_SIZE, VGPRS};
use crate::random::Random;
use crate::reference::State;
use crate::reference::state::BASE;
use crate::semantics::values;
use crate::target::{Facts, Target};

/// Lanes that are looked at: waves of 64 have the others off.
const LANES: u32 = 32;
/// Numbers of VCC and EXEC among scalar registers.
const VCC: u8 = 106;
const EXEC: u8 = 126;
/// Scalar registers that a case may name.
const SCALARS: u32 = 100;
/// Words that a case may have of code, or of a cell.
const MOST_WORDS: usize = 32;

/// A place of the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Cell {
    /// A vector register.
    Vector(u32),
    /// A scalar register.
    Scalar(u8),
    /// `SCC`.
    Scc,
    /// Bytes of LDS from here on.
    Lds(u32),
    /// Bytes of memory from here on.
    Memory(u32),
}

/// Cells and their words.
pub type Cells = Vec<(Cell, Vec<u32>)>;

/// One case.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Case {
    /// Number of its line.
    pub line: usize,
    /// Mnemonic of the instruction that the case is of.
    pub name: String,
    /// The words of the instructions.
    pub code: Vec<u32>,
    /// The state before.
    pub before: Cells,
    /// The state that was seen behind.
    pub after: Cells,
}

impl Reader<'_> {
    /// A case without its cells.
    pub(super) fn case(&self, rest: &str) -> Result<Case, Error> {
        let mut words = rest.split(' ');
        let name = words.next().unwrap_or_default().to_owned();
        let code = self.words(words)?;
        Ok(Case { line: self.line, name, code, before: Vec::new(), after: Vec::new() })
    }

    fn words<'a>(&self, digits: impl Iterator<Item = &'a str>) -> Result<Vec<u32>, Error> {
        let words: Vec<u32> =
            digits.map(|digits| Ok(self.number(digits, 32)? as u32)).collect::<Result<_, Error>>()?;
        if words.is_empty() || words.len() > MOST_WORDS {
            return Err(self.error(format!("{} words", words.len())));
        }
        Ok(words)
    }

    /// A line of a case.
    pub(super) fn cell(&self, case: &mut Case, lists: &Lists, line: &str) -> Result<(), Error> {
        let Some((place, values)) = line.split_once('=') else {
            return Err(self.error("cut: a cell has no values".to_owned()));
        };
        let mut place = place.split_whitespace();
        let side = match place.next() {
            Some("in") => &mut case.before,
            Some("out") => &mut case.after,
            other => return Err(self.error(format!("{:?} is no line of a case", other.unwrap_or_default()))),
        };
        let name = place.next().unwrap_or_default();
        let words = match values.trim().strip_prefix('@') {
            Some(name) => {
                let data = lists.get(name).ok_or_else(|| self.error(format!("{name:?} is no data")))?;
                data.iter().map(|&word| word as u32).collect()
            }
            None => self.words(values.split_whitespace())?,
        };
        let at = |digits: Option<&str>, size: usize| -> Result<u32, Error> {
            let at = self.number(digits.unwrap_or_default(), 32)? as usize;
            let fits = at.checked_add(words.len() * 4).is_some_and(|end| end <= size);
            if fits { Ok(at as u32) } else { Err(self.error(format!("{name} has no bytes from {at:x} on"))) }
        };
        let cell = match name {
            "scc" => Cell::Scc,
            "vcc" => Cell::Scalar(VCC),
            "exec" => Cell::Scalar(EXEC),
            "lds" => Cell::Lds(at(place.next(), LDS_SIZE)?),
            "mem" => Cell::Memory(at(place.next(), DATA_SIZE)?),
            _ => self.register(name)?,
        };
        if matches!(cell, Cell::Scalar(register) if words.len() > 1 && usize::from(register) + words.len() > SCALARS as usize)
        {
            return Err(self.error(format!("no register behind {name}")));
        }
        side.push((cell, words));
        Ok(())
    }

    fn register(&self, name: &str) -> Result<Cell, Error> {
        let number = |digits: &str, most: u32| digits.parse().ok().filter(|&number: &u32| number < most);
        let vector = name.strip_prefix('v').and_then(|digits| number(digits, VGPRS as u32));
        let scalar = name.strip_prefix('s').and_then(|digits| number(digits, SCALARS));
        match (vector, scalar) {
            (Some(number), _) => Ok(Cell::Vector(number)),
            (_, Some(number)) => Ok(Cell::Scalar(number as u8)),
            _ => Err(self.error(format!("{name:?} is no cell"))),
        }
    }

    /// A case at its end.
    pub(super) fn whole(&self, case: &Case) -> Result<(), Error> {
        if case.after.is_empty() {
            Err(self.error(format!("cut: {} has no result", case.name)))
        } else {
            Ok(())
        }
    }
}

impl Case {
    /// The state of a wave that is about to execute the code.
    pub(super) fn state(&self, target: Target) -> State {
        let mut state = values::state(&mut Random::new(1), target);
        let (set, clear) = Facts::of(target.arch).fixed_mode;
        state.mode = super::file::USUAL_MODE & !clear | set;
        state.s[..usize::from(SCALARS as u8)].fill(0);
        (state.pc, state.scc) = (CODE, false);
        (state.s[usize::from(EXEC)], state.s[usize::from(EXEC) + 1]) = (u32::MAX, 0);
        (state.s[usize::from(VCC)], state.s[usize::from(VCC) + 1]) = (0, 0);
        state.v.iter_mut().for_each(|lanes| lanes.fill(0));
        state.lds.fill(0);
        state.memory.fill(0);
        for (cell, words) in &self.before {
            match *cell {
                Cell::Vector(register) => {
                    (0..LANES)
                        .zip(words.iter().cycle())
                        .for_each(|(n, &word)| state.set_vgpr(register, n, word));
                }
                Cell::Scalar(register) => {
                    (register..).zip(words).for_each(|(register, &word)| state.set_sgpr(register, word));
                }
                Cell::Scc => state.scc = words[0] != 0,
                Cell::Lds(at) => put(&mut state.lds, at, words),
                Cell::Memory(at) => put(&mut state.memory, at, words),
            }
        }
        state
    }

    /// The first cell that is not as it was seen, and what is there.
    pub(super) fn difference(&self, before: &State, after: &State) -> Option<(Cell, u32, u32)> {
        let active = |lane: &u32| before.exec() >> lane & 1 != 0;
        self.after.iter().find_map(|(cell, words)| {
            let got: Vec<u32> = match *cell {
                Cell::Vector(register) => (0..LANES).map(|lane| after.vgpr(register, lane)).collect(),
                Cell::Scalar(register) => {
                    (register..).take(words.len()).map(|register| after.sgpr(register)).collect()
                }
                Cell::Scc => vec![u32::from(after.scc)],
                Cell::Lds(at) => get(&after.lds, at, words.len()),
                Cell::Memory(at) => get(&after.memory, at, words.len()),
            };
            let vector = matches!(cell, Cell::Vector(_));
            let pairs = (0..).zip(got.into_iter().zip(words.iter().cycle()));
            let mut looked_at = pairs.filter(|(lane, _)| !vector || active(lane));
            looked_at.find(|(_, (got, seen))| got != *seen).map(|(_, (got, &seen))| (*cell, got, seen))
        })
    }
}

fn put(bytes: &mut [u8], at: u32, words: &[u32]) {
    let bytes = bytes[at as usize..].chunks_exact_mut(4);
    bytes.zip(words).for_each(|(bytes, word)| bytes.copy_from_slice(&word.to_le_bytes()));
}

fn get(bytes: &[u8], at: u32, count: usize) -> Vec<u32> {
    let words = bytes[at as usize..].chunks_exact(4).take(count);
    words.map(|bytes| bytes.iter().rev().fold(0, |word, &byte| word << 8 | u32::from(byte))).collect()
}

/// Bits 63:32 of where memory lies, for registers with addresses; the low word is the distance from there.
const _: () = assert!(BASE == 7 << 32);
