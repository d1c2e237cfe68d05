//! Starts of `belfry exec` that are done by the record of an earlier one.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// True if this binary has an entry of its own: one that is linked with shared libraries has none.
const HAS_ENTRY: bool = option_env!("BELFRY_START_OBJECT").is_some();

/// A cache that no other test uses.
struct Cache(tempfile::TempDir);

impl Cache {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_belfry"));
        command.args(arguments).env("BELFRY_CACHE", self.0.path()).env_remove("LD_PRELOAD");
        command
    }

    fn records(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.0.path().join("exec")).unwrap();
        let paths = entries.map(|entry| entry.unwrap().path());
        paths.filter(|path| name(path).starts_with("start-")).collect()
    }

    #[track_caller]
    fn record(&self) -> PathBuf {
        let [path] = self.records().try_into().expect("one record");
        path
    }
}

fn name(path: &Path) -> &str {
    path.file_name().unwrap().to_str().unwrap()
}

#[track_caller]
fn succeed(command: &mut Command) -> (String, String) {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let (stdout, stderr) = (String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap());
    assert_eq!(status.code(), Some(0), "{command:?}\n{stdout}{stderr}");
    (stdout, stderr)
}

/// Writes the record with another spelling of the notice, by which a start shows that it has used it.
fn mark(record: &Path, content: &[u8]) -> Vec<u8> {
    const NOTICE: &[u8] = b"belfry exec: gfx";
    let at = content.windows(NOTICE.len()).position(|window| window == NOTICE).unwrap();
    let mut marked = content.to_vec();
    marked[at..at + 6].copy_from_slice(b"BELFRY");
    fs::write(record, &marked).unwrap();
    marked
}

const SHOW: &str = "echo $0 $@; echo $LD_PRELOAD; echo $BELFRY_EXEC; echo ${BELFRY_EXEC_SUMMARY-none} $OTHER";

#[test]
fn second_start_gives_a_program_what_the_first_gave() {
    let cache = Cache::new();
    let arguments = ["exec", "--", "sh", "-c", SHOW, "one", "two  words", ""];
    let run =
        || succeed(cache.command(&arguments).env("BELFRY_EXEC_SUMMARY", "/nowhere").env("OTHER", "kept"));
    let (stdout, stderr) = run();
    assert!(stderr.starts_with("belfry exec: gfx1100 with "), "{stderr}");
    let lines: Vec<&str> = stdout.lines().collect();
    assert_eq!((lines[0], lines[3]), ("one two words", "none kept"), "{stdout}");
    assert!(lines[1].contains("/exec/libbelfry-preload-") && lines[2].contains("/exec/tree-"), "{stdout}");
    assert_eq!(run(), (stdout.clone(), stderr.clone()));
    let record = cache.record();
    let content = fs::read(&record).unwrap();
    mark(&record, &content);
    let again = run();
    assert_eq!(again.0, stdout);
    let wanted = if HAS_ENTRY { stderr.replacen("belfry", "BELFRY", 1) } else { stderr };
    assert_eq!(again.1, wanted);
}

#[test]
fn records_that_do_not_fit_are_left_alone() {
    let cache = Cache::new();
    let run = |more: &[&str]| succeed(cache.command(&["exec", "--", "true"]).args(more)).1;
    let notice = run(&[]);
    let record = cache.record();
    let content = fs::read(&record).unwrap();
    let marked = mark(&record, &content);
    // Each of them changes a condition: memory, processors, groups, a path that is there, one that is not.
    let conditions = [b'b', b'm', b'p', b'g', b'+', b'-', b'o'];
    let mut at = 8;
    let mut changed = 0;
    while at + 5 < marked.len() {
        let size = u32::from_le_bytes(marked[at + 1..at + 5].try_into().unwrap()) as usize;
        if conditions.contains(&marked[at]) {
            let mut other = marked.clone();
            if marked[at] == b'-' {
                // The root directory is there.
                other.splice(at + 1..at + 5 + size, [1, 0, 0, 0, b'/']);
            } else if size == 0 {
                // Options that there were none of.
                other.splice(at + 1..at + 5, [2, 0, 0, 0, b'-', 0]);
            } else {
                other[at + 5] ^= 1;
            }
            fs::write(&record, &other).unwrap();
            assert_eq!(run(&[]), notice, "{}", marked[at] as char);
            changed += 1;
        }
        at += 5 + size + 1;
    }
    // Among them two signs of each of two buses: the root bus, and the GPU's.
    assert_eq!(changed, 11);
    for size in (0..marked.len()).step_by(13) {
        fs::write(&record, &marked[..size]).unwrap();
        assert_eq!(run(&[]), notice, "{size} bytes");
    }
    // Any byte is changed: no start fails with any such record.
    for at in (0..marked.len()).step_by(5) {
        let mut other = marked.clone();
        other[at] ^= 0x55;
        fs::write(&record, &other).unwrap();
        run(&[]);
    }
    // The ordinary start has left a record that is right.
    fs::write(&record, b"").unwrap();
    assert_eq!((run(&[]), fs::read(&record).unwrap()), (notice, content));
}

