use std::path::Path;
use std::process::Command;

use iced_x86::{Code as Opcode, Decoder, DecoderOptions};

use super::*;
use crate::exec::compiled::times::Counters;
use crate::exec::di::{Flow, Kind};
use crate::exec::form::Form;
use crate::inst::Op;
use crate::lanes::BackendKind;
use crate::tier1::analysis::source::bare;
use crate::tier1::analysis::touched::touched;
use crate::tier1::x86::body::Callee;
use crate::tier1::x86::compile::compile;
use crate::tier1::x86::tests::{KERNELS, KINDS, elements, halves};

fn make(source: Source<'_>) -> Made {
    let Source { code, forms, halves, .. } = source;
    let touched = touched(code, forms, halves);
    Made { code: compile(source, Callee::default(), touched.as_ref()), touched }
}

/// Calls `look` with all functions of the kernels, for each of the back ends.
fn each_source(mut look: impl FnMut(Source<'_>)) {
    for kind in KINDS {
        for object in KERNELS {
            for (code, forms) in elements(object) {
                look(Source {
                    kind,
                    code: &bare(0, &code, &forms),
                    forms: &forms,
                    halves: halves(object),
                    waits: false,
                });
            }
        }
    }
}

/// The smallest function that has code of every part: addresses, entries and rows of registers.
fn small() -> (Vec<Di>, Vec<Form>) {
    let all = KERNELS.into_iter().filter(|object| halves(object) == 1).flat_map(elements);
    let all = all.map(|(code, forms)| (bare(0, &code, &forms), forms));
    let whole = all.filter(|(code, forms)| {
        let made = make(Source { kind: BackendKind::Avx512, code, forms, halves: 1, waits: false });
        made.code.links.places.len() > 1 && made.touched.is_some_and(|touched| !touched.rows.is_empty())
    });
    whole.min_by_key(|(code, _)| code.len()).expect("some kernel has loads")
}

#[test]
fn sealed_code_opens_as_what_was_made() {
    let (mut regions, mut addresses) = (0, 0);
    each_source(|source| {
        let (key, made) = (key(&source), make(source));
        let sealed = seal(&key, &made).expect("nothing binds it to this process");
        addresses += made.code.links.places.len();
        regions += 1;
        assert_eq!(open(&key, &sealed, source.code.len()), Ok(made));
        assert_eq!(
            open(&key, &sealed, source.code.len() + 1),
            Err(KeptError::Content("entries")),
            "of a region with another number of elements"
        );
    });
    assert!(regions > 40 && addresses > 1000, "{regions} regions, {addresses} addresses");
}

#[test]
fn code_has_addresses_of_routines_where_it_calls_them_and_nowhere_else() {
    const ADDRESSES: [u64; 2] = [0x1122_3344_5566_7788, 0xfedc_ba98_7654_3210];
    each_source(|source| {
        let Code { bytes, links, instructions, .. } = compile(source, Callee::default(), None);
        let [one, other] = ADDRESSES.map(|address| {
            let mut bytes = bytes.clone();
            links.link(&mut bytes, |place| match place {
                Place::Routine(routine) => {
                    assert_eq!(routine, Routine::Invoke);
                    address
                }
                Place::Guest(distance) => distance,
                Place::Bits(_) => 0,
            });
            bytes
        });
        let mut called = 0;
        let instructions = &one[..instructions as usize];
        let mut before = None;
        for instruction in Decoder::with_ip(64, instructions, 0, DecoderOptions::NONE) {
            if instruction.code() == Opcode::Call_rm64 {
                let (at, value) = before.expect("the address is loaded by the instruction before");
                let place = Place::Routine(Routine::Invoke);
                assert!(links.places.contains(&Link { at, place }), "{at} is to be put in anew");
                assert_eq!(value, ADDRESSES[0]);
                called += 1;
            }
            assert_ne!(instruction.code(), Opcode::Call_rel32_64, "calls have absolute addresses");
            before = (instruction.code() == Opcode::Mov_r64_imm64)
                .then(|| (instruction.next_ip() as usize - 8, instruction.immediate64()));
        }
        let is_routine = |link: &&Link| matches!(link.place, Place::Routine(_));
        assert_eq!(called, links.places.iter().filter(is_routine).count(), "what is put in is called");
        // All other bytes are the same.
        let mut same = one.clone();
        links.link(&mut same, |place| match place {
            Place::Routine(_) => ADDRESSES[1],
            Place::Guest(distance) => distance,
            Place::Bits(_) => 0,
        });
        assert_eq!(same, other);
    });
}

#[test]
fn elements_in_another_place_and_with_other_handlers_have_the_same_code() {
    fn other(_: &mut Wave, _: &mut Machine<'_>, _: &Di) -> Flow {
        Flow::NEXT
    }
    each_source(|source| {
        let moved: Vec<Di> = source.code.iter().map(|d| Di { f: other, ..*d }).collect();
        let moved = Source { code: &moved, ..source };
        assert!(key(&moved) == key(&source) && make(moved) == make(source));
    });
}

#[test]
fn code_at_another_address_of_the_guest_is_the_same_but_for_the_ways_out() {
    const BY: u64 = 0x7_1234_5000;
    let mut ways_out = 0;
    for (object, kind) in KERNELS.into_iter().flat_map(|object| KINDS.map(|kind| (object, kind))) {
        for (code, forms) in elements(object) {
            // As lowering has it there, operands of what handlers do and that depend on it included.
            let moved = |(d, form): (&Di, &Form)| match form {
                Form::Branch(_) | Form::Barrier => {
                    let to = (u64::from(d.dst) | u64::from(d.dst2) << 32) + BY;
                    Di { dst: to as u32, dst2: (to >> 32) as u32, ..*d }
                }
                Form::Call => Di { dst: d.dst ^ 9, dst2: !d.dst2, imm: !d.imm, ..*d },
                _ => *d,
            };
            let moved: Vec<Di> = code.iter().zip(&forms).map(moved).collect();
            let (here, there) = (bare(0, &code, &forms), bare(BY, &moved, &forms));
            let source = Source { kind, code: &here, forms: &forms, halves: halves(object), waits: false };
            let other = Source { code: &there, ..source };
            assert_eq!(key(&source), key(&other));
            let (made, other) = (make(source), make(other));
            assert!(made == other);
            let guest = |link: &&Link| matches!(link.place, Place::Guest(_));
            ways_out += made.code.links.places.iter().filter(guest).count();
            // The end of the program, in bytes: what is lowered last leads there.
            let last = code.last().expect("there is code");
            let end = Place::Guest(u64::from(last.dst) | u64::from(last.dst2) << 32);
            assert!(made.code.links.places.iter().any(|link| link.place == end), "{end:?}");
        }
    }
    assert!(ways_out > 40, "{ways_out}");
}

/// Variable with the path at which a process that [`another_process_makes_the_same_code`] has started leaves its
/// code.
const OUTPUT: &str = "BELFRY_TEST_SEALED";

#[test]
fn another_process_makes_the_same_code() {
    let mut all = Vec::new();
    each_source(|source| all.extend(seal(&key(&source), &make(source)).unwrap()));
    if let Some(path) = std::env::var_os(OUTPUT) {
        return std::fs::write(path, all).unwrap();
    }
    // It has its functions, its heap and its stack elsewhere.
    let path = std::env::temp_dir().join(format!("belfry-sealed-{}", std::process::id()));
    let (_, module) = module_path!().split_once("::").expect("it is below the crate");
    let name = format!("{module}::another_process_makes_the_same_code");
    let this = std::env::current_exe().unwrap();
    let output = Command::new(this).args([&name, "--exact"]).env(OUTPUT, &path).output().unwrap();
    let other = read_and_remove(&path);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    assert!(other.expect("it has left its code") == all, "code depends on the process");
}

fn read_and_remove(path: &Path) -> std::io::Result<Vec<u8>> {
    let bytes = std::fs::read(path);
    let _ = std::fs::remove_file(path);
    bytes
}

#[test]
fn code_that_counts_is_bound_to_its_process() {
    let (code, forms) = small();
    let source = Source { kind: BackendKind::Avx512, code: &code, forms: &forms, halves: 1, waits: false };
    let counters = Counters::new(code.len());
    let code = compile(source, Callee { counters: Some(&counters) }, None);
    assert_eq!(seal(&key(&source), &Made { code, touched: None }), None);
}

#[test]
fn bytes_that_have_changed_are_refused() {
    let (code, forms) = small();
    for kind in KINDS {
        let source = Source { kind, code: &code, forms: &forms, halves: 1, waits: false };
        let (key, made) = (key(&source), make(source));
        let mut sealed = seal(&key, &made).unwrap();
        let elements = code.len();
        for at in 0..sealed.len() {
            for bits in [1, 0x80, 0xff] {
                sealed[at] ^= bits;
                let error = open(&key, &sealed, elements).expect_err("it is not what was sealed");
                let expected = match at {
                    0..8 => error == KeptError::Magic,
                    8..12 => matches!(error, KeptError::Version(_)),
                    12..44 => error == KeptError::Key,
                    _ => error == KeptError::Checksum,
                };
                assert!(expected, "byte {at}: {error}");
                sealed[at] ^= bits;
            }
        }
        for len in 0..sealed.len() {
            assert!(open(&key, &sealed[..len], elements).is_err(), "{len} bytes");
        }
        assert_eq!(open(&key, &[&sealed[..], &[0]].concat(), elements), Err(KeptError::Checksum));
        assert_eq!(open(&key, &sealed, elements), Ok(made));
    }
}

/// Puts another number into the head, the code or the list after it, with a checksum that is right.
fn with_word(sealed: &[u8], at: usize, word: u32) -> Vec<u8> {
    let mut content = sealed[..sealed.len() - SUM].to_vec();
    content[at..at + 4].copy_from_slice(&word.to_le_bytes());
    let sum = Sha256::digest(&content);
    content.extend_from_slice(&sum);
    content
}

#[test]
fn numbers_that_no_compiler_has_made_are_refused_without_a_panic() {
    /// Offset of the lengths, and of the lists after them.
    const LENGTHS: usize = 44;
    const LISTS: usize = LENGTHS + 9 * 4;
    let (code, forms) = small();
    let source = Source { kind: BackendKind::Avx512, code: &code, forms: &forms, halves: 1, waits: false };
    let (key, made) = (key(&source), make(source));
    let sealed = seal(&key, &made).unwrap();
    let refused = |at, word| open(&key, &with_word(&sealed, at, word), code.len()).expect_err("out of range");
    // Each length, too large and too small.
    for length in 0..8 {
        for word in [0, 7, u32::MAX, u32::MAX / 4, i32::MAX as u32] {
            let at = LENGTHS + length * 4;
            let is = u32::from_le_bytes(sealed[at..at + 4].try_into().unwrap());
            // Lines are any of sixteen bits, and the instructions end anywhere behind what is called.
            if word != is && !(length == 5 && word < 1 << 16) && !(length == 1 && word == 7) {
                refused(at, word);
            }
        }
    }
    let instructions = made.code.instructions;
    assert_eq!(refused(LISTS, instructions), KeptError::Content("entries"));
    assert_eq!(refused(LENGTHS + 8 * 4, instructions), KeptError::Content("entries"), "of known loads");
    let links = LISTS + code.len() * 4;
    let routine = Place::Routine(Routine::Invoke);
    let first = made.code.links.places.iter().position(|link| link.place == routine).unwrap();
    let link = links + first * 16;
    for at in [instructions - 7, u32::MAX, u32::MAX - 7] {
        assert_eq!(refused(link, at), KeptError::Content("addresses"));
    }
    for routine in [0, number(Routine::InvokeCounting), 6, u32::MAX] {
        assert_eq!(refused(link + 4, routine), KeptError::Content("addresses"));
    }
    assert_eq!(refused(link + 8, 1), KeptError::Content("addresses"), "a routine is at no distance");
    let rows = links + made.code.links.places.len() * 16;
    assert_eq!(refused(rows, u32::MAX), KeptError::Content("rows"));
    assert_eq!(refused(rows + 4, ROWS as u32 + 1), KeptError::Content("rows"));
}

#[test]
fn everything_that_code_is_made_from_is_in_its_key() {
    let element = Di {
        f: |_, _, _| Flow::NEXT,
        dst: 1,
        dst2: 2,
        src: [di::Source { value: 3, kind: Kind::Vector, ..di::Source::ZERO }; 3],
        imm: 4,
        flags: 0,
        omod: 0,
        count: 1,
        aux: 0,
    };
    let code = [element; 2];
    let forms = [Form::Vector(Op::V_ADD_NC_U32), Form::End];
    let source = Source { kind: BackendKind::Avx512, code: &code, forms: &forms, halves: 1, waits: false };
    let mut keys = vec![
        key(&source),
        key(&Source { kind: BackendKind::Avx2, ..source }),
        key(&Source { halves: 2, ..source }),
        key(&Source { waits: true, ..source }),
        key(&Source { code: &code[..1], ..source }),
        key(&Source { code: &code[..1], forms: &forms[..1], ..source }),
        key(&Source { forms: &[Form::Vector(Op::V_ADD_NC_U32), Form::Call], ..source }),
        key(&Source { forms: &[Form::Vector(Op::V_SUB_NC_U32), Form::End], ..source }),
        key(&Source { forms: &[Form::Saturating(Op::V_ADD_NC_U32), Form::End], ..source }),
    ];
    let source_with = |change: fn(&mut di::Source)| {
        (0..3).map(move |n| {
            let mut d = element;
            change(&mut d.src[n]);
            d
        })
    };
    let changed = [
        Di { dst: 9, ..element },
        Di { dst2: 9, ..element },
        Di { imm: 9, ..element },
        Di { flags: 9, ..element },
        Di { omod: 9, ..element },
        Di { count: 9, ..element },
        Di { aux: 9, ..element },
    ]
    .into_iter()
    .chain(source_with(|source| source.value = 9))
    .chain(source_with(|source| source.kind = Kind::Scalar))
    .chain(source_with(|source| source.high = true))
    .chain(source_with(|source| source.neg = true))
    .chain(source_with(|source| source.abs = true));
    for changed in changed {
        keys.push(key(&Source { code: &[changed, element], ..source }));
        keys.push(key(&Source { code: &[element, changed], ..source }));
    }
    let all = keys.len();
    keys.sort_unstable_by_key(|key| key.0);
    keys.dedup();
    assert_eq!(keys.len(), all, "each of them is another one");
    assert_eq!(BUILD.len(), 64, "the build has a name");
}
