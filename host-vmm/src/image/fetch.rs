//! Debian packages without root: a private apt state, downloads by name, unpacking with `dpkg-deb -x`.
//!
//! apt itself resolves names, verifies the archive's signatures and checks every hash; nothing of it touches the
//! machine's own package state. The archive's address comes from the machine's apt configuration, or from
//! `BELFRY_DEBIAN_MIRROR` on a machine that is not Debian.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use sha2::{Digest as _, Sha256};

use super::cache::{Cache, CacheError, PackageRecord, create_dir, io_error, write_atomically};
use super::progress::Progress;

/// The Debian release every guest artifact comes from.
pub const RELEASE: &str = "trixie";
/// The suite of newer packages rebuilt for [`RELEASE`].
pub const BACKPORTS: &str = "trixie-backports";
/// Where Debian's archive keys are installed by the package `debian-archive-keyring`.
pub const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// Package lists younger than this are not fetched again.
const LIST_LIFETIME: Duration = Duration::from_secs(6 * 3600);

/// What can go wrong while packages are fetched.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// The cache directory failed.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// A program this needs is not installed.
    #[error("{program} is not installed; install the package {package}")]
    Missing {
        /// The program that could not be started.
        program: String,
        /// The Debian package that holds it.
        package: &'static str,
    },
    /// Debian's archive keys are not on this machine, so nothing could be verified.
    #[error(
        "{KEYRING} is missing; install the package debian-archive-keyring (packages are never taken unverified)"
    )]
    NoKeyring,
    /// The machine's apt configuration names no Debian archive.
    #[error(
        "no Debian archive in this machine's apt configuration; set BELFRY_DEBIAN_MIRROR to the URI of one"
    )]
    NoMirror,
    /// apt or dpkg failed.
    #[error("{command} failed ({status}): {stderr}")]
    Command {
        /// The command's name and verb.
        command: String,
        /// Its exit status.
        status: String,
        /// The last lines it wrote to stderr.
        stderr: String,
    },
    /// A package does not exist in the release, or not in the version asked for.
    #[error("package {0} is not in the Debian archive")]
    NoPackage(String),
    /// apt's answer could not be read.
    #[error("cannot read apt's answer: {0}")]
    Parse(String),
    /// A downloaded file is not the one the signed index names.
    #[error("{file}: SHA-256 is {actual}, the archive's index says {expected}")]
    Hash {
        /// The file concerned.
        file: String,
        /// Hash from the signed index.
        expected: String,
        /// Hash of the file.
        actual: String,
    },
}

/// One downloadable package of the archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Package {
    /// Name, version and hash.
    pub record: PackageRecord,
    /// File name of the `.deb`, as apt writes it.
    pub file: String,
    /// Size of the `.deb` in bytes.
    pub size: u64,
}

/// A private apt: its own lists, caches and empty package state, below the cache directory.
#[derive(Debug)]
pub struct Apt {
    directory: PathBuf,
    config: PathBuf,
}

impl Apt {
    /// Prepares the private state and brings the package lists up to date.
    ///
    /// The caller holds the cache's `apt` lock. Lists younger than six hours are used as they are.
    pub fn prepare(cache: &Cache, progress: &Progress) -> Result<Self, FetchError> {
        if !Path::new(KEYRING).exists() {
            return Err(FetchError::NoKeyring);
        }
        let directory = cache.root().join("apt");
        for sub in ["state/lists/partial", "cache/archives/partial", "debs"] {
            create_dir(&directory.join(sub))?;
        }
        let status = directory.join("status");
        fs::write(&status, b"").map_err(io_error("write", &status))?;
        let sources = directory.join("sources.list");
        let mirror = find_mirror()?;
        let changed = write_if_changed(&sources, &sources_list(&mirror))?;
        let config = directory.join("apt.conf");
        write_if_changed(&config, &apt_conf(&directory))?;
        let apt = Self { directory, config };
        let stamp = apt.directory.join("updated");
        let fresh = fs::metadata(&stamp)
            .and_then(|meta| meta.modified())
            .ok()
            .and_then(|time| SystemTime::now().duration_since(time).ok())
            .is_some_and(|age| age < LIST_LIFETIME);
        if changed || !fresh {
            let step = progress.spinner("fetching Debian package lists");
            // Without it apt only warns of a mirror it cannot reach, and the lists are silently empty.
            apt.run("apt-get", &["-q", "update", "--error-on=any"])?;
            fs::write(&stamp, b"").map_err(io_error("write", &stamp))?;
            step.done("done");
        }
        Ok(apt)
    }

