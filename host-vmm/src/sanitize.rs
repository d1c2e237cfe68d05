//! Findings of the sanitizer as text and in the formats of tools: JSON, SARIF 2.1.0, JUnit.

use std::fmt::Write as _;
use std::path::Path;

use belfry_device::sanitize::{Finding, Misuse, Other, Rule, SanitizeReport, Source};
use belfry_junit::{Case, End, Suite};
use serde_json::{Value, json};

use crate::symbols::Symbols;

/// Formats of a report.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Format {
    /// For people.
    Text,
    /// An object in a format of Belfry's own.
    Json,
    /// Static Analysis Results Interchange Format, which code hosts read.
    Sarif,
    /// Test results, which CI systems read: a test for each rule.
    Junit,
}

impl Format {
    /// Returns the format that a file's name ends in.
    #[must_use]
    pub fn of(path: &Path) -> Self {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("json") => Self::Json,
            Some("sarif") => Self::Sarif,
            Some("xml") => Self::Junit,
            _ => Self::Text,
        }
    }
}

/// Adds the source lines of findings, as far as there is debug information for them.
pub fn add_lines(report: &mut SanitizeReport, symbols: &mut Symbols) {
    if symbols.is_empty() {
        return;
    }
    for finding in &mut report.findings {
        // Different processes can have different code objects at one address.
        symbols.loaded.clear();
        let Some(descriptor) = finding.descriptor else { continue };
        symbols.dispatched(&finding.kernel, descriptor);
        for at in std::iter::once(&mut finding.here).chain(&mut finding.against) {
            let line = symbols.line(at.pc);
            at.source = line.map(|line| Source { file: line.file.to_owned(), line: line.line });
        }
    }
}

/// Returns the report in a format.
#[must_use]
pub fn render(report: &SanitizeReport, format: Format) -> String {
    match format {
        Format::Text => text(report),
        Format::Json => format!("{:#}\n", as_json(report)),
        Format::Sarif => format!("{:#}\n", sarif(report)),
        Format::Junit => junit(report),
    }
}

fn text(report: &SanitizeReport) -> String {
    let mut text = String::new();
    for finding in &report.findings {
        let _ = writeln!(text, "{finding}");
    }
    for misuse in &report.misuses {
        let _ = writeln!(text, "{misuse}");
    }
    let _ = writeln!(text, "sanitizer: {}", summary(report));
    text
}

fn summary(report: &SanitizeReport) -> String {
    let mut text = match report.findings.len() + report.misuses.len() {
        0 => "no rule was broken".to_owned(),
        1 => "1 finding".to_owned(),
        count => format!("{count} findings"),
    };
    if report.beyond > 0 {
        let _ = write!(text, ", and {} more times others that were not kept", report.beyond);
    }
    if report.incomplete {
        text.push_str("; some of what kernels did was more than could be kept, and was not looked at");
    }
    text
}

fn as_json(report: &SanitizeReport) -> Value {
    let place = |at: &Other| {
        json!({
            "workgroup": at.workgroup, "wave": at.wave, "lane": at.lane, "pc": format!("{:#x}", at.pc),
            "instruction": at.instruction, "does": at.does, "source": at.source,
        })
    };
    let finding = |finding: &Finding| {
        json!({
            "rule": finding.rule.name(), "meaning": finding.rule.meaning(), "kernel": finding.kernel,
            "entry": format!("{:#x}", finding.entry), "dispatch": finding.dispatch, "count": finding.count,
            "here": place(&finding.here), "against": finding.against.as_ref().map(place),
        })
    };
    let misuse = |misuse: &Misuse| {
        json!({
            "rule": misuse.rule.name(), "expected": misuse.rule.meaning(), "found": misuse.found,
            "subject": misuse.subject, "process": misuse.process, "doorbell": misuse.doorbell,
            "packet": misuse.packet, "address": misuse.address.map(|at| format!("{at:#x}")),
            "time_ns": misuse.time, "count": misuse.count,
        })
    };
    json!({
        "findings": report.findings.iter().map(finding).collect::<Vec<_>>(),
        "misuses": report.misuses.iter().map(misuse).collect::<Vec<_>>(),
        "beyond": report.beyond, "incomplete": report.incomplete,
    })
}

fn sarif(report: &SanitizeReport) -> Value {
    let rule = |rule: Rule| json!({"id": rule.name(), "shortDescription": {"text": rule.meaning()}});
    let result = |finding: &Finding| {
        let mut place = json!({"address": {"absoluteAddress": finding.here.pc}});
        if let Some(source) = &finding.here.source {
            place["artifactLocation"] = json!({"uri": source.file});
            place["region"] = json!({"startLine": source.line});
        }
        json!({
            "ruleId": finding.rule.name(),
            "level": "error",
            "message": {"text": finding.to_string()},
            "occurrenceCount": finding.count,
            "locations": [{
                "physicalLocation": place,
                "logicalLocations": [{"name": finding.kernel, "kind": "function"}],
            }],
        })
    };
    let misuse = |misuse: &Misuse| {
        let mut result = json!({
            "ruleId": misuse.rule.name(),
            "level": "error",
            "message": {"text": misuse.to_string()},
            "occurrenceCount": misuse.count,
        });
        if let Some(address) = misuse.address {
            result["locations"] = json!([{"physicalLocation": {"address": {"absoluteAddress": address}}}]);
        }
        result
    };
    let results = report.findings.iter().map(result).chain(report.misuses.iter().map(misuse));
    json!({
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {
                "name": "belfry",
                "version": env!("CARGO_PKG_VERSION"),
                "rules": Rule::ALL.map(rule),
            }},
            "results": results.collect::<Vec<_>>(),
        }],
    })
}

