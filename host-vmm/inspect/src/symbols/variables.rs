//! Place of a variable, and its value as text.
//!
//! Clang describes variables of kernels with `DW_OP_xderef`: the address below, in the address space above it (1:
//! private memory, 2: LDS). It leaves these operations after the expression when a variable has moved from private
//! memory into a register, or is a constant: the expression then gives the value and no address.

use gimli::{Encoding, EndianSlice, Expression, Format, LittleEndian, Operation};

use super::model::{Function, Kind, Location, Variable};
use super::read::SymbolFile;

/// Numbers of registers in DWARF: the first number, the count, and the first register. From LLVM's AMDGPU usage.
const SGPRS: [(u16, u16, u16); 2] = [(32, 64, 0), (1088, 42, 64)];
const VGPRS: [(u16, u16); 2] = [(1536, 256), (2560, 256)];
const AGPRS: [(u16, u16); 2] = [(2048, 256), (3072, 256)];

/// The address spaces of `DW_OP_xderef`.
const PRIVATE: u64 = 1;
const LOCAL: u64 = 2;

/// Depth to which a value is written.
const DEPTH: u32 = 4;
/// Elements of an array that are written.
const ELEMENTS: usize = 32;
/// Bytes of a value at most.
const MAX_VALUE: usize = 4096;

/// Reasons why a variable has no value.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum ValueError {
    /// No variables are in scope.
    #[error("no variables are known at {0:#x}")]
    NoVariables(u64),
    /// Other variables are in scope.
    #[error("no variable is called {name}; there are {known}")]
    NoVariable {
        /// The name.
        name: String,
        /// Names of the variables in scope.
        known: String,
    },
    /// The type is empty or too large.
    #[error("{name} has a type of {size} bytes, which is not written")]
    Size {
        /// Name of the variable.
        name: String,
        /// Bytes of its type.
        size: usize,
    },
    /// The variable has no place there.
    #[error("it is optimised out here")]
    OptimisedOut,
    /// The location is an expression of another form.
    #[error("its location {0:02x?} has a form that is not known")]
    Form(Vec<u8>),
    /// The location cannot be read.
    #[error("{0}")]
    Dwarf(#[from] gimli::Error),
    /// The location is an index of an address that is missing.
    #[error("its address is not in the file")]
    NoAddress,
    /// The location is a register that waves do not have.
    #[error("it is in register {0} of DWARF, which is none of a wave")]
    Register(u16),
    /// The frame is described in another form.
    #[error("its frame is in no register")]
    Frame,
    /// The register of the frame was not read from the wave.
    #[error("its frame's register is not there")]
    NoFrameRegister,
    /// A register was not read from the wave.
    #[error("its register is not there")]
    NoRegister,
    /// Memory does not answer.
    #[error("its memory cannot be read: {0:x?}")]
    Memory(Place),
}

/// A register of a wave.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Register {
    /// `s0` and the registers after it.
    Scalar(u16),
    /// `v0` and the registers after it.
    Vector(u16),
    /// `a0` and the registers after it.
    Accumulator(u16),
}

impl Register {
    /// The register of a number in DWARF.
    pub(super) fn of(number: u16) -> Option<Self> {
        let within = |first: u16, count: u16| number.checked_sub(first).filter(|index| *index < count);
        let scalar =
            SGPRS.iter().find_map(|&(first, count, from)| Some(Self::Scalar(within(first, count)? + from)));
        let vector = || VGPRS.iter().find_map(|&(first, count)| Some(Self::Vector(within(first, count)?)));
        let accumulator =
            || AGPRS.iter().find_map(|&(first, count)| Some(Self::Accumulator(within(first, count)?)));
        scalar.or_else(vector).or_else(accumulator)
    }

    fn next(self) -> Self {
        match self {
            Self::Scalar(number) => Self::Scalar(number + 1),
            Self::Vector(number) => Self::Vector(number + 1),
            Self::Accumulator(number) => Self::Accumulator(number + 1),
        }
    }
}

/// Place of a value.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Place {
    /// A constant, which has no place.
    Value(u64),
    /// In a register, and the registers after it.
    Register(Register),
    /// At an offset of the lane's private memory.
    Private(u32),
    /// At an offset of the workgroup's LDS.
    Lds(u64),
    /// In memory.
    Memory(u64),
}

/// A wave and a lane of it.
pub trait State {
    /// A register, of the lane where it has lanes.
    fn register(&mut self, register: Register) -> Option<u32>;
    /// Reads memory of a kind. Returns true if all of it was there.
    fn read(&mut self, place: Place, bytes: &mut [u8]) -> bool;
}

/// Result of an expression, as far as it can be found without a wave.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Form {
    /// At an offset of the frame, in private memory.
    Frame(i64),
    /// In a register.
    In(Register),
    /// At an address.
    At(u64, Option<u64>),
    /// A constant.
    Constant(u64),
}

