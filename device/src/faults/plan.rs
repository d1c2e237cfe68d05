//! Plans, and their text.

use std::fmt;
use std::str::FromStr;

use super::when::{When, shorten};
use super::{Chaos, Rule};

/// Most rules of a plan.
const MAX_RULES: usize = 64;
/// Most bytes of the text of a plan.
const MAX_TEXT: usize = 16 << 10;

/// Reasons why a text is no plan.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// An unknown rule.
    #[error("{0:?} is no fault; there are {names}", names = names())]
    Rule(String),
    /// A condition that no rule has, or that this one does not have.
    #[error(
        "{part:?} of {rule} is not N, every:N, after:DURATION (as 5ms), queue:DOORBELL, process:PASID, kernel:NAME, \
         address:FROM..TO or, of what is late and of clock-jump, for:DURATION"
    )]
    When {
        /// The rule.
        rule: &'static str,
        /// The condition.
        part: String,
    },
    /// Two conditions of one kind.
    #[error("{part:?} of {rule} says again what an earlier condition has said")]
    Twice {
        /// The rule.
        rule: &'static str,
        /// The second one.
        part: String,
    },
    /// Not a seed and a rate.
    #[error("{0:?} is not SEED or SEED:RATE, with a rate above 0 and at most 1, of six decimals")]
    Chaos(String),
    /// A second chaos.
    #[error("a plan has one chaos")]
    SecondChaos,
    /// Too many rules.
    #[error("a plan has {MAX_RULES} rules at most")]
    TooMany,
    /// Too long a text.
    #[error("the text of a plan has {MAX_TEXT} bytes at most, and this one has {0}")]
    TooLong(usize),
}

fn names() -> String {
    Rule::ALL.iter().map(|rule| rule.name()).collect::<Vec<_>>().join(", ")
}

/// A rule and its moments: `RULE@WHEN`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Planned {
    /// Fault that strikes.
    pub rule: Rule,
    /// Moments at which it strikes.
    pub when: When,
}

impl FromStr for Planned {
    type Err = PlanError;

    /// Reads `RULE`, which strikes at the first moment, or `RULE@WHEN`.
    fn from_str(text: &str) -> Result<Self, PlanError> {
        if text.len() > MAX_TEXT {
            return Err(PlanError::TooLong(text.len()));
        }
        let (name, when) = text.split_once('@').map_or((text, None), |(name, when)| (name, Some(when)));
        let rule = Rule::named(name).ok_or_else(|| PlanError::Rule(shorten(name)))?;
        let when = when.map_or_else(|| Ok(When::default()), |when| When::parse(when, rule))?;
        Ok(Self { rule, when })
    }
}

impl fmt::Display for Planned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.rule.name(), self.when)
    }
}

/// Faults and the moments at which they strike. The text has semicolons between rules:
/// `RULE@WHEN;RULE@WHEN;chaos:SEED:RATE`.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Plan {
    rules: Vec<Planned>,
    chaos: Option<Chaos>,
    /// True if the device counts its moments though nothing fails.
    counts: bool,
}

impl Plan {
    /// A plan without faults, by which the device counts the moments at which a fault could strike.
    #[must_use]
    pub const fn counting() -> Self {
        Self { rules: Vec::new(), chaos: None, counts: true }
    }

    /// Adds a rule.
    ///
    /// # Errors
    ///
    /// [`PlanError::TooMany`].
    pub fn add(&mut self, planned: Planned) -> Result<(), PlanError> {
        if self.rules.len() >= MAX_RULES {
            return Err(PlanError::TooMany);
        }
        self.rules.push(planned);
        Ok(())
    }

    /// Adds chaos.
    ///
    /// # Errors
    ///
    /// [`PlanError::SecondChaos`].
    pub fn set_chaos(&mut self, chaos: Chaos) -> Result<(), PlanError> {
        match self.chaos.replace(chaos) {
            None => Ok(()),
            Some(_) => Err(PlanError::SecondChaos),
        }
    }

    /// Rules of the plan.
    #[must_use]
    pub fn rules(&self) -> &[Planned] {
        &self.rules
    }

    /// Chaos of the plan.
    #[must_use]
    pub const fn chaos(&self) -> Option<Chaos> {
        self.chaos
    }

    /// Returns true if a device has nothing to do for this plan.
    #[must_use]
    pub fn is_off(&self) -> bool {
        self.rules.is_empty() && self.chaos.is_none() && !self.counts
    }
}

impl FromStr for Plan {
    type Err = PlanError;