    /// Every package `names` need, themselves included, resolved against an empty system.
    ///
    /// With `suite`, packages of that suite are preferred, dependencies too.
    pub fn closure(&self, names: &[&str], suite: Option<&str>) -> Result<Vec<Package>, FetchError> {
        let mut args = vec!["-q", "-s"];
        if let Some(suite) = suite {
            args.extend(["-t", suite]);
        }
        args.push("install");
        args.extend(names);
        let text = self.run("apt-get", &args)?;
        let specs = parse_simulation(&text);
        for name in names {
            if !specs.iter().any(|(package, _)| package == name) {
                return Err(FetchError::NoPackage((*name).to_owned()));
            }
        }
        self.packages(&specs)
    }

    /// The named packages themselves, in the version apt would choose.
    pub fn exact(&self, names: &[&str]) -> Result<Vec<Package>, FetchError> {
        let mut specs = Vec::new();
        for name in names {
            let text = self.run("apt-cache", &["policy", name])?;
            let version = text
                .lines()
                .find_map(|line| line.trim().strip_prefix("Candidate: "))
                .filter(|version| *version != "(none)")
                .ok_or_else(|| FetchError::NoPackage((*name).to_owned()))?;
            specs.push(((*name).to_owned(), version.to_owned()));
        }
        self.packages(&specs)
    }

    /// The newest version of `name` whose upstream version starts with `prefix`.
    pub fn with_prefix(&self, name: &str, prefix: &str) -> Result<Package, FetchError> {
        let text = self.run("apt-cache", &["madison", name])?;
        let version = text
            .lines()
            .filter_map(|line| line.split('|').nth(1))
            .map(str::trim)
            .find(|version| version.starts_with(prefix))
            .ok_or_else(|| FetchError::NoPackage(format!("{name} {prefix}*")))?;
        self.packages(&[(name.to_owned(), version.to_owned())])?
            .pop()
            .ok_or_else(|| FetchError::NoPackage(name.to_owned()))
    }

    /// What the meta-package `name` of [`RELEASE`] depends on first, such as the current kernel's image package.
    pub fn first_dependency(&self, name: &str) -> Result<String, FetchError> {
        let text = self.run("apt-cache", &["show", "--no-all-versions", name])?;
        text.lines()
            .find_map(|line| line.strip_prefix("Depends: "))
            .and_then(|depends| depends.split([',', ' ']).next())
            .map(str::to_owned)
            .ok_or_else(|| FetchError::NoPackage(name.to_owned()))
    }

    fn packages(&self, specs: &[(String, String)]) -> Result<Vec<Package>, FetchError> {
        let wanted: Vec<String> = specs.iter().map(|(name, version)| format!("{name}={version}")).collect();
        let mut args = vec!["-q", "--print-uris", "download"];
        args.extend(wanted.iter().map(String::as_str));
        let text = self.run("apt-get", &args)?;
        let mut packages = parse_uris(&text)?;
        packages.sort_by(|a, b| a.record.cmp(&b.record));
        if packages.len() != specs.len() {
            return Err(FetchError::Parse(format!(
                "{} packages asked for, {} answered",
                specs.len(),
                packages.len()
            )));
        }
        Ok(packages)
    }

    /// Downloads what is not there yet and verifies everything; answers the files in the packages' order.
    pub fn download(
        &self,
        what: &str,
        packages: &[Package],
        progress: &Progress,
    ) -> Result<Vec<PathBuf>, FetchError> {
        let debs = self.directory.join("debs");
        let files: Vec<PathBuf> = packages.iter().map(|package| debs.join(&package.file)).collect();
        let mut missing = Vec::new();
        for (package, file) in packages.iter().zip(&files) {
            let whole = file.exists() && sha256_file(file).is_ok_and(|hash| hash == package.record.sha256);
            if !whole {
                // A half-written file would make apt ask for a range of another version's bytes.
                let _ = fs::remove_file(file);
                missing.push(package);
            }
        }
        if missing.is_empty() {
            return Ok(files);
        }
        let total = missing.iter().map(|package| package.size).sum();
        let step = progress.bytes(
            &format!("downloading {what} ({} packages, {:.1} MB)", missing.len(), total as f64 / 1e6),
            total,
        );
        let wanted: Vec<String> = missing
            .iter()
            .map(|package| format!("{}={}", package.record.name, package.record.version))
            .collect();
        let mut args = vec!["-q", "download"];
        args.extend(wanted.iter().map(String::as_str));
        let partial = self.directory.join("cache/archives/partial");
        let downloading: BTreeSet<&str> = missing.iter().map(|package| package.file.as_str()).collect();
        self.run_watched("apt-get", &args, &mut || {
            step.set(size_of_files(&debs, &downloading) + size_of_files(&partial, &downloading));
        })?;
        for package in &missing {
            let actual = sha256_file(&debs.join(&package.file))
                .map_err(io_error("read", &debs.join(&package.file)))?;
            if actual != package.record.sha256 {
                let _ = fs::remove_file(debs.join(&package.file));
                return Err(FetchError::Hash {
                    file: package.file.clone(),
                    expected: package.record.sha256.clone(),
                    actual,
                });
            }
        }
        step.done("verified");
        Ok(files)
    }

