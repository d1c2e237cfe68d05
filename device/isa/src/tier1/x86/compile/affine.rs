//! The whole of a program without loops for waves whose addresses are counted on from lane to lane, as most programs are that do something with each
//! element of an array.
//!
//! All reasons for which memory accesses can fail are checked before the first store. Up to there only registers have
//! changed. A wave that does not fit is started again from the beginning, and goes the usual way. Only waves that
//! code may start others after can be started again.

use core::mem::offset_of;

use super::Compiler;
use super::succession::of_follower;
use crate::exec::Follower;
use crate::exec::compiled::known::KnownLoads;
use crate::exec::di::{Di, Kind, Source};
use crate::exec::form::{Form, When};
use crate::exec::properties::Moves;
use crate::exec::scalar::exec_mask::Function;
use crate::inst::Op;
use crate::lanes::BackendKind;
use crate::tier1::analysis::covered::changes_exec;
use crate::tier1::analysis::elements::{self as moved, bytes, registers};
use crate::tier1::analysis::wanted::Wanted;
use crate::tier1::analysis::{template, touched};
use crate::tier1::scalar as scalars;
use crate::tier1::x86::affine::{Affine, Known};
use crate::tier1::x86::asm::{At, Gpr, Integer, Label};
use crate::tier1::x86::avx512::rows::Pair;
use crate::tier1::x86::body::Body;
use crate::tier1::x86::known as known_code;

/// Elements of a program that is compiled so: longer ones are hardly any faster by it.
const LONGEST: usize = 192;

/// Labels for waves that count addresses on. They begin at `entry`. Code jumps to `refuses` if such a wave has to be
/// started again; it then begins at `usual`, where code checks whether its loads are known.
#[derive(Clone, Copy)]
pub(super) struct Counting {
    pub(super) entry: Label,
    pub(super) refuses: Label,
    pub(super) usual: Label,
}

/// A store that is done when everything else has been.
struct Store {
    moves: Moves,
    /// Place of the host address, and the first row of the data to store.
    address: At,
    row: u32,
}

impl Compiler<'_> {
    /// The program for waves that count addresses on, of whose registers only scalar ones have been set; other waves
    /// begin at `usual`.
    pub(super) fn affine(&mut self, known: &KnownLoads, leaders: &[bool], usual: Label) -> Option<Counting> {
        let source = self.source;
        self.ends?;
        if source.kind != BackendKind::Avx512 {
            return None;
        }
        let end = source.forms.iter().take(LONGEST).position(|&form| form == Form::End)?;
        let mark = self.a.mark();
        let kept = (self.cold.len(), self.exits.len());
        let halves = source.halves;
        let elements: Vec<_> = (0..=end).map(|at| self.form(at)).zip(source.code).collect();
        self.touched = elements.iter().map(|&(form, d)| template::rows(form, d, halves)).collect();
        self.wanted = vec![Wanted::InMemory; elements.len()];
        self.alike = vec![None; elements.len()];
        let counting = Counting { entry: self.a.label(), refuses: self.a.label(), usual };
        let written = self.program(known, &elements, leaders, counting);
        if written.is_none() {
            self.a.back_to(&mark);
            self.cold.truncate(kept.0);
            self.exits.truncate(kept.1);
        }
        written.map(|()| counting)
    }

    fn program(
        &mut self,
        known: &KnownLoads,
        elements: &[(Form, &Di)],
        leaders: &[bool],
        Counting { entry, refuses, .. }: Counting,
    ) -> Known<()> {
        let halves = self.source.halves;
        self.a.bind(entry);
        known_code::compare(known, &mut self.a, refuses);
        self.a.load(Integer::Mov, false, Gpr::Rax, of_follower(offset_of!(Follower, v0)));
        let callee = self.callee;
        let (stored, filled) = (self.a.stored.len(), self.a.filled);
        let (cold, exits) = (self.cold.len(), self.exits.len());
        let mut body = self.body(0, false);
        let mut affine = Affine::begin(&mut body, refuses);
        let mut stores = Vec::new();
        for (at, &(form, d)) in elements.iter().enumerate() {
            if leaders[at] {
                callee.count_block(body.a, at);
            }
            body.at = at;
            body.rows.unlock();
            body.uncounted += u32::from(d.count);
            if form == Form::End {
                break;
            }
            // What is stored stays in its registers.
            let overwrites = |store: &Store| {
                let rows = store.row..store.row + registers(store.moves) * halves;
                template::written(form, d, halves).iter().any(|row| rows.contains(row))
            };
            if stores.iter().any(overwrites) {
                return None;
            }
            element(&mut body, &mut affine, (form, d), &mut stores)?;
            for cold in body.cold.drain(cold..) {
                body.a.bind_to(cold.entry, refuses);
            }
            if body.exits.len() > exits {
                return None;
            }
        }
        for Store { moves, address, row } in &stores {
            let data: Vec<Pair> = (0..registers(*moves) * halves).map(|n| body.load_row(row + n)).collect();
            body.a.load(Integer::Mov, true, Gpr::Rdx, *address);
            body.store_elements(Gpr::Rdx, *moves, &data);
            if *moves == Moves::Dwords(1) {
                body.fetch_ahead(true);
            }
            body.rows.unlock();
        }
        let uncounted = body.uncounted;
        // With more rows than there are registers, others are as fast; and what waves begin with has not been brought to memory.
        if self.a.stored.len() > stored || self.a.filled > filled {
            return None;
        }
        self.end(elements.len() - 1, uncounted);
        let mut body = self.body(0, false);
        affine.finish().iter().for_each(|elsewhere| elsewhere.look_up(&mut body, refuses));
        Some(())
    }
}

