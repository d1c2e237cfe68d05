//! `belfry trace svg`: a picture of a run.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use belfry_device::trace::{Job, Kind, Record};

use crate::summary::{Analysis, name_of};
use crate::time::Time;
use crate::trace::Trace;

/// Pixels of the whole run.
const WIDTH: f64 = 1000.0;
/// Pixels of names, to the left of the run.
const LEFT: f64 = 190.0;
/// Pixels of a row.
const ROW: f64 = 18.0;
/// Colours of kernels.
const COLOURS: [&str; 6] = ["#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#76b7b2", "#b07aa1"];

/// A bar on a row, from one time to another.
struct Bar {
    row: String,
    from: u64,
    to: u64,
    name: String,
}

fn bars(trace: &Trace, end: u64) -> Vec<Bar> {
    let mut bars = Vec::new();
    let mut names: BTreeMap<(u16, Job), String> = BTreeMap::new();
    let mut open: BTreeMap<(String, (u16, Job)), (u64, String)> = BTreeMap::new();
    let are_numbered = trace.has_numbered_gpus();
    let of = |record: &Record| match trace.gpus.get(usize::from(record.owner.gpu)) {
        Some(gpu) if trace.gpus.len() > 1 => match gpu.number {
            Some(number) => format!("{}, GPU {number}, ", gpu.process),
            None => format!("{}, ", gpu.process),
        },
        None if are_numbered => format!("GPU {}, ", record.owner.gpu),
        _ => String::new(),
    };
    let queue = |record: &Record| format!("{}queue {:#x}", of(record), record.owner.doorbell.unwrap_or(0));
    let worker = |record: &Record| format!("{}worker {}", of(record), record.argument("worker").unwrap_or(0));
    for record in &trace.records {
        let job = (record.owner.gpu, record.job);
        let begin = match record.kind {
            Kind::DispatchStart => {
                names.insert(job, name_of(record));
                Some((queue(record), name_of(record)))
            }
            Kind::SdmaStart => Some((queue(record), "SDMA".to_owned())),
            Kind::WorkgroupStart => Some((worker(record), names.get(&job).cloned().unwrap_or_default())),
            _ => None,
        };
        if let Some((row, name)) = begin {
            open.insert((row, job), (record.time, name));
            continue;
        }
        let row = match record.kind {
            Kind::DispatchEnd | Kind::SdmaEnd => queue(record),
            Kind::WorkgroupEnd => worker(record),
            _ => continue,
        };
        if let Some((from, name)) = open.remove(&(row.clone(), job)) {
            bars.push(Bar { row, from, to: record.time, name });
        }
    }
    bars.extend(open.into_iter().map(|((row, _), (from, name))| Bar { row, from, to: end, name }));
    bars
}

/// Escapes a text for content or attributes of XML.
#[must_use]
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Draws a picture with a row for each queue and each worker, and marks for interrupts, faults and refusals.
#[must_use]
pub fn svg(trace: &Trace) -> String {
    let (start, end) = Analysis::of(trace).span.unwrap_or((0, 0));
    let scale = WIDTH / (end - start).max(1) as f64;
    let at = |time: u64| LEFT + (time - start) as f64 * scale;
    let bars = bars(trace, end);
    let mut rows: Vec<&str> = bars.iter().map(|bar| bar.row.as_str()).collect();
    rows.sort_unstable();
    rows.dedup();
    rows.push("interrupts, faults");
    let mut kernels: Vec<&str> = bars.iter().map(|bar| bar.name.as_str()).collect();
    kernels.sort_unstable();
    kernels.dedup();
    let height = ROW * (rows.len() as f64 + 2.5);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{height}\" font-family=\"sans-serif\" \
         font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
        LEFT + WIDTH + 20.0
    );
    let y = |row: usize| ROW * (row as f64 + 1.0);
    // Text never fails.
    for (index, row) in rows.iter().enumerate() {
        let _ = writeln!(out, "<text x=\"4\" y=\"{:.1}\">{}</text>", y(index) + ROW - 5.0, escaped(row));
        let _ = writeln!(
            out,
            "<line x1=\"{LEFT}\" x2=\"{}\" y1=\"{1:.1}\" y2=\"{1:.1}\" stroke=\"#ddd\"/>",
            LEFT + WIDTH,
            y(index) + ROW - 1.0
        );
    }
    for bar in &bars {
        let row = rows.iter().position(|row| *row == bar.row).unwrap_or(0);
        let colour = kernels.iter().position(|kernel| *kernel == bar.name).unwrap_or(0) % COLOURS.len();
        let _ = writeln!(
            out,
            "<rect x=\"{:.2}\" y=\"{:.1}\" width=\"{:.2}\" height=\"{:.1}\" fill=\"{}\"><title>{}, {}</title></rect>",
            at(bar.from),
            y(row) + 2.0,
            ((bar.to - bar.from) as f64 * scale).max(0.5),
            ROW - 5.0,
            COLOURS[colour],
            escaped(&bar.name),
            Time(bar.to - bar.from)
        );
    }
    for record in &trace.records {
        let colour = match record.kind {
            Kind::Interrupt => "#555",
            Kind::PageFault | Kind::Refused | Kind::Fault | Kind::Reset => "#d00",
            _ => continue,
        };
        let _ = writeln!(
            out,
            "<rect x=\"{:.2}\" y=\"{:.1}\" width=\"1\" height=\"{:.1}\" fill=\"{colour}\"><title>{} {}</title></rect>",
            at(record.time),
            y(rows.len() - 1) + 2.0,
            ROW - 5.0,
            record.kind.name(),
            escaped(&record.text)
        );
    }
    let axis = y(rows.len()) + ROW - 4.0;
    for part in 0..=4 {
        let time = (end - start) / 4 * part;
        let _ = writeln!(
            out,
            "<text x=\"{:.1}\" y=\"{axis:.1}\" text-anchor=\"middle\">{}</text>",
            at(start + time),
            Time(time)
        );
    }
    out.push_str("</svg>\n");
    out
}
