//! Which archive the packages come from: that of the machine's own apt, or of an environment variable.

use std::process::Command;

use super::command::run_command;
use super::error::FetchError;
use super::release::Distribution;

/// The URI of the archive of `distribution` this machine already uses.
///
/// The distribution's own environment variable comes first. Errors: [`FetchError::NoMirror`] when neither names one.
pub fn find_mirror(distribution: Distribution) -> Result<String, FetchError> {
    if let Ok(uri) = std::env::var(distribution.mirror_variable())
        && !uri.trim().is_empty()
    {
        return Ok(uri.trim().to_owned());
    }
    let mut command = Command::new("apt-get");
    command
        .args(["indextargets", "--format", "$(REPO_URI)|$(RELEASE)|$(ORIGIN)", "Created-By: Packages"])
        .env("LC_ALL", "C");
    let text = run_command(command, "apt-get", "indextargets", &mut || ())?;
    choose_mirror(&text, distribution).ok_or(FetchError::NoMirror {
        distribution: distribution.name(),
        variable: distribution.mirror_variable(),
    })
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
