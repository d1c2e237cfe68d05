//! Names that are found, and searches that end.

use proptest::prelude::*;

use super::*;

const BASE: u64 = 0x7f00_0000_0000;
/// Offsets of the parts of the image.
const DYNAMIC: usize = 0x200;
const HASH: usize = 0x300;
const SYMBOLS: usize = 0x400;
const STRINGS: usize = 0x500;
const DESCRIPTOR: usize = 0x1840;

fn put(image: &mut [u8], at: usize, bytes: &[u8]) {
    image[at..at + bytes.len()].copy_from_slice(bytes);
}

/// A code object in memory, with a symbol that is no descriptor's and one that is.
fn image(name: &str) -> Vec<u8> {
    let mut image = vec![0; 0x2000];
    put(&mut image, 0, b"\x7fELF\x02\x01");
    put(&mut image, 18, &MACHINE.to_le_bytes());
    put(&mut image, 32, &0x40u64.to_le_bytes());
    put(&mut image, 54, &[56, 0, 2, 0]);
    put(&mut image, 0x40 + 56, &PT_DYNAMIC.to_le_bytes());
    put(&mut image, 0x40 + 56 + 16, &(DYNAMIC as u64).to_le_bytes());
    for (index, (tag, value)) in
        [(DT_HASH, HASH), (DT_STRTAB, STRINGS), (DT_SYMTAB, SYMBOLS)].into_iter().enumerate()
    {
        put(&mut image, DYNAMIC + index * 16, &tag.to_le_bytes());
        put(&mut image, DYNAMIC + index * 16 + 8, &(value as u64).to_le_bytes());
    }
    put(&mut image, HASH, &[1, 0, 0, 0, 3, 0, 0, 0]);
    put(&mut image, SYMBOLS + 24, &[1]);
    put(&mut image, SYMBOLS + 24 + 8, &(DESCRIPTOR as u64).to_le_bytes());
    put(&mut image, SYMBOLS + 48, &[8]);
    put(&mut image, SYMBOLS + 48 + 8, &(DESCRIPTOR as u64).to_le_bytes());
    put(&mut image, STRINGS + 1, b"object");
    put(&mut image, STRINGS + 8, name.as_bytes());
    image
}

fn name(names: &mut KernelNames, image: &[u8], descriptor: u64) -> String {
    let memory = |address: u64, bytes: &mut [u8]| {
        let from = address.checked_sub(BASE).and_then(|from| usize::try_from(from).ok());
        let part = from.and_then(|from| image.get(from..)?.get(..bytes.len()));
        part.inspect(|part| bytes.copy_from_slice(part)).is_some()
    };
    names.get_in(&memory, descriptor).to_owned()
}

#[test]
fn name_is_that_of_the_descriptors_symbol_as_long_as_it_is_there() {
    let mut names = KernelNames::default();
    let descriptor = BASE + DESCRIPTOR as u64;
    let first = image("vecadd.kd");
    assert_eq!(name(&mut names, &first, descriptor), "vecadd");
    assert_eq!(name(&mut names, &first, descriptor), "vecadd");
    assert_eq!(name(&mut names, &first, descriptor + 64), "");
    assert_eq!(name(&mut names, &first, BASE - 64), "", "not mapped");
    // Another code object takes the place.
    let mut second = image("scale.kd");
    put(&mut second, SYMBOLS + 48 + 16, &[64]);
    assert_eq!(name(&mut names, &second, descriptor), "scale");
    // Without the hash table there are as many as fit in front of the strings.
    let mut third = image("third.kd");
    put(&mut third, DYNAMIC, &0x7777u64.to_le_bytes());
    assert_eq!(name(&mut names, &third, descriptor), "third");
    let unnamed = image("no-descriptor");
    assert_eq!(name(&mut KernelNames::default(), &unnamed, descriptor), "");
}

#[test]
fn search_ends_where_every_page_looks_like_a_code_object() {
    // All pages are one: a header, and a symbol table of the greatest size with no descriptor in it.
    let mut page = image("vecadd.kd");
    page.truncate(PAGE as usize);
    put(&mut page, HASH + 4, &u32::MAX.to_le_bytes());
    let reads = Cell::new(0u32);
    let read = |address: u64, bytes: &mut [u8]| {
        reads.set(reads.get() + 1);
        (0..).zip(bytes).for_each(|(at, byte)| *byte = page[((address + at) % PAGE) as usize]);
        true
    };
    let descriptor = BASE + (MAX_PAGES << 12) + 0x80;
    assert_eq!(KernelNames::default().get_in(&read, descriptor), "");
    assert!(reads.take() <= MAX_READS);
    let found = described(&Memory::new(&read), descriptor);
    assert!(found.is_none() && reads.take() <= MAX_READS);
}

#[test]
fn largest_code_object_is_searched_to_its_end() {
    // Every symbol but the last is that of a descriptor elsewhere, all of one long name.
    let (symbols, strings) = (0x1000_u64, 0x1000 + MAX_SYMBOLS * SYMBOL_SIZE);
    let mut image = image("vecadd.kd");
    put(&mut image, HASH + 4, &u32::try_from(MAX_SYMBOLS).unwrap().to_le_bytes());
    put(&mut image, DYNAMIC + 16 + 8, &strings.to_le_bytes());
    put(&mut image, DYNAMIC + 32 + 8, &symbols.to_le_bytes());
    image.resize(strings as usize, 0);
    image.extend(format!("{}.kd\0", "k".repeat(120)).bytes());
    let descriptor = (image.len() as u64).next_multiple_of(64);
    let last = symbols + (MAX_SYMBOLS - 1) * SYMBOL_SIZE + 8;
    put(&mut image, last as usize, &descriptor.to_le_bytes());
    assert_eq!(name(&mut KernelNames::default(), &image, BASE + descriptor), "", "not mapped");
    image.resize(descriptor as usize + 64, 0);
    assert_eq!(name(&mut KernelNames::default(), &image, BASE + descriptor), "k".repeat(120));
}

#[test]
fn kernel_without_a_name_is_looked_for_again_now_and_then() {
    let (reads, there) = (Cell::new(0), Cell::new(false));
    let (image, descriptor) = (image("vecadd.kd"), BASE + DESCRIPTOR as u64);
    let read = |address: u64, bytes: &mut [u8]| {
        reads.set(reads.get() + 1);
        let part = address.checked_sub(BASE).filter(|_| there.get());
        let part = part.and_then(|from| image.get(from as usize..)?.get(..bytes.len()));
        part.inspect(|part| bytes.copy_from_slice(part)).is_some()
    };
    let mut names = KernelNames::default();
    for _ in 0..1000 {
        assert_eq!(names.get_in(&read, descriptor), "");
    }
    assert!((5..20).contains(&reads.get()), "{reads:?}");
    there.set(true);
    assert!((0..2000).any(|_| names.get_in(&read, descriptor) == "vecadd"));
}

proptest! {
    /// Any bytes in place of a code object are searched in a bounded time, without a panic.
    #[test]
    fn any_image_is_looked_at(changes in proptest::collection::vec((0usize..0x600, any::<u8>()), 1..40)) {
        let mut image = image("vecadd.kd");
        for (at, byte) in changes {
            image[at] = byte;
        }
        let _ = name(&mut KernelNames::default(), &image, BASE + DESCRIPTOR as u64);
        let _ = name(&mut KernelNames::default(), &image, u64::MAX);
    }
}
