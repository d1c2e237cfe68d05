//! A file: its segments, source lines, functions and variables.

use std::borrow::Cow;
use std::ops::Range;

use gimli::{
    AttributeValue, DW_AT_abstract_origin, DW_AT_data_member_location, DW_AT_encoding, DW_AT_frame_base,
};
use gimli::{
    DW_AT_byte_size, DW_AT_count, DW_AT_linkage_name, DW_AT_location, DW_AT_name, DW_AT_type,
    DW_AT_upper_bound,
};
use gimli::{Dwarf, DwarfSections, EndianSlice, LittleEndian, Unit, UnitOffset};
use gimli::{Expression, Operation};
use object::read::elf::ElfFile64;
use object::{Object as _, ObjectSection as _, ObjectSegment as _, ObjectSymbol as _};

use super::model::{Function, Kind, Location, Row, Variable};
use super::{Copy, SourceLine, for_gdb};

/// Rows of line tables, functions and variables of a file, at most.
const MOST: usize = 4 << 20;
/// Bytes of code that are compared with memory, at most.
const COMPARED: usize = 4 << 20;
/// Depth to which types are followed.
const DEPTH: u32 = 6;
/// `EM_AMDGPU`
const MACHINE: u16 = 224;

pub(super) type Slice<'a> = EndianSlice<'a, LittleEndian>;

