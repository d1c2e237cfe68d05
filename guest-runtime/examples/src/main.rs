//! The examples as one program: called by an example's name, or with it as the first argument.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use belfry_examples::launch::{USAGE, wants_help};
use belfry_examples::{NAMES, WRONG_RESULT, WrongResult, run, summaries};
use belfry_runtime::Runtime;

fn main() -> ExitCode {
    let mut args = std::env::args();
    let called = args.next().unwrap_or_default();
    let called = Path::new(&called).file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
    let mut args: Vec<String> = args.collect();
    let name = if NAMES.contains(&called.as_str()) {
        called
    } else if args.first().is_none_or(|first| first == "--help" || first == "-h") {
        return usage();
    } else {
        args.remove(0)
    };
    if name == "launch" && wants_help(&args) {
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    let mut out = std::io::stdout().lock();
    let result = open(&name, &args).and_then(|runtime| run(&name, &runtime, &args, &mut out));
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = out.flush();
            eprintln!("{error:#}");
            if error.chain().any(|cause| cause.is::<WrongResult>()) {
                return ExitCode::from(WRONG_RESULT);
            }
            ExitCode::FAILURE
        }
    }
}

/// Opens the runtime, after checks that need none: a wrong command line is told apart from a missing driver.
fn open(name: &str, args: &[String]) -> anyhow::Result<Runtime> {
    anyhow::ensure!(NAMES.contains(&name), "no example `{name}`; there are {}", NAMES.join(", "));
    if name == "launch" {
        belfry_examples::launch::check(args)?;
    }
    Ok(Runtime::open()?)
}

fn usage() -> ExitCode {
    println!("usage: belfry-examples EXAMPLE [ARGUMENTS]\n");
    for (name, summary) in summaries() {
        println!("  {name:22} {summary}");
    }
    ExitCode::SUCCESS
}
