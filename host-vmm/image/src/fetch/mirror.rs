//! Choice of the archive that packages come from: that of the machine's own apt, or of an environment variable.

use std::process::Command;

use super::command::run_command;
use super::error::FetchError;
use super::release::Distribution;

/// The URI of the archive of `distribution` this machine already uses.
///
/// The distribution's own environment variable comes first.
///
/// # Errors
///
/// [`FetchError::NoMirror`] when neither names one; apt is missing or fails.
pub fn find_mirror(distribution: Distribution) -> Result<String, FetchError> {
    if let Ok(uri) = std::env::var(distribution.mirror_variable())
        && !uri.trim().is_empty()
    {
        return Ok(uri.trim().to_owned());
    }
    let apt = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        command.args(arguments).env("LC_ALL", "C");
        run_command(command, "apt-get", arguments[0], &mut || ())
    };
    let targets =
        apt(&["indextargets", "--format", "$(REPO_URI)|$(RELEASE)|$(ORIGIN)", "Created-By: Packages"])?;
    if let Some(uri) = choose_mirror(&targets, distribution) {
        return Ok(uri);
    }
    // A machine without package lists, such as a container: apt 3 then names no targets, only the files it would fetch.
    let uris = apt(&["update", "--print-uris"])?;
    choose_mirror(&releases(&uris), distribution).ok_or(FetchError::NoMirror {
        distribution: distribution.name(),
        variable: distribution.mirror_variable(),
    })
}

/// `REPO_URI|RELEASE|` lines of the archives in `'URI' FILE SIZE` lines.
fn releases(uris: &str) -> String {
    let archive = |line: &str| {
        let uri = line.strip_prefix('\'')?.split('\'').next()?;
        let (archive, release) = uri.strip_suffix("/InRelease")?.rsplit_once("dists/")?;
        Some(format!("{archive}|{release}|\n"))
    };
    uris.lines().filter_map(archive).collect()
}

/// Picks the main archive of `distribution` out of `REPO_URI|RELEASE|ORIGIN` lines.
///
/// The origin is only known once the machine has package lists, so the suite's name decides where it is missing.
fn choose_mirror(targets: &str, distribution: Distribution) -> Option<String> {
    targets.lines().find_map(|line| {
        let mut fields = line.split('|');
        let (uri, release, origin) = (fields.next()?, fields.next()?, fields.next()?);
        let base = release.strip_suffix("-updates").or(release.strip_suffix("-backports")).unwrap_or(release);
        let known = distribution.suites().contains(&base);
        let foreign = !origin.is_empty() && !origin.starts_with('$') && origin != distribution.name();
        (known && !foreign && !uri.contains("security")).then(|| uri.to_owned())
    })
}

/// `uri` without the user name and password it may hold, for messages.
pub(super) fn without_credentials(uri: &str) -> String {
    let Some((scheme, rest)) = uri.split_once("://") else { return uri.to_owned() };
    let host = rest.split('/').next().unwrap_or_default();
    match host.rsplit_once('@') {
        Some((credentials, _)) => format!("{scheme}://{}", &rest[credentials.len() + 1..]),
        None => uri.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mirror_is_the_main_debian_archive() {
        let targets = "http://x.example/debian-security/|bookworm-security|Debian\n\
                       http://y.example/apt/|cloud-sdk-bookworm|other\n\
                       http://x.example/debian/|bookworm-updates|Debian\n";
        assert_eq!(choose_mirror(targets, Distribution::Debian).as_deref(), Some("http://x.example/debian/"));
        // Before the first `apt-get update` apt knows no origin and prints the name of the field.
        assert_eq!(
            choose_mirror("mirror+file:/m/|trixie|$(ORIGIN)\n", Distribution::Debian).as_deref(),
            Some("mirror+file:/m/")
        );
        assert_eq!(choose_mirror("http://u.example/ubuntu/|noble|Ubuntu\n", Distribution::Debian), None);
        assert_eq!(choose_mirror("http://r.example/|stable|Vendor\n", Distribution::Debian), None);
    }

    #[test]
    fn mirror_is_found_without_package_lists() {
        let uris = "'http://x.example/debian-security/dists/trixie-security/InRelease' x_InRelease 0 \n\
                    'http://x.example/debian/dists/trixie/InRelease' x_InRelease 0 \n\
                    'http://x.example/debian/dists/trixie/main/binary-amd64/Packages.xz' x_Packages 0 \n\
                    'mirror+file:/m/dists/noble-updates/InRelease' m_InRelease 0 \n";
        let targets = releases(uris);
        assert_eq!(
            choose_mirror(&targets, Distribution::Debian).as_deref(),
            Some("http://x.example/debian/")
        );
        assert_eq!(choose_mirror(&targets, Distribution::Ubuntu).as_deref(), Some("mirror+file:/m/"));
        assert_eq!(releases("apt says something else\n"), "");
    }

    #[test]
    fn mirror_of_ubuntu_is_not_that_of_debian() {
        let targets =
            "http://x.example/debian/|trixie|Debian\nhttp://u.example/ubuntu/|noble-updates|Ubuntu\n";
        assert_eq!(choose_mirror(targets, Distribution::Ubuntu).as_deref(), Some("http://u.example/ubuntu/"));
        assert_eq!(choose_mirror(targets, Distribution::Debian).as_deref(), Some("http://x.example/debian/"));
    }

    #[test]
    fn credentials_of_a_mirror_stay_out_of_messages() {
        assert_eq!(without_credentials("https://me:se@cret@h.example/debian"), "https://h.example/debian");
        assert_eq!(without_credentials("http://h.example/a@b"), "http://h.example/a@b");
        assert_eq!(without_credentials("file:/mirror"), "file:/mirror");
    }
}
