//! Code objects that are damaged in the places that matter: an accepted one can be placed, relocated and listed.
//!
//! An input changes one of the bundled kernels: bytes of one of its tables, whole values of its metadata, its length.

#![no_main]

use std::borrow::Cow;
use std::sync::LazyLock;

use arbitrary::Arbitrary;
use belfry_abi::kernel_descriptor::KernelDescriptor;
use belfry_fuzz::allocation::{Counting, most_during};
use belfry_fuzz::chips::{Choice, On};
use belfry_isa::inst::Arch;
use belfry_listing::list;
use belfry_runtime::code_object::{CodeObject, unbundle};
use libfuzzer_sys::fuzz_target;
use object::elf::{FileHeader64, ProgramHeader64, SectionHeader64};
use object::read::elf::{ElfFile64, FileHeader as _, ProgramHeader as _, SectionHeader as _};
use object::{LittleEndian, Object as _, ObjectSection as _};
use rmpv::Value;
use zerocopy::FromBytes as _;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

macro_rules! objects {
    ($($name:literal),*) => {
        [
            [$(include_bytes!(concat!("../../guest-runtime/kernels/", $name, ".gfx1100.hsaco")).as_slice()),*],
            [$(include_bytes!(concat!("../../guest-runtime/kernels/", $name, ".gfx1201.hsaco")).as_slice()),*],
            [$(include_bytes!(concat!("../../guest-runtime/kernels/", $name, ".gfx942.hsaco")).as_slice()),*],
            [$(include_bytes!(concat!("../../guest-runtime/kernels/", $name, ".gfx1151.hsaco")).as_slice()),*],
            [$(include_bytes!(concat!("../../guest-runtime/kernels/", $name, ".gfx950.hsaco")).as_slice()),*],
        ]
    };
}

/// Of each instruction set: gfx1100, gfx1201, gfx942, gfx1151, gfx950.
static OBJECTS: [[&[u8]; 8]; 5] =
    objects!["empty", "vecadd", "wm", "hist", "reduce", "signals", "scratch", "gridsync"];
/// Most bytes that an accepted file may cost beyond its image, for every byte of the file.
const FACTOR: usize = 64;
/// Largest image that is relocated and listed here: larger ones only take time.
const LARGE: usize = 4 << 20;

#[derive(Arbitrary, Debug)]
struct Input {
    object: u8,
    metadata: Vec<Change>,
    patches: Vec<Patch>,
    length: Option<u16>,
    base: u64,
}

/// A value of the metadata becomes another one.
#[derive(Arbitrary, Debug)]
struct Change {
    nth: u8,
    to: Meta,
}

#[derive(Arbitrary, Debug)]
enum Meta {
    Nil,
    Small(u8),
    Number(u64),
    Negative(i64),
    Text(u8),
    Nested(u8),
    /// The value of another place.
    Copy(u8),
    Raw(Vec<u8>),
}

/// Bytes somewhere in one of the parts.
#[derive(Arbitrary, Debug)]
struct Patch {
    part: u8,
    at: u16,
    to: Bits,
}

#[derive(Arbitrary, Debug)]
enum Bits {
    Byte(u8),
    Half(u16),
    Word(u32),
    Long(u64),
    /// An offset or address that is near something.
    Near {
        part: u8,
        by: i8,
    },
    Size {
        back: u16,
    },
    Flip(u8),
}

/// A file with its contents.
struct Sample {
    file: &'static [u8],
    /// Offset and size.
    parts: Vec<(usize, usize)>,
    /// Offset of the metadata, and of the note's word with their size.
    note: (usize, usize),
    metadata: Value,
}

static SAMPLES: LazyLock<[Vec<Sample>; 5]> =
    LazyLock::new(|| OBJECTS.map(|files| files.iter().map(|file| Sample::new(file)).collect()));

