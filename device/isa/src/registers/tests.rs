//! Numbers of registers, of gfx11 and of another architecture.

use super::RegisterFile;
use super::*;

/// Numbers of gfx9: no `NULL`, `M0` at 124, fewer scalar registers.
static OTHER: RegisterFile =
    RegisterFile { sgprs: 102, null: None, m0: 124, hardware: &[(4, HardwareRegister::HwId1)], ..GFX11 };

#[test]
fn registers_of_gfx11_are_kept_under_their_numbers() {
    let file = RegisterFile::of(Arch::Gfx1100);
    for number in 0..=255 {
        let expected = (number < 128 && number != 124).then_some(usize::from(number));
        assert_eq!(file.slot(number), expected, "{number}");
    }
    assert_eq!(file.slots(122, 2), Some(122));
    assert_eq!((file.slots(122, 4), file.slots(127, 2)), (None, None), "beyond NULL, and beyond EXEC");
}

#[test]
fn registers_of_another_architecture_are_kept_in_the_same_places() {
    assert_eq!(OTHER.slot(124), Some(slot::M0));
    assert_eq!((OTHER.slot(125), OTHER.slot(102)), (None, None));
    assert_eq!((OTHER.slot(126), OTHER.slot(108)), (Some(slot::EXEC), Some(slot::TTMP0)));
    assert_eq!(OTHER.slots(100, 4), None, "s[100:103] are not all there");
    let name = |number, width| OTHER.name(number, width).to_string();
    assert_eq!([name(124, 1), name(100, 2), name(126, 2)], ["m0", "s[100:101]", "exec"]);
    assert_eq!([name(106, 1), name(107, 1), name(110, 4)], ["vcc_lo", "vcc_hi", "ttmp[2:5]"]);
    assert_eq!((OTHER.bank(101), OTHER.bank(102), OTHER.bank(123)), (Some(0..102), None, Some(108..124)));
    assert_eq!([102, 124, 125, 127].map(|number| OTHER.names(number)), [false, true, false, true]);
    assert_eq!([106, 107, 124, 126].map(|number| OTHER.begins_any_width(number)), [true, false, false, true]);
    assert_eq!(OTHER.hardware(4), Some(HardwareRegister::HwId1));
    assert_eq!((OTHER.hardware(23), GFX11.hardware(4)), (None, None));
}
