//! Links between the GPUs of one machine.

use serde::{Deserialize, Serialize};

/// Links by which the GPUs of a machine reach each other's memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub enum Links {
    /// XGMI, if all of them have it, and the bus otherwise.
    #[default]
    Xgmi,
    /// The bus alone.
    Pcie,
    /// None: a GPU reaches its own VRAM and system memory, as with a kernel without `CONFIG_HSA_AMD_P2P`.
    None,
}

impl Links {
    const ALL: [Self; 3] = [Self::Xgmi, Self::Pcie, Self::None];

    /// Its name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Xgmi => "xgmi",
            Self::Pcie => "pcie",
            Self::None => "none",
        }
    }

    /// The one of a name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|links| links.name() == name)
    }
}

impl std::fmt::Display for Links {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
