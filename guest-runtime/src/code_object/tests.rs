//! Parsing of real and of hostile code objects.

use super::*;

const VECADD: &[u8] = include_bytes!("../../kernels/vecadd.gfx1100.hsaco");
const BENCH: &[u8] = include_bytes!("../../kernels/bench.gfx1100.hsaco");
const SCRATCH: &[u8] = include_bytes!("../../kernels/scratch.gfx1100.hsaco");

const SHAPES: &[u8] = include_bytes!("../../kernels/shapes.gfx1100.hsaco");

/// Offsets in an ELF64 header.
const E_IDENT_OSABI: usize = 7;
const E_IDENT_ABIVERSION: usize = 8;
const E_TYPE: usize = 16;
const E_MACHINE: usize = 18;
const E_FLAGS: usize = 48;

fn patched(offset: usize, bytes: &[u8]) -> Vec<u8> {
    let mut file = VECADD.to_vec();
    file[offset..offset + bytes.len()].copy_from_slice(bytes);
    file
}

#[test]
fn vecadd_is_read_completely() {
    let object = CodeObject::parse(VECADD).unwrap();
    assert_eq!(object.target(), "gfx1100");
    let kernel = object.kernel("vecadd").unwrap();
    assert_eq!(kernel.symbol, "vecadd.kd");
    assert_eq!((kernel.kernarg_size, kernel.kernarg_align), (288, 8));
    assert_eq!((kernel.wavefront, kernel.max_workgroup), (32, 256));
    let explicit: Vec<_> = kernel
        .explicit_arguments()
        .map(|argument| {
            (argument.offset, argument.size, argument.kind.clone(), argument.type_name.as_deref())
        })
        .collect();
    assert_eq!(
        explicit,
        [
            (0, 8, ArgumentKind::Buffer, Some("float*")),
            (8, 8, ArgumentKind::Buffer, Some("float*")),
            (16, 8, ArgumentKind::Buffer, Some("float*")),
            (24, 4, ArgumentKind::Value, Some("uint")),
        ]
    );
    let hidden: Vec<_> = kernel.arguments[4..8].iter().map(|argument| argument.kind.clone()).collect();
    assert_eq!(
        hidden,
        [Hidden::BlockCount(0), Hidden::BlockCount(1), Hidden::BlockCount(2), Hidden::GroupSize(0)]
            .map(ArgumentKind::Hidden)
    );
    assert_eq!(kernel.descriptor % 64, 0);
}

#[test]
fn required_blocks_and_scratch_are_found() {
    let bench = CodeObject::parse(BENCH).unwrap();
    let names: Vec<_> = bench.kernels().iter().map(|kernel| kernel.name.as_str()).collect();
    assert_eq!(names, ["vadd", "vadd4", "gemm_naive", "gemm_tiled", "reduce", "alu"]);
    assert_eq!(bench.kernel("gemm_naive").unwrap().required_workgroup, Some([32, 8, 1]));
    assert_eq!(bench.kernel("gemm_tiled").unwrap().group_size, 8192);
    let scratch = CodeObject::parse(SCRATCH).unwrap();
    assert!(scratch.kernel("reverse").unwrap().private_size >= 128);
}

#[test]
fn segments_lie_where_the_file_says() {
    let object = CodeObject::parse(VECADD).unwrap();
    let image = object.relocated(0x7000_0000_0000).unwrap();
    assert_eq!(image.len(), object.image_size());
    assert_eq!(image[..4], *b"\x7fELF", "the first segment starts with the file");
    assert_eq!(image[0x1900..0x1904], VECADD[0x900..0x904], "code is at 0x1900, from file offset 0x900");
}

#[test]
fn an_unknown_kernel_is_answered_with_the_known_ones() {
    let object = CodeObject::parse(BENCH).unwrap();
    let error = object.kernel("saxpy").unwrap_err().to_string();
    assert_eq!(
        error,
        "no kernel `saxpy` in the code object; it has vadd, vadd4, gemm_naive, gemm_tiled, reduce, alu"
    );
}

#[test]
fn function_name_finds_the_only_kernel_that_has_it() {
    let mut object = CodeObject::parse(BENCH).unwrap();
    for (kernel, name) in
        object.kernels.iter_mut().zip(["_Z4linePf", "_Z3addIfEvv", "_Z3addIiEvv", "_Z5otherv", "line"])
    {
        kernel.name = name.to_owned();
    }
    let found = |name: &str| object.kernel(name).ok().map(|kernel| kernel.name.as_str());
    assert_eq!(found("line"), Some("line"), "the symbol itself comes first");
    assert_eq!(found("other"), Some("_Z5otherv"));
    assert_eq!(found("add"), None, "two have that name");
    assert_eq!(found("_Z3addIiEvv"), Some("_Z3addIiEvv"));
    let error = CodeObject::with_kernel(&[VECADD, BENCH], "nope").unwrap_err().to_string();
    assert!(error.contains("it has vecadd, vadd, vadd4, "), "{error}");
    assert_eq!(CodeObject::with_kernel(&[VECADD, BENCH], "reduce").unwrap().kernels().len(), 6);
}

