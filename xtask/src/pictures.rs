//! `cargo xtask pictures`: the pictures of the documents, made from runs of `belfry`.
//!
//! A picture that lacks a part it is there to show is an error, so that this command also tests the code that makes it.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

/// Longest time a GPU may take to come to its breakpoint.
const PATIENCE: Duration = Duration::from_secs(60);
/// Lines of a profile that are shown.
const PROFILE: usize = 40;
/// Columns of a profile that are shown.
const COLUMNS: usize = 118;

/// Makes all pictures, in a folder.
pub(crate) fn run(root: &Path, into: Option<PathBuf>) -> Result<()> {
    let into = into.unwrap_or_else(|| root.join("docs/pictures"));
    std::fs::create_dir_all(&into).with_context(|| format!("creating {}", into.display()))?;
    let status =
        Command::new(env!("CARGO")).current_dir(root).args(["build", "--package", "belfry"]).status();
    ensure!(status.context("running cargo")?.success(), "belfry cannot be built");
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let belfry = target.join("debug/belfry");
    for (name, make, expected) in PICTURES {
        let path = into.join(name);
        let text = make(&belfry).with_context(|| format!("making {name}"))?;
        for part in *expected {
            ensure!(text.contains(part), "{name} does not show {part:?}:\n{text}");
        }
        std::fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
        say!("{}", path.display());
    }
    let path = into.join("matrix.png");
    matrix(root, &belfry, &path).context("making matrix.png")?;
    say!("{}", path.display());
    Ok(())
}

/// The page of the tests' matrix, in a browser, which has to show it as it was written.
fn matrix(root: &Path, belfry: &Path, path: &Path) -> Result<()> {
    let folder = tempfile::tempdir().context("creating a folder")?;
    let page = folder.path().join("page.html");
    let mut run = Command::new(belfry);
    run.arg("matrix").arg(root.join("tests/matrix.toml")).arg("--html").arg(&page);
    output(run.arg("--out").arg(folder.path().join("results")))?;
    let browser = ["chromium", "chromium-browser", "google-chrome"]
        .into_iter()
        .find(|name| Command::new(name).arg("--version").output().is_ok_and(|said| said.status.success()))
        .context("there is no chromium to show the page: apt install chromium")?;
    let shows = |what: &str| {
        let mut chromium = Command::new(browser);
        // Root has no sandbox, and this page is ours.
        chromium.args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            "--window-size=720,440",
        ]);
        chromium.arg(format!("--user-data-dir={}", folder.path().join("profile").display()));
        output(chromium.arg(what).arg(format!("file://{}", page.display())))
    };
    let shown = shows("--dump-dom")?;
    for part in ["23 passed, 0 failed, 1 absent", "gfx1201", "many-queues", "class=\"passed\""] {
        ensure!(shown.contains(part), "the page does not show {part:?}:\n{shown}");
    }
    shows(&format!("--screenshot={}", path.display()))?;
    let picture = std::fs::read(path).with_context(|| format!("reading {}", path.display()))?;
    ensure!(picture.starts_with(b"\x89PNG"), "{} is no picture", path.display());
    Ok(())
}

type Make = fn(&Path) -> Result<String>;

/// File, maker, and the texts that it has to show.
const PICTURES: &[(&str, Make, &[&str])] = &[
    ("timeline.svg", timeline, &["<svg", "queue", "worker"]),
    ("inspector.svg", inspector, &["<svg", "endless", "s_", "HALTED"]),
    ("profile.svg", profile, &["<svg", "profile: gemm", "occupancy", "v_fmac_f32"]),
];

fn output(command: &mut Command) -> Result<String> {
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("running {command:?}"))?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.success(), "{command:?}: {}: {said}", output.status);
    Ok(String::from_utf8_lossy(&output.stdout).into_owned() + &said)
}

/// Packets that wait for others.
fn timeline(belfry: &Path) -> Result<String> {
    let folder = tempfile::tempdir().context("creating a folder")?;
    let trace = folder.path().join("t.pftrace");
    let mut run = Command::new(belfry);
    run.args(["run", "--mode", "hosted", "--workers", "2", "--trace"]).arg(&trace);
    output(run.args(["--", "barriers-and-signals"]))?;
    let mut draw = Command::new(belfry);
    draw.args(["trace", "svg"]).arg(&trace).stdin(Stdio::null());
    let drawn = draw.output().context("running belfry trace svg")?;
    ensure!(drawn.status.success(), "belfry trace svg: {}", drawn.status);
    Ok(String::from_utf8(drawn.stdout)?)
}

/// A child that is killed and waited for.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The page of waves, at a kernel that has no end.
fn inspector(belfry: &Path) -> Result<String> {
    let folder = tempfile::tempdir().context("creating a folder")?;
    let mut run = Command::new(belfry);
    run.args(["run", "--mode", "hosted", "--inspect", "--break", "kernel endless", "--", "stop-endless"]);
    run.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let child = Killed(run.spawn().context("running belfry")?);
    let pid = child.0.id().to_string();
    let asks = |question: &[&str]| {
        let mut inspect = Command::new(belfry);
        output(inspect.args(["inspect", &pid, "--json"]).args(question))
    };
    let until = Instant::now() + PATIENCE;
    let halts = || asks(&["status"]).is_ok_and(|status| status.contains("\"halted\": true"));
    while !halts() {
        if Instant::now() > until {
            bail!("the GPU does not halt within {PATIENCE:?}: {:?}", asks(&["status"]));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    // It halts at the packet; the program gives the kernel time enough to begin.
    asks(&["continue"])?;
    asks(&["pause"])?;
    let waves: serde_json::Value = serde_json::from_str(&asks(&["waves"])?).context("reading the waves")?;
    let wave = waves["waves"][0]["wave"].as_str().context("no wave is on the GPU")?;
    // Some way into its loop.
    asks(&["step", wave, "24"])?;
    let path = folder.path().join("inspector.svg");
    let mut inspect = Command::new(belfry);
    output(inspect.args(["inspect", &pid, "--size", "118x34", "--keys", "3", "--picture"]).arg(&path))?;
    drop(child);
    std::fs::read_to_string(&path).context("reading the picture")
}

fn profile(belfry: &Path) -> Result<String> {
    let mut run = Command::new(belfry);
    let text = output(run.args(["run", "--mode", "hosted", "--profile", "--", "gemm"]))?;
    let from = text.find("profile: gemm").context("there is no profile")?;
    Ok(svg(text[from..].lines().take(PROFILE)))
}

/// Lines as a picture.
fn svg<'a>(lines: impl Iterator<Item = &'a str>) -> String {
    let mut body = String::new();
    let mut height = 12;
    for line in lines {
        height += 17;
        let short: String = line.chars().take(COLUMNS).collect();
        let text = short.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        body += &format!("<text x=\"10\" y=\"{height}\" xml:space=\"preserve\">{text}</text>\n");
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"1010\" height=\"{0}\" viewBox=\"0 0 1010 {0}\" font-family=\"monospace\" \
         font-size=\"14\" fill=\"#d4d8de\">\n<rect width=\"100%\" height=\"100%\" fill=\"#12161c\"/>\n{body}</svg>\n",
        height + 12
    )
}
