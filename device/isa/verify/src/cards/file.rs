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
//!
//! Scalar operations have a `SCC` before them (`scc=1`) and may have another behind the result: `3 4 = 7 0`. Vector operations have
//! their bit of a carry there. Rows of comparisons have a bit. A `list` names sixteen sources, `@NAME` in a row stands for sixteen rows with each of them, and the row's result has their bits,
//! the lowest that of the first one. `exec=N` leaves the other ones of such sixteen lanes out, which have a bit 0.
//!
//! ```text
//! list some 0 1 2 3 4 5 6 7 8 9 a b c d e f
//! op v_cmp_lt_u32 exec=ff
//! @some 3 = 7
//! end 1
//! ```

use std::collections::HashMap;
use std::fmt;

use belfry_isa::inst::Mods;

use super::case::{Case, Cells};

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
    /// Instructions with more results than a number.
    pub cases: Vec<Case>,
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
    /// `SCC` before.
    pub scc: bool,
    /// EXEC where it is not of all lanes.
    pub exec: Option<u32>,
    /// Units in the last place that a result may be off: 0 where the card's arithmetic is known.
    pub within: u64,
    /// The results.
    pub rows: Vec<Row>,
    /// Lines that they are on.
    pub lines: usize,
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
    /// `SCC` behind, or the bit of a mask beside the result, where it was looked at.
    pub flag: Option<bool>,
}

/// `MODE` that compilers ask for: to nearest, denormals kept, `DX10_CLAMP`, `IEEE`.
pub(super) const USUAL_MODE: u32 = 0x3f0;
/// Sources an operation may have.
const MOST_SOURCES: usize = 3;
/// Words that data of memory may have.
const MOST_DATA: usize = 1024;
/// Sources of a list.
pub(super) const LIST: usize = 16;

/// Reads a set.
///
/// # Errors
///
/// A line that is cut, foreign, or contradicts another one; the error names the set and the line.
pub fn parse(name: &str, text: &str) -> Result<Set, Error> {
    let mut reader = Reader { name, line: 0 };
    let mut set = Set {
        name: name.to_owned(),
        source: String::new(),
        licence: String::new(),
        chip: String::new(),
        also: Vec::new(),
        operations: Vec::new(),
        cases: Vec::new(),
    };
    let mut open: Option<Open> = None;
    let (mut known, mut lists) = (Known::default(), Lists::new());
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
            ("list", None) => {
                let (name, list) = reader.list(rest)?;
                lists.insert(name, list);
            }
            ("data", None) => {
                let (name, words) = reader.data(rest)?;
                lists.insert(name, words);
            }
            ("op", None) => open = Some(Open::Operation(reader.operation(&set, rest)?)),
            ("case", None) => {
                reader.origin(&set)?;
                open = Some(Open::Case(reader.case(rest)?));
            }
            ("op" | "case", Some(before)) => {
                return Err(reader.error(format!("{} has no end", before.name())));
            }
            ("end", Some(_)) => match open.take() {
                Some(Open::Operation(operation)) => {
                    reader.count(&operation, rest)?;
                    set.operations.push(operation);
                }
                Some(Open::Case(case)) => {
                    reader.whole(&case)?;
                    known.case(&reader, &case)?;
                    set.cases.push(case);
                }
                None => {}
            },
            (_, Some(Open::Operation(operation))) => {
                for row in reader.rows(operation, &lists, line)? {
                    known.row(&reader, operation, &row)?;
                    operation.rows.push(row);
                }
                operation.lines += 1;
            }
            (_, Some(Open::Case(case))) => reader.cell(case, &lists, line)?,
            _ => return Err(reader.error(format!("{word:?} is no line of a set"))),
        }
    }
    match open {
        Some(open) => Err(reader.error(format!("cut: {} has no end", open.name()))),
        None if set.operations.is_empty() && set.cases.is_empty() => {
            Err(reader.error("cut: no operation".to_owned()))
        }
        None => Ok(set),
    }
}

/// A part that has begun and has not ended.
enum Open {
    Operation(Operation),
    Case(Case),
}

impl Open {
    fn name(&self) -> &str {
        match self {
            Open::Operation(operation) => &operation.name,
            Open::Case(case) => &case.name,
        }
    }
}

/// Lists of sources and words of memory by their names.
pub(super) type Lists = HashMap<String, Vec<u64>>;

/// Key of a row: operation, modifiers, the state before, lane where it matters, and sources.
type RowKey = (String, Mods, (u32, bool, Option<u32>), Option<usize>, Vec<u64>);

/// Results so far, by what they are of, with their lines.
#[derive(Default)]
struct Known {
    rows: HashMap<RowKey, (usize, (u64, Option<bool>))>,
    cases: HashMap<(Vec<u32>, Cells), (usize, Cells)>,
}