    /// Reads rules and chaos with semicolons between them; an empty text is the plan without faults.
    fn from_str(text: &str) -> Result<Self, PlanError> {
        if text.len() > MAX_TEXT {
            return Err(PlanError::TooLong(text.len()));
        }
        let mut plan = Self::default();
        for part in text.split(';').filter(|_| !text.is_empty()) {
            match part.strip_prefix("chaos:") {
                Some(chaos) => plan.set_chaos(chaos.parse()?)?,
                None => plan.add(part.parse()?)?,
            }
        }
        Ok(plan)
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut between = "";
        for planned in &self.rules {
            write!(f, "{between}{planned}")?;
            between = ";";
        }
        match self.chaos {
            Some(chaos) => write!(f, "{between}chaos:{chaos}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::Often;
    use super::*;

    /// A sequence of numbers that is equal in each run.
    struct Numbers(u64);

    impl Numbers {
        fn next(&mut self, below: u64) -> u64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) % below
        }

        fn when(&mut self, rule: Rule) -> When {
            let mut some = |most: u64| (self.next(2) == 0).then(|| self.next(most));
            let name = some(5).map(|length| "kernel_name.kd"[..length as usize + 1].to_owned());
            When {
                after: some(1 << 40).map(Duration::from_nanos),
                queue: some(1 << 31).map(|at| at as u32),
                process: some(1 << 15).map(|at| at as u32),
                kernel: name,
                address: some(1 << 31).map(|at| (at, at + 1)),
                length: some(5000).filter(|_| rule.is_late()).map(Duration::from_millis),
                often: if self.next(2) == 0 {
                    Often::Once(1 + self.next(99))
                } else {
                    Often::Every(1 + self.next(99))
                },
            }
        }
    }

    #[test]
    fn plans_come_back_as_they_are_shown() {
        let mut numbers = Numbers(1);
        for _ in 0..2000 {
            let mut plan = Plan::default();
            for _ in 0..numbers.next(5) {
                let rule = Rule::ALL[numbers.next(Rule::ALL.len() as u64) as usize];
                let when = numbers.when(rule);
                plan.add(Planned { rule, when }).expect("few");
            }
            if numbers.next(3) == 0 {
                let chaos = Chaos { seed: numbers.next(1 << 31), rate: 1 + numbers.next(1_000_000) as u32 };
                plan.set_chaos(chaos).expect("the first one");
            }
            let text = plan.to_string();
            assert_eq!(text.parse(), Ok(plan), "{text}");
        }
    }

    #[test]
    fn conditions_are_read_in_any_order_and_in_both_bases() {
        let planned: Planned =
            "walk-fails@address:0x1000..8192,process:0x8001,every:3,after:2ms".parse().expect("well formed");
        assert_eq!(planned.to_string(), "walk-fails@every:3,after:2ms,process:0x8001,address:0x1000..0x2000");
        assert_eq!("removal".parse::<Planned>().expect("well formed").when, When::nth(1));
    }

    #[test]
    fn what_is_no_plan_is_refused_with_what_there_is() {
        let error = |text: &str| text.parse::<Plan>().expect_err(text).to_string();
        assert!(
            error("doorbell-lots@1").contains("\"doorbell-lots\" is no fault; there are doorbell-lost, ")
        );
        assert!(error("doorbell-lost@0").contains("\"0\" of doorbell-lost is not N, every:N"));
        assert!(error("doorbell-lost@1,every:2").contains("says again"));
        assert!(error("doorbell-lost@for:5ms").contains("of what is late"));
        assert!(error("doorbell-late@for:5").contains("for:5"));
        assert_eq!(error("chaos:1;chaos:2"), "a plan has one chaos");
        assert_eq!(error(&vec!["removal"; 65].join(";")), "a plan has 64 rules at most");
        assert!(error(&"x".repeat(MAX_TEXT + 1)).contains("at most, and this one has 16385"));
        assert!(error(&"x".repeat(MAX_TEXT)).len() < 800, "an error does not repeat what is long");
    }

    #[test]
    fn no_text_panics_and_what_is_read_comes_back() {
        let pieces = [
            "doorbell-lost",
            "walk-fails",
            "frame-late",
            "chaos:",
            "@",
            ",",
            ";",
            ":",
            "..",
            "every:",
            "after:",
            "for:",
            "queue:",
            "process:",
            "kernel:",
            "address:",
            "0x",
            "1",
            "0",
            "18446744073709551615",
            "99999999999999999999",
            "ms",
            "s",
            "-",
            " ",
            "\0",
            "\u{e9}",
            "k",
            "0.5",
        ];
        let mut numbers = Numbers(2);
        let mut read = 0;
        for _ in 0..50_000 {
            let length = numbers.next(8);
            let text: String =
                (0..length).map(|_| pieces[numbers.next(pieces.len() as u64) as usize]).collect();
            if let Ok(plan) = text.parse::<Plan>() {
                read += 1;
                assert_eq!(plan.to_string().parse(), Ok(plan), "{text:?}");
            }
        }
        assert!(read > 100, "{read}");
    }
}
