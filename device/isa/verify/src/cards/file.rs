//! Files of captured results: what a card was given and what it gave.
//!
//! A file is a set from one source. Its first lines say where it is from; an `op` line begins an operation, rows of it are sources and
//! result in hexadecimal digits, and `end` has the number of its rows. `#` begins a comment.
//!
//! ```text
//! source OWNER/REPOSITORY PATH
//! licence MIT, Copyright (c) ...
//! chip gfx1201
//! also gfx1100 gfx942
//! op v_add_f32 mode=3f0 omod=1
//! 3f800000 3f800000 = 40800000
//! end 1
//! ```

use std::collections::HashMap;
use std::fmt;

use belfry_isa::inst::Mods;

/// A set that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// The set's name.
    pub set: String,
    /// Number of the line, from 1 on.
    pub line: usize,
    /// The reason.
    pub why: String,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "set {}, line {}: {}", self.set, self.line, self.why)
    }
}

impl std::error::Error for Error {}

/// A set of captured results.
#[derive(Clone, Debug)]
pub struct Set {
    /// The file's name.
    pub name: String,
    /// Repository and file of the source.
    pub source: String,
    /// Its licence.
    pub licence: String,
    /// The chip that was measured, by LLVM's name.
    pub chip: String,
    /// Chips that do the same as far as is known.
    pub also: Vec<String>,
    /// The operations.
    pub operations: Vec<Operation>,
}

/// Results of one operation.
#[derive(Clone, Debug)]
pub struct Operation {
    /// The mnemonic.
    pub name: String,
    /// Modifiers.
    pub mods: Mods,
    /// `MODE` as gfx11 has it.
    pub mode: u32,
    /// Units in the last place that a result may be off: 0 where the card's arithmetic is known.
    pub within: u64,
    /// The results.
    pub rows: Vec<Row>,
}

/// One result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Number of its line.
    pub line: usize,
    /// The sources' bits.
    pub sources: Vec<u64>,
    /// The result's bits.
    pub result: u64,
}

/// `MODE` that compilers ask for: to nearest, denormals kept, `DX10_CLAMP`, `IEEE`.
const USUAL_MODE: u32 = 0x3f0;
/// Sources an operation may have.
const MOST_SOURCES: usize = 3;

/// Reads a set; the error names the set and the line that is cut, foreign, or contradicts another one.
pub fn parse(name: &str, text: &str) -> Result<Set, Error> {
    let mut reader = Reader { name, line: 0 };
    let mut set = Set {
        name: name.to_owned(),
        source: String::new(),
        licence: String::new(),
        chip: String::new(),
        also: Vec::new(),
        operations: Vec::new(),
    };
    let mut open: Option<Operation> = None;
    let mut known = HashMap::new();
    for (number, line) in text.lines().enumerate() {
        reader.line = number + 1;
        let line = line.split('#').next().unwrap_or_default().trim();
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match (word, &mut open) {
            ("", _) => {}
            ("source", None) => rest.clone_into(&mut set.source),
            ("licence", None) => rest.clone_into(&mut set.licence),
            ("chip", None) => rest.clone_into(&mut set.chip),
            ("also", None) => set.also = rest.split(' ').map(str::to_owned).collect(),
            ("op", None) => open = Some(reader.operation(&set, rest)?),
            ("op", Some(before)) => return Err(reader.error(format!("{} has no end", before.name))),
            ("end", Some(_)) => {
                let operation = open.take().into_iter();
                for operation in operation {
                    reader.count(&operation, rest)?;
                    set.operations.push(operation);
                }
            }
            (_, Some(operation)) => {
                let row = reader.row(operation, line)?;
                let key = (operation.name.clone(), operation.mods, operation.mode, row.sources.clone());
                if let Some((other, result)) = known.insert(key, (row.line, row.result))
                    && result != row.result
                {
                    let why = format!("contradicts line {other}: {:x} there, {:x} here", result, row.result);
                    return Err(reader.error(why));
                }
                operation.rows.push(row);
            }
            _ => return Err(reader.error(format!("{word:?} is no line of a set"))),
        }
    }
    match open {
        Some(operation) => Err(reader.error(format!("cut: {} has no end", operation.name))),
        None if set.operations.is_empty() => Err(reader.error("cut: no operation".to_owned())),
        None => Ok(set),
    }
}

/// Where a set is read.
struct Reader<'a> {
    name: &'a str,
    line: usize,
}

