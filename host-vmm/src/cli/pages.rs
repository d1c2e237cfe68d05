//! Manual pages and completions of shells, made from the command line's own description.

use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

use anyhow::Context as _;
use belfry_device::chip::MODELS;
use belfry_embedded::PARTS;
use belfry_image::Part;
use clap::CommandFactory as _;
use clap_complete::{Shell, generate_to};

use super::Cli;

/// The version. `cargo xtask package` gives one with the commit in it.
pub(super) const VERSION: &str = match option_env!("BELFRY_VERSION") {
    Some(version) => version,
    None => env!("CARGO_PKG_VERSION"),
};

/// Returns the version with the parts that this build has, for `belfry --version`.
pub(super) fn features() -> &'static str {
    static FEATURES: LazyLock<String> = LazyLock::new(list_features);
    &FEATURES
}

fn list_features() -> String {
    let chips: Vec<&str> = MODELS.iter().map(|model| model.name).collect();
    let part = |name: &str, part: Part| match part {
        Part::Present(_) => name.to_owned(),
        Part::Absent(why) => format!("no {name} ({why})"),
    };
    let parts = [part("driver", PARTS.driver.core), part("bare-metal guest", PARTS.bare_metal)];
    format!(
        "{VERSION}\nchips: {}\ncompiled code on this processor: {}\nguests: {}",
        chips.join(", "),
        crate::bench::vectors(),
        parts.join(", ")
    )
}

/// Writes manual pages and completions of shells, for packages.
#[derive(Debug, clap::Args)]
pub(super) struct PagesArgs {
    /// Folder in which `man`, `bash-completion`, `fish` and `zsh` are made, as below `/usr/share`.
    directory: PathBuf,
}

/// Folders below `/usr/share` in which the shells look.
const COMPLETIONS: [(Shell, &str); 3] = [
    (Shell::Bash, "bash-completion/completions"),
    (Shell::Fish, "fish/vendor_completions.d"),
    (Shell::Zsh, "zsh/vendor-completions"),
];

/// Writes everything below the folder.
pub(super) fn write(PagesArgs { directory }: &PagesArgs) -> anyhow::Result<u8> {
    let folder = |name: &str| {
        let path = directory.join(name);
        fs::create_dir_all(&path).with_context(|| format!("making {}", path.display())).map(|()| path)
    };
    let mut command = Cli::command().name("belfry");
    for (shell, name) in COMPLETIONS {
        let path = folder(name)?;
        let made = generate_to(shell, &mut command, "belfry", &path).context("writing completions")?;
        if shell == Shell::Bash {
            // bash-completion finds a file by the command's name.
            fs::rename(&made, path.join("belfry"))?;
        }
    }
    clap_mangen::generate_to(command, folder("man/man1")?).context("writing manual pages")?;
    Ok(0)
}
