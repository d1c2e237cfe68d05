//! Listings of code objects: kernels, the way they are started, and their code with labels.

mod kernels;

use std::collections::BTreeMap;
use std::io::{self, Write};

use belfry_abi::kernel_descriptor::KernelDescriptor;
use belfry_device::chip::{MODELS, Model, UnknownChip};
use belfry_isa::disasm::{Line, disassemble};
use belfry_isa::inst::WaveSize;
use belfry_runtime::code_object::{CodeObject, CodeObjectError, runs_on};
use object::{Object as _, ObjectSection as _, ObjectSymbol as _, SectionKind, SymbolKind};
use zerocopy::FromBytes as _;

/// Reason for a file that cannot be listed.
#[derive(Debug, thiserror::Error)]
pub enum ListingError {
    /// The file is not a code object.
    #[error(transparent)]
    CodeObject(#[from] CodeObjectError),
    /// Its sections or symbols are damaged.
    #[error("damaged ELF file: {0}")]
    Elf(#[from] object::Error),
    /// A section ends beyond the address space.
    #[error(
        "damaged ELF file: section {name} at {address:#x} has {size} bytes, which no address space holds"
    )]
    Section {
        /// Its name, empty if it has none.
        name: String,
        /// Start address that the file gives it.
        address: u64,
        /// Its size in bytes.
        size: u64,
    },
    /// The instruction set is not one this disassembler knows.
    #[error("code that no disassembler is for: {0}")]
    Target(#[source] UnknownChip),
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
///
/// # Errors
///
/// A file that is no code object, a processor that is not known, or a failed write.
pub fn list(file: &[u8], out: &mut dyn Write) -> Result<(), ListingError> {
    let object = CodeObject::parse(file)?;
    let processor = object.target().split(':').next().unwrap_or_default();
    // Code for a kind of processors is listed as that of the first chip of the kind.
    let model = match MODELS.iter().find(|model| runs_on(processor, model.name)) {
        Some(model) => model,
        None => Model::named(processor).map_err(ListingError::Target)?,
    };
    let generation = model.generation;
    let arch = generation.arch;
    let elf = object::File::parse(file)?;
    writeln!(out, "target {}", object.target())?;
    for kernel in object.kernels() {
        if let Some(descriptor) = descriptor(&elf, kernel.descriptor) {
            write!(out, "\n{}", kernels::describe(kernel, &descriptor, &generation.kernel))?;
        }
    }
    for function in functions(&elf, &object)? {
        writeln!(out, "\n{:016x} <{}>:", function.address, function.name)?;
        let lines: Vec<Line> = disassemble(arch, function.wave, function.code, function.address).collect();
        let labels = labels(&lines);
        let mut padding = 0;
        for (index, line) in lines.iter().enumerate() {
            let text = line.text();
            // Padding after the code; one line of it is enough.
            if text == "s_code_end" && lines.get(index + 1).is_some_and(|next| next.text() == text) {
                padding += 1;
                continue;
            }
            if let Some(label) = labels.get(&line.address) {
                writeln!(out, ".L{label}:")?;
            }
            let words: Vec<String> = line.words().iter().map(|word| format!("{word:08X}")).collect();
            let repeated = if padding > 0 { format!(" (and {padding} before)") } else { String::new() };
            padding = 0;
            let text = with_target(&text, line, &labels);
            writeln!(out, "    {text:<58} // {:012X}: {}{repeated}", line.address, words.join(" "))?;
        }
    }
    Ok(())
}

/// Returns the kernel descriptor at an address, from the section that holds it.
fn descriptor(elf: &object::File<'_>, address: u64) -> Option<KernelDescriptor> {
    elf.sections().find_map(|section| {
        let offset = usize::try_from(address.checked_sub(section.address())?).ok()?;
        let bytes = section.data().ok()?.get(offset..)?;
        KernelDescriptor::read_from_prefix(bytes).ok().map(|(descriptor, _)| descriptor)
    })
}

/// Numbers the addresses in these lines that branches in them go to, in ascending order.
fn labels(lines: &[Line]) -> BTreeMap<u64, usize> {
    let mut labels: BTreeMap<u64, usize> = lines
        .iter()
        .filter_map(Line::target)
        .filter(|target| lines.binary_search_by_key(target, |line| line.address).is_ok())
        .map(|target| (target, 0))
        .collect();
    for (number, label) in labels.values_mut().enumerate() {
        *label = number;
    }
    labels
}

/// Replaces the distance in the text by the label or address that it leads to.
fn with_target(text: &str, line: &Line, labels: &BTreeMap<u64, usize>) -> String {
    let Some((target, (head, _))) = line.target().zip(text.rsplit_once(' ')) else {
        return text.to_owned();
    };
    match labels.get(&target) {
        Some(label) => format!("{head} .L{label}"),
        None => format!("{head} {target:#x}"),
    }
}

/// Returns the functions of all code sections in address order; code outside of any symbol belongs to the function
/// before it.
fn functions<'a>(elf: &object::File<'a>, object: &CodeObject) -> Result<Vec<Function<'a>>, ListingError> {
    let mut functions = Vec::new();
    for section in elf.sections().filter(|section| section.kind() == SectionKind::Text) {
        let data = section.data()?;
        let start = section.address();
        let section_end = start.checked_add(data.len() as u64).ok_or_else(|| ListingError::Section {
            name: section.name().unwrap_or_default().to_owned(),
            address: start,
            size: data.len() as u64,
        })?;
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
            let end = starts.get(index + 1).map_or(section_end, |next| next.0);
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
        let objects = belfry_examples::kernels::ALL.iter();
        for (name, file) in
            objects.flat_map(|source| source.objects.iter().map(|(_, file)| (source.name, *file)))
        {
            let mut text = Vec::new();
            list(file, &mut text).unwrap_or_else(|error| panic!("{name}: {error}"));
            let text = String::from_utf8(text).unwrap();
            assert!(text.contains("s_endpgm"), "{name}");
            for kernel in CodeObject::parse(file).unwrap().kernels() {
                assert!(text.contains(&format!("<{}>:", kernel.name)), "{name}: {}", kernel.name);
            }
            for line in text.lines().filter(|line| line.trim_start().starts_with("s_cbranch_")) {
                let label = line.split_whitespace().nth(1).unwrap();
                assert!(text.contains(&format!("\n{label}:\n")), "{name}: nothing is at {label}");
            }
            let unknown = text.lines().find(|line| line.contains(".long"));
            assert_eq!(unknown, None, "{name}");
        }
    }

    #[test]
    fn section_beyond_the_address_space_is_an_error() {
        let mut file = belfry_examples::kernels::ALL[0].objects[0].1.to_vec();
        let headers = u64::from_le_bytes(file[0x28..0x30].try_into().unwrap()) as usize;
        let executable = |header: &[u8]| header[8] & 4 != 0;
        let text = (0..).map(|index| headers + index * 64).find(|at| executable(&file[*at..])).unwrap();
        file[text + 16..text + 24].copy_from_slice(&(u64::MAX - 15).to_le_bytes());
        let error = list(&file, &mut Vec::new()).unwrap_err().to_string();
        assert!(error.contains(".text at 0xfffffffffffffff0"), "{error}");
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
