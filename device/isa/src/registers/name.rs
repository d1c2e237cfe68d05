//! Names of scalar registers.

use core::fmt;

use super::{RegisterFile, TTMPS, slot};

/// The name of scalar registers, as assemblers write it.
pub(crate) struct ScalarName {
    pub(super) file: &'static RegisterFile,
    pub(super) number: u8,
    pub(super) width: u8,
}

impl fmt::Display for ScalarName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let range = |f: &mut fmt::Formatter<'_>, prefix: &str, first: usize| match self.width {
            1 => write!(f, "{prefix}{first}"),
            width => write!(f, "{prefix}[{first}:{}]", first + usize::from(width) - 1),
        };
        let pair = |f: &mut fmt::Formatter<'_>, name: &str, first: u8| match (self.number - first, self.width)
        {
            (0, 2..) => f.write_str(name),
            (0, _) => write!(f, "{name}_lo"),
            _ => write!(f, "{name}_hi"),
        };
        for (name, first) in [("flat_scratch", self.file.flat_scratch), ("xnack_mask", self.file.xnack_mask)]
        {
            if let Some(first) = first
                && (first..first + 2).contains(&self.number)
            {
                return pair(f, name, first);
            }
        }
        match (self.file.slot(self.number), self.width) {
            (Some(slot::VCC), 1) => f.write_str("vcc_lo"),
            (Some(slot::VCC), _) => f.write_str("vcc"),
            (Some(at), _) if at == slot::VCC + 1 => f.write_str("vcc_hi"),
            (Some(at), _) if (slot::TTMP0..slot::TTMP0 + TTMPS).contains(&at) => {
                range(f, "ttmp", at - slot::TTMP0)
            }
            (Some(slot::M0), _) => f.write_str("m0"),
            (Some(slot::EXEC), 1) => f.write_str("exec_lo"),
            (Some(slot::EXEC), _) => f.write_str("exec"),
            (Some(at), _) if at == slot::EXEC + 1 => f.write_str("exec_hi"),
            (Some(at), _) => range(f, "s", at),
            (None, _) => f.write_str("null"),
        }
    }
}
