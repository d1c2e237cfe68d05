//! Barriers, stores to LDS that wait, and the way from a wave to the next one of its workgroup.

use core::mem::offset_of;

use super::{Compiler, EXECUTED, LIMIT};
use crate::exec::di::{Flow, Machine};
use crate::exec::form::Form;
use crate::exec::waves::round::{Round, Seat};
use crate::tier1::x86::asm::{At, Condition, Gpr, Integer, Label, Place};
use crate::tier1::x86::avx512::lds::{AT_BARRIER, HAS_STOPPED, MUST_STOP};
use crate::tier1::x86::avx512::rows::ROWS;
use crate::tier1::x86::body::{MACHINE, WAVE};
use crate::wave::Wave;

/// Rare cases while waves of a round follow each other; their code is beside the usual way.
pub(super) enum Rare {
    /// A block that begins with a store to LDS, in a wave that is to let others have their turn before it (`wave/order.rs`).
    Wait { entry: Label, back: Label, before: Entrance },
    /// A wave at a barrier after which the next wave does not go on, and the way out.
    Barrier { entry: Label, exit: Label },
}

/// Entry of waves: an element, and its code.
type Entrance = (u32, Label);

/// Returns a field of the seat whose address is in a register.
fn seat(of: Gpr, field: usize) -> At {
    At(of, field as i32)
}

fn wave(field: usize) -> At {
    At(WAVE, field as i32)
}