/// The samples of a chip.
fn samples(chip: Choice) -> &'static [Sample] {
    match chip.model.generation.arch {
        Arch::Gfx1201 => &SAMPLES[1],
        Arch::Gfx942 => &SAMPLES[2],
        Arch::Gfx1151 => &SAMPLES[3],
        Arch::Gfx950 => &SAMPLES[4],
        _ => &SAMPLES[0],
    }
}

impl Sample {
    fn new(file: &'static [u8]) -> Self {
        let elf = ElfFile64::<LittleEndian>::parse(file).expect("a bundled kernel");
        let header: &FileHeader64<LittleEndian> = elf.elf_header();
        let endian = LittleEndian;
        let segments: &[ProgramHeader64<LittleEndian>] =
            header.program_headers(endian, file).expect("segments");
        let sections: &[SectionHeader64<LittleEndian>] =
            header.section_headers(endian, file).expect("sections");
        let mut parts = vec![(0, 64)];
        parts.push((header.e_phoff(endian) as usize, segments.len() * 56));
        parts.push((header.e_shoff(endian) as usize, sections.len() * 64));
        for section in sections {
            let (at, size) = (section.sh_offset(endian) as usize, section.sh_size(endian) as usize);
            if size > 0 && at + size <= file.len() {
                parts.push((at, size));
            }
        }
        let note = segments.iter().find(|segment| segment.p_type(endian) == object::elf::PT_NOTE);
        let at = note.expect("a note").p_offset(endian) as usize;
        let size = u32::from_le_bytes(*file[at + 4..].first_chunk().expect("a note's header")) as usize;
        let note = (at + 20, size);
        let metadata = rmpv::decode::read_value(&mut &file[note.0..note.0 + size]).expect("metadata");
        Self { file, parts, note, metadata }
    }

    fn damaged(&self, input: &Input) -> Vec<u8> {
        let mut file = self.file.to_vec();
        if !input.metadata.is_empty() {
            self.put_metadata(&mut file, &input.metadata);
        }
        for patch in &input.patches {
            let (start, size) = self.parts[usize::from(patch.part) % self.parts.len()];
            self.patch(&mut file, start + usize::from(patch.at) % size, &patch.to);
        }
        if let Some(length) = input.length {
            file.truncate(usize::from(length));
        }
        file
    }

    fn put_metadata(&self, file: &mut [u8], changes: &[Change]) {
        let mut metadata = self.metadata.clone();
        for change in changes {
            let value = self.value(&change.to);
            let mut left = usize::from(change.nth) % count(&self.metadata);
            replace(&mut metadata, &mut left, value);
        }
        let mut bytes = Vec::new();
        rmpv::encode::write_value(&mut bytes, &metadata).expect("memory");
        let (at, size) = self.note;
        // What becomes longer is cut off.
        bytes.truncate(size);
        file[at..at + bytes.len()].copy_from_slice(&bytes);
        file[at - 16..at - 12].copy_from_slice(&(bytes.len() as u32).to_le_bytes());
    }

    fn value(&self, meta: &Meta) -> Value {
        match meta {
            Meta::Nil => Value::Nil,
            Meta::Small(value) => (*value).into(),
            Meta::Number(value) => (*value).into(),
            Meta::Negative(value) => (*value).into(),
            Meta::Text(nth) => TEXTS[usize::from(*nth) % TEXTS.len()].into(),
            Meta::Nested(depth) => (0..*depth).fold(Value::Nil, |inner, _| Value::Array(vec![inner])),
            Meta::Copy(nth) => nth_of(&self.metadata, &mut (usize::from(*nth) % count(&self.metadata))),
            Meta::Raw(bytes) => {
                rmpv::decode::read_value_with_max_depth(&mut &bytes[..], 8).unwrap_or(Value::Nil)
            }
        }
    }

