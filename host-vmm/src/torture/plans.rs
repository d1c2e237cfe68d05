//! The plans that a program is run under: every rule alone at its first moments, then pairs of rules, then chaos.

use std::collections::BTreeMap;

use belfry_device::faults::{Chaos, Hook, Plan, Planned, Rule, When};
use belfry_device::split_mix::SplitMix;

/// Rates of chaos, in millionths, from few faults to many.
const RATES: [u32; 4] = [1000, 5000, 20_000, 100_000];
/// Largest part of all plans that single rules may take.
const SINGLES: (u64, u64) = (3, 5);

/// Number of moments of a rule, while the driver loads, that are tried alone.
const WHILE_LOADING: u64 = 40;

/// The plans of one run, by number.
#[derive(Debug)]
pub(super) struct Plans {
    /// Rules alone, with the number of the moment.
    singles: Vec<(Rule, u64)>,
    /// Rules that have moments, each with their number while the driver loads, and in all.
    rules: Vec<(Rule, u64, u64)>,
    /// Number of plans that are pairs.
    pairs: u64,
    seed: u64,
}

impl Plans {
    /// Makes the plans of a program. `loading` and `met` count the moments of each hook in the run without faults:
    /// those while the driver loaded, and all.
    pub(super) fn new(
        (loading, met): (&BTreeMap<Hook, u64>, &BTreeMap<Hook, u64>),
        seed: u64,
        plans: u64,
    ) -> Self {
        let of = |counts: &BTreeMap<Hook, u64>, rule: Rule| counts.get(&rule.hook()).copied().unwrap_or(0);
        let all = Rule::ALL.iter().map(|&rule| (rule, of(loading, rule), of(met, rule)));
        let rules: Vec<_> = all.filter(|(_, _, count)| *count != 0).collect();
        let most = plans * SINGLES.0 / SINGLES.1;
        let mut singles = Vec::new();
        // The first moment of every rule in the program and while the driver loads, then the second ones, and so on.
        for number in 1.. {
            let before = singles.len();
            for &(rule, loading, all) in &rules {
                singles.extend(Some((rule, loading + number)).filter(|(_, at)| *at <= all));
                singles.extend(Some((rule, number)).filter(|(_, at)| *at <= loading.min(WHILE_LOADING)));
            }
            if singles.len() == before || singles.len() as u64 >= most {
                break;
            }
        }
        singles.truncate(usize::try_from(most).unwrap_or(usize::MAX).max(1));
        let pairs = plans.saturating_sub(singles.len() as u64) / 2;
        Self { singles, rules, pairs, seed }
    }

    /// Returns the plan of this number.
    pub(super) fn plan(&self, number: u64) -> Plan {
        let mut plan = Plan::default();
        if let Some(&(rule, moment)) = usize::try_from(number).ok().and_then(|at| self.singles.get(at)) {
            let _ = plan.add(Planned { rule, when: When::nth(moment) });
            return plan;
        }
        let number = number - self.singles.len() as u64;
        let mut numbers = SplitMix(self.seed ^ number.wrapping_mul(0xd134_2543_de82_ef95));
        if number < self.pairs && !self.rules.is_empty() {
            for _ in 0..2 {
                let (rule, loading, all) = self.rules[numbers.below(self.rules.len() as u64) as usize];
                // Seven of eight moments are in the program, one in the loading. Early moments are more likely than
                // late ones: more follows them.
                let from = if numbers.below(8) == 0 || loading == all { 0 } else { loading };
                let most = 1 + numbers.below(all - from);
                let _ = plan.add(Planned { rule, when: When::nth(from + 1 + numbers.below(most)) });
            }
            return plan;
        }
        let rate = RATES[numbers.below(RATES.len() as u64) as usize];
        let _ = plan.set_chaos(Chaos { seed: numbers.below(1 << 32), rate });
        plan
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_are_singles_then_pairs_then_chaos_and_the_same_each_time() {
        let met = BTreeMap::from([(Hook::Doorbell, 3), (Hook::Signal, 1), (Hook::Walk, 0)]);
        let loading = BTreeMap::from([(Hook::Doorbell, 1)]);
        let plans = Plans::new((&loading, &met), 7, 100);
        let texts: Vec<String> = (0..100).map(|number| plans.plan(number).to_string()).collect();
        let singles =
            ["doorbell-lost@2", "doorbell-lost@1", "doorbell-late@2", "doorbell-late@1", "signal-late@1"];
        assert_eq!(texts[..5], singles);
        assert_eq!(texts[7].matches('@').count(), 2, "{}", texts[7]);
        assert!(texts[99].starts_with("chaos:"));
        assert!(texts.iter().all(|text| !text.contains("walk") && !text.contains("removal")));
        let again = Plans::new((&loading, &met), 7, 100);
        assert!((0..100).all(|number| again.plan(number).to_string() == texts[number as usize]));
        assert_ne!(Plans::new((&loading, &met), 8, 100).plan(99).to_string(), texts[99]);
    }

    #[test]
    fn few_plans_are_the_first_singles() {
        let plans = Plans::new((&BTreeMap::new(), &BTreeMap::from([(Hook::Frame, 9)])), 1, 4);
        assert_eq!(plans.plan(0).to_string(), "frame-unanswered@1");
        assert!(plans.plan(3).rules().len() != 1);
    }
}
