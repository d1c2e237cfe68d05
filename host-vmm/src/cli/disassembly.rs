//! `belfry disasm`.

use std::borrow::Cow;
use std::path::Path;

use anyhow::Context as _;
use belfry_device::chip;
use belfry_process::files;
use belfry_runtime::code_object::{CodeObjectError, unbundle};

use crate::output;

/// Largest file of a program or a library with code objects that is read, in bytes.
const MAX_FILE: u64 = 4 << 30;

/// Returns the code objects of a file for a chip; without one, those for the default chip if the file has any,
/// otherwise those for any known chip.
fn objects<'a>(content: &'a [u8], chip: Option<&str>) -> Result<Vec<Cow<'a, [u8]>>, CodeObjectError> {
    if let Some(chip) = chip {
        return unbundle(content, Some(chip));
    }
    let usual = unbundle(content, Some(chip::DEFAULT.name));
    let others = || chip::MODELS.iter().find_map(|model| unbundle(content, Some(model.name)).ok());
    usual.or_else(|error| others().ok_or(error))
}

/// Lists the code objects of a file.
pub(super) fn disassemble(file: &Path, chip: Option<&str>) -> anyhow::Result<u8> {
    let content = files::read(file, MAX_FILE).with_context(|| file.display().to_string())?;
    let mut text = Vec::new();
    for object in objects(&content, chip).with_context(|| file.display().to_string())? {
        belfry_listing::list(&object, &mut text).with_context(|| file.display().to_string())?;
    }
    output::write(&text);
    Ok(0)
}