/// Reads an expression of the forms that clang writes, with the address that it may have by an index.
pub(super) fn form(expression: &[u8], indexed: Option<u64>) -> Result<Form, ValueError> {
    let encoding = Encoding { address_size: 8, format: Format::Dwarf32, version: 5 };
    let mut operations = Expression(EndianSlice::new(expression, LittleEndian)).operations(encoding);
    let mut all = Vec::new();
    while let Some(operation) = operations.next()? {
        all.push(operation);
    }
    let is_value = matches!(all.last(), Some(Operation::StackValue));
    if is_value {
        all.pop();
    }
    let space = match all[..] {
        [
            ..,
            Operation::UnsignedConstant { value },
            Operation::Swap,
            Operation::Deref { space: true, .. },
        ] => {
            all.truncate(all.len() - 3);
            Some(value)
        }
        _ => None,
    };
    let register = |number: gimli::Register| Register::of(number.0).ok_or(ValueError::Register(number.0));
    match all[..] {
        [Operation::FrameOffset { offset }] => Ok(Form::Frame(offset)),
        [Operation::Register { register: number }] => Ok(Form::In(register(number)?)),
        [Operation::RegisterOffset { register: number, offset: 0, .. }] if space.is_some() || is_value => {
            Ok(Form::In(register(number)?))
        }
        [Operation::UnsignedConstant { value }] if is_value => Ok(Form::Constant(value)),
        [Operation::SignedConstant { value }] if is_value => Ok(Form::Constant(value.cast_unsigned())),
        [Operation::Address { address }] => Ok(Form::At(address, space)),
        [Operation::AddressIndex { .. }] => Ok(Form::At(indexed.ok_or(ValueError::NoAddress)?, space)),
        [] => Err(ValueError::OptimisedOut),
        _ => Err(ValueError::Form(expression.to_owned())),
    }
}

impl SymbolFile {
    /// The names of variables that code at an address of the file can use, innermost scope first.
    #[must_use]
    pub fn names(&self, address: u64) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for (_, variable) in self.variables(address) {
            if !names.contains(&&*variable.name) {
                names.push(&variable.name);
            }
        }
        names
    }

    /// A variable's value, at an address of the file.
    ///
    /// # Errors
    ///
    /// No variable of that name, or one whose value cannot be told.
    pub fn value(
        &self,
        (address, base): (u64, u64),
        name: &str,
        state: &mut dyn State,
    ) -> Result<String, ValueError> {
        let found = self.variables(address).find(|(_, variable)| variable.name == name);
        let (function, variable) = found.ok_or_else(|| match self.names(address)[..] {
            [] => ValueError::NoVariables(address.wrapping_add(base)),
            ref names => ValueError::NoVariable { name: name.to_owned(), known: names.join(", ") },
        })?;
        let place = place(function, variable, (address, base), state)?;
        let size = variable.kind.size();
        if size == 0 || size > MAX_VALUE {
            return Err(ValueError::Size { name: name.to_owned(), size });
        }
        let mut bytes = vec![0; size];
        fill(place, &mut bytes, state)?;
        let mut text = String::new();
        write(&variable.kind, &bytes, &mut text, 0);
        Ok(text)
    }
}

/// Finds the place of a variable now.
fn place(
    function: &Function,
    variable: &Variable,
    (address, base): (u64, u64),
    state: &mut dyn State,
) -> Result<Place, ValueError> {
    let here = |location: &&Location| location.code.contains(&address);
    let location = variable.locations.iter().find(here);
    let location = location.ok_or(ValueError::OptimisedOut)?;
    Ok(match form(&location.expression, location.indexed)? {
        Form::Frame(offset) => {
            let frame = match form(function.frame.as_deref().unwrap_or_default(), None)? {
                Form::In(register) => register,
                _ => return Err(ValueError::Frame),
            };
            let frame = state.register(frame).ok_or(ValueError::NoFrameRegister)?;
            Place::Private(frame.wrapping_add(offset as u32))
        }
        Form::In(register) => Place::Register(register),
        Form::Constant(value) => Place::Value(value),
        Form::At(address, Some(LOCAL)) => Place::Lds(address),
        Form::At(address, Some(PRIVATE)) => Place::Private(address as u32),
        Form::At(address, _) => Place::Memory(address.wrapping_add(base)),
    })
}

fn fill(place: Place, bytes: &mut [u8], state: &mut dyn State) -> Result<(), ValueError> {
    match place {
        Place::Value(value) => {
            let from = value.to_le_bytes();
            let count = bytes.len().min(from.len());
            bytes[..count].copy_from_slice(&from[..count]);
        }
        Place::Register(mut register) => {
            for part in bytes.chunks_mut(4) {
                let value = state.register(register).ok_or(ValueError::NoRegister)?.to_le_bytes();
                part.copy_from_slice(&value[..part.len()]);
                register = register.next();
            }
        }
        Place::Private(_) | Place::Lds(_) | Place::Memory(_) => {
            if !state.read(place, bytes) {
                return Err(ValueError::Memory(place));
            }
        }
    }
    Ok(())
}

