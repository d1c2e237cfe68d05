//! The suites as commands: their names and their arguments.

use std::path::PathBuf;
use std::time::Duration;

use crate::plan::{Plan, Test};

/// The commands and the groups of cases that they run.
const COMMANDS: [(&str, &str); 5] = [
    ("hip-suite", "hip"),
    ("opencl-suite", "opencl"),
    ("hsa-suite", "hsa"),
    ("thunk-suite", "thunk"),
    ("vulkan-suite", "vulkan"),
];

/// Time limit of a case unless the command line says otherwise: many times what it needs even on a loaded machine.
const LIMIT: Duration = Duration::from_secs(60);

/// Action that a command line asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Text to print: the help, or the names of the cases.
    Print(String),
    /// The cases to run.
    Run(Request),
}

/// Cases to run, and the way to run them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    group: &'static str,
    filters: Vec<String>,
    skip: Vec<String>,
    exact: bool,
    /// Number of cases that run side by side, if they can; the number of processors unless the command line says
    /// otherwise.
    pub jobs: usize,
    /// Time limit of one case, if the command line has one.
    pub timeout: Option<Duration>,
    /// File that the results are written to for CI systems.
    pub junit: Option<PathBuf>,
}

/// Returns true if a program of that name is a suite that belfry provides.
#[must_use]
pub fn is_suite(program: &str) -> bool {
    group(program).is_some()
}

fn group(program: &str) -> Option<&'static str> {
    COMMANDS.iter().find(|(name, _)| *name == program).map(|(_, group)| *group)
}

fn help(program: &str, group: &str) -> String {
    format!(
        "Runs the {group} cases of belfry's suite of unmodified programs, each as a process of its own.\n\n\
         Usage: {program} [OPTIONS] [FILTER]...\n\n\
         FILTER          runs the cases that have one of these texts in their names [default: all]\n\
         --exact         FILTER and --skip are whole names, with or without `{group}::`\n\
         --skip TEXT     leaves out the cases with this text in their names; repeatable\n\
         --list          prints the names of the cases and ends\n\
         --jobs N        how many run at once, in `belfry exec` [default: one for each processor]\n\
         --junit FILE    writes the results in the form that CI systems read\n\
         --timeout SECS  how long one case may take [default: {}]\n\n\
         The last line is `N passed, N failed, N absent`; the exit status is 0 only if none failed. Absent are cases that\n\
         are known to fail, and fail for just the reason that is known.",
        LIMIT.as_secs()
    )
}

/// Arguments of a suite that are refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// An option takes a number and has none.
    #[error("{program}: {option} takes a whole number from 1")]
    Number {
        /// Name of the suite.
        program: String,
        /// The option.
        option: String,
    },
    /// `--skip` takes a text and has none.
    #[error("{0}: --skip takes a text")]
    Skip(String),
    /// `--junit` takes a file and has none.
    #[error("{0}: --junit takes a file")]
    File(String),
    /// The suite has no such option.
    #[error("{program}: there is no {argument}; --help lists the options")]
    Option {
        /// Name of the suite.
        program: String,
        /// The argument.
        argument: String,
    },
    /// The filters leave no case.
    #[error("{0}: no case has that name; --list prints all names")]
    NoCase(String),
}

impl Action {
    /// Parses `program ARGUMENTS`; `None` if `program` is no suite. `--list` lists the cases of `plan`.
    ///
    /// # Errors
    ///
    /// Arguments that it does not have.
    pub fn parse(plan: &Plan, program: &str, arguments: &[String]) -> Option<Result<Self, RequestError>> {
        group(program).map(|group| Self::of_group(plan, program, group, arguments))
    }

    fn of_group(
        plan: &Plan,
        program: &str,
        group: &'static str,
        arguments: &[String],
    ) -> Result<Self, RequestError> {
        let jobs = std::thread::available_parallelism().map_or(1, usize::from);
        let mut request = Request {
            group,
            filters: Vec::new(),
            skip: Vec::new(),
            exact: false,
            jobs,
            timeout: None,
            junit: None,
        };
        let mut list = false;
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            let (name, mut value) = match argument.split_once('=').filter(|_| argument.starts_with("--")) {
                Some((name, value)) => (name, Some(value)),
                None => (argument.as_str(), None),
            };
            let mut text = || value.take().or_else(|| rest.next().map(String::as_str));
            let number = |text: Option<&str>| {
                let number = text.and_then(|text| text.parse().ok()).filter(|&number: &u32| number > 0);
                number.ok_or_else(|| RequestError::Number {
                    program: program.to_owned(),
                    option: name.to_owned(),
                })
            };
            match name {
                "--skip" => {
                    let text = text().ok_or_else(|| RequestError::Skip(program.to_owned()))?;
                    request.skip.push(text.to_owned());
                }
                "--jobs" | "-j" => request.jobs = number(text())? as usize,
                "--timeout" => request.timeout = Some(Duration::from_secs(number(text())?.into())),
                "--junit" => {
                    let file = text().ok_or_else(|| RequestError::File(program.to_owned()))?;
                    request.junit = Some(file.into());
                }
                "--exact" if value.is_none() => request.exact = true,
                "--list" if value.is_none() => list = true,
                "--help" | "-h" if value.is_none() => return Ok(Self::Print(help(program, group))),
                _ if name.starts_with('-') => {
                    return Err(RequestError::Option {
                        program: program.to_owned(),
                        argument: argument.clone(),
                    });
                }
                _ => request.filters.push(argument.clone()),
            }
        }
        let tests = request.tests(plan);
        if tests.is_empty() {
            return Err(RequestError::NoCase(program.to_owned()));
        }
        if list {
            let names: Vec<&str> = tests.iter().map(|test| test.name.as_str()).collect();
            return Ok(Self::Print(names.join("\n")));
        }
        Ok(Self::Run(request))
    }
}

