//! Decoding of addresses: the function and BAR that answer.

use std::collections::BTreeMap;
use std::sync::Arc;

use belfry_pci::{BarLayout, COMMAND};

use crate::bar::Bar;
use crate::function::Function;

const COMMAND_MEMORY: u8 = 1 << 1;
/// Bytes of configuration space that decide on decoding.
const HEADER: usize = 64;

/// Addresses that a host bridge passes on to its bus, first and last: those below 4 GiB, and those above.
#[derive(Clone, Copy, Debug)]
pub struct Apertures(pub [(u64, u64); 2]);

impl Apertures {
    fn holds(&self, base: u64, size: u64) -> bool {
        base.checked_add(size - 1)
            .is_some_and(|last| self.0.iter().any(|&(from, to)| from <= base && last <= to))
    }
}

/// Returns the BARs that decode, for each device number.
///
/// A BAR outside of the apertures gets no accesses. If two overlap, the BAR of the lower device number decodes, and
/// within a function the BAR of the lower number; the other one gets no accesses at all.
pub(super) fn decode(
    functions: &BTreeMap<u8, Arc<dyn Function>>,
    apertures: Apertures,
) -> BTreeMap<u8, Vec<Bar>> {
    let mut decoded: BTreeMap<u8, Vec<Bar>> = BTreeMap::new();
    for (&device, function) in functions {
        let mut header = [0; HEADER];
        function.config_read(0, &mut header);
        let mut bars: Vec<Bar> = Vec::new();
        for layout in function.bars() {
            if header[COMMAND] & COMMAND_MEMORY == 0 {
                break;
            }
            let BarLayout { number, size, .. } = *layout;
            // An expansion ROM that is off answers nowhere.
            let Some(base) = layout.base(&header) else { continue };
            let bar = Bar { number, base, size };
            let taken = |bars: &[Bar]| bars.iter().any(|other| bar.overlaps(other));
            if !apertures.holds(bar.base, size) {
                log::debug!(
                    target: "kvm",
                    "BAR {number} of device {device} at {:#x} is outside of what the host bridge passes on",
                    bar.base
                );
            } else if taken(&bars) || decoded.values().any(|bars| taken(bars)) {
                log::debug!(
                    target: "kvm",
                    "BAR {number} of device {device} at {:#x} overlaps another BAR and does not decode",
                    bar.base
                );
            } else {
                bars.push(bar);
            }
        }
        decoded.insert(device, bars);
    }
    decoded
}

#[cfg(test)]
mod tests {
    use belfry_pci::{BARS, ROM};

    use super::*;

    const VRAM: u64 = 64 << 20;
    const APERTURES: Apertures = Apertures([(0xc000_0000, 0xdfff_ffff), (0x8_0000_0000, 0xff_ffff_ffff)]);
    const LAYOUT: [BarLayout; 4] = [
        BarLayout { number: 0, size: VRAM, wide: true },
        BarLayout { number: 2, size: 2 << 20, wide: true },
        BarLayout { number: 5, size: 1 << 20, wide: false },
        BarLayout::rom(128 << 10),
    ];

    #[derive(Debug)]
    struct Header([u8; HEADER]);

    impl Header {
        fn new(command: u8, words: [u32; 6]) -> Self {
            let mut header = [0; HEADER];
            header[COMMAND] = command;
            for (at, word) in words.into_iter().enumerate() {
                header[BARS + at * 4..][..4].copy_from_slice(&word.to_le_bytes());
            }
            Self(header)
        }
    }

    impl Function for Header {
        fn config_read(&self, offset: usize, data: &mut [u8]) {
            data.copy_from_slice(&self.0[offset..offset + data.len()]);
        }
        fn config_write(&self, _: usize, _: &[u8]) {}
        fn bars(&self) -> &[BarLayout] {
            &LAYOUT
        }
        fn place(&self, _: &[Bar]) {}
        fn read(&self, _: u8, _: u64, _: &mut [u8]) {}
        fn write(&self, _: u8, _: u64, _: &[u8]) {}
    }