fn junit(report: &SanitizeReport) -> String {
    let broken = |rule: Rule| -> Vec<String> {
        let findings = report.findings.iter().filter(|finding| finding.rule == rule);
        let misuses = report.misuses.iter().filter(|misuse| misuse.rule == rule);
        findings.map(ToString::to_string).chain(misuses.map(ToString::to_string)).collect()
    };
    let cases = Rule::ALL.into_iter().map(|rule| {
        let all = broken(rule);
        let end = match all.is_empty() {
            true => End::Passed,
            false => End::Failed { message: rule.meaning().to_owned(), details: all.join("\n") },
        };
        Case { class: "sanitizer".into(), name: rule.to_string(), seconds: None, end, output: String::new() }
    });
    let suite = Suite { name: "belfry sanitizer".into(), cases: cases.collect() };
    belfry_junit::file("belfry sanitizer", &[suite])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> SanitizeReport {
        let place = |wave| Other {
            workgroup: [1, 2, 3],
            wave,
            lane: Some(4),
            pc: 0x1010,
            instruction: "ds_load_b32 v1, v2".into(),
            does: "reads 4 bytes at LDS 0x10".into(),
            source: (wave == 1).then(|| Source { file: "src/reduce.cl".into(), line: 7 }),
        };
        let finding = Finding {
            rule: Rule::LdsRace,
            kernel: "a<b>&\"c\"\u{1}".into(),
            entry: 0x1000,
            descriptor: None,
            dispatch: 7,
            here: place(0),
            against: Some(place(1)),
            count: 3,
        };
        let misuse = Misuse {
            rule: Rule::PacketChanged,
            process: Some(0x8001),
            doorbell: Some(0x1002),
            packet: Some(7),
            address: Some(0x2000),
            time: 5000,
            subject: String::new(),
            found: "dword 4 is 0x2, was 0x1".into(),
            count: 1,
        };
        SanitizeReport { findings: vec![finding], misuses: vec![misuse], ..SanitizeReport::default() }
    }

    #[test]
    fn text_tells_who_and_where() {
        let text = render(&report(), Format::Text);
        for part in [
            "lds-race: a<b>",
            "dispatch 7",
            "+0x10 (0x1010): ds_load_b32 v1, v2",
            "ds_load_b32 v1, v2, reduce.cl:7\n    wave 1 of workgroup 1,2,3, lane 4, reads 4 bytes at LDS 0x10",
            "met 3 times",
            "packet-changed: queue with doorbell 0x1002, process 0x8001, packet 7, address 0x2000",
            "found: dword 4 is 0x2, was 0x1",
            "sanitizer: 2 findings\n",
        ] {
            assert!(text.contains(part), "no {part:?} in {text}");
        }
        assert_eq!(render(&SanitizeReport::default(), Format::Text), "sanitizer: no rule was broken\n");
    }

    #[test]
    fn formats_of_tools_are_well_formed() {
        let json: Value = serde_json::from_str(&render(&report(), Format::Json)).unwrap();
        assert_eq!(json["findings"][0]["against"]["wave"], 1);
        assert_eq!(json["misuses"][0]["doorbell"], 0x1002);
        let sarif: Value = serde_json::from_str(&render(&report(), Format::Sarif)).unwrap();
        assert_eq!(sarif["version"], "2.1.0");
        assert_eq!(sarif["runs"][0]["results"][0]["ruleId"], "lds-race");
        assert_eq!(sarif["runs"][0]["results"][1]["ruleId"], "packet-changed");
        assert_eq!(sarif["runs"][0]["tool"]["driver"]["rules"].as_array().unwrap().len(), Rule::ALL.len());
        let junit = render(&report(), Format::Junit);
        let counts = format!("tests=\"{}\" failures=\"2\"", Rule::ALL.len());
        assert!(junit.contains(&counts), "{junit}");
        assert!(junit.contains("a&lt;b&gt;&amp;&quot;c&quot;\u{fffd}"), "{junit}");
        assert_eq!(junit.matches("<testcase").count(), Rule::ALL.len());
        assert!(render(&SanitizeReport::default(), Format::Junit).contains("failures=\"0\""));
    }

    #[test]
    fn files_are_written_as_their_names_end() {
        for (name, format) in [
            ("a.json", Format::Json),
            ("a.sarif", Format::Sarif),
            ("a.xml", Format::Junit),
            ("a.txt", Format::Text),
            ("a", Format::Text),
        ] {
            assert_eq!(Format::of(Path::new(name)), format);
        }
    }
}
