//! A region's code, from its elements.
//!
//! Elements fall into blocks: straight code that is entered at its first element alone. Each block is compiled twice, once for waves in
//! which EXEC has all lanes and once for others, and so are the ways from block to block. After an element that may change EXEC, the code
//! looks at EXEC to choose. Within a block, rows of vector registers are in registers of the processor; at its end they are in memory. The
//! code calls the handler, as tier 0 does, for an element that has no template, or whose template does not apply.

use core::mem::offset_of;

mod affine;
mod barrier;
mod branch;
mod loops;
mod succession;

pub(crate) use succession::follows;

use super::asm::{Assembler, At, Condition, Gpr, Integer, Label};
use super::avx512::rows::{ROWS, Rows};
use super::avx512::sixteens;
use super::body::{Body, Callee, Cold, ELEMENTS, EXEC, Exit, FRAME, MACHINE, WAVE};
use super::body::{invoke, load_exec, restore, scalar};
use super::stretches::{Elsewhere, Stretches};
use super::sums::{self, Sums};
use super::{avx2, code::Code, known as known_code, times};
use crate::exec::compiled::{NO_ENTRY, known::KnownLoads};
use crate::exec::di::{Di, Flow, Machine};
use crate::exec::form::Form;
use crate::lanes::BackendKind;
use crate::tier1::analysis::alike::{Alike, alike};
use crate::tier1::analysis::covered::{changes_exec, is_by_handler, is_covered};
use crate::tier1::analysis::touched::{Touched, ranges};
use crate::tier1::analysis::wanted::{Wanted, wanted};
use crate::tier1::analysis::{guess, known, source::Source, template};
use crate::tier1::scalar as scalars;
use crate::wave::Wave;
use affine::Counting;
use barrier::Rare;
use branch::Ways;

/// Instructions that the wave has executed, and its limit.
const EXECUTED: Gpr = Gpr::R14;
const LIMIT: Gpr = Gpr::R15;

/// Registers that belong to the caller, in the order in which they are kept.
const KEPT: [Gpr; 6] = [Gpr::Rbx, Gpr::Rbp, Gpr::R12, Gpr::R13, Gpr::R14, Gpr::R15];

struct Compiler<'a> {
    source: Source<'a>,
    a: Assembler,
    /// Rows that each element of the block at hand uses.
    touched: Vec<Vec<u32>>,
    /// Readers of the masks that they write, and accesses that lie alike.
    wanted: Vec<Wanted>,
    alike: Vec<Option<Alike>>,
    /// Guessed distance of neighbouring lanes' addresses for each load from LDS.
    steps: Vec<Option<u32>>,
    /// The blocks, and those of the beginning once more for waves whose loads are known.
    ways: [Ways; 2],
    /// Loads that may be known.
    known: Option<&'a KnownLoads>,
    /// True while the blocks of waves whose loads are known are compiled.
    knows: bool,
    exits: Vec<Exit>,
    cold: Vec<Cold>,
    stretches: Stretches,
    elsewhere: Vec<Elsewhere>,
    rare: Vec<Rare>,
    common: Label,
    /// Label that code jumps to when its wave has ended, if others may follow.
    ends: Option<Label>,
    /// The program for waves that count addresses on.
    counting: Option<Counting>,
    callee: Callee<'a>,
}

/// Compiles a region whose code changes these registers, if that is known.
pub(crate) fn compile(source: Source<'_>, callee: Callee<'_>, touched: Option<&Touched>) -> Code {
    let mut a = Assembler::default();
    let common = a.label();
    let elements = source.code.len();
    let known = known::loads(&source);
    let mut compiler = Compiler {
        source,
        a,
        touched: Vec::new(),
        wanted: Vec::new(),
        alike: Vec::new(),
        steps: guess::steps(source.code, source.forms, source.halves),
        ways: [Ways::new(elements), Ways::new(elements)],
        known: known.as_ref(),
        knows: false,
        exits: Vec::new(),
        cold: Vec::new(),
        stretches: Stretches::default(),
        elsewhere: Vec::new(),
        rare: Vec::new(),
        common,
        ends: None,
        counting: None,
        callee,
    };
    if follows(&source, touched) {
        compiler.ends = Some(compiler.a.label());
    }
    let known_entry = compiler.all();
    touched.into_iter().for_each(|touched| compiler.succession(touched));
    let looks = core::mem::take(&mut compiler.ways[0].looks);
    let instructions = compiler.a.position();
    let stored = ranges(core::mem::take(&mut compiler.a.stored));
    let (bytes, labels, links) = compiler.a.finish();
    let place = |label: &Option<Label>| label.and_then(|label| labels[Assembler::index(label)]);
    let entry = |label: &Option<Label>| place(label).map_or(NO_ENTRY, |at| at as u32);
    let entries = looks.iter().map(entry).collect();
    Code {
        bytes,
        entries,
        known_entry: entry(&known_entry),
        links,
        instructions: instructions as u32,
        stored,
    }
}

