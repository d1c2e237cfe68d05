//! `belfry disasm`: the listing of a code object, as llvm-objdump would print it.

use std::io::{self, Write};

use belfry_isa::disasm::disassemble;
use belfry_isa::inst::{Arch, WaveSize};
use belfry_runtime::code_object::{CodeObject, CodeObjectError};
use object::{Object as _, ObjectSection as _, ObjectSymbol as _, SectionKind, SymbolKind};

/// Why a file could not be disassembled.
#[derive(Debug, thiserror::Error)]
pub enum DisasmError {
    /// The file is not a code object.
    #[error(transparent)]
    CodeObject(#[from] CodeObjectError),
    /// Its sections or symbols are damaged.
    #[error("damaged ELF file: {0}")]
    Elf(#[from] object::Error),
    /// The instruction set is not one this disassembler knows.
    #[error("code for {0}; this disassembler knows gfx1100")]
    Target(String),
    /// The listing could not be written.
    #[error(transparent)]
    Write(#[from] io::Error),
}

/// A stretch of code: its name, address, bytes, and the lanes of the waves that run it.
struct Function<'a> {
    name: String,
    address: u64,
    code: &'a [u8],
    wave: WaveSize,
}

/// Writes the listing of `file`, function by function.
pub fn list(file: &[u8], out: &mut dyn Write) -> Result<(), DisasmError> {
    let object = CodeObject::parse(file)?;
    let arch = match object.target().split(':').next() {
        Some("gfx1100") => Arch::Gfx1100,
        _ => return Err(DisasmError::Target(object.target().to_owned())),
    };
    let elf = object::File::parse(file)?;
    writeln!(out, "target {}", object.target())?;
    for function in functions(&elf, &object)? {
        writeln!(out, "\n{:016x} <{}>:", function.address, function.name)?;
        for line in disassemble(arch, function.wave, function.code, function.address) {
            let words: Vec<String> = line.words().iter().map(|word| format!("{word:08X}")).collect();
            let target = line.target().map(|target| format!(" -> {target:#x}")).unwrap_or_default();
            writeln!(out, "    {:<58} // {:012X}: {}{target}", line.text(), line.address, words.join(" "))?;
        }
    }
    Ok(())
}

/// The functions of all code sections in address order; code outside of any symbol belongs to the one before it.
fn functions<'a>(elf: &object::File<'a>, object: &CodeObject) -> Result<Vec<Function<'a>>, DisasmError> {
    let mut functions = Vec::new();
    for section in elf.sections().filter(|section| section.kind() == SectionKind::Text) {
        let data = section.data()?;
        let start = section.address();
        let mut starts: Vec<(u64, String)> = elf
            .symbols()
            .filter(|symbol| symbol.section_index() == Some(section.index()))
            .filter(|symbol| matches!(symbol.kind(), SymbolKind::Text | SymbolKind::Label))
            .filter_map(|symbol| Some((symbol.address(), symbol.name().ok()?.to_owned())))
            .filter(|(address, name)| *address >= start && !name.is_empty())
            .collect();
        if starts.iter().all(|(address, _)| *address != start) {
            starts.push((start, section.name().unwrap_or(".text").to_owned()));
        }
        starts.sort();
        starts.dedup_by_key(|(address, _)| *address);
        for (index, (address, name)) in starts.iter().enumerate() {
            let end = starts.get(index + 1).map_or(start + data.len() as u64, |next| next.0);
            let range = (address - start) as usize..(end - start) as usize;
            let Some(code) = data.get(range) else { continue };
            let wave =
                object.kernels().iter().find(|kernel| kernel.name == *name).map_or(32, |k| k.wavefront);
            functions.push(Function {
                name: name.clone(),
                address: *address,
                code,
                wave: if wave == 64 { WaveSize::Wave64 } else { WaveSize::Wave32 },
            });
        }
    }
    Ok(functions)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bundled_kernel_is_listed_without_unknown_instructions() {
        for (name, file) in belfry_examples::kernels::ALL {
            let mut text = Vec::new();
            list(file, &mut text).unwrap_or_else(|error| panic!("{name}: {error}"));
            let text = String::from_utf8(text).unwrap();
            assert!(text.contains("s_endpgm"), "{name}");
            for kernel in CodeObject::parse(file).unwrap().kernels() {
                assert!(text.contains(&format!("<{}>:", kernel.name)), "{name}: {}", kernel.name);
            }
            let unknown = text.lines().find(|line| line.contains(".long"));
            assert_eq!(unknown, None, "{name}");
        }
    }

    #[test]
    fn what_is_no_code_object_is_an_error() {
        for file in [&b""[..], b"text", &[0x7f, b'E', b'L', b'F', 2, 1, 1, 0]] {
            assert!(list(file, &mut Vec::new()).is_err());
        }
        let own = std::fs::read("/proc/self/exe").unwrap();
        assert!(list(&own, &mut Vec::new()).is_err());
    }
}