    fn patch(&self, file: &mut [u8], at: usize, to: &Bits) {
        let near = |part: u8| self.parts[usize::from(part) % self.parts.len()].0 as u64;
        let bytes = match *to {
            Bits::Byte(value) => vec![value],
            Bits::Half(value) => value.to_le_bytes().to_vec(),
            Bits::Word(value) => value.to_le_bytes().to_vec(),
            Bits::Long(value) => value.to_le_bytes().to_vec(),
            Bits::Near { part, by } => near(part).wrapping_add_signed(by.into()).to_le_bytes().to_vec(),
            Bits::Size { back } => {
                (self.file.len() as u64).saturating_sub(back.into()).to_le_bytes().to_vec()
            }
            Bits::Flip(bit) => vec![file[at] ^ 1 << (bit & 7)],
        };
        // Fields are aligned to their size; fields at other places are rarely read.
        let at = at / bytes.len() * bytes.len();
        for (target, byte) in file[at..].iter_mut().zip(bytes) {
            *target = byte;
        }
    }
}

const TEXTS: [&str; 18] = [
    "",
    "by_value",
    "global_buffer",
    "dynamic_shared_pointer",
    "hidden_none",
    "hidden_group_size_x",
    "hidden_remainder_w",
    "hidden_",
    "image",
    "amdhsa.kernels",
    ".name",
    ".args",
    ".symbol",
    "vecadd.kd",
    "float*",
    ".size",
    ".offset",
    ".value_kind",
];

/// Values there are, keys included.
fn count(value: &Value) -> usize {
    1 + match value {
        Value::Array(list) => list.iter().map(count).sum(),
        Value::Map(map) => map.iter().map(|(key, value)| count(key) + count(value)).sum(),
        _ => 0,
    }
}

fn nth_of(value: &Value, left: &mut usize) -> Value {
    let mut found = Value::Nil;
    visit(&mut value.clone(), left, &mut |value| found = value.clone());
    found
}

fn replace(value: &mut Value, left: &mut usize, by: Value) {
    let mut by = Some(by);
    visit(value, left, &mut |value| {
        if let Some(by) = by.take() {
            *value = by;
        }
    });
}

/// Runs an operation on the value that many places further on.
fn visit(value: &mut Value, left: &mut usize, operation: &mut dyn FnMut(&mut Value)) -> bool {
    if *left == 0 {
        operation(value);
        return true;
    }
    *left -= 1;
    match value {
        Value::Array(list) => list.iter_mut().any(|value| visit(value, left, operation)),
        Value::Map(map) => {
            map.iter_mut().any(|(key, value)| visit(key, left, operation) || visit(value, left, operation))
        }
        _ => false,
    }
}

fuzz_target!(|on: On<Input>| {
    let On { chip, input } = on;
    let samples = samples(chip);
    let file = samples[usize::from(input.object) % samples.len()].damaged(&input);
    let name = chip.model.name;
    bundled(name, &file, &input);
    let (parsed, most) = most_during(|| CodeObject::parse(&file));
    let image = parsed.as_ref().map_or(256 << 20, CodeObject::image_size);
    assert!(most <= image + FACTOR * file.len() + (64 << 10), "{most} bytes for a file of {}", file.len());
    match parsed {
        Ok(object) => accepted(&file, &object, input.base),
        Err(error) => {
            assert!(!error.to_string().is_empty());
            assert!(list(&file, &mut Vec::new()).is_err(), "what is refused is not listed");
        }
    }
});

/// A bundle gives back its contents; any damage in its table gives an error or a part of the file.
fn bundled(target: &str, code: &[u8], input: &Input) {
    let mut bundle = b"__CLANG_OFFLOAD_BUNDLE__\x01\0\0\0\0\0\0\0".to_vec();
    let name = format!("hipv4-amdgcn-amd-amdhsa--{target}");
    for word in [4096, code.len(), name.len()] {
        bundle.extend((word as u64).to_le_bytes());
    }
    bundle.extend(name.as_bytes());
    bundle.resize(4096, 0);
    bundle.extend(code);
    let found = unbundle(&bundle, Some(target)).ok();
    assert_eq!(found, (!code.is_empty()).then(|| vec![Cow::Borrowed(code)]));
    compressed(&bundle, input);
    for patch in &input.patches {
        if let Bits::Long(value) = patch.to {
            let at = 24 + usize::from(patch.at) % 64;
            bundle[at..at + 8].copy_from_slice(&value.to_le_bytes());
        }
    }
    if let Ok(found) = unbundle(&bundle, None) {
        assert!(found.iter().all(|part| !part.is_empty() && part.len() <= bundle.len()));
    }
}