    /// Removes downloaded files once they are unpacked.
    pub fn discard(&self, files: &[PathBuf]) {
        for file in files {
            if file.starts_with(&self.directory) {
                let _ = fs::remove_file(file);
            }
        }
    }

    fn run(&self, program: &str, args: &[&str]) -> Result<String, FetchError> {
        self.run_watched(program, args, &mut || ())
    }

    fn run_watched(
        &self,
        program: &str,
        args: &[&str],
        watch: &mut dyn FnMut(),
    ) -> Result<String, FetchError> {
        let mut command = Command::new(program);
        command
            .arg("-c")
            .arg(&self.config)
            .args(args)
            .env("LC_ALL", "C")
            .env("DEBIAN_FRONTEND", "noninteractive")
            .current_dir(self.directory.join("debs"));
        run_command(command, program, args.iter().find(|arg| !arg.starts_with('-')).unwrap_or(&""), watch)
    }
}

/// Unpacks `.deb` files into `root`, which is created; no maintainer script runs.
pub fn unpack(what: &str, debs: &[PathBuf], root: &Path, progress: &Progress) -> Result<(), FetchError> {
    create_dir(root)?;
    let step = progress.count(&format!("unpacking {what}"), debs.len() as u64);
    for (index, deb) in debs.iter().enumerate() {
        let mut command = Command::new("dpkg-deb");
        command.arg("-x").arg(deb).arg(root);
        run_command(command, "dpkg-deb", "-x", &mut || ())?;
        step.set(index as u64 + 1);
    }
    step.done("done");
    Ok(())
}

/// Runs a child with its output captured, calling `watch` every 200 ms while it runs.
fn run_command(
    mut command: Command,
    program: &str,
    verb: &str,
    watch: &mut dyn FnMut(),
) -> Result<String, FetchError> {
    let failed = |source: io::Error| match source.kind() {
        io::ErrorKind::NotFound => FetchError::Missing {
            program: program.to_owned(),
            package: if program == "dpkg-deb" { "dpkg" } else { "apt" },
        },
        _ => FetchError::Command {
            command: format!("{program} {verb}"),
            status: "not started".into(),
            stderr: source.to_string(),
        },
    };
    crate::child::die_with_parent(&mut command);
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().map_err(failed)?;
    let stdout = child.stdout.take().map(read_in_background);
    let stderr = child.stderr.take().map(read_in_background);
    let status = loop {
        match child.try_wait().map_err(failed)? {
            Some(status) => break status,
            None => std::thread::sleep(Duration::from_millis(if stdout.is_some() { 50 } else { 200 })),
        }
        watch();
    };
    let collect = |thread: Option<std::thread::JoinHandle<Vec<u8>>>| {
        thread.and_then(|thread| thread.join().ok()).unwrap_or_default()
    };
    let (stdout, stderr) = (collect(stdout), collect(stderr));
    if status.success() {
        return Ok(String::from_utf8_lossy(&stdout).into_owned());
    }
    let stderr = String::from_utf8_lossy(&stderr);
    let lines: Vec<&str> = stderr.lines().filter(|line| !line.trim().is_empty()).collect();
    Err(FetchError::Command {
        command: format!("{program} {verb}"),
        status: status.to_string(),
        stderr: lines[lines.len().saturating_sub(6)..].join("; "),
    })
}

fn read_in_background(mut stream: impl io::Read + Send + 'static) -> std::thread::JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        bytes
    })
}

