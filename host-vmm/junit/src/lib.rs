//! Results of tests in the form that CI systems read: JUnit's XML.

use std::fmt::Write as _;

/// A group of cases.
#[derive(Debug, Clone, PartialEq)]
pub struct Suite {
    /// Name of the group.
    pub name: String,
    /// The cases.
    pub cases: Vec<Case>,
}

/// A case, and its end.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    /// Name of the class, or of what stands for it.
    pub class: String,
    /// Name of the case.
    pub name: String,
    /// Seconds that it took; absent for cases that take none.
    pub seconds: Option<f64>,
    /// The end.
    pub end: End,
    /// Output of the case.
    pub output: String,
}

/// End of a case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// The case is as it should be.
    Passed,
    /// The case is not.
    Failed {
        /// The failure in a line.
        message: String,
        /// All there is to say of it.
        details: String,
    },
    /// There is no result.
    Missing {
        /// The reason in a line.
        message: String,
    },
    /// The case was left out, or failed as it is known to.
    Skipped {
        /// The reason in a line.
        message: String,
    },
}

/// Cases by their ends.
#[derive(Default)]
struct Counts {
    all: usize,
    failed: usize,
    missing: usize,
    skipped: usize,
}

impl Counts {
    fn of<'a>(cases: impl Iterator<Item = &'a Case>) -> Self {
        let mut counts = Self::default();
        for case in cases {
            counts.all += 1;
            match case.end {
                End::Passed => {}
                End::Failed { .. } => counts.failed += 1,
                End::Missing { .. } => counts.missing += 1,
                End::Skipped { .. } => counts.skipped += 1,
            }
        }
        counts
    }

    fn attributes(&self) -> String {
        let Self { all, failed, missing, skipped } = self;
        format!("tests=\"{all}\" failures=\"{failed}\" errors=\"{missing}\" skipped=\"{skipped}\"")
    }
}

/// Returns the file of suites.
#[must_use]
pub fn file(title: &str, suites: &[Suite]) -> String {
    let counts = Counts::of(suites.iter().flat_map(|suite| &suite.cases)).attributes();
    let title = escaped(title);
    let mut text =
        format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"{title}\" {counts}>\n");
    // Writing to a string does not fail.
    for Suite { name, cases } in suites {
        let counts = Counts::of(cases.iter()).attributes();
        let _ = writeln!(text, "<testsuite name=\"{}\" {counts}>", escaped(name));
        cases.iter().for_each(|case| case.write(&mut text));
        text.push_str("</testsuite>\n");
    }
    text.push_str("</testsuites>\n");
    text
}

impl Case {
    fn write(&self, text: &mut String) {
        let Self { class, name, seconds, end, output } = self;
        let _ = write!(text, "<testcase classname=\"{}\" name=\"{}\"", escaped(class), escaped(name));
        if let Some(seconds) = seconds {
            let _ = write!(text, " time=\"{seconds:.3}\"");
        }
        if *end == End::Passed && output.is_empty() {
            text.push_str("/>\n");
            return;
        }
        text.push('>');
        let _ = match end {
            End::Passed => Ok(()),
            End::Failed { message, details } if details.is_empty() => {
                write!(text, "<failure message=\"{}\"/>", escaped(message))
            }
            End::Failed { message, details } => {
                write!(text, "<failure message=\"{}\">{}</failure>", escaped(message), escaped(details))
            }
            End::Missing { message } => write!(text, "<error message=\"{}\"/>", escaped(message)),
            End::Skipped { message } => write!(text, "<skipped message=\"{}\"/>", escaped(message)),
        };
        if !output.is_empty() {
            let _ = write!(text, "<system-out>{}</system-out>", escaped(output));
        }
        text.push_str("</testcase>\n");
    }
}

/// Returns a text for XML and HTML, without the characters that these cannot have: names come from programs, and may hold any.
#[must_use]
pub fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\n' | '\t' => escaped.push(character),
            '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            control if control.is_control() => escaped.push('\u{fffd}'),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(name: &str, end: End, output: &str) -> Case {
        Case { class: "c".into(), name: name.into(), seconds: Some(1.5), end, output: output.into() }
    }

    #[test]
    fn each_end_has_its_element_and_is_counted() {
        let cases = vec![
            case("a", End::Passed, ""),
            case("b", End::Failed { message: "m".into(), details: "1\n2".into() }, "said"),
            case("c", End::Failed { message: "m".into(), details: String::new() }, ""),
            case("d", End::Missing { message: "gone".into() }, ""),
            Case { seconds: None, ..case("e", End::Skipped { message: "why".into() }, "") },
        ];
        let text = file("t", &[Suite { name: "s".into(), cases }]);
        let counts = "tests=\"5\" failures=\"2\" errors=\"1\" skipped=\"1\"";
        assert_eq!(
            text,
            format!(
                "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"t\" {counts}>\n<testsuite name=\"s\" {counts}>\n\
                 <testcase classname=\"c\" name=\"a\" time=\"1.500\"/>\n\
                 <testcase classname=\"c\" name=\"b\" time=\"1.500\"><failure message=\"m\">1\n2</failure><system-out>said</system-out></testcase>\n\
                 <testcase classname=\"c\" name=\"c\" time=\"1.500\"><failure message=\"m\"/></testcase>\n\
                 <testcase classname=\"c\" name=\"d\" time=\"1.500\"><error message=\"gone\"/></testcase>\n\
                 <testcase classname=\"c\" name=\"e\"><skipped message=\"why\"/></testcase>\n\
                 </testsuite>\n</testsuites>\n"
            )
        );
    }

    #[test]
    fn characters_that_xml_cannot_have_are_replaced() {
        assert_eq!(escaped("a<b>&\"c\"\u{1b}\u{fffe}\n"), "a&lt;b&gt;&amp;&quot;c&quot;\u{fffd}\u{fffd}\n");
    }
}