#[test]
fn foreign_files_are_named_for_what_they_are() {
    let this_program = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    let cases: Vec<(Vec<u8>, &str)> = vec![
        (b"int main() {}".to_vec(), "not a readable ELF file"),
        (Vec::new(), "not a readable ELF file"),
        (this_program, "is not EM_AMDGPU"),
        (patched(E_MACHINE, &[62, 0]), "ELF machine 62"),
        (patched(E_TYPE, &[1, 0]), "link it with lld"),
        (patched(E_IDENT_OSABI, &[0]), "not AMDGPU HSA"),
        (patched(E_IDENT_ABIVERSION, &[0]), "ELF ABI version 0"),
        (patched(E_IDENT_ABIVERSION, &[9]), "ELF ABI version 9"),
    ];
    for (file, message) in cases {
        let error = CodeObject::parse(&file).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
}

#[test]
fn another_gpus_code_is_refused_with_both_names() {
    for (mach, name) in [
        (0x4c, "gfx942"),
        (0x4e, "gfx1201"),
        (0x59, "gfx12-generic"),
        (0xee, "an unknown processor (EF_AMDGPU_MACH 0xee)"),
    ] {
        let object = CodeObject::parse(&patched(E_FLAGS, &[mach])).unwrap();
        let error = object.check_target("gfx1100").unwrap_err().to_string();
        assert_eq!(
            error,
            format!("the code object is for {name}, this GPU is gfx1100: compile with -mcpu=gfx1100")
        );
    }
    CodeObject::parse(VECADD).unwrap().check_target("gfx1100").unwrap();
}

#[test]
fn code_for_a_kind_of_processors_is_for_each_of_them() {
    for (mach, kind, gpus) in [
        (0x54, "gfx11-generic", &["gfx1100"][..]),
        (0x59, "gfx12-generic", &["gfx1201"]),
        (0x5f, "gfx9-4-generic", &["gfx942"]),
        (0x51, "gfx9-generic", &[]),
    ] {
        let object = CodeObject::parse(&patched(E_FLAGS, &[mach])).unwrap();
        assert_eq!(object.target(), kind);
        for gpu in ["gfx1100", "gfx1201", "gfx942", "gfx90a"] {
            assert_eq!(object.check_target(gpu).is_ok(), gpus.contains(&gpu), "{kind} on {gpu}");
        }
    }
}

#[test]
fn truncated_files_are_errors() {
    // Section headers at the end are not read; everything up to the last segment's bytes is.
    for length in (0..0xb80).step_by(7) {
        assert!(CodeObject::parse(&VECADD[..length]).is_err(), "{length}");
    }
}

#[test]
fn corrupted_files_never_panic() {
    // Every byte of headers, note, symbols, descriptor and dynamic table, set to values that upset offsets.
    for offset in (0..0xbf0).filter(|offset| !(0x900..0xb80).contains(offset)) {
        for value in [0x00, 0x01, 0x7f, 0x80, 0xff] {
            if let Ok(object) = CodeObject::parse(&patched(offset, &[value])) {
                let _ = object.relocated(0x7fff_ffff_f000);
            }
        }
    }
}

#[test]
fn a_huge_segment_is_refused_before_it_is_allocated() {
    // p_memsz of the third segment: program headers start at 64, 56 bytes each, p_memsz at 40.
    let offset = 64 + 3 * 56 + 40;
    let error = CodeObject::parse(&patched(offset, &(1u64 << 40).to_le_bytes())).unwrap_err();
    assert!(matches!(error, CodeObjectError::TooLarge(_)), "{error}");
    let error = CodeObject::parse(&patched(offset, &u64::MAX.to_le_bytes())).unwrap_err();
    assert!(matches!(error, CodeObjectError::OutOfRange { .. }), "{error}");
}

#[test]
fn relocations_apply_at_the_load_address() {
    let base = 0x7f12_3456_7000;
    let cases: [(u32, &[u8]); 7] = [
        (1, &0x3456_7123u32.to_le_bytes()),
        (2, &0x7f12u32.to_le_bytes()),
        (3, &0x7f12_3456_7123u64.to_le_bytes()),
        (4, &(0x123 - 8i32).to_le_bytes()),
        (5, &(0x123 - 8i64).to_le_bytes()),
        (6, &0x3456_7123u32.to_le_bytes()),
        (13, &0x7f12_3456_7123u64.to_le_bytes()),
    ];
    for (kind, expected) in cases {
        let mut image = vec![0xaa; 32];
        Relocation::for_test(kind, 8, 0x123).apply(&mut image, base).unwrap();
        assert_eq!(image[8..8 + expected.len()], *expected, "type {kind}");
        assert!(image[8 + expected.len()..].iter().all(|byte| *byte == 0xaa), "type {kind} wrote too much");
        let mut short = vec![0; 9];
        assert!(Relocation::for_test(kind, 8, 0).apply(&mut short, base).is_err());
        assert!(Relocation::for_test(kind, u64::MAX, 0).apply(&mut short, base).is_err());
    }
    let unknown = Relocation::for_test(99, 8, 0).apply(&mut [0; 32], base).unwrap_err();
    assert_eq!(unknown, CodeObjectError::Relocation { kind: 99, address: 8 });
}

#[test]
fn a_table_of_pointers_points_into_the_loaded_image() {
    let object = CodeObject::parse(SHAPES).unwrap();
    let base = 0x7f12_3456_7000u64;
    let image = object.relocated(base).unwrap();
    let unmoved = object.relocated(0).unwrap();
    assert_eq!(object.relocations.len(), 2);
    for relocation in &object.relocations {
        let at = relocation.address() as usize;
        let word = |image: &[u8]| u64::from_le_bytes(image[at..at + 8].try_into().unwrap());
        assert_eq!(word(&image), base + word(&unmoved));
        let table = word(&unmoved) as usize;
        assert_eq!(image[table..table + 8], [0, 0, 0, 0, 1, 0, 0, 0], "a table of powers starts 0, 1");
    }
    let turn = object.kernel("turn").unwrap();
    let kinds: Vec<_> = turn.explicit_arguments().map(|argument| argument.kind.clone()).collect();
    assert_eq!(kinds, [ArgumentKind::Buffer, ArgumentKind::Buffer, ArgumentKind::Local, ArgumentKind::Local]);
}

#[test]
fn metadata_is_checked_field_by_field() {
    let argument = |offset: u64, size: u64, kind: &str| {
        map(&[(".offset", offset.into()), (".size", size.into()), (".value_kind", kind.into())])
    };
    let kernel = |fields: &[(&str, rmpv::Value)]| {
        let mut all: Vec<(&str, rmpv::Value)> = vec![
            (".name", "k".into()),
            (".kernarg_segment_size", 64.into()),
            (".kernarg_segment_align", 8.into()),
            (".wavefront_size", 32.into()),
            (".group_segment_fixed_size", 0.into()),
            (".private_segment_fixed_size", 0.into()),
        ];
        for (key, value) in fields {
            all.retain(|(name, _)| name != key);
            all.push((*key, value.clone()));
        }
        map(&all)
    };
    let list = |value: rmpv::Value| rmpv::Value::Array(vec![value]);
    let cases: Vec<(rmpv::Value, &str)> = vec![
        (kernel(&[(".kernarg_segment_size", 1_000_000.into())]), "1000000 bytes of arguments"),
        (kernel(&[(".kernarg_segment_size", (-1).into())]), "not a 32-bit number"),
        (kernel(&[(".kernarg_segment_align", 3.into())]), "aligns its arguments to 3"),
        (kernel(&[(".wavefront_size", 48.into())]), "waves of 48 lanes"),
        (kernel(&[(".name", 7.into())]), "no `.name`"),
        (kernel(&[(".args", 7.into())]), "not a list"),
        (kernel(&[(".args", list(argument(60, 8, "by_value")))]), "lies outside its 64 bytes"),
        (kernel(&[(".args", list(argument(u64::from(u32::MAX), 8, "by_value")))]), "lies outside"),
        (kernel(&[(".args", list(argument(0, 8, "hidden_teapot")))]), "hidden_teapot"),
        (kernel(&[(".reqd_workgroup_size", list(1.into()))]), "not three numbers"),
    ];
    for (kernel, message) in cases {
        let error = metadata::parse(&note(list(kernel))).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
    let image = kernel(&[(".args", list(argument(0, 8, "image")))]);
    let parsed = metadata::parse(&note(list(image))).unwrap();
    assert_eq!(parsed[0].arguments[0].kind, ArgumentKind::Unsupported("image".into()));
    // A note nested deeper than any compiler's.
    let deep = [vec![0x91; 100_000], vec![0xc0]].concat();
    assert!(metadata::parse(&deep).is_err());
    // An array that claims four billion elements.
    assert!(metadata::parse(&[0xdd, 0xff, 0xff, 0xff, 0xff]).is_err());
}

fn map(fields: &[(&str, rmpv::Value)]) -> rmpv::Value {
    rmpv::Value::Map(fields.iter().map(|(key, value)| ((*key).into(), value.clone())).collect())
}

fn note(kernels: rmpv::Value) -> Vec<u8> {
    let mut bytes = Vec::new();
    rmpv::encode::write_value(&mut bytes, &map(&[("amdhsa.kernels", kernels)])).unwrap();
    bytes
}