fn round(field: usize) -> At {
    At(MACHINE, (offset_of!(Machine<'_>, round) + field) as i32)
}

/// The seat of the wave that runs, and later of the one that goes on.
const SEAT: Gpr = Gpr::Rax;
/// The round's generation: a wave in whose seat it is waits at the barrier.
const GENERATION: Gpr = Gpr::Rcx;
/// A way out that stands ready.
const WAY_OUT: Gpr = Gpr::Rsi;

impl Compiler<'_> {
    /// Does as the handler of `s_barrier`: the wave knows where it waits, and that it is at a barrier. Then another
    /// wave of the round goes on, if there is one.
    pub(super) fn barrier(&mut self, at: usize, uncounted: u32) {
        self.count(uncounted);
        let d = self.source.code[at];
        self.a.place(Gpr::Rax, Place::Guest(u64::from(d.dst) | u64::from(d.dst2) << 32));
        self.a.store(true, wave(offset_of!(Wave, stopped_at)), Gpr::Rax);
        self.a.byte_immediate(4, wave(offset_of!(Wave, lds_order)), AT_BARRIER);
        let exit = self.exit(at, 0, Some(Flow::BARRIER.number()));
        let Some(behind) = self.entrance(at + 1) else { return self.a.jump(exit) };
        self.sit_or(exit);
        self.goes_on_at(behind);
        self.a.store(false, seat(SEAT, offset_of!(Seat, waits)), GENERATION);
        let entry = self.a.label();
        // Most often the next one goes on.
        self.a.load(Integer::Cmp, true, SEAT, round(offset_of!(Round, last)));
        self.a.jump_if(Condition::Equal, entry);
        let next = size_of::<Seat>() + offset_of!(Seat, waits);
        self.a.load(Integer::Cmp, false, GENERATION, seat(SEAT, next));
        self.a.jump_if(Condition::Equal, entry);
        self.a.immediate(Integer::Add, true, SEAT, size_of::<Seat>() as u32);
        self.go_on_as();
        self.rare.push(Rare::Barrier { entry, exit });
    }

    /// The beginning of a block: where it is a store to LDS that the wave has to wait before, another one of the round goes on.
    /// Without a round, and where a loop comes back to the store, the store's own code sees to it.
    pub(super) fn wait_at(&mut self, element: usize) {
        if !matches!(self.source.forms[element], Form::LdsStore(_) | Form::LdsStoreTwo(_)) {
            return;
        }
        let Some(before) = self.entrance(element) else { return };
        let (entry, back) = (self.a.label(), self.a.label());
        self.a.byte_immediate(7, wave(offset_of!(Wave, lds_order)), MUST_STOP);
        self.a.jump_if(Condition::Equal, entry);
        self.a.bind(back);
        self.rare.push(Rare::Wait { entry, back, before });
    }

    /// Emits the code of the rare cases, and the choice of the wave that goes on.
    pub(super) fn rare(&mut self) {
        let rare = core::mem::take(&mut self.rare);
        if rare.is_empty() {
            return;
        }
        let choose = self.a.label();
        for rare in rare {
            match rare {
                Rare::Wait { entry, back, before } => {
                    self.a.bind(entry);
                    self.sit_or(back);
                    self.a.byte_immediate(1, wave(offset_of!(Wave, lds_order)), HAS_STOPPED);
                    self.goes_on_at(before);
                }
                Rare::Barrier { entry, exit } => {
                    self.a.bind(entry);
                    self.a.address_of_label(WAY_OUT, exit);
                }
            }
            self.a.jump(choose);
        }
        self.choose(choose);
    }

    /// The seat of the wave that runs, and the generation; goes elsewhere if its turn is over anyway, or if there is no round.
    fn sit_or(&mut self, none: Label) {
        self.a.integer(Integer::Cmp, true, EXECUTED, LIMIT);
        self.a.jump_if(Condition::AboveOrEqual, none);
        self.a.load(Integer::Mov, false, GENERATION, round(offset_of!(Round, generation)));
        self.a.test(false, GENERATION);
        self.a.jump_if(Condition::Equal, none);
        self.a.load(Integer::Mov, true, SEAT, round(offset_of!(Round, at)));
    }

    /// Notes in its seat where the wave that runs goes on; `Rdx` is used.
    fn goes_on_at(&mut self, (element, entry): Entrance) {
        self.a.immediate(Integer::Mov, false, Gpr::Rdx, element);
        self.a.store(false, seat(SEAT, offset_of!(Seat, element)), Gpr::Rdx);
        self.a.address_of_label(Gpr::Rdx, entry);
        self.a.store(true, seat(SEAT, offset_of!(Seat, entry)), Gpr::Rdx);
    }

    /// Returns the entry of waves at an element, if they can enter there.
    fn entrance(&self, element: usize) -> Option<Entrance> {
        let look = self.ways[0].looks.get(element).copied().flatten();
        look.map(|look| (element as u32, look))
    }

    /// Chooses the next wave that goes on, after the one that has run, or from the first one on. If all are at the
    /// barrier it opens, and the first one goes on, unless the caller wants to see that.
    fn choose(&mut self, choose: Label) {
        const OTHER: Gpr = Gpr::Rdx;
        let [another, first, look, found] = core::array::from_fn(|_| self.a.label());
        let a = &mut self.a;
        a.bind(choose);
        a.byte_immediate(1, round(offset_of!(Round, chose)), 1);
        a.integer(Integer::Mov, true, OTHER, SEAT);
        // Around, to the wave that has run, which is the last one that is looked at.
        a.bind(another);
        a.load(Integer::Cmp, true, OTHER, round(offset_of!(Round, last)));
        a.jump_if(Condition::Equal, first);
        a.immediate(Integer::Add, true, OTHER, size_of::<Seat>() as u32);
        a.bind(look);
        a.load(Integer::Cmp, false, GENERATION, seat(OTHER, offset_of!(Seat, waits)));
        a.jump_if(Condition::NotEqual, found);
        a.integer(Integer::Cmp, true, OTHER, SEAT);
        a.jump_if(Condition::NotEqual, another);
        let opens = a.label();
        a.load(Integer::Cmp, false, GENERATION, round(offset_of!(Round, last_generation)));
        a.jump_if(Condition::NotEqual, opens);
        a.jump_register(WAY_OUT);
        a.bind(opens);
        a.immediate(Integer::Add, false, GENERATION, 1);
        a.store(false, round(offset_of!(Round, generation)), GENERATION);
        a.load(Integer::Mov, true, OTHER, round(offset_of!(Round, first)));
        a.bind(found);
        a.integer(Integer::Mov, true, SEAT, OTHER);
        self.go_on_as();
        self.a.bind(first);
        self.a.load(Integer::Mov, true, OTHER, round(offset_of!(Round, first)));
        self.a.jump(look);
    }

    /// Goes on as the wave whose seat is in a register.
    fn go_on_as(&mut self) {
        let a = &mut self.a;
        a.store(true, wave(offset_of!(Wave, instructions)), EXECUTED);
        // What is left of the limit is the next one's.
        a.integer(Integer::Sub, true, LIMIT, EXECUTED);
        a.store(true, round(offset_of!(Round, at)), SEAT);
        a.load(Integer::Mov, true, WAVE, seat(SEAT, offset_of!(Seat, wave)));
        a.load(Integer::Mov, true, ROWS, wave(offset_of!(Wave, v)));
        a.load(Integer::Mov, true, EXECUTED, wave(offset_of!(Wave, instructions)));
        a.integer(Integer::Add, true, LIMIT, EXECUTED);
        a.store(true, round(offset_of!(Round, limit)), LIMIT);
        a.load(Integer::Mov, true, Gpr::Rcx, seat(SEAT, offset_of!(Seat, entry)));
        a.jump_register(Gpr::Rcx);
    }
}