impl Compiler<'_> {
    fn form(&self, at: usize) -> Form {
        let form = self.source.forms[at];
        let covered = is_covered(form, &self.source.code[at], self.source.halves);
        if covered { form } else { Form::Call }
    }

    /// Elements that blocks begin with: those after an element that may change EXEC or goes elsewhere, targets of
    /// branches, and stores to LDS that a wave may have to wait at for its next turn (`wave/order.rs`), where it
    /// comes in again.
    fn leaders(&self) -> Vec<bool> {
        let elements = self.source.code.len();
        let mut leaders = vec![false; elements];
        let mut mark = |at: usize| {
            if let Some(leader) = leaders.get_mut(at) {
                *leader = true;
            }
        };
        mark(0);
        for (at, d) in self.source.code.iter().enumerate() {
            let form = self.form(at);
            if let Form::Branch(_) | Form::Barrier | Form::End = form {
                mark(at + 1);
                if let Form::Branch(_) = form
                    && d.aux == 0
                {
                    mark(d.imm as usize);
                }
            } else if changes_exec(form, d) {
                mark(at + 1);
            }
        }
        // A store after another one with no load in between does not wait.
        let mut may_wait = true;
        for (at, leader) in leaders.iter_mut().enumerate() {
            may_wait |= *leader;
            match self.source.forms[at] {
                Form::LdsLoad(_) | Form::LdsLoadTwo(_) => may_wait = true,
                Form::LdsStore(_) | Form::LdsStoreTwo(_) => {
                    *leader |= may_wait;
                    may_wait = false;
                }
                _ => {}
            }
        }
        leaders
    }

    /// Everything; where waves begin whose loads are known.
    fn all(&mut self) -> Option<Label> {
        let leaders = self.leaders();
        let elements: Vec<_> = (0..).map(|at| self.form(at)).zip(self.source.code).collect();
        self.stretches = Stretches::of(&elements, self.source.halves);
        self.prologue();
        self.blocks(&leaders, leaders.len());
        let known = self.known.map(|known| {
            self.knows = true;
            self.blocks(&leaders, known.end());
            let entry = self.a.label();
            self.a.bind(entry);
            let [(Some(usual), Some(begin))] = [(self.ways[0].looks[0], self.ways[1].looks[0])] else {
                unreachable!("the first element begins a block");
            };
            known_code::compare(known, &mut self.a, usual);
            self.a.jump(begin);
            self.counting = self.affine(known, &leaders, entry);
            self.knows = false;
            entry
        });
        core::mem::take(&mut self.elsewhere).iter().for_each(|elsewhere| elsewhere.look_up(&mut self.a));
        for cold in core::mem::take(&mut self.cold) {
            self.cold_path(&cold);
        }
        self.rare();
        for exit in core::mem::take(&mut self.exits) {
            self.exit_path(&exit);
        }
        self.epilogue();
        known
    }

    /// The blocks that begin before an element, each twice, and the looks that lead to them.
    fn blocks(&mut self, leaders: &[bool], end: usize) {
        let firsts = || leaders[..end].iter().enumerate().filter(|(_, leader)| **leader).map(|(at, _)| at);
        for at in firsts() {
            self.ways[usize::from(self.knows)].begin(&mut self.a, at);
        }
        let mut first = 0;
        while first < end {
            let next = (first + 1..leaders.len()).find(|&at| leaders[at]).unwrap_or(leaders.len());
            let (code, halves) = (&self.source.code[first..next], self.source.halves);
            let elements: Vec<_> = (first..next).map(|at| self.form(at)).zip(code).collect();
            self.touched = elements.iter().map(|&(form, d)| template::rows(form, d, halves)).collect();
            // Where code is by sixteens, masks are found in memory.
            let by_sixteens = self.spills();
            let of = |at: usize| match wanted(&elements[at..], halves) {
                Wanted::ByNext if by_sixteens => Wanted::InMemory,
                wanted => wanted,
            };
            self.wanted = (0..elements.len()).map(of).collect();
            self.alike = alike(&elements, halves);
            for masked in [false, true] {
                self.block(first, next, masked);
            }
            first = next;
        }
        for at in firsts() {
            self.look(at);
        }
    }

    /// Keeps the caller's registers and goes to where its last argument says.
    fn prologue(&mut self) {
        let a = &mut self.a;
        for register in KEPT {
            a.push(register);
        }
        a.immediate(Integer::Sub, true, Gpr::Rsp, FRAME);
        for (to, from) in [(WAVE, Gpr::Rdi), (MACHINE, Gpr::Rsi), (ELEMENTS, Gpr::Rdx), (LIMIT, Gpr::Rcx)] {
            a.integer(Integer::Mov, true, to, from);
        }
        self.stretches.forget(a);
        a.load(Integer::Mov, true, ROWS, At(WAVE, offset_of!(Wave, v) as i32));
        a.load(Integer::Mov, true, EXECUTED, At(WAVE, offset_of!(Wave, instructions) as i32));
        if self.callee.counters.is_some() {
            times::enter(a);
        }
        a.jump_register(Gpr::R8);
    }

    /// Goes back, with the element in `Rdx` and the flow in `Rax`.
    fn epilogue(&mut self) {
        self.a.bind(self.common);
        let a = &mut self.a;
        a.store(true, At(WAVE, offset_of!(Wave, instructions) as i32), EXECUTED);
        if let Some(counters) = self.callee.counters {
            times::leave(counters, a);
        }
        a.shift_by(4, true, Gpr::Rdx, 32);
        a.integer(Integer::Mov, false, Gpr::Rax, Gpr::Rax);
        a.integer(Integer::Or, true, Gpr::Rax, Gpr::Rdx);
        a.vzeroupper();
        a.immediate(Integer::Add, true, Gpr::Rsp, FRAME);
        for register in KEPT.into_iter().rev() {
            a.pop(register);
        }
        a.ret();
    }

    fn exit(&mut self, element: usize, uncounted: u32, flow: Option<u32>) -> Label {
        let label = self.a.label();
        self.exits.push(Exit { label, element, uncounted, flow });
        label
    }

    fn exit_path(&mut self, exit: &Exit) {
        self.a.bind(exit.label);
        self.count(exit.uncounted);
        self.a.immediate(Integer::Mov, false, Gpr::Rdx, exit.element as u32);
        if let Some(flow) = exit.flow {
            self.a.immediate(Integer::Mov, false, Gpr::Rax, flow);
        }
        self.a.jump(self.common);
    }

    fn count(&mut self, instructions: u32) {
        if instructions > 0 {
            self.a.immediate(Integer::Add, true, EXECUTED, instructions);
        }
    }

    /// Goes to the block that EXEC asks for.
    fn look(&mut self, at: usize) {
        let ways = &self.ways[usize::from(self.knows)];
        let (Some(label), [Some(all), Some(some)]) = (ways.looks[at], ways.bodies.each_ref().map(|b| b[at]))
        else {
            unreachable!("blocks have labels");
        };
        self.a.bind(label);
        self.a.compare_immediate(self.source.halves == 2, scalar(EXEC), -1);
        self.a.jump_if(Condition::Equal, all);
        self.a.jump(some);
    }

    /// The code of a block, without anything in it yet.
    fn body(&mut self, first: usize, masked: bool) -> Body<'_> {
        Body {
            a: &mut self.a,
            rows: Rows::default(),
            masked,
            kind: self.source.kind,
            halves: self.source.halves,
            only: None,
            through: None,
            sums: Sums::default(),
            restores: None,
            touched: &self.touched,
            wanted: &self.wanted,
            alike: &self.alike,
            steps: &self.steps,
            kept_mask: None,
            at: first,
            first,
            uncounted: 0,
            cold: &mut self.cold,
            exits: &mut self.exits,
            callee: self.callee,
            stretches: &self.stretches,
            elsewhere: &mut self.elsewhere,
            known: self.known.filter(|_| self.knows).map_or(&[], |known| &known.loads),
        }
    }

    fn block(&mut self, first: usize, next: usize, masked: bool) {
        let ways = &self.ways[usize::from(self.knows)];
        let Some(label) = ways.bodies[usize::from(masked)][first] else { unreachable!("blocks have labels") };
        self.a.bind(label);
        self.wait_at(first);
        if masked {
            load_exec(&mut self.a, self.source.kind, self.source.halves);
        }
        let source = self.source;
        let forms: Vec<Form> = (first..next).map(|at| self.form(at)).collect();
        let avx2 = source.kind == BackendKind::Avx2;
        let held = if avx2 { None } else { self.held(first, &forms, masked) };
        if held.is_none() {
            self.callee.count_block(&mut self.a, first);
        }
        let elements: Vec<(Form, &Di)> = forms.iter().copied().zip(&source.code[first..next]).collect();
        if held.is_none() && self.rounds(first, &elements, masked) {
            return;
        }
        let spills = self.spills();
        let mut body = self.body(first, masked);
        let round = held.map(|rows| {
            body.rows.hold(body.a, &rows);
            let label = body.a.label();
            body.a.bind(label);
            body.callee.count_block(body.a, first);
            label
        });
        // Whether EXEC has all lanes behind the last element, if it had before.
        let mut known = false;
        // The first element that is not done yet, where several are done at once.
        let mut undone = first;
        for (at, form) in (first..next).zip(forms) {
            let d = &source.code[at];
            known = false;
            body.at = at;
            body.rows.unlock();
            body.uncounted += u32::from(d.count);
            let uncounted = body.uncounted;
            if at < undone {
                continue;
            }
            if spills && let Some(run) = sixteens::run_of(&elements[at - first..], source.halves, masked) {
                body.run_by_sixteens(&run, &elements[at - first..]);
                undone = at + run.elements;
                continue;
            }
            if avx2 {
                if let Some(run) =
                    avx2::run_of(&elements[at - first..], &body.steps[at..], (source.halves, masked))
                {
                    body.go_through(&run, &elements[at - first..]);
                    undone = at + run.elements;
                    continue;
                }
                // What is below has instructions of AVX-512 but for scalars and branches.
                if !avx2::is_shared(form) {
                    body.one(form, d);
                    continue;
                }
            }
            match form {
                form if is_by_handler(form, d, masked) => body.by_handler(),
                Form::ExecMask { saves, wide } => scalars::exec_mask(body.a, d, saves, wide),
                Form::Permute(control) => known = body.permute(control, d),
                Form::RestoreExec => {
                    body.restore_exec();
                    known = true;
                }
                Form::End => {
                    body.forget();
                    return self.end(at, uncounted);
                }
                Form::Barrier => {
                    body.rows.flush(body.a);
                    return self.barrier(at, uncounted);
                }
                Form::Branch(when) => {
                    if let Some(round) = round {
                        let rows = core::mem::take(&mut body.rows);
                        return self.end_of_round(when, (at, uncounted), masked, (round, &rows));
                    }
                    body.rows.flush(body.a);
                    return self.branch(when, at, uncounted, masked);
                }
                Form::Call => {
                    body.rows.flush(body.a);
                    return self.call(at, uncounted);
                }
                form => body.straight(form, d),
            }
        }
        let uncounted = body.uncounted;
        if let Some(round) = round {
            let rows = core::mem::take(&mut body.rows);
            return self.end_of_round_of_lanes((next, uncounted), masked, (round, &rows));
        }
        body.rows.flush(body.a);
        self.count(uncounted);
        let last = next - 1;
        let changed = changes_exec(self.form(last), &source.code[last]);
        let goes_on = !changed || known && !masked;
        self.go_on(next, goes_on.then_some(masked));
    }

    /// Goes to the next block, of waves whose loads are known as long as there are such.
    fn go_on(&mut self, at: usize, masked: Option<bool>) {
        self.go_by(self.knows && self.known.is_some_and(|known| at < known.end()), at, masked);
    }

    /// Goes to a block: to one for EXEC as it is known to be, or to a look at it.
    fn go(&mut self, at: usize, masked: Option<bool>) {
        self.go_by(false, at, masked);
    }

    fn go_by(&mut self, knows: bool, at: usize, masked: Option<bool>) {
        let Ways { looks, bodies } = &self.ways[usize::from(knows)];
        let label = match masked {
            Some(masked) => bodies[usize::from(masked)].get(at).copied().flatten(),
            None => looks.get(at).copied().flatten(),
        };
        match label {
            Some(label) => self.a.jump(label),
            None => {
                // Every region ends with an element that leaves it.
                let label = self.exit(at.saturating_sub(1), 0, Some(Flow::LEAVE.number()));
                self.a.jump(label);
            }
        }
    }

    fn call(&mut self, at: usize, uncounted: u32) {
        self.count(uncounted);
        self.stretches.forget(&mut self.a);
        invoke(&mut self.a, at, self.callee);
        let exit = self.exit(at, 0, None);
        self.a.jump_if(Condition::NotEqual, exit);
        self.go_on(at + 1, None);
    }

    fn cold_path(&mut self, cold: &Cold) {
        self.a.bind(cold.entry);
        if !cold.products.is_empty() {
            return sums::correct(&mut self.a, &cold.products, cold.back);
        }
        let stored = self.a.stored.len();
        cold.before.write_back(&mut self.a);
        self.a.stored.truncate(stored);
        self.a.byte_immediate(1, At(MACHINE, offset_of!(Machine<'_>, wrote_more) as i32), 1);
        if let Some(row) = cold.restores {
            restore(&mut self.a, row);
        }
        self.stretches.forget(&mut self.a);
        invoke(&mut self.a, cold.element, self.callee);
        let exit = self.exit(cold.element, cold.uncounted, None);
        self.a.jump_if(Condition::NotEqual, exit);
        if cold.masked {
            load_exec(&mut self.a, self.source.kind, self.source.halves);
        }
        cold.after.reload(&mut self.a);
        self.a.jump(cold.back);
    }
}
