//! `belfry inspect`.

use std::path::PathBuf;

use anyhow::{Context as _, ensure};
use clap::Args;
use serde_json::Value;

use crate::gdb::GdbAddress;
use crate::inspect::{Client, HELP, InspectOptions, running, ui};
use crate::output::say;

/// Looks at the GPU of a running `belfry run --inspect`, `belfry exec --inspect` or `belfry serve --inspect` of the same user.
///
/// Without --json it shows the GPU on the terminal, with a page for each part: `?` lists the keys.
#[derive(Debug, Args)]
#[command(after_help = HELP)]
pub(super) struct InspectArgs {
    /// The process [default: the only one that there is].
    pid: Option<u32>,
    /// Prints the answer to a query as JSON; `--json help` lists the queries.
    #[arg(long, value_name = "QUERY", num_args = 1.., allow_hyphen_values = true)]
    json: Vec<String>,
    /// Writes one screen as a picture (SVG) to this file, for documents.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["json", "list"])]
    picture: Option<PathBuf>,
    /// Keys that are pressed before the picture: words are typed; names such as `down` and `enter` are keys.
    #[arg(long, value_name = "KEYS", default_value = "", requires = "picture")]
    keys: String,
    /// Columns and rows of the picture.
    #[arg(long, value_name = "COLUMNSxROWS", default_value = "120x36", value_parser = parse_screen, requires = "picture")]
    size: (u16, u16),
    /// Lists the processes whose GPUs can be inspected.
    #[arg(long, conflicts_with = "json")]
    list: bool,
}

/// A size of a screen that is refused.
#[derive(Debug, thiserror::Error)]
#[error("a size is COLUMNSxROWS, from 20x5 to 400x200")]
struct ScreenError;

/// Parses the size of a screen that has room for a page, and that a terminal can have.
fn parse_screen(text: &str) -> Result<(u16, u16), ScreenError> {
    let sizes = text.split_once('x').map(|(columns, rows)| (columns.parse::<u16>(), rows.parse::<u16>()));
    match sizes {
        Some((Ok(columns @ 20..=400), Ok(rows @ 5..=200))) => Ok((columns, rows)),
        _ => Err(ScreenError),
    }
}

/// Options that make a GPU inspectable.
#[derive(Debug, Default, Args)]
pub(super) struct InspectFlags {
    /// Lets this user look at the GPU with `belfry inspect` while it runs.
    #[arg(long)]
    inspect: bool,
    /// Sets a breakpoint from the start, in the words of `belfry inspect --json break`: the GPU halts there until
    /// `belfry inspect` lets it go on.
    #[arg(long = "break", value_name = "BREAKPOINT", requires = "inspect")]
    breaks: Vec<String>,
    /// Lets GDB debug the waves of the GPU. The GPU stays at its first dispatch until GDB has connected and lets it
    /// go on. ADDR:PORT is a TCP address, PATH a Unix socket [default: a Unix socket of this user's, which is
    /// printed].
    #[arg(long, value_name = "ADDR:PORT|PATH", num_args = 0..=1, default_missing_value = "")]
    gdb: Option<GdbAddress>,
    /// GPU that --inspect and --gdb look at, where there are several: from 0 on, in their order.
    #[arg(long, value_name = "K", default_value_t = 0)]
    gpu: usize,
}

impl InspectFlags {
    /// Returns the options of the inspector with symbols from files, if the GPU is to be inspected.
    pub(super) fn options(&self, symbols: &[PathBuf]) -> Option<InspectOptions> {
        let (breaks, symbols) = (self.breaks.clone(), symbols.to_vec());
        let gpu = self.gpu;
        let options = InspectOptions { socket: self.inspect, gdb: self.gdb.clone(), symbols, breaks, gpu };
        (self.inspect || self.gdb.is_some()).then_some(options)
    }
}

impl InspectFlags {
    /// Refuses a GPU that a machine of so many does not have, and a choice that nothing asks for.
    ///
    /// # Errors
    ///
    /// Either of them, by name.
    pub(super) fn check_gpu(&self, count: usize) -> anyhow::Result<()> {
        let is_asked_for = self.inspect || self.gdb.is_some();
        ensure!(is_asked_for || self.gpu == 0, "--gpu is for --inspect and --gdb, and neither is there");
        let last = count.saturating_sub(1);
        ensure!(self.gpu < count, "there is no GPU {}: the last one of this machine is {last}", self.gpu);
        Ok(())
    }
}

/// Runs `belfry inspect`.
pub(super) fn inspect(args: &InspectArgs) -> anyhow::Result<u8> {
    if !args.json.is_empty() {
        let answer = Client::connect(args.pid)?.ask(&args.json.join(" "))?;
        say!("{answer:#}");
        return Ok(0);
    }
    if let Some(path) = &args.picture {
        let shot = ui::Shot { keys: ui::keys(&args.keys), size: args.size };
        let picture = ui::picture(args.pid, &shot)?;
        std::fs::write(path, picture).with_context(|| format!("writing {}", path.display()))?;
        return Ok(0);
    }
    if !args.list {
        return Ok(ui::run(args.pid)?);
    }
    for process in running()?.iter().filter(|process| args.pid.is_none_or(|pid| pid == process.pid)) {
        let overview = Client::at(&process.socket).and_then(|mut client| client.ask("overview"));
        let Ok(overview) = overview else { continue };
        let number = |name: &str| overview.get(name).and_then(Value::as_u64).unwrap_or(0);
        let halted = if overview["halted"] == true { ", halted" } else { "" };
        say!(
            "{}  {}, {} queues, {} dispatches, {} wave instructions{halted}",
            process.pid,
            overview["chip"].as_str().unwrap_or_default(),
            number("queues"),
            number("dispatches"),
            number("wave_instructions"),
        );
    }
    Ok(0)
}