    fn decoded<const N: usize>(headers: [Header; N]) -> Vec<Vec<(u8, u64)>> {
        let functions = (1..).zip(headers.map(|header| Arc::new(header) as Arc<dyn Function>)).collect();
        decode(&functions, APERTURES)
            .into_values()
            .map(|bars| bars.into_iter().map(|bar| (bar.number, bar.base)).collect())
            .collect()
    }

    #[test]
    fn bars_decode_where_they_are_put() {
        let words = [0xc, 0x8, 0xc000_000c, 0, 0, 0xc020_0000];
        assert_eq!(decoded([Header::new(0, words)]), [[]]);
        let expected = [[(0, 0x8_0000_0000), (2, 0xc000_0000), (5, 0xc020_0000)]];
        assert_eq!(decoded([Header::new(2, words)]), expected);
    }

    #[test]
    fn expansion_rom_decodes_while_it_is_enabled() {
        let words = [0xc, 0x8, 0xc000_000c, 0, 0, 0xc020_0000];
        let with_rom = |command: u8, rom: u32| {
            let mut header = Header::new(command, words);
            header.0[0x30..0x34].copy_from_slice(&rom.to_le_bytes());
            decoded([header]).concat()
        };
        let bars = [(0, 0x8_0000_0000), (2, 0xc000_0000), (5, 0xc020_0000)];
        assert_eq!(with_rom(2, 0xc040_0000), bars);
        assert_eq!(with_rom(2, 0xc040_0001), [&bars[..], &[(ROM, 0xc040_0000)]].concat());
        assert_eq!(with_rom(0, 0xc040_0001), []);
        assert_eq!(with_rom(2, 0xc020_0001), bars, "over BAR 5");
    }

    #[test]
    fn absurd_bars_do_not_decode() {
        type Case = (&'static str, [u32; 6], &'static [(u8, u64)]);
        let cases: [Case; 7] = [
            ("unassigned", [0xc, 0, 0xc, 0, 0, 0], &[]),
            ("being sized", [!0xf | 0xc, !0, !0xf | 0xc, !0, 0, !0xf], &[]),
            ("over RAM", [0x10_000c, 0, 0xc, 0, 0, 0x1000], &[]),
            ("over the interrupt controllers", [0xc, 0, 0xc, 0, 0, 0xfee0_0000], &[]),
            ("half outside", [0xde00_000c, 0, 0xc, 0, 0, 0xdff0_0000], &[(5, 0xdff0_0000)]),
            (
                "over each other",
                [0xc000_000c, 0, 0xc100_000c, 0, 0, 0xd000_0000],
                &[(0, 0xc000_0000), (5, 0xd000_0000)],
            ),
            ("at the end of all addresses", [0xfc00_000c, !0, 0xc, 0, 0, 0], &[]),
        ];
        for (what, words, expected) in cases {
            assert_eq!(decoded([Header::new(2, words)]), [expected.to_vec()], "{what}");
        }
    }

    #[test]
    fn of_bars_of_two_functions_over_each_other_the_lower_device_decodes() {
        let first = [0xc, 0x8, 0xc000_000c, 0, 0, 0xc020_0000];
        // BAR 0 inside the other's BAR 0, BAR 2 over its BARs 2 and 5, BAR 5 free.
        let second = [0x40_000c, 0x8, 0xc010_000c, 0, 0, 0xd000_0000];
        let expected = [vec![(0, 0x8_0000_0000), (2, 0xc000_0000), (5, 0xc020_0000)], vec![(5, 0xd000_0000)]];
        assert_eq!(decoded([Header::new(2, first), Header::new(2, second)]), expected);
        // A function that does not decode takes nothing from others.
        let alone = decoded([Header::new(0, first), Header::new(2, second)]);
        assert_eq!(alone, [vec![], vec![(0, 0x8_0040_0000), (2, 0xc010_0000), (5, 0xd000_0000)]]);
    }
}
