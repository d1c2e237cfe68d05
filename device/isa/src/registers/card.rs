//! Cards that have dot products of their own.

/// Card whose sums are calculated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Card {
    /// Negative numbers are ones' complements in the frame of the third source's sign, and singles have no denormals.
    Gfx11,
    /// Products are added in pairs first, and digits that are cut off round down; denormals are kept.
    Gfx12,
}

impl Card {
    /// A number for it in elements, or for none.
    pub(crate) const fn number(card: Option<Card>) -> u8 {
        match card {
            None => 0,
            Some(Card::Gfx11) => 1,
            Some(Card::Gfx12) => 2,
        }
    }

    pub(crate) const fn of_number(number: u8) -> Option<Card> {
        match number {
            1 => Some(Card::Gfx11),
            2 => Some(Card::Gfx12),
            _ => None,
        }
    }
}