/// Reasons why a file has no symbols.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum FileError {
    /// The file is another one.
    #[error("it is no code object of an AMD GPU (an ELF file with EM_AMDGPU)")]
    NoCodeObject,
    /// The file was cut short.
    #[error("a segment is not in the file")]
    Segment,
    /// A compressed section cannot be unpacked.
    #[error("{0}")]
    Section(#[from] object::Error),
    /// The debug information makes no sense.
    #[error("its debug information is broken: {0}")]
    Dwarf(#[from] gimli::Error),
}

/// A file of a code object.
#[derive(Debug)]
pub struct SymbolFile {
    path: String,
    pub(super) data: Vec<u8>,
    /// Code: its address, and where it is in the file.
    code: Vec<(u64, Range<usize>)>,
    /// Kernels and the addresses of their descriptors.
    kernels: Vec<(String, u64)>,
    files: Vec<String>,
    rows: Vec<Row>,
    pub(super) functions: Vec<Function>,
    copy: Copy,
}

impl SymbolFile {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// A file that is no code object of an AMD GPU, or whose debug information is broken.
    pub fn read(path: String, data: Vec<u8>) -> Result<Self, FileError> {
        let elf = ElfFile64::<object::LittleEndian>::parse(&*data).map_err(|_| FileError::NoCodeObject)?;
        if elf.elf_header().e_machine.get(object::LittleEndian).0 != MACHINE {
            return Err(FileError::NoCodeObject);
        }
        let mut code = Vec::new();
        for segment in elf.segments().filter(is_code) {
            let (from, len) = segment.file_range();
            let range = usize::try_from(from).ok().zip(usize::try_from(len).ok());
            let range = range.and_then(|(from, len)| Some(from..from.checked_add(len)?));
            let range = range.filter(|range| range.end <= data.len()).ok_or(FileError::Segment)?;
            code.push((segment.address(), range));
        }
        let descriptor = |symbol: object::read::elf::ElfSymbol64<'_, '_, object::LittleEndian>| {
            Some((symbol.name().ok()?.strip_suffix(".kd")?.to_owned(), symbol.address()))
        };
        let kernels = elf.dynamic_symbols().filter_map(descriptor).take(MOST).collect();
        let sections = DwarfSections::load(|id| -> Result<Cow<'_, [u8]>, FileError> {
            let Some(section) = elf.section_by_name(id.name()) else { return Ok(Cow::Borrowed(&[])) };
            Ok(section.uncompressed_data()?)
        })?;
        let dwarf = sections.borrow(|section| EndianSlice::new(section, LittleEndian));
        let mut reader =
            Reader { dwarf: &dwarf, data: &data, files: Vec::new(), rows: Vec::new(), functions: Vec::new() };
        reader.units()?;
        let Reader { files, mut rows, functions, .. } = reader;
        // Where one sequence ends and another one begins, the beginning counts.
        rows.sort_by_key(|row| (row.address, !row.end));
        Ok(Self { path, code, kernels, files, rows, functions, copy: Copy::default(), data })
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The address of a kernel's descriptor.
    pub(super) fn descriptor(&self, kernel: &str) -> Option<u64> {
        self.kernels.iter().find(|(name, _)| name == kernel).map(|(_, address)| *address)
    }

    /// Returns true if the file has source lines.
    #[must_use]
    pub fn has_lines(&self) -> bool {
        !self.rows.is_empty()
    }

    /// Returns true if an address of the file is one of code.
    #[must_use]
    pub fn has_code(&self, address: u64) -> bool {
        self.code
            .iter()
            .any(|(from, range)| address.checked_sub(*from).is_some_and(|at| at < range.len() as u64))
    }

    /// Returns true if its code is in memory, loaded at `base`.
    pub(super) fn is_at(&self, base: u64, read: &mut dyn FnMut(u64, &mut [u8]) -> usize) -> bool {
        let mut bytes = vec![0; 64 << 10];
        let mut left = COMPARED;
        for (address, range) in &self.code {
            for part in self.data[range.clone()].chunks(bytes.len()).zip((0_u64..).step_by(64 << 10)) {
                let (part, at) = part;
                let at = base.wrapping_add(*address).wrapping_add(at);
                if read(at, &mut bytes[..part.len()]) != part.len() || bytes[..part.len()] != *part {
                    return false;
                }
                left = left.saturating_sub(part.len());
                if left == 0 {
                    return true;
                }
            }
        }
        !self.code.is_empty()
    }

    /// The row that has an address.
    fn row(&self, address: u64) -> Option<&Row> {
        let behind = self.rows.partition_point(|row| row.address <= address);
        self.rows[..behind].last().filter(|row| !row.end && row.line > 0)
    }

    pub(super) fn function(&self, address: u64) -> Option<&Function> {
        // The smallest one, should they be inside of each other.
        let all = self.functions.iter().filter(|function| function.code.contains(&address));
        all.min_by_key(|function| function.code.end - function.code.start)
    }

    /// The source line of an address of the file.
    #[must_use]
    pub fn line(&self, address: u64) -> Option<SourceLine<'_>> {
        let row = self.row(address)?;
        let file = self.files.get(row.file as usize)?;
        Some(SourceLine { file, line: row.line, function: self.function(address).map(|found| &*found.name) })
    }

    /// Addresses at which code of a source line begins, one for each function.
    pub(super) fn addresses(&self, file: &str, line: u32) -> Vec<u64> {
        let is =
            |known: &str| known == file || known.strip_suffix(file).is_some_and(|rest| rest.ends_with('/'));
        let mut found: Vec<u64> = Vec::new();
        let mut functions = Vec::new();
        for row in self.rows.iter().filter(|row| row.line == line && row.statement && !row.end) {
            if !self.files.get(row.file as usize).is_some_and(|known| is(known)) {
                continue;
            }
            let function = self.function(row.address).map(|function| function.code.start);
            if !functions.contains(&function) {
                functions.push(function);
                found.push(row.address);
            }
        }
        found
    }

    /// The variables that code at an address can name; the innermost scope's come first.
    pub(super) fn variables(&self, address: u64) -> impl Iterator<Item = (&Function, &Variable)> {
        let function = self.function(address);
        let mut all: Vec<_> = function
            .into_iter()
            .flat_map(|function| function.variables.iter().map(move |variable| (function, variable)))
            .filter(|(_, variable)| variable.scope.contains(&address))
            .collect();
        all.sort_by_key(|(_, variable)| variable.scope.end - variable.scope.start);
        all.into_iter()
    }

    /// Functions with their code, in the file's addresses.
    pub(super) fn ranges(&self) -> impl Iterator<Item = &Range<u64>> {
        self.functions.iter().map(|function| &function.code)
    }

    /// A copy that stock GDB understands.
    #[must_use]
    pub fn for_gdb(&self) -> &[u8] {
        self.copy.0.get_or_init(|| for_gdb::copy(self).unwrap_or_default())
    }
}

