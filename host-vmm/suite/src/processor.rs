//! The processor of the GPU that the suite runs on.

/// The GPU that the suite runs on, as its programs are compiled for it and its tools name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Processor {
    /// Name of the instruction set: `gfx` and major, minor and stepping, the last two as hexadecimal digits.
    pub name: &'static str,
    /// PCI device.
    pub device: u16,
    /// Lanes of the waves that compilers make for it unless told otherwise.
    pub wave: u32,
    /// Bytes of LDS that the workgroups of a work group processor share, or of a compute unit where there are none.
    pub lds: u32,
    /// True if it has instructions that read and write images.
    pub images: bool,
}

impl Processor {
    /// The one that sources and tools name.
    pub(crate) const WRITTEN: Self =
        Self { name: "gfx1100", device: 0x744c, wave: 32, lds: 128 << 10, images: true };

    /// `gfx_target_version`: major * 10000 + minor * 100 + stepping.
    pub(crate) fn target_version(self) -> Option<u32> {
        let digits = self.name.strip_prefix("gfx")?;
        let (major, rest) = digits.split_at_checked(digits.len().checked_sub(2)?)?;
        let rest = u32::from_str_radix(rest, 16).ok()?;
        Some(major.parse::<u32>().ok()? * 10_000 + (rest >> 4) * 100 + (rest & 0xf))
    }

    /// A text about the one that is written, as one about this one.
    pub(crate) fn instead(self, text: &str) -> String {
        let written = Self::WRITTEN;
        let mut text = text.replace(written.name, self.name);
        text = text.replace(&format!("{:#06x}", written.device), &format!("{:#06x}", self.device));
        match (written.target_version(), self.target_version()) {
            (Some(from), Some(to)) => text.replace(&from.to_string(), &to.to_string()),
            _ => text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_about_one_processor_become_those_about_another() {
        let navi48 = Processor { name: "gfx1201", device: 0x7550, ..Processor::WRITTEN };
        let text = navi48.instead("gfx1100 gfx_target_version 110000 0x744c gfx000");
        assert_eq!(text, "gfx1201 gfx_target_version 120001 0x7550 gfx000");
        let mi300 = Processor { name: "gfx942", device: 0x74a1, wave: 64, lds: 64 << 10, images: false };
        assert_eq!(mi300.target_version(), Some(90_402));
        assert_eq!(Processor { name: "gfx90a", ..mi300 }.target_version(), Some(90_010));
    }
}
