//! Samples: texels at places of images, alone or blended with their neighbours, and the neighbours themselves.

use smallvec::SmallVec;

use super::cube;
use super::descriptor::{Image, NotModelled, Shown, Texel};
use super::footprint::Footprint;
use super::form::{Addresses, Form, distances};
use super::format::ImageFormat;
use super::sampler::{Along, Reduction, Sampler};
use super::{address_half, address_word, components, coordinates, fail, field, image, put, refuse};
use crate::exec::di::{Di, Flow, Machine};
use crate::exec::memory::flat::lanes;
use crate::exec::memory::mubuf::active;
use crate::exec::vector::float::half;
use crate::lanes::words::highest_first;
use crate::mem::Fault;
use crate::registers::Images;
use crate::wave::Wave;

/// Coordinates are texels.
const UNNORMALIZED: u32 = 1 << 7;
/// Number of the dimensions of cubes.
const CUBE: u32 = 3;
/// Bytes of a colour of the table.
const BORDER_BYTES: u64 = 16;
/// `32_FLOAT`.
const FLOAT: u32 = 22;
/// `BORDER_COLOR_TYPE` of colours in a table.
const OF_TABLE: u32 = 3;

/// Texel that takes part in a sample: its place, `None` for the border, and its share.
#[derive(Clone, Copy, Debug)]
struct Part {
    texel: Option<Texel>,
    share: f64,
}

/// Texels that take part in a sample of one lane: mostly two along each axis, on two levels.
type Parts = SmallVec<[Part; 16]>;

/// The sampler of an instruction. Border colours are those of a table only where the wave has one.
fn sampler(w: &Wave, d: &Di) -> Result<Sampler, NotModelled> {
    let word = |n: usize| w.s[(d.src[2].value as usize + n) & 255];
    let images = if d.dst2 & field::NEW != 0 { Images::Gfx12 } else { Images::Gfx11 };
    let sampler = Sampler::new(images, [word(0), word(1), word(2), word(3)])?;
    match (sampler.border, w.border_colors) {
        (OF_TABLE, 0) => Err(NotModelled("type of border color", OF_TABLE)),
        _ => Ok(sampler),
    }
}

/// The image of an instruction, `None` for a null descriptor, and its sampler.
fn resources(w: &Wave, d: &Di) -> Result<(Option<Image>, Sampler), NotModelled> {
    Ok((image(w, d)?, sampler(w, d)?))
}

/// Level and place of a lane.
struct Lookup {
    /// Before and after the limits.
    asked: f64,
    level: f64,
    at: [f64; 3],
    /// Distance over which the footprint's places are.
    along: [f64; 3],
    footprint: Footprint,
}

/// An image, and the way in which an instruction samples it.
struct Sampled<'a> {
    image: &'a Image,
    sampler: &'a Sampler,
    form: Form,
    addresses: Addresses,
    /// Address of the border's colour, if it is one of the table.
    border: Option<u64>,
    axes: [Option<u32>; 3],
    /// Coordinates, behind which is the level.
    count: u32,
    is_cube: bool,
    normal: bool,
    /// Axes along which there are distances.
    distances: u32,
}

impl<'a> Sampled<'a> {
    fn new(image: &'a Image, sampler: &'a Sampler, (w, d): (&Wave, &Di)) -> Option<Self> {
        let dimension = d.dst2 >> field::DIM & 7;
        let (count, axes) = coordinates(dimension)?;
        let form = Form::of(d.dst2);
        Some(Self {
            image,
            sampler,
            form,
            addresses: Addresses::of(d.dst2, form)?,
            border: (sampler.border == OF_TABLE)
                .then(|| w.border_colors.wrapping_add(sampler.border_entry.into())),
            axes,
            count,
            is_cube: dimension == CUBE,
            normal: d.dst2 & UNNORMALIZED == 0,
            distances: distances(dimension),
        })
    }

