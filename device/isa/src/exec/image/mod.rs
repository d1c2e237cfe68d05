//! Image instructions (MIMG, VIMAGE, VSAMPLE): loads, stores and atomics of texels by integer coordinates, sizes of images, and
//! samples.
//!
//! `dst` is the row of VDATA, `src[0]` of VADDR0, `src[1]` and `src[2]` the first scalar registers of the descriptors of the
//! image and of the sampler, `imm` the numbers of VADDR1 to VADDR4, `dst2` the bits of [`field`].

mod address;
mod blocks;
mod cube;
mod descriptor;
mod footprint;
pub(crate) mod form;
mod format;
mod layout;
mod sample;
mod sampler;

use descriptor::{Image, NotModelled, Shown, Texel};
use form::Form;
use format::ImageFormat;

use super::di::{Di, Flow, Handler, Machine, flag};
use super::memory::atomic::Function;
use super::memory::flat::lanes;
use super::memory::mubuf::{active, get, set, set_status};
use crate::lanes::words::highest_first;
use crate::mem::Fault;
use crate::registers::Images;
use crate::wave::Wave;
use crate::wave::fault::FaultCause;

/// Kind of an image operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// No semantics: refused by name.
    Absent,
    /// A load or a store, of a level that the instruction names, or of the first one.
    Moves { names_level: bool },
    /// The same of the bits in memory as they are, with or without the sign of those that fill no register.
    MovesBits { names_level: bool, signed: bool },
    /// A function of a texel of 32 bits, or of 64.
    Atomic(Function),
    /// Size of a level, and the number of levels.
    Size,
    /// A sample.
    Sample(Form),
}

/// Bits of [`Di::dst2`] of an image instruction, beside those of [`Form`]; the low twelve are those of [`Inst::imm`](crate::inst::Inst::imm).
pub(crate) mod field {
    /// Components that registers hold.
    pub(crate) const DMASK: u32 = 15;
    /// First bit of the dimensions, of which there are three.
    pub(crate) const DIM: u32 = 4;
    /// The descriptor has four words.
    pub(crate) const R128: u32 = 1 << 8;
    /// Addresses have sixteen bits, two in a register.
    pub(crate) const A16: u32 = 1 << 9;
    pub(crate) const LWE: u32 = 1 << 10;
    /// Data have sixteen bits, two in a register.
    pub(crate) const D16: u32 = 1 << 11;
    /// The instruction names a level, behind the coordinates.
    pub(crate) const LEVEL: u32 = 1 << 12;
    /// The descriptor is one of gfx12.
    pub(crate) const NEW: u32 = 1 << 13;
    /// Stores repeat the first component where the instruction has none.
    pub(crate) const REPEATS: u32 = 1 << 14;
    /// First bit of the number of address operands that are apart, of which there are three; 0 if none are.
    pub(crate) const APART: u32 = 15;
}

/// Coordinates of a dimension, by its number: how many there are, and which of them count along x, y and the slices; `None` for
/// images with several samples.
pub(crate) const fn coordinates(dimension: u32) -> Option<(u32, [Option<u32>; 3])> {
    Some(match dimension {
        0 => (1, [Some(0), None, None]),
        1 => (2, [Some(0), Some(1), None]),
        4 => (2, [Some(0), None, Some(1)]),
        2 | 3 | 5 => (3, [Some(0), Some(1), Some(2)]),
        _ => return None,
    })
}

/// Returns the number of an address register: the `register`-th of those that an instruction has, `apart` of them anywhere.
pub(crate) fn address_register(first: u32, others: u32, apart: u32, register: u32) -> u32 {
    let operand = |n: u32| if n == 0 { first } else { others >> ((n - 1) * 8) & 255 };
    match apart {
        0 => first + register,
        apart if register < apart => operand(register),
        apart => operand(apart - 1) + register - (apart - 1),
    }
}

/// The `register`-th address register of a lane.
fn address_word(w: &Wave, d: &Di, register: u32, lane: u32) -> u32 {
    let number = address_register(d.src[0].value / w.halves, d.imm, d.dst2 >> field::APART & 7, register);
    w.v.lane(number * w.halves + lane / 32, lane & 31)
}

