//! Samples: texels at places of images, alone or blended with their neighbours, and the four neighbours themselves.

use super::descriptor::{Image, NotModelled, Shown};
use super::sampler::{Levels, Sampler};
use super::{components, coordinate, coordinates, fail, field, image, put, refuse};
use crate::exec::di::{Di, Flow, Machine};
use crate::exec::memory::flat::lanes;
use crate::exec::memory::mubuf::active;
use crate::lanes::words::highest_first;
use crate::mem::Fault;
use crate::registers::Images;
use crate::wave::Wave;

/// Coordinates are texels.
const UNNORMALIZED: u32 = 1 << 7;
/// Most texels that are blended: two along each axis, on two levels.
const MOST: usize = 16;

/// Texel that takes part in a sample: its address, `None` for the border, and its share.
#[derive(Clone, Copy, Debug)]
struct Part {
    va: Option<u64>,
    share: f64,
}

/// Texels that take part in a sample of one lane.
struct Parts {
    list: [Part; MOST],
    count: usize,
}

impl Parts {
    fn list(&self) -> &[Part] {
        &self.list[..self.count.min(MOST)]
    }

    fn add(&mut self, part: Part) {
        if let Some(place) = self.list.get_mut(self.count) {
            *place = part;
            self.count += 1;
        }
    }
}

/// The sampler of an instruction.
fn sampler(w: &Wave, d: &Di) -> Result<Sampler, NotModelled> {
    let word = |n: usize| w.s[(d.src[2].value as usize + n) & 255];
    let images = if d.dst2 & field::NEW != 0 { Images::Gfx12 } else { Images::Gfx11 };
    Sampler::new(images, [word(0), word(1), word(2), word(3)])
}

/// An address of a lane as a float.
fn float(w: &Wave, d: &Di, n: u32, lane: u32) -> f32 {
    let bits = coordinate(w, d, n, lane);
    f32::from_bits(if d.dst2 & field::A16 == 0 {
        bits
    } else {
        crate::exec::vector::float::half::to_single(bits as u16)
    })
}

/// An image, and the way in which an instruction samples it.
struct Sampled<'a> {
    image: &'a Image,
    sampler: &'a Sampler,
    /// Neighbours are not blended but told.
    gathers: bool,
}

