//! Tests of the roles and forms that lowering gives its elements.

use super::*;
use crate::exec::properties::meaning;
use crate::inst::{MemFields, Op};
use crate::wave::Wave;

/// Operations of elements, the halves of a pair one after the other.
fn executed(roles: &[Role]) -> Vec<Op> {
    let operations = |role: &Role| match *role {
        Role::Operation(op) => vec![op],
        Role::Pair(x, y) => vec![x, y],
        Role::Step => vec![],
    };
    roles.iter().flat_map(operations).collect()
}

#[test]
fn every_instruction_has_one_element_that_executes_it() {
    let mut checked = 0;
    for pattern in crate::tables::patterns(Arch::Gfx1100) {
        for wave in [WaveSize::Wave32, WaveSize::Wave64] {
            let Ok(inst) = decode_for(Arch::Gfx1100, wave, &pattern.value.to_le_bytes()) else { continue };
            let Ok(lowered) = alone(&inst, Arch::Gfx1100, wave, Wave::DEFAULT_MODE) else { continue };
            assert_eq!(lowered.roles.len(), lowered.code.len(), "{inst:?}");
            let counted: u32 = lowered.code.iter().map(|di| u32::from(di.count)).sum();
            let mut ops = executed(&lowered.roles);
            let mut expected = vec![inst.op];
            expected.extend(inst.dual.map(|dual| dual.op));
            // Which half goes first depends on what they read.
            ops.sort_unstable();
            expected.sort_unstable();
            let nothing = matches!(properties(inst.op).family, Family::Nothing) || inst.op == Op::S_SETKILL;
            assert_eq!(ops, if nothing { vec![] } else { expected }, "{inst:?}");
            let hint = nothing || matches!(inst.op, Op::S_SLEEP | Op::S_ICACHE_INV);
            assert_eq!(counted, u32::from(!hint), "{inst:?}");
            checked += 1;
        }
    }
    assert!(checked > 2000, "only {checked} instructions lower");
}

/// Counts the elements that say of a wave that it looks for writes of others, of a memory instruction with these fields.
fn looks(arch: Arch, wanted: Op, fields: MemFields) -> usize {
    let pattern = crate::tables::patterns(arch).find(|pattern| meaning(pattern.op) == wanted);
    let pattern = pattern.unwrap_or_else(|| panic!("{arch:?} has no {wanted:?}"));
    let mut inst = decode_for(arch, WaveSize::Wave64, &pattern.value.to_le_bytes()).expect("its own pattern");
    inst.mem = MemFields { offset: inst.mem.offset, ..fields };
    let lowered = alone(&inst, arch, WaveSize::Wave64, Wave::DEFAULT_MODE);
    let forms = lowered.map(|lowered| lowered.forms).unwrap_or_else(|_| panic!("{arch:?}: {inst:?}"));
    forms.iter().filter(|&&form| form == Form::Look).count()
}

#[test]
fn loads_that_caches_are_not_to_answer_or_to_keep_look_for_writes_of_others() {
    let plain = MemFields::default();
    let of = |th| MemFields { th, ..plain };
    let non_temporal = |arch| match arch {
        Arch::Gfx1201 => vec![of(1), of(4), of(5), of(6)],
        _ => vec![MemFields { slc: true, ..plain }],
    };
    let coherent = |arch| match arch {
        Arch::Gfx1201 => vec![MemFields { scope: 1, ..plain }, MemFields { scope: 3, ..plain }],
        _ => vec![MemFields { glc: true, ..plain }, MemFields { dlc: true, ..plain }],
    };
    for arch in Arch::ALL {
        for op in [Op::GLOBAL_LOAD_B64, Op::FLAT_LOAD_B64, Op::GLOBAL_LOAD_U8] {
            assert_eq!(looks(arch, op, plain), 0, "{arch:?}, {op:?}");
            for fields in non_temporal(arch).into_iter().chain(coherent(arch)) {
                assert_eq!(looks(arch, op, fields), 1, "{arch:?}, {op:?}, {fields:?}");
            }
        }
        // Stores that caches are not to keep are those of results that are streamed.
        for fields in non_temporal(arch) {
            assert_eq!(looks(arch, Op::GLOBAL_STORE_B64, fields), 0, "{arch:?}, {fields:?}");
        }
    }
}