impl Reader<'_> {
    fn error(&self, why: String) -> Error {
        Error { set: self.name.to_owned(), line: self.line, why }
    }

    fn number(&self, digits: &str, bits: u32) -> Result<u64, Error> {
        match u64::from_str_radix(digits, 16) {
            Ok(value) if bits == 64 || value >> bits == 0 => Ok(value),
            _ => Err(self.error(format!("{digits:?} is no number of {bits} bits"))),
        }
    }

    fn operation(&self, set: &Set, rest: &str) -> Result<Operation, Error> {
        for (what, value) in [("source", &set.source), ("licence", &set.licence), ("chip", &set.chip)] {
            if value.is_empty() {
                return Err(self.error(format!("foreign: no {what} before the first operation")));
            }
        }
        let mut words = rest.split(' ');
        let name = words.next().unwrap_or_default().to_owned();
        let (mods, rows) = (Mods { op_sel_hi: 7, ..Mods::default() }, Vec::new());
        let mut operation = Operation { name, mods, mode: USUAL_MODE, within: 0, rows };
        for word in words {
            let (key, value) = word.split_once('=').unwrap_or((word, "1"));
            let value = self.number(value, 32)?;
            let small = (value & 15) as u8;
            match key {
                "mode" => operation.mode = value as u32,
                "within" => operation.within = value,
                "omod" => operation.mods.omod = small & 3,
                "clamp" => operation.mods.clamp = value != 0,
                "neg" => operation.mods.neg = small,
                "abs" => operation.mods.abs = small,
                "neg_hi" => operation.mods.neg_hi = small,
                "op_sel" => operation.mods.op_sel = small,
                "op_sel_hi" => operation.mods.op_sel_hi = small,
                _ => return Err(self.error(format!("{key:?} is no property of an operation"))),
            }
        }
        Ok(operation)
    }

    fn row(&self, operation: &Operation, line: &str) -> Result<Row, Error> {
        let Some((sources, result)) = line.split_once('=') else {
            return Err(self.error("cut: a row has no result".to_owned()));
        };
        let sources: Vec<u64> =
            sources.split_whitespace().map(|digits| self.number(digits, 64)).collect::<Result<_, _>>()?;
        let expected = operation.rows.first().map_or(sources.len(), |row| row.sources.len());
        if sources.is_empty() || sources.len() > MOST_SOURCES || sources.len() != expected {
            return Err(self.error(format!("{} sources", sources.len())));
        }
        Ok(Row { line: self.line, sources, result: self.number(result.trim(), 64)? })
    }

    fn count(&self, operation: &Operation, rest: &str) -> Result<(), Error> {
        match rest.trim().parse::<usize>() {
            Ok(rows) if rows == operation.rows.len() && rows != 0 => Ok(()),
            _ => {
                let why = format!("cut: {} has {} rows, not {rest:?}", operation.name, operation.rows.len());
                Err(self.error(why))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "source a/b c\nlicence MIT\nchip gfx1201\n";

    fn why(text: &str) -> String {
        match parse("some", text) {
            Ok(_) => String::new(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn sets_that_are_cut_foreign_or_contradict_themselves_are_refused_by_line() {
        let set = |body: &str| why(&format!("{HEAD}{body}"));
        assert_eq!(set("op v_rcp_f32\n3f800000 = 3f800000\nend 1\n"), "");
        assert_eq!(set("op v_rcp_f32\n1 = 2\n"), "set some, line 5: cut: v_rcp_f32 has no end");
        assert_eq!(
            set("op v_rcp_f32\n1 = 2\nend 2"),
            "set some, line 6: cut: v_rcp_f32 has 1 rows, not \"2\""
        );
        assert_eq!(set("op v_rcp_f32\n1\nend 1"), "set some, line 5: cut: a row has no result");
        assert_eq!(set(""), "set some, line 3: cut: no operation");
        assert_eq!(set("<html>"), "set some, line 4: \"<html>\" is no line of a set");
        assert_eq!(set("op a\n1 = xyz\nend 1"), "set some, line 5: \"xyz\" is no number of 64 bits");
        assert_eq!(set("op a\n1 = 2\n1 2 = 3\nend 2"), "set some, line 6: 2 sources");
        assert_eq!(set("op a weight=2\n"), "set some, line 4: \"weight\" is no property of an operation");
        assert_eq!(
            set("op a\n1 = 2\nend 1\nop a\n1 = 3\nend 1"),
            "set some, line 8: contradicts line 5: 2 there, 3 here"
        );
        assert_eq!(set("op a\n1 = 2\nend 1\nop a mode=0\n1 = 3\nend 1"), "");
        assert_eq!(
            why("op a\n1 = 2\nend 1"),
            "set some, line 1: foreign: no source before the first operation"
        );
    }
}