impl Sampled<'_> {
    /// The texels of a lane. Four neighbours are in the order of their components: below left, below right, above right and
    /// above left.
    fn parts(&self, w: &Wave, d: &Di, lane: u32) -> Parts {
        let mut parts = Parts { list: [Part { va: None, share: 0.0 }; MOST], count: 0 };
        let Some((count, axes)) = coordinates(d.dst2 >> field::DIM & 7) else { return parts };
        let asked = (d.dst2 & field::LEVEL != 0).then(|| float(w, d, count, lane));
        let Levels { first, part, blends } = self.sampler.levels(asked, self.image.level_count());
        let at = axes.map(|axis| axis.map_or(0.0, |axis| float(w, d, axis, lane)));
        let normal = d.dst2 & UNNORMALIZED == 0;
        for (level, share) in [(first, 256 - part), (first + 1, part)] {
            if share != 0
                && let Some(shown) = self.image.level(level)
            {
                let share = f64::from(share) / 256.0;
                self.add(
                    &mut parts,
                    &shown,
                    (at, axes[1].is_some()),
                    share,
                    (normal, blends || self.gathers),
                );
            }
        }
        parts
    }

    fn add(
        &self,
        parts: &mut Parts,
        shown: &Shown,
        ([x, y, z], has_rows): ([f32; 3], bool),
        share: f64,
        how: (bool, bool),
    ) {
        let nothing = [(Some(0), 256), (None, 0)];
        let columns = self.sampler.texels(0, x, shown.size[0], how);
        let rows = if has_rows { self.sampler.texels(1, y, shown.size[1], how) } else { nothing };
        let slices = if self.image.is_volume() {
            self.sampler.texels(2, z, shown.size[2], how)
        } else {
            // The nearest layer that there is.
            let last = shown.size[2].saturating_sub(1);
            [(Some((z.round_ties_even().max(0.0) as u32).min(last)), 256), (None, 0)]
        };
        let address =
            |x: Option<u32>, y: Option<u32>, z: Option<u32>| self.image.address(shown, [x?, y?, z?]);
        if self.gathers {
            let ([(left, _), (right, _)], [(above, _), (below, _)]) = (columns, rows);
            for (x, y) in [(left, below), (right, below), (right, above), (left, above)] {
                parts.add(Part { va: address(x, y, slices[0].0), share: 1.0 });
            }
            return;
        }
        for (z, depth) in slices {
            for (y, height) in rows {
                for (x, width) in columns {
                    let texels = f64::from(width) * f64::from(height) * f64::from(depth);
                    if texels > 0.0 {
                        let share = share * texels / (256.0 * 256.0 * 256.0);
                        parts.add(Part { va: address(x, y, z), share });
                    }
                }
            }
        }
    }

    /// The components of one texel.
    fn texel(&self, m: &mut Machine<'_>, va: Option<u64>) -> Result<[u32; 4], Fault> {
        Ok(match va {
            Some(va) => self.image.components(m.global.load_bits(va, self.image.format.bytes())?),
            None => self.image.border(self.sampler.border),
        })
    }

    /// The components that a lane gets.
    fn lane(&self, w: &Wave, m: &mut Machine<'_>, d: &Di, lane: u32) -> Result<[u32; 4], Fault> {
        let parts = self.parts(w, d, lane);
        if self.gathers {
            let component = components(d).next().unwrap_or(0) as usize & 3;
            let mut all = [0; 4];
            for (value, part) in all.iter_mut().zip(parts.list()).rev() {
                *value = self.texel(m, part.va)?[component];
            }
            return Ok(all);
        }
        match parts.list() {
            [] => Ok(self.image.components(0)),
            [part] => self.texel(m, part.va),
            parts => {
                let mut sums = [0.0; 4];
                for part in parts.iter().rev() {
                    let texel = self.texel(m, part.va)?;
                    for (sum, value) in sums.iter_mut().zip(texel) {
                        *sum += self.image.format.number(value) * part.share;
                    }
                }
                Ok(sums.map(|sum| self.image.format.bits(sum)))
            }
        }
    }
}

fn run(w: &mut Wave, m: &mut Machine<'_>, d: &Di, gathers: bool) -> Flow {
    let (image, sampler) = match (image(w, d), sampler(w, d)) {
        (Ok(image), Ok(sampler)) => (image, sampler),
        (Err(reason), _) | (_, Err(reason)) => return refuse(m, reason),
    };
    let exec = active(w);
    let mut loaded = [[0; 4]; 64];
    if let Some(image) = &image {
        let sampled = Sampled { image, sampler: &sampler, gathers };
        for lane in highest_first(exec) {
            match sampled.lane(w, m, d, lane) {
                Ok(texel) => loaded[lane as usize & 63] = texel,
                Err(fault) => {
                    w.did_lanes_below(0);
                    let bytes = image.format.bytes() as u32;
                    return fail(m, (fault, exec, bytes), |lane, tell| {
                        sampled.parts(w, d, lane).list().iter().filter_map(|part| part.va).for_each(tell);
                    });
                }
            }
        }
    }
    let format = image.as_ref().map(|image| image.format);
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

pub(super) fn sample(w: &mut Wave, m: &mut Machine<'_>, d: &Di) -> Flow {
    run(w, m, d, false)
}

pub(super) fn gather(w: &mut Wave, m: &mut Machine<'_>, d: &Di) -> Flow {
    run(w, m, d, true)
}

/// Tells the places of the texels that a sample is about to read.
pub(super) fn touched(w: &Wave, d: &Di, gathers: bool, mut tell: impl FnMut(u32, u64, u32)) {
    let (Ok(Some(image)), Ok(sampler)) = (image(w, d), sampler(w, d)) else { return };
    let sampled = Sampled { image: &image, sampler: &sampler, gathers };
    let bytes = image.format.bytes() as u32;
    for lane in lanes(active(w)) {
        for va in sampled.parts(w, d, lane).list().iter().filter_map(|part| part.va) {
            tell(lane, va, bytes);
        }
    }
}
