//! `--fault` and `--chaos` on the command line.

use std::ffi::OsString;

use belfry_device::faults::{Chaos, Plan, Planned};
use clap::Args;

/// Parts of the GPU that fail on purpose.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct FaultFlags {
    /// Lets a part of the GPU fail at a moment, as in `interrupt-lost@2`; repeatable. An unknown name lists the
    /// rules.
    ///
    /// WHEN is N (the Nth moment, the first by default) or every:N, and conditions of the moments that count:
    /// after:DURATION, queue:DOORBELL, process:PASID, kernel:NAME, address:FROM..TO. for:DURATION is the delay of
    /// something late, or the length of a clock's jump.
    #[arg(long = "fault", value_name = "RULE[@WHEN]")]
    faults: Vec<Planned>,
    /// Lets parts of the GPU fail by chance. The seed alone decides which parts fail, and when [default rate: 0.001].
    #[arg(long, value_name = "SEED[:RATE]")]
    chaos: Option<Chaos>,
}

impl FaultFlags {
    /// Spells the options that ask for these faults.
    pub(super) fn spelled(&self) -> Vec<OsString> {
        let mut words: Vec<OsString> = Vec::new();
        for planned in &self.faults {
            words.extend(["--fault".into(), planned.to_string().into()]);
        }
        if let Some(chaos) = self.chaos {
            words.extend(["--chaos".into(), chaos.to_string().into()]);
        }
        words
    }

    /// Returns the plan of faults.
    ///
    /// # Errors
    ///
    /// Too many rules.
    pub(super) fn plan(&self) -> anyhow::Result<Plan> {
        let mut plan = Plan::default();
        for planned in &self.faults {
            plan.add(planned.clone())?;
        }
        if let Some(chaos) = self.chaos {
            plan.set_chaos(chaos)?;
        }
        Ok(plan)
    }
}