/// A compressed bundle that is damaged gives the code of the whole one, or an error.
fn compressed(bundle: &[u8], input: &Input) {
    let contents = miniz_oxide::deflate::compress_to_vec_zlib(bundle, 1);
    let mut file = b"CCOB\x03\0\0\0".to_vec();
    for word in [32 + contents.len() as u64, bundle.len() as u64, 0] {
        file.extend(word.to_le_bytes());
    }
    file.extend(contents);
    assert_eq!(unbundle(&file, None).is_ok(), unbundle(bundle, None).is_ok());
    for patch in &input.patches {
        if let Bits::Long(value) = patch.to {
            let at = 4 + usize::from(patch.at) % (file.len() - 12);
            file[at..at + 8].copy_from_slice(&value.to_le_bytes());
        }
    }
    let (_, most) = most_during(|| unbundle(&file, None).map(|found| found.len()));
    // Of each byte zlib makes 1032 at most.
    assert!(most <= 4 * 1032 * file.len() + (2 << 20), "{most} bytes for a file of {}", file.len());
}

/// Checks a file that is accepted.
fn accepted(file: &[u8], object: &CodeObject, base: u64) {
    let size = object.image_size() as u64;
    assert!(size > 0 && size <= 256 << 20, "an image of {size} bytes");
    for kernel in object.kernels() {
        let name = &kernel.name;
        assert!(object.kernel(name).is_ok(), "{name}");
        assert!(kernel.descriptor.is_multiple_of(64), "{name} at {:#x}", kernel.descriptor);
        assert!(kernel.descriptor + 64 <= size, "{name} at {:#x} of {size:#x}", kernel.descriptor);
        assert!(matches!(kernel.wavefront, 32 | 64) && kernel.kernarg_align.is_power_of_two(), "{kernel:?}");
        for argument in &kernel.arguments {
            let end = u64::from(argument.offset) + u64::from(argument.size);
            assert!(end <= kernel.kernarg_size.into(), "{name}: {argument:?}");
            assert!(argument.pointee_align > 0, "{name}: {argument:?}");
        }
    }
    if size > LARGE as u64 {
        return;
    }
    let image = object.relocated(base).expect("relocations were checked");
    assert_eq!(image.len() as u64, size, "relocation changes no size");
    assert_eq!(object.relocated(base).as_deref(), Ok(&image[..]), "relocating twice is the same");
    for kernel in object.kernels() {
        // Relocations may lie in a descriptor; without any, the checked value is the one in the image.
        let at = kernel.descriptor as usize;
        let (descriptor, _) = KernelDescriptor::read_from_prefix(&image[at..]).expect("64 bytes");
        let entry = kernel.descriptor.wrapping_add_signed(descriptor.kernel_code_entry_byte_offset);
        assert!(
            entry < size || object.relocated(base ^ 0xffff_ffff_ffff) != Ok(image.clone()),
            "entry {entry:#x}"
        );
    }
    let mut text = Vec::new();
    let listed = list(file, &mut text);
    let text = String::from_utf8(text).expect("a listing is text");
    if listed.is_ok() {
        // A changed bit of the flags may name another chip.
        assert!(text.starts_with(&format!("target {}\n", object.target())), "{text:.40}");
        let elf = object::File::parse(file).expect("it was listed");
        let sections =
            elf.sections().filter_map(|section| section.data().ok()).map(<[u8]>::len).sum::<usize>();
        // A line has 4 bytes of code at least.
        assert!(
            text.lines().count() <= sections + 4096,
            "{} lines of {sections} bytes",
            text.lines().count()
        );
    }
}
