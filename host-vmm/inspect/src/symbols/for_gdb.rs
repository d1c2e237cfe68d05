//! A copy of a code object that stock GDB understands.
//!
//! GDB refuses files of machines that it does not know, and has neither `DW_OP_xderef` nor the registers of waves. In the copy the machine is the one that the
//! stub claims to be, x86-64; locations of variables are addresses in the windows of memory in which the stub shows the selected
//! lane, and its frames have no callers. Each location keeps its length, so that nothing else moves.

use super::read::SymbolFile;
use super::variables::{Form, Register, form};
use crate::windows::SGPR_WINDOW;

const DW_OP_NOP: u8 = 0x96;
const DW_OP_STACK_VALUE: u8 = 0x9f;
/// `DW_OP_breg` of `rbx`, which has the address of the window of registers.
const DW_OP_BREG_REGISTERS: u8 = 0x73;
/// `DW_OP_breg` of `rdi`, which has the address of the window of LDS.
const DW_OP_BREG_LDS: u8 = 0x75;
/// `DW_OP_breg` of `rbp`, which has the address of the frame in the window of private memory.
const DW_OP_BREG_FRAME: u8 = 0x76;
/// `EM_X86_64`
const MACHINE: u16 = 62;

/// A signed LEB128.
fn sleb(mut value: i64) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let low = (value & 0x7f) as u8;
        value >>= 7;
        if (value == 0 && low & 0x40 == 0) || (value == -1 && low & 0x40 != 0) {
            bytes.push(low);
            return bytes;
        }
        bytes.push(low | 0x80);
    }
}

/// A location for GDB in as many bytes; nothing if there is none.
fn location(expression: &[u8], indexed: Option<u64>) -> Option<Vec<u8>> {
    let mut bytes = match form(expression, indexed).ok()? {
        Form::Frame(offset) => [vec![DW_OP_BREG_FRAME], sleb(offset)].concat(),
        Form::In(Register::Vector(number)) => {
            [vec![DW_OP_BREG_REGISTERS], sleb(i64::from(number) * 4)].concat()
        }
        Form::In(Register::Scalar(number)) => {
            [vec![DW_OP_BREG_REGISTERS], sleb(SGPR_WINDOW as i64 + i64::from(number) * 4)].concat()
        }
        Form::At(address, Some(2)) => [vec![DW_OP_BREG_LDS], sleb(address.cast_signed())].concat(),
        // The constant stays, and the operations after it go.
        Form::Constant(_) if expression.len() > 4 => {
            let head = expression.len() - 4;
            let mut bytes = expression[..head].to_vec();
            bytes.resize(expression.len() - 1, DW_OP_NOP);
            bytes.push(DW_OP_STACK_VALUE);
            return (expression[head..] == [0x31, 0x16, 0x18, DW_OP_STACK_VALUE]).then_some(bytes);
        }
        _ => return None,
    };
    if bytes.len() > expression.len() {
        return None;
    }
    bytes.resize(expression.len(), DW_OP_NOP);
    Some(bytes)
}

/// Makes the copy; nothing if the file is broken.
pub(super) fn copy(file: &SymbolFile) -> Option<Vec<u8>> {
    let mut data = file.data.clone();
    // EI_OSABI and EI_ABIVERSION, e_machine, e_flags.
    data.get_mut(7..9)?.fill(0);
    data.get_mut(18..20)?.copy_from_slice(&MACHINE.to_le_bytes());
    data.get_mut(48..52)?.fill(0);
    let variables = file.functions.iter().flat_map(|function| &function.variables);
    for found in variables.flat_map(|variable| &variable.locations) {
        if let (Some(at), Some(bytes)) = (found.at, location(&found.expression, found.indexed)) {
            data.get_mut(at..at + bytes.len())?.copy_from_slice(&bytes);
        }
    }
    frames(file, &mut data);
    Some(data)
}

/// Replaces the frames of the file, if it has any: each frame's address is the same, and none has a caller.
fn frames(file: &SymbolFile, data: &mut Vec<u8>) -> Option<()> {
    let header = debug_frame(data)?;
    let pad = |mut entry: Vec<u8>| {
        // Length apart, each is of whole words.
        entry.resize(entry.len().next_multiple_of(8) + 4, 0);
        [(entry.len() as u32).to_le_bytes().to_vec(), entry].concat()
    };
    // Version 3, no augmentation, factors 1 and -8, the return address in column 16 (rip). DW_CFA_def_cfa rsp 0; DW_CFA_undefined rip.
    let common = [&[0xff; 4][..], &[3, 0, 1, 0x78, 16, 0x0c, 7, 0, 0x07, 16]].concat();
    let mut section = pad(common);
    for code in file.ranges() {
        let mut entry = vec![0; 4];
        entry.extend(code.start.to_le_bytes());
        entry.extend((code.end - code.start).to_le_bytes());
        section.extend(pad(entry));
    }
    let (at, len) = (data.len().next_multiple_of(8), section.len());
    data.resize(at, 0);
    data.append(&mut section);
    data.get_mut(header + 24..header + 32)?.copy_from_slice(&(at as u64).to_le_bytes());
    data.get_mut(header + 32..header + 40)?.copy_from_slice(&(len as u64).to_le_bytes());
    Some(())
}

/// Offset of the header of the section `.debug_frame`.
fn debug_frame(data: &[u8]) -> Option<usize> {
    let number = |at: usize, len: usize| {
        let mut bytes = [0; 8];
        bytes[..len].copy_from_slice(data.get(at..at.checked_add(len)?)?);
        usize::try_from(u64::from_le_bytes(bytes)).ok()
    };
    let (headers, size, count, names) = (number(40, 8)?, number(58, 2)?, number(60, 2)?, number(62, 2)?);
    let header = |index: usize| headers.checked_add(index.checked_mul(size)?);
    let names = number(header(names)?.checked_add(24)?, 8)?;
    (0..count).filter_map(header).find(|&header| {
        let name = number(header, 4).and_then(|name| names.checked_add(name));
        name.and_then(|name| data.get(name..)).is_some_and(|name| name.starts_with(b".debug_frame\0"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations_become_those_of_windows_in_as_many_bytes() {
        assert_eq!(location(&[0x91, 28, 0x31, 0x16, 0x18], None), Some(vec![0x76, 28, 0x96, 0x96, 0x96]));
        let vector = [0x92, 0x82, 0x0c, 0, 0x31, 0x16, 0x18];
        assert_eq!(location(&vector, None), Some(vec![0x73, 8, 0x96, 0x96, 0x96, 0x96, 0x96]));
        let constant = [0x30, 0x31, 0x16, 0x18, 0x9f];
        assert_eq!(location(&constant, None), Some(vec![0x30, 0x96, 0x96, 0x96, 0x9f]));
        let lds = [0xa1, 0, 0x32, 0x16, 0x18];
        assert_eq!(location(&lds, Some(64)), Some(vec![0x75, 0xc0, 0, 0x96, 0x96]));
        assert_eq!(location(&[0x90, 0x41], None), None, "it has no room");
        assert_eq!((sleb(-1), sleb(64), sleb(1020)), (vec![0x7f], vec![0xc0, 0], vec![0xfc, 7]));
    }
}