/// The `n`-th of the halves that begin with an address register.
fn address_half(w: &Wave, d: &Di, (first, n): (u32, u32), lane: u32) -> u16 {
    (address_word(w, d, first + n / 2, lane) >> (n % 2 * 16)) as u16
}

/// Bits of the `n`-th address of a lane.
fn coordinate(w: &Wave, d: &Di, n: u32, lane: u32) -> u32 {
    if d.dst2 & field::A16 == 0 {
        address_word(w, d, n, lane)
    } else {
        address_half(w, d, (0, n), lane).into()
    }
}

/// The image of a descriptor in scalar registers.
fn image(w: &Wave, d: &Di) -> Result<Option<Image>, NotModelled> {
    let count = if d.dst2 & field::R128 != 0 { 4 } else { 8 };
    let mut words = [0; 8];
    for (n, word) in words.iter_mut().enumerate().take(count) {
        *word = w.s[(d.src[1].value as usize + n) & 255];
    }
    Image::new(if d.dst2 & field::NEW != 0 { Images::Gfx12 } else { Images::Gfx11 }, words)
}

/// Texels that an instruction accesses.
struct Texels<'a> {
    image: &'a Image,
    /// The level of instructions that name none.
    first: Option<Shown>,
}

impl<'a> Texels<'a> {
    fn of(image: &'a Image) -> Self {
        Self { image, first: image.level(0) }
    }

    /// The place of a lane's texel; `None` for one that is outside of the image.
    fn texel(&self, w: &Wave, d: &Di, lane: u32) -> Option<Texel> {
        let (count, axes) = coordinates(d.dst2 >> field::DIM & 7)?;
        let named;
        let shown = if d.dst2 & field::LEVEL != 0 {
            named = self.image.level(coordinate(w, d, count, lane));
            &named
        } else {
            &self.first
        };
        let place = axes.map(|axis| axis.map_or(0, |axis| coordinate(w, d, axis, lane)));
        self.image.texel(shown.as_ref()?, place)
    }

    /// The address of a lane's texel.
    fn address(&self, w: &Wave, d: &Di, lane: u32) -> Option<u64> {
        Some(self.texel(w, d, lane)?.va)
    }

    /// Stops a wave at a lane's fault.
    #[cold]
    fn fail(&self, w: &Wave, m: &mut Machine<'_>, d: &Di, fault: Fault, exec: u64) -> Flow {
        let bytes = self.image.format.bytes() as u32;
        fail(m, (fault, exec, bytes), |lane, tell| self.address(w, d, lane).into_iter().for_each(tell))
    }
}

/// Stops a wave at a descriptor that is not modelled.
#[cold]
fn refuse(m: &mut Machine<'_>, NotModelled(what, value): NotModelled) -> Flow {
    m.fault(FaultCause::Image { what, value })
}

/// Stops a wave at a lane's fault. The report names every lane of `exec` one of whose texels, as `tell` has them, cannot be
/// accessed.
#[cold]
fn fail(
    m: &mut Machine<'_>,
    (fault, exec, bytes): (Fault, u64, u32),
    texels: impl Fn(u32, &mut dyn FnMut(u64)),
) -> Flow {
    let mut first = None;
    let mut mask = 0;
    for lane in lanes(exec) {
        texels(lane, &mut |va| {
            if let Some(failure) = m.failure(va, bytes, fault.access) {
                first.get_or_insert(failure);
                mask |= 1 << lane;
            }
        });
    }
    m.memory_fault(first.unwrap_or(fault), mask)
}

/// Numbers of the components that an instruction has registers for; one without any has the first.
fn components(d: &Di) -> impl Iterator<Item = u32> + use<> {
    let mask = match d.dst2 & field::DMASK {
        0 => 1,
        mask => mask,
    };
    (0..4).filter(move |n| mask >> n & 1 != 0)
}

/// Writes the components that a lane gets, of which registers have two or one.
fn put(w: &mut Wave, d: &Di, lane: u32, format: Option<ImageFormat>, values: impl Iterator<Item = u32>) {
    let mut count = 0;
    for value in values {
        if d.dst2 & field::D16 == 0 {
            set(w, d, count, lane, value);
        } else {
            let value = format.map_or(0, |format| u32::from(format.narrow(value)));
            let old = get(w, d, count / 2, lane);
            let new = if count % 2 == 0 { old & 0xffff_0000 | value } else { old & 0xffff | value << 16 };
            set(w, d, count / 2, lane, new);
        }
        count += 1;
    }
    set_status(w, d, registers(d.dst2, count), lane);
}

