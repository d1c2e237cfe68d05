//! The bundled examples as a program that is linked with shared libraries, as `belfry exec` wants them: `run-example NAME [ARGUMENTS]`.

use std::io::Write as _;

use belfry_runtime::Runtime;

fn main() -> anyhow::Result<()> {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    anyhow::ensure!(!arguments.is_empty(), "run-example NAME [ARGUMENTS]");
    let name = arguments.remove(0);
    let mut out = std::io::stdout().lock();
    belfry_examples::run(&name, &Runtime::open()?, &arguments, &mut out)?;
    Ok(out.flush()?)
}
