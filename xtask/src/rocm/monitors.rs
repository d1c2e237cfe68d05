//! Programs that watch a card, beside one that keeps it busy: each has to tell of load, memory, power and clocks.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::plan::{Image, Place, Step};
use super::verdict::Expected;
use super::{Runner, guest};

/// The name of the image, and the first word of the names of the steps.
const NAME: &str = "monitors";
/// Debian's monitors; ROCm's own are in the image already.
const PACKAGES: &str = "radeontop nvtop";
/// Directory of the program that keeps the card busy.
const SOURCES: &str = "tests/programs/monitors";
/// The monitor that no distribution has, as its authors publish it.
const CRATE: &str = "amdgpu_top@0.11.5";
/// Seconds for one monitor.
const LIMIT: u32 = 120;

/// A monitor: its name, its command, and the function that finds the fault in its output.
type Monitor = (&'static str, &'static [&'static str], fn(&str) -> Option<String>);

const MONITORS: [Monitor; 5] = [
    ("radeontop", &["radeontop", "-d", "-", "-l", "3", "-i", "1"], radeontop),
    ("amdgpu_top", &["amdgpu_top", "-J", "-n", "2", "-s", "500"], amdgpu_top),
    (
        "rocm-smi",
        &["rocm-smi", "--showuse", "--showmeminfo", "vram", "--showpower", "--showclocks", "--json"],
        rocm_smi,
    ),
    ("amd-smi", &["amd-smi", "metric", "--usage", "--mem-usage", "--power", "--clock", "--json"], amd_smi),
    ("nvtop", &["nvtop", "-s"], nvtop),
];

/// Returns true if a name is that of the steps, or of one of them.
pub(super) fn has(name: &str) -> bool {
    name.starts_with(NAME)
}

pub(super) fn image() -> Image {
    let step = |(name, command, told): Monitor| Step {
        name: format!("{NAME} {name}"),
        command: command.iter().map(|&word| word.to_owned()).collect(),
        limit: LIMIT,
        place: Place::BesideLoad,
        expected: Some(Expected::Told(told)),
    };
    Image {
        name: NAME,
        packages: Some(("rocm-sid", PACKAGES)),
        alone: None,
        steps: MONITORS.map(step).into(),
        lists: None,
    }
}

/// A program that keeps the card busy, until this is dropped.
pub(super) struct Load(Child);

impl Drop for Load {
    fn drop(&mut self) {
        // The program ends with its input. The monitor's output shows if it ends before that.
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// Makes the program with the image's own compiler, and starts it.
pub(super) fn load(runner: &Runner) -> Result<Load> {
    let folder = runner.logs.join(NAME);
    std::fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
    let chip = guest::name(&runner.chip);
    let program = folder.canonicalize()?.join(format!("load-{chip}"));
    if !program.exists() {
        let architecture = format!("--offload-arch={chip}");
        let status = runner
            .exec(NAME, 300)
            .args(["hipcc", "-O2", &architecture, "load.hip", "-o"])
            .arg(&program)
            .current_dir(runner.root.join(SOURCES))
            .stdin(Stdio::null())
            .status()
            .context("running timeout")?;
        ensure!(status.success(), "hipcc in image {NAME}: {status}");
    }
    let mut child = Command::new(&runner.belfry)
        .args(["exec", "--quiet", "--chip", &runner.chip, "--image", NAME, "--"])
        .arg(&program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("running {}", runner.belfry.display()))?;
    let stdout = child.stdout.take().context("the program has no stdout")?;
    let load = Load(child);
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line).context("reading what the program says")?;
    ensure!(line.trim() == "busy", "the program that is to keep the card busy says {line:?}");
    Ok(load)
}

/// The command of a monitor as it is installed: the crate's is built on first use.
pub(super) fn installed(runner: &Runner, command: &[String]) -> Result<Vec<String>> {
    let [name, arguments @ ..] = command else { bail!("a monitor without a name") };
    if !CRATE.starts_with(name.as_str()) {
        return Ok(command.to_vec());
    }
    let root = runner.logs.join(NAME).join("crates");
    let binary: PathBuf = root.join("bin").join(name);
    if !binary.exists() {
        let status = Command::new(env!("CARGO"))
            .args(["install", "--quiet", "--locked", "--no-default-features"])
            .args(["--features", "libdrm_dynamic_loading,json", "--root"])
            .arg(&root)
            .arg(CRATE)
            .stdin(Stdio::null())
            .status()
            .context("running cargo")?;
        ensure!(status.success(), "cargo install {CRATE}: {status}");
    }
    let binary = binary.canonicalize().with_context(|| format!("looking for {}", binary.display()))?;
    Ok([binary.display().to_string()].into_iter().chain(arguments.iter().cloned()).collect())
}

/// Error about the first figure that is absent or not above zero; `None` if all are above zero.
fn above_zero(figures: &[(&str, Option<f64>)]) -> Option<String> {
    figures.iter().find_map(|(name, figure)| match figure {
        None => Some(format!("it does not tell {name}")),
        Some(figure) if *figure > 0.0 => None,
        Some(figure) => Some(format!("{name} is {figure} beside a program that keeps the card busy")),
    })
}

/// The number that a text begins with.
fn number(text: &str) -> Option<f64> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    text[..end].parse().ok()
}

/// A number, or a text that begins with one.
fn figure(value: &Value) -> Option<f64> {
    value.as_f64().or_else(|| number(value.as_str()?))
}

/// The first JSON value in a program's output, which may have other text before it.
fn json(text: &str) -> Option<Value> {
    let starts = text.char_indices().filter(|(_, c)| matches!(c, '{' | '['));
    starts
        .map(|(at, _)| &text[at..])
        .find_map(|rest| serde_json::Deserializer::from_str(rest).into_iter::<Value>().next()?.ok())
}

/// `TIME: bus 01, gpu 95.83%, ..., vram 26.12% 267.44mb, ..., mclk ... , sclk ...`: the last line, as the first has no time before it.
fn radeontop(text: &str) -> Option<String> {
    let line = text.lines().rev().find(|line| line.contains("gpu ")).unwrap_or_default();
    let of = |name: &str| {
        let fields = line.split([',', ':']).map(str::trim);
        fields.filter_map(|field| field.strip_prefix(name)).find_map(number)
    };
    above_zero(&[
        ("the GPU's load", of("gpu ")),
        ("its shaders' load", of("spi ")),
        ("VRAM in use", of("vram ")),
    ])
}

fn amdgpu_top(text: &str) -> Option<String> {
    // A line for each look; the first one has no time before it.
    let last = text.lines().rev().find_map(json).unwrap_or_default();
    let device = &last["devices"][0];
    let of = |path: &str| device.pointer(path).and_then(figure);
    above_zero(&[
        ("the GPU's load", of("/gpu_activity/GFX/value")),
        ("the busy bits of its registers", of("/GRBM/Shader Processor Interpolator/value")),
        ("VRAM in use", of("/VRAM/Total VRAM Usage/value")),
        ("power", of("/Sensors/Average Power/value")),
        ("its clock", of("/Sensors/GFX_SCLK/value")),
    ])
}

fn rocm_smi(text: &str) -> Option<String> {
    let card = json(text).unwrap_or_default()["card0"].clone();
    let of = |name: &str| {
        let fields = card.as_object()?;
        fields.iter().find(|(key, _)| key.contains(name)).and_then(|(_, value)| figure(value))
    };
    above_zero(&[
        ("the GPU's load", of("GPU use")),
        ("VRAM in use", of("VRAM Total Used Memory")),
        ("power", of("Power (W)")),
    ])
}

fn amd_smi(text: &str) -> Option<String> {
    let all = json(text).unwrap_or_default();
    let gpu = all.get("gpu_data").unwrap_or(&all)[0].clone();
    let of = |path: &str| gpu.pointer(path).and_then(figure);
    above_zero(&[
        ("the GPU's load", of("/usage/gfx_activity/value")),
        ("VRAM in use", of("/mem_usage/used_vram/value")),
        ("power", of("/power/socket_power/value")),
        ("its clock", of("/clock/gfx_0/clk/value")),
    ])
}

fn nvtop(text: &str) -> Option<String> {
    let card = json(text).unwrap_or_default()[0].clone();
    let of = |name: &str| card.get(name).and_then(figure);
    above_zero(&[
        ("the GPU's load", of("gpu_util")),
        ("VRAM in use", of("mem_util")),
        ("power", of("power_draw")),
        ("its clock", of("gpu_clock")),
    ])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn radeontop_tells_of_registers_in_its_last_line() {
        let line = |gpu, spi| {
            format!(
                "1.5: bus 03, gpu {gpu}%, ee 0.00%, sh 0.00%, spi {spi}%, vram 25.16% 257.16mb, gtt 0.11% 20.46mb"
            )
        };
        let of = |gpu, spi| {
            radeontop(&format!("Dumping to -, line limit 3.\n{}\n{}", line("0.00", "0.00"), line(gpu, spi)))
        };
        assert_eq!(of("95.00", "94.17"), None);
        assert!(of("95.00", "0.00").unwrap().starts_with("its shaders' load is 0 "));
        assert!(
            radeontop("Failed to get GPU usage\n").unwrap().starts_with("it does not tell the GPU's load")
        );
    }

    #[test]
    fn amdgpu_top_tells_of_its_last_look() {
        let look = |spi: u32| {
            let device = json!({
                "gpu_activity": {"GFX": {"unit": "%", "value": 96}},
                "GRBM": {"Shader Processor Interpolator": {"unit": "%", "value": spi}},
                "VRAM": {"Total VRAM Usage": {"unit": "MiB", "value": 257}},
                "Sensors": {"Average Power": {"unit": "W", "value": 339}, "GFX_SCLK": {"unit": "MHz", "value": 2482}},
            });
            json!({"devices": [device]}).to_string()
        };
        assert_eq!(amdgpu_top(&format!("{}\n{}\n", look(0), look(95))), None);
        assert!(amdgpu_top(&format!("{}\n{}\n", look(95), look(0))).unwrap().contains("busy bits"));
        assert!(amdgpu_top("").is_some());
    }

    #[test]
    fn tools_of_rocm_tell_after_their_warnings() {
        let card = json!({"card0": {
            "Average Graphics Package Power (W)": "339.0",
            "GPU use (%)": "100",
            "VRAM Total Used Memory (B)": "269131776",
        }});
        assert_eq!(rocm_smi(&format!("{card}\n")), None);
        assert!(rocm_smi("{}").is_some());
        let metric = |power: Value| {
            json!({"gpu_data": [{
                "usage": {"gfx_activity": {"value": 90, "unit": "%"}},
                "mem_usage": {"used_vram": {"value": 257, "unit": "MB"}},
                "power": {"socket_power": power},
                "clock": {"gfx_0": {"clk": {"value": 2283, "unit": "MHz"}}},
            }]})
        };
        let told = metric(json!({"value": 306, "unit": "W"}));
        assert_eq!(amd_smi(&format!("Failed to open a directory.\n{told}\n")), None);
        assert!(amd_smi(&metric(json!("N/A")).to_string()).unwrap().starts_with("it does not tell power"));
    }

    #[test]
    fn nvtop_tells_numbers_with_units() {
        let card = |util: Value| {
            json!([{"gpu_clock": "2482MHz", "power_draw": "339W", "gpu_util": util, "mem_util": "25%"}])
                .to_string()
        };
        assert_eq!(nvtop(&card(json!("100%"))), None);
        assert!(nvtop(&card(json!("0%"))).is_some());
        assert!(nvtop(&card(Value::Null)).is_some());
    }
}
