//! Tests of the roles and forms that lowering gives its elements.

use super::*;
use crate::inst::Op;
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
