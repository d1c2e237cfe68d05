//! Bundles as clang makes them, and damaged ones.

use super::*;

/// A bundle with the host's empty entry first, as clang makes it.
fn bundle(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let mut all = vec![("host-x86_64-unknown-linux--", &b""[..])];
    all.extend(entries);
    let table: usize = all.iter().map(|(name, _)| 24 + name.len()).sum();
    let mut bytes = MAGIC.to_vec();
    bytes.extend((all.len() as u64).to_le_bytes());
    let mut at = (bytes.len() + table).next_multiple_of(PAGE);
    let mut codes = Vec::new();
    for (name, code) in all {
        for word in [at, code.len(), name.len()] {
            bytes.extend((word as u64).to_le_bytes());
        }
        bytes.extend(name.as_bytes());
        codes.push((at, code));
        at = (at + code.len()).next_multiple_of(PAGE);
    }
    for (at, code) in codes {
        bytes.resize(at, 0);
        bytes.extend(code);
    }
    bytes
}

const OTHER: (&str, &[u8]) = ("hipv4-amdgcn-amd-amdhsa--gfx90a:xnack-", b"code for another");
const OURS: (&str, &[u8]) = ("hipv4-amdgcn-amd-amdhsa--gfx1100", b"code for this one");
const OLD: (&str, &[u8]) = ("hip-amdgcn-amd-amdhsa-gfx1100", b"and more");

#[test]
fn code_of_a_processor_is_found_by_its_name() {
    let file = bundle(&[OTHER, OURS]);
    assert_eq!(unbundle(&file, Some("gfx1100")).unwrap(), [OURS.1]);
    assert_eq!(unbundle(&file, Some("gfx90a")).unwrap(), [OTHER.1]);
    assert_eq!(unbundle(&file, None).unwrap(), [OTHER.1], "the first there is");
    let error = unbundle(&file, Some("gfx942")).unwrap_err().to_string();
    assert!(error.contains("gfx1100, gfx90a:xnack-") && error.contains("--offload-arch=gfx942"), "{error}");
}

#[test]
fn bundles_of_a_section_follow_each_other() {
    let mut section = bundle(&[OURS]);
    section.resize(section.len().next_multiple_of(PAGE), 0);
    section.extend(bundle(&[OTHER, OLD]));
    let all = bundles(&section).unwrap();
    let all: Vec<_> = all.iter().map(|entry| (entry.target.as_str(), &*entry.code)).collect();
    assert_eq!(all, [("gfx1100", OURS.1), ("gfx90a:xnack-", OTHER.1), ("gfx1100", OLD.1)]);
}

#[test]
fn what_is_no_bundle_comes_back_as_it_is() {
    for file in [&b""[..], b"text", &[0x7f, b'E', b'L', b'F']] {
        assert_eq!(unbundle(file, Some("gfx1100")).unwrap(), [file]);
    }
}

#[test]
fn other_formats_are_named_with_the_way_round() {
    let error = unbundle(OFFLOAD_BINARY, None).unwrap_err().to_string();
    assert!(error.contains("--no-offload-new-driver"), "{error}");
}

#[test]
fn code_for_a_kind_is_taken_where_a_bundle_has_none_for_the_processor() {
    const KIND: (&str, &[u8]) = ("hipv4-amdgcn-amd-amdhsa--gfx11-generic", b"code for all of gfx11");
    let file = bundle(&[OTHER, KIND]);
    assert_eq!(unbundle(&file, Some("gfx1100")).unwrap(), [KIND.1]);
    assert_eq!(unbundle(&file, Some("gfx11-generic")).unwrap(), [KIND.1]);
    assert!(unbundle(&file, Some("gfx1201")).is_err());
    // Its own code is better, in the bundle that has it.
    let mut section = bundle(&[KIND, OURS]);
    assert_eq!(unbundle(&section, Some("gfx1100")).unwrap(), [OURS.1]);
    section.resize(section.len().next_multiple_of(PAGE), 0);
    section.extend(bundle(&[OTHER, KIND]));
    let all = bundles(&section).unwrap();
    assert_eq!(all.iter().map(|entry| entry.bundle).collect::<Vec<_>>(), [0, 0, 1, 1]);
}

/// A compressed bundle of this version, with sizes that are not checked.
fn packed(version: u16, method: u16, contents: &[u8], sizes: (u64, u64)) -> Vec<u8> {
    let mut bytes = compressed::MAGIC.to_vec();
    bytes.extend(version.to_le_bytes());
    bytes.extend(method.to_le_bytes());
    let (whole, unpacked) = sizes;
    match version {
        1 => bytes.extend((unpacked as u32).to_le_bytes()),
        2 => [whole as u32, unpacked as u32].iter().for_each(|size| bytes.extend(size.to_le_bytes())),
        _ => [whole, unpacked].iter().for_each(|size| bytes.extend(size.to_le_bytes())),
    }
    // A part of an MD5 sum, which readers need not check.
    bytes.extend([0; 8]);
    bytes.extend(contents);
    bytes
}

fn zlib(version: u16, bundle: &[u8]) -> Vec<u8> {
    let contents = miniz_oxide::deflate::compress_to_vec_zlib(bundle, 6);
    let head = [0, 20, 24, 32][usize::from(version.min(3))];
    packed(version, 0, &contents, ((head + contents.len()) as u64, bundle.len() as u64))
}

