//! Blocks that are loops of their own.

use super::{Compiler, EXECUTED, LIMIT};
use crate::exec::di::{Di, Flow};
use crate::exec::form::{Form, When};
use crate::lanes::BackendKind;
use crate::tier1::analysis::covered::{changes_exec, is_by_handler};
use crate::tier1::x86::asm::{Assembler, Condition, Integer, Label};
use crate::tier1::x86::avx2;
use crate::tier1::x86::avx512::rows::{CAPACITY, Rows};
use crate::tier1::x86::avx512::sixteens::{self, Counts};
use crate::tier1::x86::body::{EXEC, jump_unless, load_exec, scalar};

impl Compiler<'_> {
    /// A block that is a loop of its own, whose rounds are done for some lanes after the others; `false` if it is none.
    pub(super) fn rounds(&mut self, first: usize, elements: &[(Form, &Di)], masked: bool) -> bool {
        let Some((&(Form::Branch(when), last), elements)) = elements.split_last() else { return false };
        // Code that counts has each round of a block begin where it counts.
        let loops = last.aux == 0 && last.imm as usize == first && self.callee.counters.is_none();
        if !loops {
            return false;
        }
        let halves = self.source.halves;
        let at = first + elements.len();
        let round = elements.iter().map(|(_, d)| u32::from(d.count)).sum::<u32>() + u32::from(last.count);
        let unless = |a: &mut Assembler, label| jump_unless(a, when, halves, label);
        if self.source.kind == BackendKind::Avx2 {
            let Some(rounds) = avx2::rounds_of(elements, when, (halves, masked)) else { return false };
            let used_up = self.exit(at, 0, Some(Flow::to(last.imm).number()));
            let mut body = self.body(first, masked);
            body.rounds(&rounds, elements, (round, EXECUTED, LIMIT), (unless, used_up));
        } else {
            let Some(rounds) = sixteens::loop_of(elements, when, halves, &self.touched) else { return false };
            let used_up = self.exit(at, 0, Some(Flow::to(last.imm).number()));
            let counts = Counts { round, executed: EXECUTED, limit: LIMIT };
            let mut body = self.body(first, masked);
            body.rounds_by_lanes(&rounds, elements, &counts, (unless, used_up));
        }
        self.go_on(at + 1, Some(masked));
        true
    }

    /// The rows that the block at hand uses.
    pub(super) fn rows_of_block(&self) -> Vec<u32> {
        let mut rows: Vec<u32> = self.touched.iter().flatten().copied().collect();
        rows.sort_unstable();
        rows.dedup();
        rows
    }

    /// Returns true if the block at hand uses more rows than there is room for, and so has runs that are done by
    /// sixteens.
    pub(super) fn spills(&self) -> bool {
        self.source.kind == BackendKind::Avx512 && self.rows_of_block().len() > CAPACITY
    }

    /// The rows of a block that is a loop of its own, perhaps with the branch after it, and uses no more of them than
    /// can be held: they stay in registers from round to round.
    pub(super) fn held(&self, first: usize, forms: &[Form], masked: bool) -> Option<Vec<u32>> {
        let last = self.source.code.get(first + forms.len() - 1)?;
        let loops = match forms.last()? {
            Form::Branch(_) => last.aux == 0 && last.imm as usize == first,
            form @ (Form::ExecMask { .. } | Form::Scalar(_) | Form::Compare(_)) => {
                changes_exec(*form, last) && self.goes_back_while_lanes_are_left(first, first + forms.len())
            }
            _ => false,
        };
        let code = &self.source.code[first..first + forms.len()];
        // What atomics return is in memory.
        let in_memory =
            |form: Form, d: &Di| form == Form::Call || form.is_atomic() || is_by_handler(form, d, masked);
        let calls = (forms.iter().zip(code)).any(|(form, d)| in_memory(*form, d));
        if !loops || calls {
            return None;
        }
        let rows = self.rows_of_block();
        (rows.len() <= CAPACITY).then_some(rows)
    }

    /// Returns true if the element after a block that ends with a change of EXEC goes back to the block's first
    /// element for as long as there are active lanes.
    fn goes_back_while_lanes_are_left(&self, first: usize, behind: usize) -> bool {
        let Some(d) = self.source.code.get(behind) else { return false };
        self.form(behind) == Form::Branch(When::Execz(false)) && d.aux == 0 && d.imm as usize == first
    }

    /// The end of such a loop, whose rows stay where they are as long as all lanes are active, or any in a wave that has inactive ones.
    pub(super) fn end_of_round_of_lanes(
        &mut self,
        (behind, uncounted): (usize, u32),
        masked: bool,
        (round, rows): (Label, &Rows),
    ) {
        self.count(uncounted);
        let leaves = self.a.label();
        let wide = self.source.halves == 2;
        self.a.compare_immediate(wide, scalar(EXEC), if masked { 0 } else { -1 });
        self.a.jump_if(if masked { Condition::Equal } else { Condition::NotEqual }, leaves);
        let branch = self.source.code[behind];
        self.count(u32::from(branch.count));
        // The branch is a block of its own.
        self.callee.count_block(&mut self.a, behind);
        if masked {
            load_exec(&mut self.a, self.source.kind, self.source.halves);
        }
        self.a.integer(Integer::Cmp, true, EXECUTED, LIMIT);
        self.a.jump_if(Condition::Below, round);
        rows.write_back(&mut self.a);
        let budget = self.exit(behind, 0, Some(Flow::to(branch.imm).number()));
        self.a.jump(budget);
        self.a.bind(leaves);
        rows.write_back(&mut self.a);
        self.go_on(behind, None);
    }

    /// The end of a loop whose rows stay where they are.
    pub(super) fn end_of_round(
        &mut self,
        when: When,
        (at, uncounted): (usize, u32),
        masked: bool,
        (round, rows): (Label, &Rows),
    ) {
        self.count(uncounted);
        let (not_taken, used_up) = (self.a.label(), self.a.label());
        self.jump_unless(when, not_taken);
        self.a.integer(Integer::Cmp, true, EXECUTED, LIMIT);
        self.a.jump_if(Condition::Below, round);
        self.a.jump(used_up);
        self.a.bind(not_taken);
        rows.write_back(&mut self.a);
        self.go_on(at + 1, Some(masked));
        self.a.bind(used_up);
        rows.write_back(&mut self.a);
        let budget = self.exit(at, 0, Some(Flow::to(self.source.code[at].imm).number()));
        self.a.jump(budget);
    }
}