/// [`Di::aux`] of loads and stores: texels, or their bits, with or without a sign.
pub(crate) const BITS: u8 = 1;
pub(crate) const SIGNED: u8 = 2;

/// The bits of a texel, or of an element of several, in registers.
fn raw(bits: u128, bytes: u64, signed: bool) -> [u32; 4] {
    let unused = 128 - bytes as u32 * 8;
    let bits = if signed { (bits << unused).cast_signed() >> unused } else { bits.cast_signed() };
    [0, 32, 64, 96].map(|shift| (bits >> shift) as u32)
}

fn load(w: &mut Wave, m: &mut Machine<'_>, d: &Di) -> Flow {
    let as_they_are = d.aux != 0;
    let image = match image(w, d) {
        Ok(image) => image,
        Err(reason) => return refuse(m, reason),
    };
    let exec = active(w);
    let mut loaded = [[0; 4]; 64];
    if let Some(image) = &image {
        let texels = Texels::of(image);
        for lane in highest_first(exec) {
            loaded[lane as usize & 63] = match texels.texel(w, d, lane) {
                None if as_they_are => [0; 4],
                None => image.selected([0; 4]),
                Some(texel) => match m.global.load_bits(texel.va, image.format.bytes()) {
                    Ok(bits) if as_they_are => raw(bits, image.format.bytes(), d.aux == SIGNED),
                    Ok(bits) => image.components(image.format.unpack(bits, texel.inside)),
                    Err(fault) => {
                        w.did_lanes_below(0);
                        return texels.fail(w, m, d, fault, exec);
                    }
                },
            };
        }
    }
    let format = image.as_ref().map(|image| image.format);
    for lane in lanes(exec) {
        let texel = loaded[lane as usize & 63];
        put(w, d, lane, format, components(d).map(|component| texel[component as usize & 3]));
    }
    Flow::NEXT
}

/// Registers of this many components.
pub(crate) fn registers(fields: u32, components: u32) -> u32 {
    if fields & field::D16 == 0 { components } else { components.div_ceil(2) }
}

/// The components of what a lane stores, those without a register as the chip fills them in.
fn stored(w: &Wave, d: &Di, image: &Image, lane: u32) -> [u32; 4] {
    let mut all = [None; 4];
    for (register, component) in (0..).zip(components(d)) {
        all[component as usize & 3] = Some(if d.dst2 & field::D16 == 0 {
            get(w, d, register, lane)
        } else {
            let word = get(w, d, register / 2, lane);
            image.format.widen((if register % 2 == 0 { word } else { word >> 16 }) as u16)
        });
    }
    let first = all.into_iter().flatten().next().unwrap_or(0);
    all.map(|value| value.unwrap_or(if d.dst2 & field::REPEATS == 0 { 0 } else { first }))
}

fn store(w: &mut Wave, m: &mut Machine<'_>, d: &Di) -> Flow {
    let image = match image(w, d) {
        Ok(None) => return Flow::NEXT,
        Ok(Some(image)) if d.aux == 0 && image.format.pack([0; 4]).is_none() => {
            return refuse(m, NotModelled("format of a store", image.number));
        }
        Ok(Some(image)) => image,
        Err(reason) => return refuse(m, reason),
    };
    let texels = Texels::of(&image);
    let mut exec = active(w);
    while exec != 0 {
        let lane = exec.trailing_zeros();
        if let Some(va) = texels.address(w, d, lane) {
            let values = stored(w, d, &image, lane);
            let bits = if d.aux == 0 {
                let mut memory = [0; 4];
                for (value, select) in values.into_iter().zip(image.select) {
                    if let 4..=7 = select {
                        memory[select as usize & 3] = value;
                    }
                }
                image.format.pack(memory).unwrap_or(0)
            } else {
                values.into_iter().rev().fold(0, |bits, word| bits << 32 | u128::from(word))
            };
            if let Err(fault) = m.global.store_bits(va, image.format.bytes(), bits) {
                w.did_lanes_below(lane);
                return texels.fail(w, m, d, fault, exec);
            }
        }
        exec &= exec - 1;
    }
    Flow::NEXT
}