/// Writes a value.
fn write(kind: &Kind, bytes: &[u8], out: &mut String, depth: u32) {
    let mut whole = [0; 8];
    let count = bytes.len().min(8);
    whole[..count].copy_from_slice(&bytes[..count]);
    let (word, bits) = (u64::from_le_bytes(whole), count as u32 * 8);
    let signed = if bits == 0 { 0 } else { (word << (64 - bits)).cast_signed() >> (64 - bits) };
    match kind {
        _ if depth > DEPTH => out.push_str("..."),
        Kind::Number(encoding, size) => *out += &number(*encoding, *size, (word, signed)),
        Kind::Pointer(_) => *out += &format!("{word:#x}"),
        Kind::Members(members, _) => {
            out.push('{');
            for (index, (name, offset, kind)) in members.iter().enumerate() {
                *out += &format!("{}{name} = ", if index > 0 { ", " } else { "" });
                let part = bytes.get(*offset..).unwrap_or_default();
                write(kind, &part[..part.len().min(kind.size())], out, depth + 1);
            }
            out.push('}');
        }
        Kind::Array(element, count) => {
            out.push('{');
            for (index, part) in bytes.chunks(element.size().max(1)).take(ELEMENTS).enumerate() {
                *out += if index > 0 { ", " } else { "" };
                write(element, part, out, depth + 1);
            }
            *out += if *count > ELEMENTS { ", ...}" } else { "}" };
        }
        Kind::Other(_) => bytes.iter().for_each(|byte| *out += &format!("{byte:02x}")),
    }
}

fn number(encoding: u8, size: usize, (word, signed): (u64, i64)) -> String {
    match (gimli::DwAte(encoding), size) {
        (gimli::DW_ATE_float, 4) => format!("{}", f32::from_bits(word as u32)),
        (gimli::DW_ATE_float, 8) => format!("{}", f64::from_bits(word)),
        (gimli::DW_ATE_float, 2) => format!("{}", half::f16::from_bits(word as u16)),
        (gimli::DW_ATE_boolean, _) => (word != 0).to_string(),
        (gimli::DW_ATE_signed | gimli::DW_ATE_signed_char, _) => signed.to_string(),
        _ => word.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_that_clang_writes_are_read() {
        let frame = [0x91, 28, 0x31, 0x16, 0x18];
        assert_eq!(form(&frame, None), Ok(Form::Frame(28)));
        let vector = [0x92, 0x82, 0x0c, 0, 0x31, 0x16, 0x18];
        assert_eq!(form(&vector, None), Ok(Form::In(Register::Vector(2))));
        assert_eq!(form(&[0x30, 0x31, 0x16, 0x18, 0x9f], None), Ok(Form::Constant(0)));
        assert_eq!(form(&[0x90, 0x41], None), Ok(Form::In(Register::Scalar(33))));
        let lds = [3, 16, 0, 0, 0, 0, 0, 0, 0, 0x32, 0x16, 0x18];
        assert_eq!(form(&lds, None), Ok(Form::At(16, Some(LOCAL))));
        let index = [0xa1, 0, 0x32, 0x16, 0x18];
        assert_eq!(form(&index, Some(8)), Ok(Form::At(8, Some(LOCAL))));
        assert!(form(&index, None).is_err());
        assert!(
            form(&[], None).is_err() && form(&[0x12], None).is_err() && form(&[0xff, 0xff], None).is_err()
        );
    }

    #[test]
    fn values_are_written_as_their_types_have_them() {
        let text = |kind: &Kind, bytes: &[u8]| {
            let mut text = String::new();
            write(kind, bytes, &mut text, 0);
            text
        };
        let int = Kind::Number(gimli::DW_ATE_signed.0, 4);
        let float = Kind::Number(gimli::DW_ATE_float.0, 4);
        assert_eq!(text(&int, &(-2_i32).to_le_bytes()), "-2");
        assert_eq!(text(&float, &1.5_f32.to_le_bytes()), "1.5");
        let pair = Kind::Members(vec![("x".into(), 0, int.clone()), ("y".into(), 4, float)], 8);
        assert_eq!(text(&pair, &[1, 0, 0, 0, 0, 0, 0, 0x40]), "{x = 1, y = 2}");
        assert_eq!(text(&Kind::Array(Box::new(int), 2), &[1, 0, 0, 0, 2, 0, 0, 0]), "{1, 2}");
        assert_eq!(text(&Kind::Pointer(8), &[0, 0x10, 0, 0, 0, 0, 0, 0]), "0x1000");
    }
}