/// The URI of the Debian archive this machine already uses.
pub fn find_mirror() -> Result<String, FetchError> {
    if let Ok(uri) = std::env::var("BELFRY_DEBIAN_MIRROR")
        && !uri.trim().is_empty()
    {
        return Ok(uri.trim().to_owned());
    }
    let mut command = Command::new("apt-get");
    command
        .args(["indextargets", "--format", "$(REPO_URI)|$(RELEASE)|$(ORIGIN)", "Created-By: Packages"])
        .env("LC_ALL", "C");
    let text = run_command(command, "apt-get", "indextargets", &mut || ())?;
    choose_mirror(&text).ok_or(FetchError::NoMirror)
}

/// Picks the main Debian archive out of `REPO_URI|RELEASE|ORIGIN` lines.
///
/// The origin is only known once the machine has package lists, so the suite's name decides where it is missing.
fn choose_mirror(targets: &str) -> Option<String> {
    const SUITES: [&str; 9] =
        ["bookworm", "trixie", "forky", "bullseye", "stable", "testing", "unstable", "sid", "oldstable"];
    targets.lines().find_map(|line| {
        let mut fields = line.split('|');
        let (uri, release, origin) = (fields.next()?, fields.next()?, fields.next()?);
        let base = release.strip_suffix("-updates").or(release.strip_suffix("-backports")).unwrap_or(release);
        let known = SUITES.contains(&base);
        let foreign = !origin.is_empty() && !origin.starts_with('$') && origin != "Debian";
        (known && !foreign && !uri.contains("security")).then(|| uri.to_owned())
    })
}

fn sources_list(mirror: &str) -> String {
    [RELEASE.to_owned(), format!("{RELEASE}-updates"), BACKPORTS.to_owned()]
        .iter()
        .map(|suite| format!("deb [signed-by={KEYRING} target=Packages] {mirror} {suite} main\n"))
        .collect()
}

/// The private apt's settings; read after the machine's own, so proxies and certificates stay in force.
fn apt_conf(directory: &Path) -> String {
    let directory = directory.display();
    format!(
        r#"#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
#clear DPkg::Pre-Invoke;
#clear DPkg::Post-Invoke;
#clear DPkg::Pre-Install-Pkgs;
#clear APT::Architectures;
Dir::State "{directory}/state";
Dir::State::status "{directory}/status";
Dir::Cache "{directory}/cache";
Dir::Cache::archives "archives";
Dir::Cache::pkgcache "pkgcache.bin";
Dir::Cache::srcpkgcache "srcpkgcache.bin";
Dir::Etc::SourceList "{directory}/sources.list";
Dir::Etc::SourceParts "/dev/null";
Dir::Etc::Preferences "/dev/null";
Dir::Etc::PreferencesParts "/dev/null";
APT::Architecture "amd64";
APT::Architectures {{ "amd64"; }};
APT::Default-Release "";
APT::Install-Recommends "false";
APT::Install-Suggests "false";
APT::Sandbox::User "root";
Acquire::Languages "none";
Acquire::Retries "3";
Acquire::AllowInsecureRepositories "false";
APT::Get::AllowUnauthenticated "false";
"#
    )
}

fn write_if_changed(path: &Path, content: &str) -> Result<bool, FetchError> {
    if fs::read_to_string(path).is_ok_and(|old| old == content) {
        return Ok(false);
    }
    write_atomically(path, content.as_bytes())?;
    Ok(true)
}

/// Reads `Inst NAME (VERSION SUITE [ARCH])` lines of `apt-get -s install`.
fn parse_simulation(text: &str) -> Vec<(String, String)> {
    text.lines()
        .filter_map(|line| {
            let rest = line.strip_prefix("Inst ")?;
            let (name, rest) = rest.split_once(' ')?;
            let version = rest.split_once('(')?.1.split(' ').next()?;
            Some((name.to_owned(), version.to_owned()))
        })
        .collect()
}