fn atomic(w: &mut Wave, m: &mut Machine<'_>, d: &Di) -> Flow {
    let function = Function::from_number(d.aux);
    // Two registers for each operand of 64 bits.
    let words = atomic_words(d.dst2, function);
    let image = match image(w, d) {
        Ok(Some(image)) if image.format.bytes() != u64::from(words) * 4 => {
            return refuse(m, NotModelled("format of an atomic", image.number));
        }
        Ok(image) => image,
        Err(reason) => return refuse(m, reason),
    };
    let texels = image.as_ref().map(Texels::of);
    let mut exec = active(w);
    while exec != 0 {
        let lane = exec.trailing_zeros();
        let wide = |n: u32| u64::from(get(w, d, n, lane)) | u64::from(get(w, d, n + 1, lane)) << 32;
        let va = texels.as_ref().and_then(|texels| texels.address(w, d, lane));
        let old = match va {
            None => Ok(0),
            Some(va) if words == 1 => {
                let (data, other) = (get(w, d, 0, lane), get(w, d, 1, lane));
                m.global.update_u32(va, |old| function.apply32(old, data, other)).map(u64::from)
            }
            Some(va) => {
                let (data, other) = (wide(0), wide(2));
                m.global.update_u64(va, |old| function.apply64(old, data, other))
            }
        };
        match (old, &texels) {
            (Ok(old), _) => {
                if d.flags & flag::RETURN != 0 {
                    for word in 0..words {
                        set(w, d, word, lane, (old >> (word * 32)) as u32);
                    }
                    set_status(w, d, words, lane);
                }
            }
            (Err(fault), Some(texels)) => {
                w.did_lanes_below(lane);
                return texels.fail(w, m, d, fault, exec);
            }
            (Err(fault), None) => return m.memory_fault(fault, 1 << lane),
        }
        exec &= exec - 1;
    }
    Flow::NEXT
}

/// Registers of an operand of an atomic: its mask has a bit for each register.
pub(crate) fn atomic_words(fields: u32, function: Function) -> u32 {
    if (fields & field::DMASK).count_ones() > function.operands() { 2 } else { 1 }
}

fn size(w: &mut Wave, m: &mut Machine<'_>, d: &Di) -> Flow {
    let image = match image(w, d) {
        Ok(image) => image,
        Err(reason) => return refuse(m, reason),
    };
    for lane in lanes(active(w)) {
        let level = coordinate(w, d, 0, lane);
        let values = image.as_ref().map_or([0; 4], |image| {
            let [width, height, slices] = image.level(level).map_or([0; 3], |shown| shown.size);
            [width, height, slices, image.level_count()]
        });
        let mut count = 0;
        for component in components(d) {
            set(w, d, count, lane, values[component as usize & 3]);
            count += 1;
        }
        set_status(w, d, count, lane);
    }
    Flow::NEXT
}

/// Tells the places of the texels that an instruction is about to access.
pub(crate) fn touched(w: &Wave, d: &Di, operation: Operation, mut tell: impl FnMut(u32, u64, u32)) {
    match operation {
        Operation::Absent | Operation::Size => {}
        Operation::Sample(form) if form.is(Form::ASKS) => {}
        Operation::Sample(_) => sample::touched(w, d, tell),
        Operation::Moves { .. } | Operation::MovesBits { .. } | Operation::Atomic(_) => {
            let Ok(Some(image)) = image(w, d) else { return };
            let (texels, bytes) = (Texels::of(&image), image.format.bytes() as u32);
            for lane in lanes(active(w)) {
                if let Some(va) = texels.address(w, d, lane) {
                    tell(lane, va, bytes);
                }
            }
        }
    }
}

/// Returns the handler of an operation; `None` for one without semantics.
pub(crate) fn handler(operation: Operation, stores: bool) -> Option<Handler> {
    Some(match operation {
        Operation::Absent => return None,
        Operation::Moves { .. } | Operation::MovesBits { .. } if stores => store,
        Operation::Moves { .. } | Operation::MovesBits { .. } => load,
        Operation::Atomic(_) => atomic,
        Operation::Size => size,
        Operation::Sample(form) if form.is(Form::ASKS) => sample::level,
        Operation::Sample(_) => sample::sample,
    })
}
