//! Faults by chance, decided by a seed.

use std::fmt;
use std::str::FromStr;

use super::when::shorten;
use super::{PlanError, Rule};
use crate::split_mix::mix;

/// Parts of a rate: a rate has six decimals.
const ONE: u32 = 1_000_000;
/// One strike in a thousand moments.
const USUAL: u32 = 1000;

/// Every rule may strike at every moment of its hook, with this chance. Only the seed, the rule and the
/// moment's number decide.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Chaos {
    /// The seed.
    pub seed: u64,
    /// The chance of a strike, in millionths.
    pub rate: u32,
}

impl Chaos {
    /// The usual rate.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { seed, rate: USUAL }
    }

    /// Returns true if a rule strikes at the moment with this number.
    pub(super) fn strikes(self, rule: Rule, number: u64) -> bool {
        let Some(rarity) = rule.rarity() else { return false };
        let name = rule.name().bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
        });
        let chosen = mix(mix(self.seed ^ name).wrapping_add(number));
        chosen % (u64::from(ONE) << rarity) < u64::from(self.rate)
    }
}

impl FromStr for Chaos {
    type Err = PlanError;

    /// Reads `SEED` or `SEED:RATE`, with a rate like `0.01`.
    fn from_str(text: &str) -> Result<Self, PlanError> {
        let bad = || PlanError::Chaos(shorten(text));
        let (seed, rate) = text.split_once(':').map_or((text, None), |(seed, rate)| (seed, Some(rate)));
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let seed =
            Some(seed).filter(|seed| digits(seed)).and_then(|seed| seed.parse().ok()).ok_or_else(bad)?;
        let Some(rate) = rate else { return Ok(Self::new(seed)) };
        let (whole, part) = rate.split_once('.').unwrap_or((rate, "0"));
        if !digits(whole) || !digits(part) || part.len() > 6 {
            return Err(bad());
        }
        let whole: u32 = whole.parse().map_err(|_| bad())?;
        let part: u32 = format!("{part:0<6}").parse().map_err(|_| bad())?;
        let rate = whole.checked_mul(ONE).and_then(|whole| whole.checked_add(part)).ok_or_else(bad)?;
        if !(1..=ONE).contains(&rate) {
            return Err(bad());
        }
        Ok(Self { seed, rate })
    }
}

impl fmt::Display for Chaos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = format!("{:06}", self.rate % ONE);
        let part = part.trim_end_matches('0');
        write!(f, "{}:{}", self.seed, self.rate / ONE)?;
        if part.is_empty() { Ok(()) } else { write!(f, ".{part}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chance_is_a_function_of_seed_rule_and_number() {
        let strikes = |chaos: Chaos, rule| {
            (1..10_000).filter(move |number| chaos.strikes(rule, *number)).collect::<Vec<u64>>()
        };
        let chaos = Chaos { seed: 7, rate: 20_000 };
        let struck = strikes(chaos, Rule::FrameLate);
        assert_eq!(struck, strikes(chaos, Rule::FrameLate));
        // About two in a hundred strike, and not all at the same numbers.
        assert!((100..400).contains(&struck.len()), "{}", struck.len());
        assert_ne!(struck, strikes(chaos, Rule::SignalLate));
        assert_ne!(struck, strikes(Chaos { seed: 8, ..chaos }, Rule::FrameLate));
        assert!(strikes(Chaos { seed: 1, rate: ONE }, Rule::Removal).is_empty());
        assert_eq!(strikes(Chaos { seed: 1, rate: ONE }, Rule::QueueHang).len(), 9999);
    }

    #[test]
    fn chaos_comes_back_as_it_is_shown() {
        for (text, seed, rate) in
            [("3:0.001", 3, 1000), ("0:1", 0, ONE), ("9:0.000001", 9, 1), ("9:0.25", 9, 250_000)]
        {
            let chaos: Chaos = text.parse().expect("well formed");
            assert_eq!((chaos, chaos.to_string().as_str()), (Chaos { seed, rate }, text));
        }
        assert_eq!("12".parse(), Ok(Chaos { seed: 12, rate: USUAL }));
        for text in [
            "",
            ":",
            "x",
            "1:",
            "1:0",
            "1:2",
            "1:0.0000001",
            "1:-1",
            "+1",
            "1:1e-3",
            "1:.5",
            "99999999999999999999",
        ] {
            assert!(text.parse::<Chaos>().is_err(), "{text}");
        }
    }
}