    /// A coordinate of a lane, or the level behind them.
    fn float(&self, w: &Wave, d: &Di, n: u32, lane: u32) -> f64 {
        let first = self.addresses.coordinates;
        let bits = match d.dst2 & field::A16 {
            0 => address_word(w, d, first + n, lane),
            _ => half::to_single(address_half(w, d, (first, n), lane)),
        };
        f32::from_bits(bits).into()
    }

    fn coordinates(&self, w: &Wave, d: &Di, lane: u32) -> [f64; 3] {
        self.axes.map(|axis| axis.map_or(0.0, |axis| self.float(w, d, axis, lane)))
    }

    /// The distances to the neighbours along x and y of the screen.
    fn distances(&self, w: &Wave, d: &Di, lane: u32) -> [[f64; 3]; 2] {
        let first = self.addresses.gradients;
        let mut distances = [[0.0; 3]; 2];
        let quad = lane & !3;
        let at = |lane| self.coordinates(w, d, lane);
        let [middle, right, below] = match self.form.is(Form::GRADIENTS) {
            true => [[0.0; 3]; 3],
            false => [at(quad), at(quad + 1), at(quad + 2)],
        };
        for (direction, other) in [right, below].into_iter().enumerate() {
            for axis in 0..self.distances {
                let direction_at = direction as u32;
                let bits = match (self.form.is(Form::GRADIENTS), self.form.is(Form::G16)) {
                    (true, false) => address_word(w, d, first + direction_at * self.distances + axis, lane),
                    (true, true) => {
                        let registers = self.distances.div_ceil(2);
                        half::to_single(address_half(w, d, (first + direction_at * registers, axis), lane))
                    }
                    (false, _) => ((other[axis as usize] - middle[axis as usize]) as f32).to_bits(),
                };
                distances[direction][axis as usize] = f32::from_bits(bits).into();
            }
        }
        distances
    }

    /// The level and the place of a lane.
    fn lookup(&self, w: &Wave, d: &Di, lane: u32) -> Lookup {
        let at = self.coordinates(w, d, lane);
        let none = Footprint { level: 0.0, places: 1, longer: 0 };
        let (mut footprint, mut along) = (none, [0.0; 3]);
        let last = || self.float(w, d, self.count, lane);
        let asked = if self.form.has_distances() {
            let distances = self.distances(w, d, lane);
            let size = self.image.level(0).map_or([1; 3], |shown| shown.size);
            let texels = |axis: usize| {
                if self.normal && !self.sampler.counts_texels { size[axis].into() } else { 1.0 }
            };
            let scaled = distances.map(|distance| core::array::from_fn(|axis| distance[axis] * texels(axis)));
            footprint = Footprint::of(scaled, self.sampler.places);
            along = distances[footprint.longer];
            footprint.level + self.sampler.bias + self.bias(w, d, lane)
        } else if self.form.is(Form::LEVEL) {
            last() + self.sampler.bias
        } else {
            0.0
        };
        let least = if self.form.is(Form::LEAST) { last().max(self.image.least) } else { self.image.least };
        Lookup { asked, level: self.sampler.limited(asked, least), at, along, footprint }
    }

    fn bias(&self, w: &Wave, d: &Di, lane: u32) -> f64 {
        if !self.form.is(Form::BIAS) {
            return 0.0;
        }
        let bits = match d.dst2 & field::A16 {
            0 => address_word(w, d, self.addresses.bias, lane),
            _ => half::to_single(address_half(w, d, (self.addresses.bias, 0), lane)),
        };
        f32::from_bits(bits).into()
    }

    /// Texels that are added to the coordinates.
    fn offsets(&self, w: &Wave, d: &Di, lane: u32) -> [i32; 3] {
        if !self.form.is(Form::OFFSET) {
            return [0; 3];
        }
        let word = address_word(w, d, 0, lane);
        [0, 8, 16].map(|first| (word >> first << 26).cast_signed() >> 26)
    }