fn is_code<'a>(segment: &impl object::ObjectSegment<'a>) -> bool {
    match segment.flags() {
        object::SegmentFlags::Elf { p_flags, .. } => p_flags.0 & object::elf::PF_X.0 != 0,
        _ => false,
    }
}

struct Reader<'a> {
    dwarf: &'a Dwarf<Slice<'a>>,
    data: &'a [u8],
    files: Vec<String>,
    rows: Vec<Row>,
    functions: Vec<Function>,
}

type Entry<'a> = gimli::DebuggingInformationEntry<Slice<'a>>;

impl<'a> Reader<'a> {
    fn units(&mut self) -> gimli::Result<()> {
        let mut units = self.dwarf.units();
        while let Some(header) = units.next()? {
            let unit = self.dwarf.unit(header)?;
            self.lines(&unit)?;
            self.entries(&unit)?;
        }
        Ok(())
    }

    fn lines(&mut self, unit: &Unit<Slice<'a>>) -> gimli::Result<()> {
        let Some(program) = unit.line_program.clone() else { return Ok(()) };
        let first = self.files.len();
        let header = program.header();
        let version = header.version();
        // Before DWARF 5 files are numbered from 1.
        let numbers = if version >= 5 { 0 } else { 1 };
        for number in numbers..(header.file_names().len() as u64 + numbers) {
            let Some(file) = header.file(number) else { break };
            let mut path = String::new();
            if let Some(folder) = &unit.comp_dir {
                join(&mut path, &folder.to_string_lossy());
            }
            if let Some(folder) = file.directory(header) {
                join(&mut path, &self.dwarf.attr_string(unit, folder)?.to_string_lossy());
            }
            join(&mut path, &self.dwarf.attr_string(unit, file.path_name())?.to_string_lossy());
            self.files.push(path);
        }
        let mut rows = program.rows();
        while let Some((_, row)) = rows.next_row()? {
            if self.rows.len() >= MOST {
                break;
            }
            let file = (row.file_index().saturating_sub(numbers) as usize).saturating_add(first);
            self.rows.push(Row {
                address: row.address(),
                file: u32::try_from(file).unwrap_or(u32::MAX),
                line: row.line().map_or(0, |line| u32::try_from(line.get()).unwrap_or(0)),
                end: row.end_sequence(),
                statement: row.is_stmt(),
            });
        }
        Ok(())
    }

