//! Causes of a kernel's time: one run on a GPU of one worker, with compiled code that counts.

use std::fmt;
use std::time::Instant;

use belfry_device::CodeTimes;
use belfry_isa::exec::ticks;
use serde::Serialize;

use super::hosted::Prepared;
use super::round;

/// Number of operations that are named of a kernel's handlers.
const NAMED: usize = 3;

/// Shares of the time of a run, in percent.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Spent {
    /// In compiled code itself. Code that counts is slower than other code, so this is rather too much.
    pub code: f64,
    /// In handlers of tier 0 that compiled code calls.
    pub handlers: f64,
    /// Outside of both: starting and ending waves, and going from one to another at barriers.
    pub waves: f64,
    /// Of the instructions of compiled code, loads and stores of global memory.
    pub global: f64,
    /// Of the instructions of compiled code, loads and stores of LDS.
    pub lds: f64,
    /// Handlers that are called, those with most time first.
    pub calls: Vec<Called>,
}

/// The calls of one operation's handler.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Called {
    /// The operation.
    pub operation: &'static str,
    /// Calls in a run.
    pub calls: u64,
    /// Time of a call in nanoseconds.
    pub ns: f64,
    /// Share of the time of the run, in percent.
    pub percent: f64,
}

/// Runs a kernel twice on a GPU that counts, and divides up the time of the second run; `None` if nothing is
/// compiled.
pub(super) fn measure(prepared: &Prepared<'_>) -> Result<Option<Spent>, belfry_runtime::Error> {
    prepared.run()?;
    prepared.take_code_times();
    let (began, from) = (Instant::now(), ticks());
    let run = prepared.run()?;
    let rate = ticks().wrapping_sub(from) as f64 / began.elapsed().as_secs_f64();
    let times = prepared.take_code_times();
    Ok((times.entries > 0).then(|| spent(&times, run.wall.as_secs_f64() * rate, rate)))
}

/// Returns the least number of ticks that reading the counter takes.
fn reading() -> f64 {
    (0..1000).map(|_| ticks().abs_diff(ticks())).min().unwrap_or_default() as f64
}

/// Returns the shares of `wall` ticks, at `rate` ticks per second.
fn spent(times: &CodeTimes, wall: f64, rate: f64) -> Spent {
    let reading = reading();
    let percent = |ticks: f64| round((ticks / wall * 100.0).clamp(0.0, 100.0));
    let of_instructions = |count: u64| round(count as f64 * 100.0 / times.instructions.max(1) as f64);
    let net = |calls: u64, ticks: u64| (ticks as f64 - calls as f64 * reading).max(0.0);
    let mut calls: Vec<Called> = times
        .calls
        .iter()
        .map(|(&operation, &(calls, ticks))| {
            let net = net(calls, ticks);
            Called {
                operation,
                calls,
                ns: round(net / calls.max(1) as f64 / rate * 1e9),
                percent: percent(net),
            }
        })
        .collect();
    calls.sort_by(|a, b| b.percent.total_cmp(&a.percent));
    let (count, gross) =
        times.calls.values().fold((0, 0), |(count, all), (calls, ticks)| (count + calls, all + ticks));
    let all = times.ticks as f64 - times.entries as f64 * reading;
    // Each call reads the counter twice, once within what it measures.
    let code = all - gross as f64 - count as f64 * reading;
    let handlers = net(count, gross);
    Spent {
        code: percent(code),
        handlers: percent(handlers),
        waves: percent(wall - times.ticks as f64),
        global: of_instructions(times.global),
        lds: of_instructions(times.lds),
        calls,
    }
}

impl Spent {
    /// Returns the largest of the three shares, in percent.
    fn most(&self) -> f64 {
        self.code.max(self.handlers).max(self.waves)
    }
}

impl fmt::Display for Spent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Spent { code, handlers, waves, global, lds, .. } = self;
        if self.most() == *waves {
            return write!(f, "{waves:.0} % is starting, ending and changing waves");
        }
        if self.most() == *code {
            write!(f, "{code:.0} % is compiled code")?;
            return match (global.round(), lds.round()) {
                (0.0, 0.0) => Ok(()),
                (global, 0.0) => write!(f, ", {global} % of it global memory"),
                (0.0, lds) => write!(f, ", {lds} % of it LDS"),
                (global, lds) => write!(f, ", {global} % of it global memory, {lds} % LDS"),
            };
        }
        write!(f, "{handlers:.0} % is handlers")?;
        for (at, call) in self.calls.iter().take(NAMED).enumerate() {
            let before = if at == 0 { ": " } else { ", " };
            write!(f, "{before}{} {:.0} %", call.operation, call.percent)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times() -> CodeTimes {
        let calls = [("v_exp_f32", (0, 300_000)), ("ds_add_u32", (0, 100_000))].into_iter().collect();
        CodeTimes { entries: 0, ticks: 700_000, instructions: 200, global: 50, lds: 20, calls }
    }

    #[test]
    fn time_is_code_handlers_and_waves() {
        let spent = spent(&times(), 1e6, 1e9);
        assert_eq!((spent.code, spent.handlers, spent.waves), (30.0, 40.0, 30.0));
        assert_eq!((spent.global, spent.lds), (25.0, 10.0));
        assert_eq!(spent.to_string(), "40 % is handlers: v_exp_f32 30 %, ds_add_u32 10 %");
    }

    #[test]
    fn what_takes_most_is_named() {
        let code = spent(&CodeTimes { calls: Default::default(), ..times() }, 1e6, 1e9);
        assert_eq!(code.to_string(), "70 % is compiled code, 25 % of it global memory, 10 % LDS");
        let waves = spent(&CodeTimes { ticks: 100_000, calls: Default::default(), ..times() }, 1e6, 1e9);
        assert_eq!(waves.to_string(), "90 % is starting, ending and changing waves");
    }

    #[test]
    fn calls_are_without_the_time_of_reading_the_counter() {
        let calls = [("v_exp_f32", (1000, 1000 * (reading() as u64 + 50)))].into_iter().collect();
        let spent = spent(&CodeTimes { calls, ..times() }, 1e6, 1e9);
        // The least time of reading differs a little from time to time.
        assert!((30.0..80.0).contains(&spent.calls[0].ns), "{:?}", spent.calls);
    }
}