/// Reads `'URI' FILE SIZE SHA256:HASH` lines of `apt-get --print-uris download`.
fn parse_uris(text: &str) -> Result<Vec<Package>, FetchError> {
    let bad = |line: &str| {
        // The URI names the machine's mirror; the rest of the line says enough.
        FetchError::Parse(line.rsplit('\'').next().unwrap_or_default().trim().to_owned())
    };
    text.lines()
        .filter(|line| line.starts_with('\''))
        .map(|line| {
            let rest = line.rsplit_once('\'').ok_or_else(|| bad(line))?.1;
            let mut fields = rest.split_whitespace();
            let (file, size, hash) = match (fields.next(), fields.next(), fields.next()) {
                (Some(file), Some(size), Some(hash)) => (file, size, hash),
                _ => return Err(bad(line)),
            };
            let sha256 = hash.strip_prefix("SHA256:").ok_or_else(|| bad(line))?.to_owned();
            let mut parts = file.split('_');
            let (Some(name), Some(version)) = (parts.next(), parts.next()) else {
                return Err(bad(line));
            };
            if file.contains('/') || file.starts_with('.') {
                return Err(bad(line));
            }
            Ok(Package {
                record: PackageRecord { name: name.to_owned(), version: version.replace("%3a", ":"), sha256 },
                file: file.to_owned(),
                size: size.parse().map_err(|_| bad(line))?,
            })
        })
        .collect()
}

fn size_of_files(directory: &Path, names: &BTreeSet<&str>) -> u64 {
    names.iter().filter_map(|name| fs::metadata(directory.join(name)).ok()).map(|meta| meta.len()).sum()
}

/// SHA-256 of a file's content in lower-case hexadecimal.
pub fn sha256_file(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        let count = file.read(&mut buffer)?;
        if count == 0 {
            return Ok(hex(&hasher.finalize()));
        }
        hasher.update(&buffer[..count]);
    }
}

/// One hash over a set of packages and a recipe's version: the name an artifact is cached by.
#[must_use]
pub fn closure_hash(recipe: u32, packages: &[PackageRecord]) -> String {
    let mut hasher = Sha256::new();
    hasher.update(recipe.to_le_bytes());
    for package in packages {
        hasher.update(format!("{} {} {}\n", package.name, package.version, package.sha256));
    }
    hex(&hasher.finalize()[..8])
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mirror_is_the_main_debian_archive() {
        let targets = "http://x.example/debian-security/|bookworm-security|Debian\n\
                       http://y.example/apt/|cloud-sdk-bookworm|other\n\
                       http://x.example/debian/|bookworm-updates|Debian\n";
        assert_eq!(choose_mirror(targets).as_deref(), Some("http://x.example/debian/"));
        // Before the first `apt-get update` apt knows no origin and prints the name of the field.
        assert_eq!(choose_mirror("mirror+file:/m/|trixie|$(ORIGIN)\n").as_deref(), Some("mirror+file:/m/"));
        assert_eq!(choose_mirror("http://u.example/ubuntu/|noble|Ubuntu\n"), None);
        assert_eq!(choose_mirror("http://r.example/|stable|Vendor\n"), None);
    }

    #[test]
    fn simulation_lists_names_and_versions() {
        let text = "Reading package lists...\nInst gcc-14-base (14.2.0-19 Debian:13 [amd64])\n\
                    Inst libc6 [2.36] (2.41-12+deb13u4 Debian:13 [amd64]) []\nConf libc6 (2.41 x [amd64])\n";
        assert_eq!(
            parse_simulation(text),
            [("gcc-14-base".into(), "14.2.0-19".into()), ("libc6".into(), "2.41-12+deb13u4".into())]
        );
    }

    #[test]
    fn uris_give_file_size_and_hash() {
        let text = "Reading...\n'http://h.example/q_1%3a2.deb' q_1%3a2_amd64.deb 42 SHA256:ab\n";
        let packages = parse_uris(text).unwrap();
        assert_eq!(packages[0].record.version, "1:2");
        assert_eq!((packages[0].file.as_str(), packages[0].size), ("q_1%3a2_amd64.deb", 42));
        let cases = [
            "'http://h.example/q' q_1_amd64.deb 42",
            "'http://h.example/q' q_1_amd64.deb 42 MD5Sum:00",
            "'http://h.example/q' ../q_1_amd64.deb 42 SHA256:00",
            "'http://h.example/q' q_1_amd64.deb many SHA256:00",
        ];
        for case in cases {
            let error = parse_uris(case).unwrap_err();
            assert!(!error.to_string().contains("h.example"), "{error}");
        }
    }

    #[test]
    fn closure_hash_depends_on_recipe_and_every_field() {
        let record =
            |version: &str| PackageRecord { name: "a".into(), version: version.into(), sha256: "00".into() };
        let base = closure_hash(1, &[record("1")]);
        assert_eq!(base, closure_hash(1, &[record("1")]));
        assert_ne!(base, closure_hash(2, &[record("1")]));
        assert_ne!(base, closure_hash(1, &[record("2")]));
        assert_eq!(base.len(), 16);
    }
}