#[test]
fn other_options_have_records_of_their_own() {
    let cache = Cache::new();
    let say = |options: &[&str]| {
        let mut arguments = vec!["exec"];
        arguments.extend(options);
        arguments.extend(["--", "true"]);
        succeed(&mut cache.command(&arguments)).1
    };
    for _ in 0..2 {
        assert_eq!(say(&["-q"]), "");
        let notice = say(&["--chip", "gfx942:xccs=2,cus=8", "--vram", "2G"]);
        assert!(notice.starts_with("belfry exec: gfx942 with 8 CUs on 2 XCCs and 2048 MiB"), "{notice}");
    }
    assert_eq!(cache.records().len(), 2);
    let report = succeed(&mut cache.command(&["exec", "-q", "--json", "--", "true"])).0;
    assert!(report.starts_with('{'), "{report}");
    assert_eq!(cache.records().len(), 2, "a summary is made by a process that stays");
}

#[test]
fn programs_are_found_and_missed_as_by_the_first_start() {
    let cache = Cache::new();
    let place = tempfile::tempdir().unwrap();
    let (empty, programs) = (place.path().join("empty"), place.path().join("programs"));
    fs::create_dir_all(empty.join("directory")).unwrap();
    fs::create_dir(&programs).unwrap();
    let write = |name: &str, text: &str, mode: u32| {
        let path = programs.join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
    };
    write("script", "#!/bin/sh\necho script $1\n", 0o755);
    write("directory", "#!/bin/sh\necho program\n", 0o755);
    write("plain", "echo no interpreter is named\n", 0o755);
    write("locked", "#!/bin/sh\n", 0o644);
    write("lost", "#!/nowhere/interpreter\n", 0o755);
    let path = format!("/nowhere:{}:{}:/bin:/usr/bin", empty.display(), programs.display());
    let run = |program: &str| {
        let output =
            cache.command(&["exec", "-q", "--", program, "word"]).env("PATH", &path).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let absolute = programs.join("script").display().to_string();
    for _ in 0..2 {
        assert_eq!(run("script"), (Some(0), "script word\n".into(), String::new()));
        assert_eq!(run(&absolute), (Some(0), "script word\n".into(), String::new()));
        assert_eq!(run("directory").1, "program\n");
        assert_eq!(run("plain").1, "no interpreter is named\n");
        for (missing, reason) in [
            ("locked", "Permission denied"),
            ("lost", "No such file"),
            ("nothing-of-this-name", "no directory of PATH has it; `--image rocm`"),
            ("/nowhere/at/all", "No such file"),
        ] {
            let (status, stdout, stderr) = run(missing);
            assert_eq!((status, stdout.as_str()), (Some(125), ""), "{missing}");
            assert!(stderr.starts_with(&format!("belfry: cannot start {missing}: {reason}")), "{stderr}");
        }
    }
    assert_eq!(cache.records().len(), 1);
}

/// The folder's content becomes part of programs: neither kind of start uses files that others may have put there.
#[test]
fn folder_that_others_may_write_to_is_refused_by_either_start() {
    use std::os::unix::fs::PermissionsExt as _;
    let cache = Cache::new();
    let arguments = ["exec", "--", "true"];
    succeed(&mut cache.command(&arguments));
    cache.record();
    let folder = cache.0.path().join("exec");
    for mode in [0o777, 0o775] {
        fs::set_permissions(&folder, fs::Permissions::from_mode(mode)).unwrap();
        let output = cache.command(&arguments).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(125), "{said}");
        assert!(said.contains("may be written to by others") && said.contains("BELFRY_CACHE"), "{said}");
    }
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
    succeed(&mut cache.command(&arguments));
}
