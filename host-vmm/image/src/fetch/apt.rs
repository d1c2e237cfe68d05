//! A private apt: resolves names against an empty system, downloads, verifies.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use super::command::run_command;
use super::error::FetchError;
use super::mirror::without_credentials;
use super::package::{Package, parse_simulation, parse_uris, sha256_file};
use super::release::Release;
use crate::cache::{Cache, create_dir, io_error, write_atomically};
use crate::progress::Progress;

/// Package lists younger than this are not fetched again.
const LIST_LIFETIME: Duration = Duration::from_secs(6 * 3600);

/// Archive of packages, and the keys that verify them.
#[derive(Debug)]
pub struct Archive {
    /// The release.
    pub release: &'static Release,
    /// URI of the archive.
    pub mirror: String,
    /// File that holds the keys it is signed with.
    pub keyring: PathBuf,
}

/// A private apt: its own lists, caches and empty package state, below the cache directory.
#[derive(Debug)]
pub struct Apt {
    directory: PathBuf,
    config: PathBuf,
    archive: Archive,
}

impl Apt {
    /// Prepares the private state of the archive's release and brings the package lists up to date.
    ///
    /// The caller holds the cache's lock [`Release::state`]. Lists younger than six hours are used as they are.
    ///
    /// # Errors
    ///
    /// apt is missing or fails, the archive cannot be reached, its keys are missing, or the cache cannot be
    /// written.
    pub fn prepare(cache: &Cache, archive: Archive, progress: &Progress) -> Result<Self, FetchError> {
        let directory = cache.root().join(archive.release.state());
        let apt = Self { config: directory.join("apt.conf"), directory, archive };
        apt.update(progress)?;
        Ok(apt)
    }

    /// Writes the configuration and fetches the package lists when they are old or of another archive.
    fn update(&self, progress: &Progress) -> Result<(), FetchError> {
        for sub in ["state/lists/partial", "cache/archives/partial", "debs"] {
            create_dir(&self.directory.join(sub))?;
        }
        let Archive { release, mirror, keyring } = &self.archive;
        let status = self.directory.join("status");
        fs::write(&status, b"").map_err(io_error("write", &status))?;
        write_if_changed(&self.config, &apt_conf(&self.directory))?;
        let stamp = self.directory.join("updated");
        let sources = self.directory.join("sources.list");
        if write_if_changed(&sources, &release.sources(mirror, keyring))? {
            // The lists there are another archive's, also for the next process when fetching them fails now.
            let _ = fs::remove_file(&stamp);
        }
        let fresh = fs::metadata(&stamp)
            .and_then(|meta| meta.modified())
            .ok()
            .and_then(|time| SystemTime::now().duration_since(time).ok())
            .is_some_and(|age| age < LIST_LIFETIME);
        if !fresh {
            let step = progress.spinner(&format!("fetching package lists of {release}"));
            // Without it apt only warns of a mirror it cannot reach, and the lists are silently empty.
            self.run("apt-get", &["-q", "update", "--error-on=any"]).map_err(|error| self.refused(error))?;
            fs::write(&stamp, b"").map_err(io_error("write", &stamp))?;
            step.done("done");
        }
        Ok(())
    }

    /// Names the archive that failed and the way to mend it.
    fn refused(&self, error: FetchError) -> FetchError {
        let Archive { release, mirror, .. } = &self.archive;
        match error {
            FetchError::Command { stderr, .. } => FetchError::Archive {
                release: release.to_string(),
                mirror: without_credentials(mirror),
                reason: first_error(&stderr).replace(mirror.as_str(), &without_credentials(mirror)),
                variable: release.distribution.mirror_variable(),
            },
            other => other,
        }
    }

    /// Every package `names` need, themselves included, resolved against an empty system.
    ///
    /// With `suite`, packages of that suite are preferred, dependencies too.
    ///
    /// # Errors
    ///
    /// apt is missing or fails, the archive cannot be reached, its answer cannot be read, or it lacks a
    /// package.
    pub fn closure(&self, names: &[&str], suite: Option<&str>) -> Result<Vec<Package>, FetchError> {
        self.resolve(names, &suite.map_or_else(Vec::new, |suite| vec!["-t", suite]))
    }

    /// As [`Self::closure`], with the `pins` of a release that is an addition to another.
    ///
    /// # Errors
    ///
    /// apt is missing or fails, the archive cannot be reached, its answer cannot be read, or it lacks a
    /// package.
    pub fn closure_of_pins(&self, names: &[&str], pins: &[String]) -> Result<Vec<Package>, FetchError> {
        if !self.archive.release.is_addition() {
            return self.closure(names, None);
        }
        let file = self.directory.join("preferences");
        write_if_changed(&file, &self.archive.release.preferences(pins))?;
        self.resolve(names, &[&format!("-oDir::Etc::Preferences={}", file.display())])
    }

    fn resolve(&self, names: &[&str], options: &[&str]) -> Result<Vec<Package>, FetchError> {
        let mut args = [&["-q", "-s"], options].concat();
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
    ///
    /// # Errors
    ///
    /// apt is missing or fails, the archive cannot be reached, its answer cannot be read, or it lacks a
    /// package.
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
    ///
    /// # Errors
    ///
    /// apt is missing or fails, the archive cannot be reached, its answer cannot be read, or it lacks such a
    /// version.
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

    /// First dependency of the release's meta-package `name`, such as the current kernel's image package.
    ///
    /// # Errors
    ///
    /// apt is missing or fails, the archive cannot be reached, its answer cannot be read, or it lacks the
    /// meta-package, or that one needs no package.
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

    /// Downloads packages that are not there yet and verifies everything; answers the files in the packages' order.
    ///
    /// # Errors
    ///
    /// apt is missing or fails, the archive cannot be reached, or a file has another hash than the signed
    /// index says.
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
        self.run_in(&debs, "apt-get", &args, &mut || {
            step.set(size_of_files(&debs, &downloading) + size_of_files(&partial, &downloading));
        })
        .map_err(|error| self.refused(error))?;
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
        // Not in the directory of the downloaded files: apt is not to find them in its working directory.
        self.run_in(&self.directory, program, args, &mut || ())
    }