    /// The texels of a lane. Four neighbours are in the order of their components: below left, below right, above right and
    /// above left; or those of a row from left to right.
    fn parts(&self, w: &Wave, d: &Di, lane: u32) -> Parts {
        let mut parts = Parts::new();
        let lookup = self.lookup(w, d, lane);
        let levels = self.sampler.levels(lookup.level, self.image.level_count());
        let offsets = self.offsets(w, d, lane);
        let gathers = self.form.is(Form::GATHERS);
        let places = f64::from(lookup.footprint.places);
        for part in lookup.footprint.parts() {
            let at = core::array::from_fn(|axis| lookup.at[axis] + lookup.along[axis] * part);
            for (level, share) in [(levels.first, 256 - levels.part), (levels.first + 1, levels.part)] {
                if share != 0
                    && let Some(shown) = self.image.level(level)
                {
                    let share = f64::from(share) / 256.0 / places;
                    self.add(&mut parts, &shown, (at, offsets), (share, levels.blends || gathers));
                    if gathers {
                        return parts;
                    }
                }
            }
        }
        parts
    }

    /// Tells the places in memory that a lane reads.
    fn places(&self, w: &Wave, d: &Di, lane: u32, mut tell: impl FnMut(u64, u32)) {
        for part in self.parts(w, d, lane) {
            match (part.texel, self.border) {
                (Some(texel), _) => tell(texel.va, self.image.format.bytes() as u32),
                (None, Some(border)) => tell(border, BORDER_BYTES as u32),
                (None, None) => {}
            }
        }
    }

    fn add(
        &self,
        parts: &mut Parts,
        shown: &Shown,
        (at, offsets): ([f64; 3], [i32; 3]),
        (share, blends): (f64, bool),
    ) {
        let along = |axis: usize| Along {
            at: if self.is_cube { at[axis] - cube::ORIGIN } else { at[axis] },
            offset: if self.is_cube { 0 } else { offsets[axis] },
            size: shown.size[axis],
            normal: self.normal && !self.sampler.counts_texels,
        };
        let has_rows = self.axes[1].is_some();
        let slices = if self.is_cube {
            let (slice, face) = cube::face(at[2] as f32);
            if !self.sampler.has_edges {
                return self.add_of_cube(parts, shown, (slice, face), [along(0), along(1)], (share, blends));
            }
            [(Some(slice.saturating_add(face)), 256), (None, 0)]
        } else if self.image.is_volume() {
            self.sampler.texels(2, along(2), blends)
        } else {
            // The nearest layer that there is.
            let last = shown.size[2].saturating_sub(1);
            [(Some((at[2].round_ties_even().max(0.0) as u32).min(last)), 256), (None, 0)]
        };
        let row = |blends| match has_rows {
            true => self.sampler.texels(1, along(1), blends),
            false => [(Some(0), 256), (None, 0)],
        };
        let texel = |x: Option<u32>, y: Option<u32>, z: Option<u32>| self.image.texel(shown, [x?, y?, z?]);
        let whole = |texel| Part { texel, share: 1.0 };
        if self.form.is(Form::ROW) {
            let y = row(false)[0].0;
            parts.extend(self.sampler.row(along(0)).map(|x| whole(texel(x, y, slices[0].0))));
            return;
        }
        let (columns, rows) = (self.sampler.texels(0, along(0), blends), row(blends));
        if self.form.is(Form::GATHERS) {
            let ([(left, _), (right, _)], [(above, _), (below, _)]) = (columns, rows);
            let four = [(left, below), (right, below), (right, above), (left, above)];
            parts.extend(four.map(|(x, y)| whole(texel(x, y, slices[0].0))));
            return;
        }
        for (z, depth) in slices {
            for (y, height) in rows {
                for (x, width) in columns {
                    let texels = f64::from(width) * f64::from(height) * f64::from(depth);
                    if texels > 0.0 {
                        let share = share * texels / (256.0 * 256.0 * 256.0);
                        parts.push(Part { texel: texel(x, y, z), share });
                    }
                }
            }
        }
    }

