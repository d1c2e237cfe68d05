//! Image instructions. The compute device has none of them; they are printed so that a fault or listing shows what was met.

use std::fmt;
use std::fmt::Write as _;

use super::operand::register;
use super::{Out, Printer};
use crate::encoding::{Image, Name, OperandSpec};
use crate::inst::{Format, Operand};

/// Coordinates and gradients of each image dimension, by its number, and its name.
const DIMENSIONS: [(&str, u32, u32); 8] = [
    ("1D", 1, 2),
    ("2D", 2, 4),
    ("3D", 3, 6),
    ("CUBE", 3, 4),
    ("1D_ARRAY", 2, 2),
    ("2D_ARRAY", 3, 4),
    ("2D_MSAA", 3, 4),
    ("2D_MSAA_ARRAY", 4, 4),
];

/// Registers an image instruction names, which depend on its modifiers and not on the form alone.
struct Shape {
    data: u8,
    /// Address operands that are printed, and the registers of the widest of them, the first or last.
    addresses: usize,
    widest: u8,
}

impl Printer<'_> {
    /// Prints the operands of an image instruction, after the mnemonic.
    pub(super) fn image(&self, out: Out<'_, '_>) -> fmt::Result {
        let images = self.tables.images;
        let Ok(index) = images.binary_search_by_key(&self.inst.form, |image| image.form) else {
            return Ok(());
        };
        let image = &images[index];
        let shape = self.shape(image);
        let listed = self.has(Name::Vaddr1);
        // A list of one has no brackets.
        let single = listed && !image.is(Image::BVH) && shape.addresses == 1;
        let mut syntax = self.tables.syntax[usize::from(self.form.syntax)].0;
        while let Some(dollar) = syntax.find('$') {
            let (before, rest) = syntax.split_at(dollar);
            let end = rest[1..].find(|c: char| !c.is_ascii_alphanumeric()).map_or(rest.len(), |end| end + 1);
            let name = Name::parse(&rest[1..end]);
            syntax = &rest[end..];
            match name {
                // Separate addresses are printed as a list.
                Some(Name::Vaddr1 | Name::Vaddr2 | Name::Vaddr3 | Name::Vaddr4) => continue,
                Some(Name::Vaddr0) if single => out.write_str(before.trim_end_matches('['))?,
                _ if single => out.write_str(before.trim_start_matches(']'))?,
                _ => out.write_str(before)?,
            }
            match name {
                Some(Name::Vdata | Name::Vdst) => self.data(out, &shape)?,
                Some(Name::Vaddr0) if listed => self.addresses(out, image, &shape)?,
                Some(Name::Vaddr0) => register(out, self.file, self.inst.src[0], shape.widest)?,
                Some(name) => self.image_field(out, image, name)?,
                None => {}
            }
        }
        out.write_str(syntax)
    }

    /// Returns the number of registers that the data and the addresses have.
    fn shape(&self, image: &Image) -> Shape {
        // VIMAGE and VSAMPLE have their addresses apart, even if there is one.
        let nsa = self.has(Name::Vaddr1) || self.inst.format != Format::Mimg;
        let own = usize::from(image.addresses);
        let form = Shape { data: image.data, addresses: own, widest: if nsa { 1 } else { image.addresses } };
        if image.is(Image::BVH) {
            return form;
        }
        let imm = self.inst.imm;
        let (_, coordinates, gradients) = DIMENSIONS[(imm >> 4 & 7) as usize];
        let components =
            if image.is(Image::COORDINATES) { coordinates } else { 0 } + u32::from(image.is(Image::LOD));
        let a16 = imm >> 9 & 1 != 0;
        let mut addresses = u32::from(image.extra) + if a16 { components.div_ceil(2) } else { components };
        if image.is(Image::GRADIENTS) {
            // Half-width gradients are packed per direction.
            addresses += if image.is(Image::G16) { (gradients / 2).next_multiple_of(2) } else { gradients };
        }
        let partial = nsa && addresses as usize > own;
        if !nsa && addresses > 12 {
            addresses = 16;
        }
        let mut data = if image.is(Image::GATHER4) { 4 } else { (imm & 15).count_ones().max(1) };
        if imm >> 11 & 1 != 0 {
            data = data.div_ceil(2);
        }
        data += u32::from(self.inst.mem.tfe);
        let exists = image.data_sizes >> data & image.address_sizes >> addresses & 1 != 0;
        // LLVM's four-register form of these is declared with a tuple of five, and printed so.
        let mnemonic = self.inst.op.mnemonic();
        if data == 4 && mnemonic.starts_with("image_atomic_") && !mnemonic.ends_with("cmpswap") {
            data = 5;
        }
        let first = if self.inst.dst.is_some() { self.inst.dst } else { self.inst.src[3] };
        let fits = |first: Operand, count: u32| matches!(first, Operand::Vgpr(first) if u32::from(first) + count <= 256);
        let (widest, place) = match (nsa, partial) {
            (false, _) => (addresses, self.inst.src[0]),
            (true, true) => (addresses + 1 - u32::from(image.addresses), self.address(own - 1)),
            (true, false) => (1, self.inst.src[0]),
        };
        // Of VIMAGE and VSAMPLE only the fourth address can be more than a register.
        let narrow = partial && self.inst.format != Format::Mimg && own < 4;
        if !exists || narrow || !fits(first, data) || !fits(place, widest) {
            return form;
        }
        let small = |value: u32| u8::try_from(value).unwrap_or(u8::MAX);
        let printed = if nsa { (addresses as usize).min(own) } else { 1 };
        Shape { data: small(data), addresses: printed, widest: small(widest) }
    }

    /// Address operand `index` of an instruction that has them apart.
    fn address(&self, index: usize) -> Operand {
        match index {
            0 => self.inst.src[0],
            _ => Operand::Vgpr(self.inst.mem.offset.to_le_bytes()[(index - 1) & 3]),
        }
    }

    fn data(&self, out: Out<'_, '_>, shape: &Shape) -> fmt::Result {
        let first = if self.inst.dst.is_some() { self.inst.dst } else { self.inst.src[3] };
        register(out, self.file, first, shape.data)
    }

    /// The list of addresses, without its brackets.
    fn addresses(&self, out: Out<'_, '_>, image: &Image, shape: &Shape) -> fmt::Result {
        let list = [Name::Vaddr0, Name::Vaddr1, Name::Vaddr2, Name::Vaddr3, Name::Vaddr4];
        let specs = || list.iter().filter_map(|name| self.spec(*name));
        let count = if image.is(Image::BVH) { specs().count() } else { shape.addresses };
        for (index, spec) in specs().take(count).enumerate() {
            if index != 0 {
                out.write_str(", ")?;
            }
            let width = if image.is(Image::BVH) {
                self.width(spec)
            } else if index + 1 == count {
                shape.widest
            } else {
                1
            };
            register(out, self.file, self.address(index), width)?;
        }
        Ok(())
    }

    fn width(&self, spec: OperandSpec) -> u8 {
        self.tables.kind(spec).width
    }

    fn image_field(&self, out: Out<'_, '_>, image: &Image, name: Name) -> fmt::Result {
        let imm = self.inst.imm;
        let bit = |position: u32| imm >> position & 1 != 0;
        let set = match name {
            Name::Dmask if imm & 15 != 0 => return write!(out, " dmask:{:#x}", imm & 15),
            Name::Dmask => return Ok(()),
            Name::Dim => return write!(out, " dim:SQ_RSRC_IMG_{}", DIMENSIONS[(imm >> 4 & 7) as usize].0),
            Name::Unorm => bit(7),
            Name::R128 => bit(8),
            Name::A16 if image.is(Image::BVH) => image.is(Image::A16),
            Name::A16 => bit(9),
            Name::Lwe => bit(10),
            Name::D16 => bit(11),
            Name::Tfe => self.inst.mem.tfe,
            _ => return self.named(out, name),
        };
        if set {
            out.write_char(' ')?;
            out.write_str(name.text())?;
        }
        Ok(())
    }
}
