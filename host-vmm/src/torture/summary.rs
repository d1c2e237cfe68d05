//! The summary of all plans.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use belfry_device::faults::Plan;
use serde::Serialize;

use super::verdict::{Ending, Verdict};
use crate::trial::{Finding, without_numbers};

/// Findings of one signature.
#[derive(Clone, Debug, Serialize)]
pub struct Found {
    /// The first finding.
    pub finding: Finding,
    /// Number of plans that have shown it.
    pub count: u64,
    /// The first plan that has shown it.
    pub plan: String,
    /// Faults that struck under that plan.
    #[serde(skip)]
    pub(super) strikes: Vec<String>,
    /// The smallest plan that shows it; `None` if it has not shown again.
    pub smallest: Option<String>,
}

/// Results of a program under all plans.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Summary {
    /// The program and its arguments.
    pub program: Vec<String>,
    /// Place in which it ran, as `--mode` names it.
    pub mode: &'static str,
    /// Number of plans.
    pub plans: u64,
    /// Plans without a strike: their moments did not come.
    pub idle: u64,
    /// Faults that have struck.
    pub struck: u64,
    /// Plans under which the program ended well.
    pub well: u64,
    /// Plans after which the device worked only with a driver that was loaded again, as the first driver had given it
    /// up.
    pub reloaded: u64,
    /// Plans in guests that had gone on from a snapshot.
    pub resumed: u64,
    /// Plans under which the program ended with an error, by the error's text.
    pub errors: BTreeMap<String, u64>,
    /// Findings, by signature.
    pub found: Vec<Found>,
    /// Moments of each hook in the run without faults.
    pub met: BTreeMap<String, u64>,
    /// Length of the torture.
    #[serde(skip)]
    pub took: Duration,
}

impl Summary {
    /// Adds the verdict on a plan.
    pub(super) fn add(&mut self, plan: &Plan, verdict: &Verdict) {
        self.plans += 1;
        self.struck += verdict.struck;
        self.reloaded += u64::from(verdict.reloaded);
        self.resumed += u64::from(verdict.resumed);
        self.idle +=
            u64::from(verdict.struck == 0 && verdict.findings.is_empty() && verdict.ending == Ending::Well);
        match &verdict.ending {
            _ if !verdict.findings.is_empty() => {}
            Ending::Well => self.well += 1,
            Ending::Error(text) => *self.errors.entry(without_numbers(text)).or_insert(0) += 1,
        }
        for finding in &verdict.findings {
            let signature = finding.signature();
            match self.found.iter_mut().find(|found| found.finding.signature() == signature) {
                Some(found) => found.count += 1,
                None => self.found.push(Found {
                    finding: finding.clone(),
                    count: 1,
                    plan: plan.to_string(),
                    strikes: verdict.strikes.clone(),
                    smallest: None,
                }),
            }
        }
    }

    /// Returns the command that repeats a plan.
    fn command(&self, plan: &str) -> String {
        let mut text = format!("belfry run --mode {}", self.mode);
        for part in plan.split(';') {
            let (option, part) =
                part.strip_prefix("chaos:").map_or(("--fault", part), |chaos| ("--chaos", chaos));
            text.push_str(&format!(" {option} '{part}'"));
        }
        format!("{text} -- {}", self.program.join(" "))
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.took.as_secs_f64().max(1e-9);
        writeln!(
            f,
            "{}: {} plans, {:.1} a second",
            self.program.join(" "),
            self.plans,
            self.plans as f64 / seconds
        )?;
        let met: Vec<String> = self.met.iter().map(|(hook, count)| format!("{count} x {hook}")).collect();
        writeln!(f, "  met          {}", met.join(", "))?;
        writeln!(f, "  struck       {} faults; under {} plans none", self.struck, self.idle)?;
        writeln!(f, "  ended well   {}", self.well)?;
        let errors: u64 = self.errors.values().sum();
        writeln!(f, "  with errors  {errors}")?;
        let mut sorted: Vec<_> = self.errors.iter().collect();
        sorted.sort_by(|a, b| b.1.cmp(a.1).then(a.0.cmp(b.0)));
        for (text, count) in sorted {
            writeln!(f, "    {count:>6} x {text}")?;
        }
        writeln!(f, "  given up     {} times, and fine with the driver loaded again", self.reloaded)?;
        if self.resumed > 0 {
            writeln!(f, "  snapshot     {} plans in guests that went on from one", self.resumed)?;
        }
        write!(f, "  findings     {}", self.found.len())?;
        for found in &self.found {
            write!(f, "\n    {:>6} x {}", found.count, found.finding)?;
            match &found.smallest {
                Some(plan) => write!(f, "\n             {}", self.command(plan))?,
                None => {
                    write!(
                        f,
                        "\n             not seen again; seen first with {}",
                        self.command(&found.plan)
                    )?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summary_counts_and_says_how_to_repeat_a_finding() {
        let program = vec!["vector-add".into(), "64".into()];
        let mut summary = Summary { program, mode: "hosted", ..Summary::default() };
        let plan: Plan = "removal@3;chaos:4:0.5".parse().unwrap();
        let error =
            |text: &str| Verdict { ending: Ending::Error(text.into()), struck: 1, ..Verdict::default() };
        summary.add(&plan, &Verdict::default());
        summary.add(&plan, &error("time-out after 30 s"));
        summary.add(&plan, &error("time-out after 31 s"));
        let leak = |bytes| vec![Finding::Leak(format!("{bytes} bytes"))];
        summary.add(&plan, &Verdict { findings: leak(1), ..Verdict::default() });
        summary.add(&plan, &Verdict { findings: leak(2), ..Verdict::default() });
        assert_eq!((summary.plans, summary.idle, summary.well, summary.found.len()), (5, 1, 1, 1));
        assert_eq!(summary.errors, BTreeMap::from([("time-out after N s".to_owned(), 2)]));
        let text = summary.to_string();
        let command = "belfry run --mode hosted --fault 'removal@3' --chaos '4:0.5' -- vector-add 64";
        assert!(
            text.contains(&format!(
                "2 x leak: 1 bytes\n             not seen again; seen first with {command}"
            )),
            "{text}"
        );
    }
}