#[test]
fn compressed_bundles_of_each_version_are_read() {
    let whole = bundle(&[OTHER, OURS]);
    for version in 1..=3 {
        let file = zlib(version, &whole);
        assert_eq!(unbundle(&file, Some("gfx1100")).unwrap(), [OURS.1], "version {version}");
        // As in a program, beside one that is not compressed.
        let mut section = file.clone();
        if version > 1 {
            section.resize(section.len().next_multiple_of(PAGE), 0);
            section.extend(bundle(&[OLD]));
            let all = bundles(&section).unwrap();
            let ours: Vec<_> = all.iter().filter(|entry| entry.target == "gfx1100").collect();
            assert_eq!(ours.len(), 2, "version {version}");
        }
    }
}

#[test]
fn compressed_bundles_that_are_damaged_are_refused_by_name() {
    let whole = bundle(&[OURS]);
    let good = zlib(3, &whole);
    let contents = &good[32..];
    let len = good.len() as u64;
    let size = whole.len() as u64;
    for (what, file, said) in [
        ("its version", packed(4, 0, contents, (len, size)), "version 4"),
        ("its method", packed(3, 7, contents, (len, size)), "method 7"),
        ("more than there is", packed(3, 0, contents, (len + 1, size)), "bytes"),
        ("less than a header", packed(3, 0, contents, (31, size)), "31 bytes"),
        ("another size", packed(3, 0, contents, (len, size + 1)), "come out"),
        ("too little room", packed(3, 0, contents, (len, size - 1)), "zlib"),
        ("as much as there is no room for", packed(3, 0, contents, (len, u64::MAX)), "more than"),
        ("one byte more than is read", packed(3, 0, contents, (len, compressed::MOST + 1)), "more than"),
        ("zlib as zstd", packed(3, 1, contents, (len, size)), "zstd"),
        ("no bundle", zlib(3, b"text"), "no bundle"),
        ("one within one", zlib(2, &zlib(2, &whole)), "no bundle"),
    ] {
        let error = unbundle(&file, None).unwrap_err().to_string();
        assert!(error.contains("compressed") && error.contains(said), "{what}: {error}");
    }
    for length in 4..good.len() {
        assert!(unbundle(&good[..length], None).is_err(), "{length} bytes");
    }
}

#[test]
fn room_for_what_comes_out_is_counted_in_bytes() {
    let zeros = zlib(2, &bundle(&[("hipv4-amdgcn-amd-amdhsa--gfx1100", &[0; 1 << 16])]));
    let (first, size) = compressed::unpack(&zeros, 1 << 20).unwrap();
    assert_eq!(size, zeros.len());
    assert!(compressed::unpack(&zeros, first.len() as u64 - 1).is_err());
    assert!(compressed::unpack(&zeros, first.len() as u64).is_ok());
}

#[test]
fn damaged_bundles_are_refused() {
    let whole = bundle(&[OURS]);
    let count = MAGIC.len();
    let first = count + 8;
    for (at, value, said) in [
        (count, u64::MAX, "entries"),
        (first + 8, u64::MAX, "an entry of 18446744073709551615 bytes"),
        (first, 1 << 40, "at 0x10000000000"),
        (first + 16, 1 << 20, "a name of 1048576 bytes"),
    ] {
        let mut file = whole.clone();
        file[at..at + 8].copy_from_slice(&value.to_le_bytes());
        let error = unbundle(&file, None).unwrap_err().to_string();
        assert!(error.contains("damaged") && error.contains(said), "{error}");
    }
    for length in MAGIC.len()..whole.len() {
        assert!(unbundle(&whole[..length], None).is_err(), "{length} bytes");
    }
}

const V2: &[u8] = include_bytes!("fixtures/generic.v2.hipfb");
const V3: &[u8] = include_bytes!("fixtures/generic.v3.hipfb");

#[test]
fn compressed_bundles_of_clang_have_code_for_each_kind() {
    for file in [V2, V3] {
        for (gpu, kind) in
            [("gfx942", "gfx9-4-generic"), ("gfx1100", "gfx11-generic"), ("gfx1201", "gfx12-generic")]
        {
            let objects = unbundle(file, Some(gpu)).unwrap();
            let object = super::super::CodeObject::with_kernel(&objects, "double_them").unwrap();
            assert_eq!((objects.len(), object.target()), (1, kind));
            object.check_target(gpu).unwrap();
        }
        let error = unbundle(file, Some("gfx90a")).unwrap_err().to_string();
        assert!(error.contains("gfx11-generic, gfx12-generic, gfx9-4-generic"), "{error}");
    }
}

/// A bundle with any byte changed gives an answer, which is code or a reason.
#[test]
fn damaged_compressed_bundles_of_clang_end() {
    for file in [V2, V3] {
        for length in 4..file.len() {
            assert!(unbundle(&file[..length], None).is_err(), "{length} bytes");
        }
        for at in 4..file.len() {
            let mut file = file.to_vec();
            file[at] ^= 0x41;
            match unbundle(&file, None) {
                Ok(objects) => assert!(objects.iter().all(|object| object.len() < 1 << 16)),
                Err(error) => assert!(!error.to_string().is_empty()),
            }
        }
    }
}