    fn entries(&mut self, unit: &Unit<Slice<'a>>) -> gimli::Result<()> {
        // Functions and scopes around the entry, with their depth: the function's index and the scope's code.
        let mut around: Vec<(isize, usize, Range<u64>)> = Vec::new();
        let mut entries = unit.entries();
        let mut variables = 0;
        while let Some(entry) = entries.next_dfs()? {
            let depth = entry.depth();
            while around.last().is_some_and(|(outer, ..)| *outer >= depth) {
                around.pop();
            }
            match entry.tag() {
                gimli::DW_TAG_subprogram => {
                    let Some(code) = self.code(unit, entry)? else { continue };
                    let name = self.name(unit, entry, 0)?.unwrap_or_default();
                    let frame = entry.attr_value(DW_AT_frame_base).and_then(|value| value.exprloc_value());
                    let frame = frame.map(|expression| expression.0.slice().to_vec());
                    if self.functions.len() >= MOST {
                        return Ok(());
                    }
                    around.push((depth, self.functions.len(), code.clone()));
                    self.functions.push(Function { name, code, frame, variables: Vec::new() });
                }
                gimli::DW_TAG_lexical_block | gimli::DW_TAG_inlined_subroutine => {
                    let code = self.code(unit, entry)?;
                    if let (Some(code), Some((_, function, _))) = (code, around.last()) {
                        around.push((depth, *function, code));
                    }
                }
                gimli::DW_TAG_variable | gimli::DW_TAG_formal_parameter => {
                    let Some((_, function, scope)) = around.last().cloned() else { continue };
                    let Some(name) = self.name(unit, entry, 0)? else { continue };
                    variables += 1;
                    if variables > MOST {
                        return Ok(());
                    }
                    let locations = self.locations(unit, entry, &scope)?;
                    let kind = self.kind_of(unit, entry, 0)?;
                    self.functions[function].variables.push(Variable { name, scope, locations, kind });
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The code of an entry, from its first to its last address.
    fn code(&self, unit: &Unit<Slice<'a>>, entry: &Entry<'a>) -> gimli::Result<Option<Range<u64>>> {
        let mut ranges = self.dwarf.die_ranges(unit, entry)?;
        let mut whole: Option<Range<u64>> = None;
        while let Some(range) = ranges.next()? {
            whole = Some(match whole {
                None => range.begin..range.end,
                Some(whole) => whole.start.min(range.begin)..whole.end.max(range.end),
            });
        }
        Ok(whole.filter(|code| code.start < code.end))
    }

    fn name(&self, unit: &Unit<Slice<'a>>, entry: &Entry<'a>, depth: u32) -> gimli::Result<Option<String>> {
        for attribute in [DW_AT_name, DW_AT_linkage_name] {
            if let Some(value) = entry.attr_value(attribute) {
                return Ok(Some(self.dwarf.attr_string(unit, value)?.to_string_lossy().into_owned()));
            }
        }
        match entry.attr_value(DW_AT_abstract_origin) {
            Some(AttributeValue::UnitRef(origin)) if depth < DEPTH => {
                self.name(unit, &unit.entry(origin)?, depth + 1)
            }
            _ => Ok(None),
        }
    }

    fn locations(
        &self,
        unit: &Unit<Slice<'a>>,
        entry: &Entry<'a>,
        scope: &Range<u64>,
    ) -> gimli::Result<Vec<Location>> {
        let Some(value) = entry.attr_value(DW_AT_location) else { return Ok(Vec::new()) };
        let place = |slice: &'a [u8]| {
            // Where the section was not compressed, the expression is a part of the file.
            let at = (slice.as_ptr() as usize).checked_sub(self.data.as_ptr() as usize)?;
            (at.checked_add(slice.len())? <= self.data.len()).then_some(at)
        };
        if let Some(expression) = value.exprloc_value() {
            let slice = expression.0.slice();
            let (code, at, indexed) = (scope.clone(), place(slice), self.indexed(unit, slice));
            return Ok(vec![Location { code, expression: slice.to_vec(), indexed, at }]);
        }
        let mut found = Vec::new();
        if let Some(mut list) = self.dwarf.attr_locations(unit, value)? {
            while let Some(entry) = list.next()? {
                let slice = entry.data.0.slice();
                let code = entry.range.begin..entry.range.end;
                let indexed = self.indexed(unit, slice);
                found.push(Location { code, expression: slice.to_vec(), indexed, at: place(slice) });
                if found.len() >= 4096 {
                    break;
                }
            }
        }
        Ok(found)
    }

    /// The address that an expression begins with by its index.
    fn indexed(&self, unit: &Unit<Slice<'a>>, expression: &'a [u8]) -> Option<u64> {
        let expression = Expression(EndianSlice::new(expression, LittleEndian));
        match expression.operations(unit.encoding()).next().ok()?? {
            Operation::AddressIndex { index } => self.dwarf.address(unit, index).ok(),
            _ => None,
        }
    }

    /// The type of an entry.
    fn kind_of(&self, unit: &Unit<Slice<'a>>, entry: &Entry<'a>, depth: u32) -> gimli::Result<Kind> {
        match (entry.attr_value(DW_AT_type), entry.attr_value(DW_AT_abstract_origin)) {
            (Some(AttributeValue::UnitRef(kind)), _) if depth < DEPTH => self.kind(unit, kind, depth + 1),
            (None, Some(AttributeValue::UnitRef(origin))) if depth < DEPTH => {
                self.kind_of(unit, &unit.entry(origin)?, depth + 1)
            }
            _ => Ok(Kind::Other(0)),
        }
    }

    fn kind(&self, unit: &Unit<Slice<'a>>, at: UnitOffset, depth: u32) -> gimli::Result<Kind> {
        let entry = unit.entry(at)?;
        let number = |name| entry.attr_value(name).and_then(|value| value.udata_value());
        let size = usize::try_from(number(DW_AT_byte_size).unwrap_or(0)).unwrap_or(0);
        Ok(match entry.tag() {
            gimli::DW_TAG_base_type => {
                let encoding = match entry.attr_value(DW_AT_encoding) {
                    Some(AttributeValue::Encoding(encoding)) => encoding.0,
                    _ => 0,
                };
                Kind::Number(encoding, size)
            }
            gimli::DW_TAG_pointer_type | gimli::DW_TAG_reference_type => {
                Kind::Pointer(if size == 0 { usize::from(unit.encoding().address_size) } else { size })
            }
            gimli::DW_TAG_structure_type | gimli::DW_TAG_class_type | gimli::DW_TAG_union_type => {
                let mut members = Vec::new();
                if depth < DEPTH {
                    let mut tree = unit.entries_tree(Some(at))?;
                    let mut children = tree.root()?.children();
                    while let Some(child) = children.next()? {
                        let child = child.entry();
                        if child.tag() != gimli::DW_TAG_member || members.len() >= 64 {
                            continue;
                        }
                        let offset =
                            child.attr_value(DW_AT_data_member_location).and_then(|at| at.udata_value());
                        let name = self.name(unit, child, depth)?.unwrap_or_default();
                        let kind = self.kind_of(unit, child, depth + 1)?;
                        members.push((name, usize::try_from(offset.unwrap_or(0)).unwrap_or(0), kind));
                    }
                }
                Kind::Members(members, size)
            }
            gimli::DW_TAG_array_type => {
                let element = self.kind_of(unit, &entry, depth + 1)?;
                let (mut count, mut tree) = (1_u64, unit.entries_tree(Some(at))?);
                let mut children = tree.root()?.children();
                while let Some(child) = children.next()? {
                    let child = child.entry();
                    let value = |name| child.attr_value(name).and_then(|value| value.udata_value());
                    let length =
                        value(DW_AT_count).or(value(DW_AT_upper_bound).map(|last| last.saturating_add(1)));
                    count = count.saturating_mul(length.unwrap_or(0));
                }
                Kind::Array(Box::new(element), usize::try_from(count).unwrap_or(0))
            }
            gimli::DW_TAG_enumeration_type => Kind::Number(gimli::DW_ATE_unsigned.0, size),
            // const, volatile, typedef.
            _ if entry.attr_value(DW_AT_type).is_some() => self.kind_of(unit, &entry, depth)?,
            _ => Kind::Other(size),
        })
    }
}

/// Appends a path, as if it were gone to from the one before.
fn join(path: &mut String, more: &str) {
    let more = more.strip_prefix("./").unwrap_or(more);
    if more == "." {
        return;
    }
    if more.starts_with('/') || path.is_empty() {
        more.clone_into(path);
    } else if !more.is_empty() {
        path.push('/');
        path.push_str(more);
    }
}