impl Known {
    fn row(&mut self, reader: &Reader<'_>, operation: &Operation, row: &Row) -> Result<(), Error> {
        let lane = operation.exec.map(|_| operation.rows.len() % LIST);
        let before = (operation.mode, operation.scc, operation.exec);
        let key = (operation.name.clone(), operation.mods, before, lane, row.sources.clone());
        match self.rows.insert(key, (row.line, (row.result, row.flag))) {
            Some((other, seen)) if seen != (row.result, row.flag) => {
                let (there, here) = (said(seen), said((row.result, row.flag)));
                Err(reader.error(format!("contradicts line {other}: {there} there, {here} here")))
            }
            _ => Ok(()),
        }
    }

    fn case(&mut self, reader: &Reader<'_>, case: &Case) -> Result<(), Error> {
        let key = (case.code.clone(), case.before.clone());
        match self.cases.insert(key, (case.line, case.after.clone())) {
            Some((other, after)) if after != case.after => {
                Err(reader.error(format!("the case of line {} contradicts that of line {other}", case.line)))
            }
            _ => Ok(()),
        }
    }
}

/// A result as messages have it.
fn said((result, flag): (u64, Option<bool>)) -> String {
    flag.map_or_else(|| format!("{result:x}"), |flag| format!("{result:x} {}", u8::from(flag)))
}

/// Place in a set that is read.
pub(super) struct Reader<'a> {
    name: &'a str,
    pub(super) line: usize,
}