    /// Texels of a face of a cube, and of those beside it.
    fn add_of_cube(
        &self,
        parts: &mut Parts,
        shown: &Shown,
        (slice, face): (u32, u32),
        along: [Along; 2],
        (share, blends): (f64, bool),
    ) {
        let size = shown.size[0];
        let last = i64::from(size) - 1;
        let texel = |at: cube::OnFace| {
            let [x, y] = at.at.map(|at| at as u32);
            self.image.texel(shown, [x, y, slice.saturating_add(at.face)])
        };
        if !blends {
            let at = along.map(|along| along.nearest().clamp(0, last));
            parts.push(Part { texel: texel(cube::OnFace { face, at }), share });
            return;
        }
        // No place of a face is more than one texel outside of it.
        let pairs: [[(i64, u32); 2]; 2] = along.map(|along| {
            let (first, part) = along.first();
            [(first.clamp(-1, last), 256 - part), (first.saturating_add(1).clamp(0, last + 1), part)]
        });
        let [[left, right], [above, below]] = pairs;
        // In the order of the components of four neighbours.
        let four = [(left, below), (right, below), (right, above), (left, above)];
        let found = four.map(|(x, y)| (cube::texel(face, [x.0, y.0], size), f64::from(x.1) * f64::from(y.1)));
        // Where three faces meet there is no fourth texel: the others share its part.
        let missing: f64 = found.iter().filter(|found| found.0.is_none()).map(|found| found.1).sum();
        let there = found.iter().filter(|found| found.0.is_some()).count() as f64;
        for (index, (at, part)) in found.into_iter().enumerate() {
            if self.form.is(Form::GATHERS) {
                // The neighbour in the same row stands for it.
                let at = at.or(found[index ^ 1].0);
                parts.push(Part { texel: at.and_then(texel), share: 1.0 });
            } else if let Some(at) = at {
                let part = (part + missing / there) / (256.0 * 256.0);
                if part > 0.0 {
                    parts.push(Part { texel: texel(at), share: share * part });
                }
            }
        }
    }

    /// The border's components as memory has them.
    fn border(&self, m: &mut Machine<'_>) -> Result<[u32; 4], Fault> {
        let Some(va) = self.border else { return Ok(self.image.border(self.sampler.border)) };
        let bits = m.global.load_bits(va, BORDER_BYTES)?;
        Ok(self.image.ordered([0, 32, 64, 96].map(|shift| (bits >> shift) as u32)))
    }

    /// The components of one texel, or the outcome of its comparison with a number.
    fn texel(
        &self,
        m: &mut Machine<'_>,
        texel: Option<Texel>,
        reference: Option<f64>,
    ) -> Result<[u32; 4], Fault> {
        let format = self.image.format;
        let memory = match texel {
            Some(Texel { va, inside }) => format.unpack(m.global.load_bits(va, format.bytes())?, inside),
            None => self.border(m)?,
        };
        Ok(match reference {
            None if texel.is_some() => self.image.components(memory),
            None => self.image.selected(memory),
            Some(reference) => {
                let number = format.number(memory[0]);
                let reference = if format.is_normal() { reference.clamp(0.0, 1.0) } else { reference };
                let passes = if self.sampler.compare(reference, number) { format.one() } else { 0 };
                self.image.selected([passes; 4])
            }
        })
    }