impl Request {
    /// The cases, in the plan's order.
    #[must_use]
    pub fn tests<'a>(&self, plan: &'a Plan) -> Vec<&'a Test> {
        plan.tests.iter().filter(|test| self.wants(&test.name)).collect()
    }

    /// The group that all cases are of.
    #[must_use]
    pub fn group(&self) -> &'static str {
        self.group
    }

    /// Time limit of one case; `usual` is the limit of a slower way to run it.
    #[must_use]
    pub fn limit(&self, usual: Option<Duration>) -> Duration {
        self.timeout.or(usual).unwrap_or(LIMIT)
    }

    fn wants(&self, name: &str) -> bool {
        let Some(case) = name.strip_prefix(self.group).and_then(|rest| rest.strip_prefix("::")) else {
            return false;
        };
        let matches = |text: &String| match self.exact {
            true => text == case || text == name,
            false => name.contains(text.as_str()),
        };
        (self.filters.is_empty() || self.filters.iter().any(matches)) && !self.skip.iter().any(matches)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Action, RequestError> {
        let mut words = line.split_whitespace().map(str::to_owned);
        let program = words.next().unwrap();
        Action::parse(&Plan::new().unwrap(), &program, &words.collect::<Vec<_>>()).unwrap()
    }

    fn listed(line: &str) -> Vec<String> {
        match parse(&format!("{line} --list")) {
            Ok(Action::Print(text)) => text.lines().map(str::to_owned).collect(),
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn suites_are_found_by_their_names_alone() {
        assert!(is_suite("hip-suite") && is_suite("opencl-suite"));
        assert!(!is_suite("hip") && !is_suite("./hip-suite") && !is_suite(""));
        assert_eq!(Action::parse(&Plan::new().unwrap(), "rocminfo", &[]), None);
    }

    #[test]
    fn cases_are_those_of_the_group() {
        let all = listed("hip-suite");
        assert!(all.len() >= 150 && all.iter().all(|name| name.starts_with("hip::")), "{}", all.len());
        assert!(listed("opencl-suite").iter().all(|name| name.starts_with("opencl::")));
        let vulkan = listed("vulkan-suite");
        assert!(vulkan.len() >= 20 && vulkan.iter().all(|name| name.starts_with("vulkan::")), "{vulkan:?}");
        for (suite, group) in [("thunk-suite", "thunk::"), ("hsa-suite", "hsa::")] {
            let all = listed(suite);
            assert!(
                all.len() >= 60 && all.iter().all(|name| name.starts_with(group)),
                "{suite}: {}",
                all.len()
            );
        }
    }

    #[test]
    fn filters_choose_and_skips_leave_out() {
        let copies = listed("hip-suite memcpy_2d");
        assert!(copies.iter().any(|name| name == "hip::memcpy_2d_async"), "{copies:?}");
        assert!(copies.iter().all(|name| name.contains("memcpy_2d")), "{copies:?}");
        assert_eq!(listed("hip-suite --exact memcpy_2d"), ["hip::memcpy_2d"]);
        assert_eq!(listed("hip-suite --exact hip::memcpy_2d memset_8"), ["hip::memcpy_2d", "hip::memset_8"]);
        let rest = listed("hip-suite memcpy_2d --skip async --skip=host");
        assert!(rest.contains(&"hip::memcpy_2d".to_owned()), "{rest:?}");
        assert!(rest.iter().all(|name| !name.contains("async") && !name.contains("host")), "{rest:?}");
    }

    #[test]
    fn numbers_and_limits_are_taken() {
        let Ok(Action::Run(request)) = parse("hip-suite memset -j 3 --timeout=7") else { panic!() };
        assert_eq!((request.jobs, request.limit(None)), (3, Duration::from_secs(7)));
        let Ok(Action::Run(request)) = parse("hip-suite memset") else { panic!() };
        assert_eq!(request.limit(Some(Duration::from_secs(9))), Duration::from_secs(9));
        assert!(request.jobs >= 1);
        let Ok(Action::Run(request)) = parse("hip-suite memset --junit=r.xml") else { panic!() };
        assert_eq!(request.junit.as_deref(), Some("r.xml".as_ref()));
    }

    #[test]
    fn arguments_without_meaning_are_refused() {
        for (line, says) in [
            ("hip-suite --frobnicate", "--frobnicate"),
            ("hip-suite --list=yes", "--list=yes"),
            ("hip-suite --jobs 0", "--jobs"),
            ("hip-suite --jobs", "--jobs"),
            ("hip-suite --timeout soon", "--timeout"),
            ("hip-suite --skip", "--skip"),
            ("hip-suite --junit", "--junit takes a file"),
            ("hip-suite no_such_case", "no case"),
            ("hip-suite --exact memcpy", "no case"),
        ] {
            let error = parse(line).unwrap_err().to_string();
            assert!(error.contains(says), "{line}: {error}");
        }
        let Ok(Action::Print(help)) = parse("hip-suite --help") else { panic!() };
        assert!(help.contains("--skip TEXT"), "{help}");
    }
}