    fn run_in(
        &self,
        directory: &Path,
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
            .current_dir(directory);
        run_command(command, program, args.iter().find(|arg| !arg.starts_with('-')).unwrap_or(&""), watch)
    }
}

/// The first of apt's errors, which are joined by `; `: the others say the same of other files.
fn first_error(stderr: &str) -> &str {
    stderr.split("; ").find_map(|line| line.strip_prefix("E: ")).unwrap_or(stderr)
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
Acquire::ForceHash "SHA256";
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

fn size_of_files(directory: &Path, names: &BTreeSet<&str>) -> u64 {
    names.iter().filter_map(|name| fs::metadata(directory.join(name)).ok()).map(|meta| meta.len()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fetch::TRIXIE;

    /// An archive that is not there is refused by name, and by the next process too: the lists that are there belong to
    /// another archive.
    #[test]
    fn archive_out_of_reach_is_named_each_time() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("apt");
        let apt = Apt {
            config: path.join("apt.conf"),
            directory: path.clone(),
            archive: Archive {
                release: &TRIXIE,
                mirror: "file:/belfry/no/such/archive".to_owned(),
                keyring: "/belfry/no/keys.gpg".into(),
            },
        };
        fs::create_dir_all(&path).unwrap();
        fs::write(path.join("sources.list"), "deb file:/another sid main\n").unwrap();
        fs::write(path.join("updated"), b"").unwrap();
        for _ in 0..2 {
            let error = apt.update(&Progress::silent()).unwrap_err();
            assert!(matches!(error, FetchError::Archive { .. }), "{error}");
            let text = error.to_string();
            for part in
                ["Debian trixie", "file:/belfry/no/such/archive", "BELFRY_DEBIAN_MIRROR", "BELFRY_CACHE"]
            {
                assert!(text.contains(part), "{part} in {text}");
            }
        }
    }

    #[test]
    fn first_error_of_apt_is_the_reason() {
        let stderr =
            "W: old; E: Failed to fetch x  Could not connect; E: Some index files failed to download.";
        assert_eq!(first_error(stderr), "Failed to fetch x  Could not connect");
        assert_eq!(first_error("killed"), "killed");
    }

    /// An apt whose archive is a directory with a program and the library it needs.
    fn local(directory: &Path) -> Apt {
        let archive = directory.join("archive");
        fs::create_dir_all(&archive).unwrap();
        let mut index = String::new();
        for (name, version, depends) in [("tool", "1:2-3", "Depends: libtool\n"), ("libtool", "4", "")] {
            let file = archive.join(format!("{name}.deb"));
            fs::write(&file, name).unwrap();
            index += &format!(
                "Package: {name}\nVersion: {version}\nArchitecture: amd64\n{depends}Filename: ./{name}.deb\nSize: {}\n\
                 SHA256: {}\nMaintainer: x\nDescription: x\n\n",
                name.len(),
                sha256_file(&file).unwrap()
            );
        }
        fs::write(archive.join("Packages"), index).unwrap();
        let path = directory.join("apt");
        for sub in ["state/lists/partial", "cache/archives/partial", "debs"] {
            fs::create_dir_all(path.join(sub)).unwrap();
        }
        fs::write(path.join("status"), b"").unwrap();
        fs::write(path.join("apt.conf"), apt_conf(&path)).unwrap();
        let mirror = format!("copy:{}", archive.display());
        fs::write(path.join("sources.list"), format!("deb [trusted=yes target=Packages] {mirror} ./\n"))
            .unwrap();
        let archive = Archive { release: &TRIXIE, mirror, keyring: PathBuf::new() };
        let apt = Apt { config: path.join("apt.conf"), directory: path, archive };
        apt.run("apt-get", &["-q", "update", "--error-on=any"]).unwrap();
        apt
    }

    #[test]
    fn closure_is_the_same_before_and_after_its_download() {
        let directory = tempfile::tempdir().unwrap();
        let apt = local(directory.path());
        let packages = apt.closure(&["tool"], None).unwrap();
        let names: Vec<_> =
            packages.iter().map(|package| (&*package.record.name, &*package.record.version)).collect();
        assert_eq!(names, [("libtool", "4"), ("tool", "1:2-3")]);
        let files = apt.download("x", &packages, &Progress::silent()).unwrap();
        assert_eq!(fs::read_to_string(&files[1]).unwrap(), "tool");
        // As after a process that was killed before it discarded them.
        assert_eq!(apt.closure(&["tool"], None).unwrap(), packages);

        fs::write(&files[0], "half").unwrap();
        apt.download("x", &packages, &Progress::silent()).unwrap();
        assert_eq!(fs::read_to_string(&files[0]).unwrap(), "libtool", "fetched again");
        apt.discard(&files);
        assert!(!files[0].exists());
        assert!(matches!(apt.closure(&["libtool", "nothing"], None), Err(FetchError::Command { .. })));
    }
}
