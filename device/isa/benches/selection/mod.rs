//! Backends and operations that the arguments of a benchmark select.

use belfry_isa::lanes::Backend;

/// Backends by name, and parts of the names of operations. A kind that no argument names is selected as a whole.
pub(crate) struct Selection {
    backends: Vec<String>,
    names: Vec<String>,
}

impl Selection {
    pub(crate) fn of_arguments() -> Selection {
        let arguments = std::env::args().skip(1).filter(|word| !word.starts_with('-'));
        let is_backend =
            |word: &String| Backend::all().any(|backend| format!("{:?}", backend.kind()) == *word);
        let (backends, names) = arguments.partition(is_backend);
        Selection { backends, names }
    }

    pub(crate) fn backends(&self) -> impl Iterator<Item = Backend> {
        Backend::all().filter(|backend| wanted(&format!("{:?}", backend.kind()), &self.backends))
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        wanted(name, &self.names)
    }
}

fn wanted(text: &str, all: &[String]) -> bool {
    all.is_empty() || all.iter().any(|word| text.contains(word.as_str()))
}