/// An element that another one follows.
fn element(
    body: &mut Body<'_>,
    affine: &mut Affine,
    (form, d): (Form, &Di),
    stores: &mut Vec<Store>,
) -> Known<()> {
    let halves = body.halves;
    match form {
        Form::Vector(op) if affine.concerns(d, template::vector(op, d)?.arity()) || op == Op::V_MOV_B32 => {
            // What cannot be counted on is computed.
            let mark = body.a.mark();
            if affine.vector(body, op, d).is_some() {
                return Some(());
            }
            body.a.back_to(&mark);
            straight(body, affine, (form, d))
        }
        Form::Carry(op) if affine.concerns(d, 3) || !affine.finds_carries(op, d) => affine.carry(body, op, d),
        Form::Compare(operands) if affine.concerns(d, 2) => affine.compare(body, operands, d),
        Form::GlobalLoad(moves) if stores.is_empty() && moved::has(form) && !Body::keeps(moves) => {
            let step = affine.address(body, d)?;
            let size = bytes(moves);
            let lanes: Vec<_> = body.sixteens().collect();
            let whole = matches!(moves, Moves::Dwords(_));
            let to = body.define_all(d.dst, registers(moves));
            if step == size {
                affine.translate(body, size * 32 * halves, false)?;
                body.load_elements(Gpr::Rdx, moves, &to);
                if moves == Moves::Dwords(1) {
                    body.fetch_ahead(false);
                }
            } else if step == 0 && whole {
                affine.translate(body, size, false)?;
                body.load_same_of(Gpr::Rdx, &to, &lanes);
            } else {
                return None;
            }
            for row in template::written(form, d, halves) {
                affine.forget(row);
            }
            Some(())
        }
        Form::GlobalStore(moves) if moved::has(form) => {
            let rows: Vec<u32> = (0..registers(moves) * halves).map(|n| d.src[1].value + n).collect();
            affine.put_in_place(body, &rows)?;
            if affine.address(body, d)? != bytes(moves) {
                return None;
            }
            affine.translate(body, bytes(moves) * 32 * halves, true)?;
            let address = affine.keep_address(body)?;
            stores.push(Store { moves, address, row: d.src[1].value });
            Some(())
        }
        // All lanes stay.
        Form::ExecMask { saves, wide } => {
            let keeps = Function::from_number(d.aux) == Function::And && affine.is_full(&d.src[0]);
            if !keeps {
                return None;
            }
            scalars::exec_mask(body.a, d, saves, wide);
            affine.wrote_scalars(&touched::scalars(form, d));
            Some(())
        }
        Form::Branch(When::Execz(true)) if d.aux == 0 => Some(()),
        Form::ScalarLoad(dwords) if stores.is_empty() && !changes_exec(form, d) => {
            if !affine.finds_scalars(d) {
                return None;
            }
            body.scalar_load(dwords, d);
            affine.wrote_scalars(&touched::scalars(form, d));
            Some(())
        }
        Form::Scalar(op) if !changes_exec(form, d) => {
            if !affine.finds_scalars(d) {
                return None;
            }
            scalars::emit(body.a, op, d);
            affine.wrote_scalars(&touched::scalars(form, d));
            Some(())
        }
        form if form.is_arithmetic() && !changes_exec(form, d) => straight(body, affine, (form, d)),
        _ => None,
    }
}

/// An element of the lanes, as it is in other blocks.
fn straight(body: &mut Body<'_>, affine: &mut Affine, (form, d): (Form, &Di)) -> Known<()> {
    if !affine.finds_scalars(d) || matches!(form, Form::Carry(op) if !affine.finds_carries(op, d)) {
        return None;
    }
    let written = template::written(form, d, body.halves);
    let rows = template::rows(form, d, body.halves);
    let reads = |row: &u32| {
        // Sources of two registers in a wave of 64 have four rows.
        let is_source = |source: &Source| {
            source.kind == Kind::Vector && row.checked_sub(source.value).is_some_and(|above| above < 4)
        };
        !written.contains(row) || template::keeps(form, d) || d.src.iter().any(is_source)
    };
    let read: Vec<u32> = rows.iter().copied().filter(reads).collect();
    affine.put_in_place(body, &read)?;
    body.rows.unlock();
    body.straight(form, d);
    for row in written {
        affine.forget(row);
    }
    affine.wrote_scalars(&touched::scalars(form, d));
    Some(())
}