    /// The components that a lane gets.
    fn lane(&self, w: &Wave, m: &mut Machine<'_>, d: &Di, lane: u32) -> Result<[u32; 4], Fault> {
        let parts = self.parts(w, d, lane);
        let reference = self.form.is(Form::COMPARES).then(|| {
            let bits = address_word(w, d, self.addresses.reference, lane);
            f64::from(f32::from_bits(bits))
        });
        if self.form.is(Form::GATHERS) {
            let component =
                if reference.is_some() { 0 } else { components(d).next().unwrap_or(0) as usize & 3 };
            let mut all = [0; 4];
            for (value, part) in all.iter_mut().zip(&parts).rev() {
                *value = self.texel(m, part.texel, reference)?[component];
            }
            return Ok(all);
        }
        match parts.as_slice() {
            [] => Ok(self.image.components(self.image.format.unpack(0, 0))),
            [part] => self.texel(m, part.texel, reference),
            parts => {
                let format = self.image.format;
                let mut all: Option<[f64; 4]> = None;
                for part in parts.iter().rev() {
                    let numbers = self.texel(m, part.texel, reference)?.map(|bits| format.number(bits));
                    let old = all.unwrap_or(match self.sampler.reduction {
                        Reduction::Blend => [0.0; 4],
                        _ => numbers,
                    });
                    all = Some(core::array::from_fn(|n| match self.sampler.reduction {
                        Reduction::Blend => old[n] + numbers[n] * part.share,
                        Reduction::Least => old[n].min(numbers[n]),
                        Reduction::Most => old[n].max(numbers[n]),
                    }));
                }
                Ok(all.unwrap_or_default().map(|number| format.bits(number)))
            }
        }
    }
}

pub(super) fn sample(w: &mut Wave, m: &mut Machine<'_>, d: &Di) -> Flow {
    let (image, sampler) = match resources(w, d) {
        Ok(resources) => resources,
        Err(reason) => return refuse(m, reason),
    };
    let exec = active(w);
    let mut loaded = [[0; 4]; 64];
    if let Some(image) = &image
        && let Some(sampled) = Sampled::new(image, &sampler, (w, d))
    {
        for lane in highest_first(exec) {
            match sampled.lane(w, m, d, lane) {
                Ok(texel) => loaded[lane as usize & 63] = texel,
                Err(fault) => {
                    w.did_lanes_below(0);
                    let bytes = image.format.bytes() as u32;
                    return fail(m, (fault, exec, bytes), |lane, tell| {
                        sampled.places(w, d, lane, |va, _| tell(va));
                    });
                }
            }
        }
    }
    let format = image.as_ref().map(|image| image.format);
    let gathers = Form::of(d.dst2).is(Form::GATHERS);
    for lane in lanes(exec) {
        let texel = loaded[lane as usize & 63];
        if gathers {
            put(w, d, lane, format, texel.into_iter());
        } else {
            put(w, d, lane, format, components(d).map(|component| texel[component as usize & 3]));
        }
    }
    Flow::NEXT
}

/// The level that a sample would take, and the one before all limits.
pub(super) fn level(w: &mut Wave, m: &mut Machine<'_>, d: &Di) -> Flow {
    let (image, sampler) = match resources(w, d) {
        Ok(resources) => resources,
        Err(reason) => return refuse(m, reason),
    };
    let exec = active(w);
    let mut all = [[0; 4]; 64];
    if let Some(image) = &image
        && let Some(sampled) = Sampled::new(image, &sampler, (w, d))
    {
        for lane in lanes(exec) {
            let lookup = sampled.lookup(w, d, lane);
            let fetched = sampler.fetched(lookup.level, image.level_count());
            all[lane as usize & 63] = [fetched, lookup.asked, 0.0, 0.0].map(|level| (level as f32).to_bits());
        }
    }
    let format = ImageFormat::of(FLOAT);
    for lane in lanes(exec) {
        let values = all[lane as usize & 63];
        let values = components(d).map(|component| values[component as usize & 3]);
        put(w, d, lane, format, values);
    }
    Flow::NEXT
}

/// Tells the places of the texels that a sample is about to read.
pub(super) fn touched(w: &Wave, d: &Di, mut tell: impl FnMut(u32, u64, u32)) {
    let Ok((Some(image), sampler)) = resources(w, d) else { return };
    let Some(sampled) = Sampled::new(&image, &sampler, (w, d)) else { return };
    for lane in lanes(active(w)) {
        sampled.places(w, d, lane, |va, bytes| tell(lane, va, bytes));
    }
}
