//! Files of code objects, whole and broken.

use super::*;

const VECADD: &[u8] = include_bytes!("../../../tests/kernels/vecadd.gfx1100.hsaco");
/// Addresses of the function's beginning, and of its line 7.
const ENTRY: u64 = 0x1a00;

fn vecadd() -> SymbolFile {
    SymbolFile::read("vecadd.hsaco".into(), VECADD.to_vec()).unwrap()
}

/// A lane whose frame is at 16 of private memory, where words count up.
struct Counting;

impl State for Counting {
    fn register(&mut self, register: Register) -> Option<u32> {
        (register == Register::Scalar(33)).then_some(16)
    }

    fn read(&mut self, place: Place, bytes: &mut [u8]) -> bool {
        let Place::Private(offset) = place else { return false };
        for (word, value) in bytes.chunks_mut(4).zip(offset / 4..) {
            word.copy_from_slice(&value.to_le_bytes()[..word.len()]);
        }
        true
    }
}

#[test]
fn lines_functions_and_variables_are_those_of_the_source() {
    let file = vecadd();
    let first = file.line(ENTRY).unwrap();
    assert_eq!((first.file, first.line, first.function), ("vecadd.cl", 2, Some("vecadd")));
    let [at] = file.addresses("vecadd.cl", 7)[..] else { panic!("one function has it") };
    assert_eq!(file.line(at).unwrap().to_string(), "vecadd.cl:7");
    assert!(file.addresses("add.cl", 7).is_empty() && file.line(0).is_none());
    assert_eq!(file.names(at), ["a", "b", "c", "n", "i", "sum"]);
    // `i` is at 28 of the frame.
    assert_eq!(file.value((at, 0), "i", &mut Counting), Ok("11".to_owned()));
    assert_eq!(file.value((at, 0), "a", &mut Counting), Ok("0x500000004".to_owned()));
    let unknown = file.value((at, 0), "j", &mut Counting).unwrap_err();
    assert_eq!(unknown.to_string(), "no variable is called j; there are a, b, c, n, i, sum");
}

#[test]
fn code_object_is_known_by_its_code_and_forgotten_when_another_one_is_there() {
    let base = 0x7f00_0000_0000;
    let (path, mut memory) = (tempfile::tempdir().unwrap(), VECADD.to_vec());
    fs::write(path.path().join("vecadd.hsaco"), VECADD).unwrap();
    fs::write(path.path().join("notes"), "nothing").unwrap();
    let mut symbols = Symbols::of(&[path.path().to_owned()]).unwrap();
    // Its code is at 0xa00 of the file and goes to 0x1a00.
    let read = |memory: &[u8], address: u64, bytes: &mut [u8]| {
        let from = address.checked_sub(base + 0x1000).and_then(|at| memory.get(at as usize..));
        let from = from.unwrap_or_default();
        let count = from.len().min(bytes.len());
        bytes[..count].copy_from_slice(&from[..count]);
        count
    };
    assert!(!symbols.found(1, base + 0x1000, &mut |address, bytes| read(&memory, address, bytes)));
    assert!(symbols.found(1, base, &mut |address, bytes| read(&memory, address, bytes)));
    assert!(!symbols.found(1, base, &mut |address, bytes| read(&memory, address, bytes)), "it is known");
    assert_eq!(symbols.line(base + ENTRY).unwrap().line, 2);
    memory[0xa00] ^= 1;
    assert!(!symbols.found(1, base, &mut |address, bytes| read(&memory, address, bytes)));
    assert!(symbols.line(base + ENTRY).is_none());
}

#[test]
fn bundles_have_the_code_objects_of_all_chips() {
    let name = b"hipv4-amdgcn-amd-amdhsa--gfx1100";
    let mut bundle =
        [&b"__CLANG_OFFLOAD_BUNDLE__"[..], &1_u64.to_le_bytes(), &4096_u64.to_le_bytes()].concat();
    bundle.extend([(VECADD.len() as u64).to_le_bytes(), (name.len() as u64).to_le_bytes()].concat());
    bundle.extend(name);
    bundle.resize(4096, 0);
    bundle.extend(VECADD);
    let folder = tempfile::tempdir().unwrap();
    let (whole, cut) = (folder.path().join("whole"), folder.path().join("cut"));
    fs::write(&whole, &bundle).unwrap();
    fs::write(&cut, &bundle[..5000]).unwrap();
    assert_eq!(Symbols::of(&[whole]).unwrap().files.len(), 1);
    let refused = Symbols::of(std::slice::from_ref(&cut)).unwrap_err().to_string();
    assert!(refused.contains(cut.to_str().unwrap()) && refused.contains("damaged"), "{refused}");
}

#[test]
fn broken_files_are_refused_or_read_without_panic() {
    assert!(SymbolFile::read(String::new(), Vec::new()).is_err());
    for len in (0..VECADD.len()).step_by(97) {
        let _ = SymbolFile::read(String::new(), VECADD[..len].to_vec());
    }
    // Each byte of the debug information and of the headers once, in three ways.
    for at in (0..64).chain(0xe00..VECADD.len()) {
        for change in [1, 0x80, 0xff] {
            let mut data = VECADD.to_vec();
            data[at] ^= change;
            if let Ok(file) = SymbolFile::read(String::new(), data) {
                let _ = (file.for_gdb(), file.line(ENTRY), file.names(ENTRY + 0x100));
                for name in ["a", "sum"] {
                    let _ = file.value((ENTRY + 0x100, 0), name, &mut Counting);
                }
            }
        }
    }
}