impl Reader<'_> {
    pub(super) fn error(&self, why: String) -> Error {
        Error { set: self.name.to_owned(), line: self.line, why }
    }

    pub(super) fn number(&self, digits: &str, bits: u32) -> Result<u64, Error> {
        match u64::from_str_radix(digits, 16) {
            Ok(value) if bits == 64 || value >> bits == 0 => Ok(value),
            _ => Err(self.error(format!("{digits:?} is no number of {bits} bits"))),
        }
    }

    /// Checks that the set has said where it is from.
    fn origin(&self, set: &Set) -> Result<(), Error> {
        for (what, value) in [("source", &set.source), ("licence", &set.licence), ("chip", &set.chip)] {
            if value.is_empty() {
                return Err(self.error(format!("foreign: no {what} before the first operation")));
            }
        }
        Ok(())
    }

    fn operation(&self, set: &Set, rest: &str) -> Result<Operation, Error> {
        self.origin(set)?;
        let mut words = rest.split(' ');
        let name = words.next().unwrap_or_default().to_owned();
        let mut operation = Operation {
            name,
            mods: Mods { op_sel_hi: 7, ..Mods::default() },
            mode: USUAL_MODE,
            scc: false,
            exec: None,
            within: 0,
            rows: Vec::new(),
            lines: 0,
        };
        for word in words {
            let (key, value) = word.split_once('=').unwrap_or((word, "1"));
            let value = self.number(value, 32)?;
            let small = (value & 15) as u8;
            match key {
                "mode" => operation.mode = value as u32,
                "scc" => operation.scc = value != 0,
                "exec" => operation.exec = Some(value as u32),
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

    /// A list: its name and its sources.
    fn list(&self, rest: &str) -> Result<(String, Vec<u64>), Error> {
        let (name, values) = rest.split_once(' ').unwrap_or((rest, ""));
        let list: Vec<u64> = self.sources(values, 64)?;
        match list.len() {
            LIST => Ok((name.to_owned(), list)),
            count => Err(self.error(format!("cut: the list {name:?} has {count} sources, not {LIST}"))),
        }
    }

    /// Words of memory with a name.
    fn data(&self, rest: &str) -> Result<(String, Vec<u64>), Error> {
        let (name, values) = rest.split_once(' ').unwrap_or((rest, ""));
        let words = self.sources(values, 32)?;
        if words.is_empty() || words.len() > MOST_DATA {
            return Err(self.error(format!("the data {name:?} are {} words", words.len())));
        }
        Ok((name.to_owned(), words))
    }

    fn sources(&self, digits: &str, bits: u32) -> Result<Vec<u64>, Error> {
        digits.split_whitespace().map(|digits| self.number(digits, bits)).collect()
    }

    /// A row, or those of a list.
    fn rows(&self, operation: &Operation, lists: &Lists, line: &str) -> Result<Vec<Row>, Error> {
        let Some((sources, result)) = line.split_once('=') else {
            return Err(self.error("cut: a row has no result".to_owned()));
        };
        let (list, sources) = match sources.trim().strip_prefix('@').map(|rest| rest.split_once(' ')) {
            Some(Some((name, rest))) => {
                let list = lists.get(name).filter(|list| list.len() == LIST);
                (Some(list.ok_or_else(|| self.error(format!("{name:?} is no list")))?), rest)
            }
            _ => (None, sources),
        };
        if operation.exec.is_some() && list.is_none() {
            return Err(self.error("a row without a list, and an EXEC".to_owned()));
        }
        let rest = self.sources(sources, 64)?;
        let count = rest.len() + usize::from(list.is_some());
        let expected = operation.rows.first().map_or(count, |row| row.sources.len());
        if count == 0 || count > MOST_SOURCES || count != expected {
            return Err(self.error(format!("{count} sources")));
        }
        let (result, flag) = match result.trim().split_once(' ') {
            Some((result, flag)) => (result, Some(self.number(flag.trim(), 1)? != 0)),
            None => (result.trim(), None),
        };
        let result = self.number(result, if list.is_some() { LIST as u32 } else { 64 })?;
        let Some(list) = list else {
            return Ok(vec![Row { line: self.line, sources: rest, result, flag }]);
        };
        let row = |(lane, &first): (usize, &u64)| {
            let sources = std::iter::once(first).chain(rest.iter().copied()).collect();
            Row { line: self.line, sources, result: result >> lane & 1, flag }
        };
        Ok(list.iter().enumerate().map(row).collect())
    }

    fn count(&self, operation: &Operation, rest: &str) -> Result<(), Error> {
        match rest.trim().parse::<usize>() {
            Ok(rows) if rows == operation.lines && rows != 0 => Ok(()),
            _ => {
                let why = format!("cut: {} has {} rows, not {rest:?}", operation.name, operation.lines);
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

    #[test]
    fn lists_and_results_with_scc_that_are_cut_foreign_or_contradict_themselves_are_refused_by_line() {
        let set = |body: &str| why(&format!("{HEAD}{body}"));
        let list = "list some 0 1 2 3 4 5 6 7 8 9 a b c d e f\n";
        let with = |body: &str| set(&format!("{list}{body}"));
        assert_eq!(with("op v_cmp_lt_u32\n@some 3 = 7\n1 3 = 1\nend 2\n"), "");
        assert_eq!(set("list some 1 2\n"), "set some, line 4: cut: the list \"some\" has 2 sources, not 16");
        assert_eq!(with("op a\n@other 3 = 7\nend 1\n"), "set some, line 6: \"other\" is no list");
        assert_eq!(with("op a\n@some = 7\nend 1\n"), "set some, line 6: \"@some\" is no number of 64 bits");
        assert_eq!(
            with("op a\n@some 3 = 10000\nend 1"),
            "set some, line 6: \"10000\" is no number of 16 bits"
        );
        assert_eq!(
            with("op a exec=ff\n1 3 = 1\nend 1"),
            "set some, line 6: a row without a list, and an EXEC"
        );
        assert_eq!(
            with("op a\n@some 3 = 7\n1 3 = 0\nend 2"),
            "set some, line 7: contradicts line 6: 1 there, 0 here"
        );
        assert_eq!(with("op a\n@some 3 = 7\nend 1\nop a exec=3\n@some 3 = 3\nend 1"), "");
        assert_eq!(
            set("op s_add_co_u32\n1 2 = 3 2\nend 1"),
            "set some, line 5: \"2\" is no number of 1 bits"
        );
        assert_eq!(
            set("op a\n1 2 = 3 0\n1 2 = 3 1\nend 2"),
            "set some, line 6: contradicts line 5: 3 0 there, 3 1 here"
        );
        assert_eq!(set("op a\n1 2 = 3 0\nend 1\nop a scc=1\n1 2 = 3 1\nend 1"), "");
    }

    #[test]
    fn cases_that_are_cut_foreign_or_contradict_themselves_are_refused_by_line() {
        let set = |body: &str| why(&format!("{HEAD}{body}"));
        let load = "case ds_load_b32 d8d80001 06000000\nin exec = 1\nin lds 0 = 1 2\n";
        assert_eq!(set(&format!("{load}out v6 = 2\nend\n")), "");
        assert_eq!(set(load), "set some, line 6: cut: ds_load_b32 has no end");
        let data = "data some 1 2\ncase s 0\n";
        assert_eq!(set(&format!("{data}in mem 8 = @some\nin s4 = 1 2\nout s0 = 3\nend\n")), "");
        assert_eq!(set(&format!("{data}in mem 8 = @other\n")), "set some, line 6: \"other\" is no data");
        assert_eq!(set("data some\n"), "set some, line 4: the data \"some\" are 0 words");
        assert_eq!(set("data some 100000000\n"), "set some, line 4: \"100000000\" is no number of 32 bits");
        assert_eq!(set("case s 0\nin s99 = 1 2\n"), "set some, line 5: no register behind s99");
        assert_eq!(set(&format!("{load}end\n")), "set some, line 7: cut: ds_load_b32 has no result");
        assert_eq!(set(&format!("{load}out v6\n")), "set some, line 7: cut: a cell has no values");
        assert_eq!(set(&format!("{load}out v64 = 1\n")), "set some, line 7: \"v64\" is no cell");
        assert_eq!(set(&format!("{load}out v6 =\n")), "set some, line 7: 0 words");
        assert_eq!(
            set(&format!("{load}out lds fff = 1\n")),
            "set some, line 7: lds has no bytes from fff on"
        );
        assert_eq!(set(&format!("{load}else v6 = 1\n")), "set some, line 7: \"else\" is no line of a case");
        assert_eq!(set("case ds_load_b32\n"), "set some, line 4: 0 words");
        let contradiction = format!("{load}out v6 = 2\nend\n{load}out v6 = 3\nend\n");
        assert_eq!(set(&contradiction), "set some, line 13: the case of line 9 contradicts that of line 4");
        assert_eq!(why("case s 0\n"), "set some, line 1: foreign: no source before the first operation");
    }
}
