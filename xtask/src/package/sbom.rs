//! The list of parts: every crate in the binary, as CycloneDX 1.5 has it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;
use serde_json::{Value, json};

use super::oci::timestamp;
use super::stage::Stage;

/// Output of `cargo metadata`, as far as it is needed.
#[derive(Debug, Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    resolve: Resolve,
}

#[derive(Debug, Deserialize)]
struct Package {
    id: String,
    name: String,
    version: String,
    license: Option<String>,
    /// `None` for crates of the workspace.
    source: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Debug, Deserialize)]
struct Node {
    id: String,
    deps: Vec<Dependency>,
}

#[derive(Debug, Deserialize)]
struct Dependency {
    pkg: String,
    dep_kinds: Vec<Kind>,
}

#[derive(Debug, Deserialize)]
struct Kind {
    /// `None` for what is linked; `build` and `dev` are not in the binary.
    kind: Option<String>,
}

/// `Cargo.lock`, for the hashes.
#[derive(Debug, Deserialize)]
struct Lock {
    package: Vec<Locked>,
}

#[derive(Debug, Deserialize)]
struct Locked {
    name: String,
    version: String,
    checksum: Option<String>,
}

pub(super) fn write(root: &Path, stage: &Stage, into: &Path) -> Result<PathBuf> {
    let output = Command::new(env!("CARGO"))
        .current_dir(root)
        .args(["metadata", "--format-version=1", "--locked", "--filter-platform=x86_64-unknown-linux-gnu"])
        .output()
        .context("starting cargo metadata")?;
    ensure!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    let metadata: Metadata = serde_json::from_slice(&output.stdout).context("cargo metadata")?;
    let lock: Lock = toml::from_str(&fs::read_to_string(root.join("Cargo.lock"))?).context("Cargo.lock")?;
    let path = into.join(format!("belfry-{}.cdx.json", stage.version));
    let text = serde_json::to_string_pretty(&list(&metadata, &lock, stage)?)? + "\n";
    fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
    Ok(path)
}

fn list(metadata: &Metadata, lock: &Lock, stage: &Stage) -> Result<Value> {
    let sums: BTreeMap<(&str, &str), &str> = lock
        .package
        .iter()
        .filter_map(|locked| Some(((&*locked.name, &*locked.version), locked.checksum.as_deref()?)))
        .collect();
    let belfry =
        metadata.packages.iter().find(|package| package.name == "belfry").context("no crate belfry")?;
    let linked = linked(&metadata.resolve, &belfry.id);
    let mut parts: Vec<&Package> = metadata
        .packages
        .iter()
        .filter(|package| package.id != belfry.id && linked.contains(&*package.id))
        .collect();
    parts.sort_by(|a, b| (&a.name, &a.version).cmp(&(&b.name, &b.version)));
    let components: Vec<Value> = parts.into_iter().map(|package| component(package, &sums)).collect();
    Ok(json!({
        "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
        "metadata": {
            "timestamp": timestamp(stage.time)?,
            "component": {
                "type": "application", "name": "belfry", "version": belfry.version, "bom-ref": "belfry",
                "licenses": [{ "expression": belfry.license.as_deref().unwrap_or("MIT OR Apache-2.0") }],
            },
        },
        "components": components,
    }))
}

/// Crates that are linked into `first`, with all that they need.
fn linked<'a>(resolve: &'a Resolve, first: &'a str) -> BTreeSet<&'a str> {
    let nodes: BTreeMap<&str, &Node> = resolve.nodes.iter().map(|node| (&*node.id, node)).collect();
    let (mut found, mut left) = (BTreeSet::from([first]), vec![first]);
    while let Some(id) = left.pop() {
        for dependency in nodes.get(id).into_iter().flat_map(|node| &node.deps) {
            let is_linked = dependency.dep_kinds.iter().any(|kind| kind.kind.is_none());
            if is_linked && found.insert(&dependency.pkg) {
                left.push(&dependency.pkg);
            }
        }
    }
    found
}

fn component(package: &Package, sums: &BTreeMap<(&str, &str), &str>) -> Value {
    let Package { name, version, license, source, .. } = package;
    let mut part = json!({ "type": "library", "name": name, "version": version, "bom-ref": format!("{name}@{version}") });
    if let Some(license) = license {
        // Older crates write a slash for the choice.
        part["licenses"] = json!([{ "expression": license.replace('/', " OR ") }]);
    }
    if source.is_some() {
        part["purl"] = json!(format!("pkg:cargo/{name}@{version}"));
    }
    if let Some(sum) = sums.get(&(&**name, &**version)) {
        part["hashes"] = json!([{ "alg": "SHA-256", "content": sum }]);
    }
    part
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(id: &str, deps: &[(&str, Option<&str>)]) -> Node {
        let deps = deps.iter().map(|&(pkg, kind)| Dependency {
            pkg: pkg.into(),
            dep_kinds: vec![Kind { kind: kind.map(Into::into) }],
        });
        Node { id: id.into(), deps: deps.collect() }
    }

    #[test]
    fn linked_crates_are_neither_those_of_builds_nor_those_of_tests() {
        let resolve = Resolve {
            nodes: vec![
                node("a", &[("b", None), ("c", Some("build")), ("d", Some("dev"))]),
                node("b", &[("e", None), ("a", None)]),
                node("c", &[("f", None)]),
                node("e", &[]),
            ],
        };
        assert_eq!(linked(&resolve, "a"), BTreeSet::from(["a", "b", "e"]));
    }
}
