//! A GPU for the programs of a container: the library and the files that its processes need, as mounts and variables.

use std::path::PathBuf;

use belfry_kfd_hosted::prepared::TREE_VARIABLE;
use serde_json::{Value, json};

use super::{ExecError, ExecOptions, directory, library, tree};

/// Folder of containers in which the mounts are.
const INSIDE: &str = "/run/belfry";
/// Version of the Container Device Interface in which mounts and variables are as they are written here.
const CDI_VERSION: &str = "0.5.0";
/// Vendor and class of devices, as in `--device belfry.dev/gpu=gfx1100`.
pub const CDI_KIND: &str = "belfry.dev/gpu";

/// A file or folder of this machine, and its path in the container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// Path on this machine.
    pub host: PathBuf,
    /// Path in the container.
    pub inside: String,
}

/// The parts of a GPU in a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerParts {
    /// Files and folders that programs read.
    pub mounts: Vec<Mount>,
    /// Variables of each process, as `NAME=VALUE`.
    pub variables: Vec<String>,
}

impl ExecOptions {
    /// Prepares the GPU for programs of a container. Each process that opens it has a GPU of its own, as with `exec`.
    ///
    /// # Errors
    ///
    /// The library or the cache cannot be used; a machine that no process can have.
    pub fn container_parts(&self) -> Result<ContainerParts, ExecError> {
        let directory = directory()?;
        let library = library::publish(&directory)?;
        let tree = tree::publish(&directory, &self.settings()?)?;
        let [at_library, at_tree] = ["libbelfry.so", "tree"].map(|name| format!("{INSIDE}/{name}"));
        let variables = vec![format!("LD_PRELOAD={at_library}"), format!("{TREE_VARIABLE}={at_tree}")];
        let mounts = [(library, at_library), (tree, at_tree)];
        let mounts = mounts.into_iter().map(|(host, inside)| Mount { host, inside }).collect();
        Ok(ContainerParts { mounts, variables })
    }
}

impl ContainerParts {
    /// Returns the options of `podman run` and `docker run`.
    #[must_use]
    pub fn options(&self) -> Vec<String> {
        let mounts = self.mounts.iter().flat_map(|Mount { host, inside }| {
            // Colons in paths would end them in `--volume`.
            ["--mount".into(), format!("type=bind,source={},target={inside},readonly", host.display())]
        });
        let variables = self.variables.iter().flat_map(|variable| ["--env".into(), variable.clone()]);
        mounts.chain(variables).collect()
    }

    /// Returns the device of this name for a CDI specification.
    #[must_use]
    pub fn device(&self, name: &str) -> Value {
        let mounts: Vec<Value> = self
            .mounts
            .iter()
            .map(|Mount { host, inside }| {
                json!({ "hostPath": host, "containerPath": inside, "options": ["bind", "ro", "nosuid", "nodev"] })
            })
            .collect();
        json!({ "name": name, "containerEdits": { "env": self.variables, "mounts": mounts } })
    }
}

/// Returns a CDI specification of devices.
#[must_use]
pub fn cdi(devices: &[Value]) -> Value {
    json!({ "cdiVersion": CDI_VERSION, "kind": CDI_KIND, "devices": devices })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_has_its_mounts_and_variables_in_both_forms() {
        let mounts = vec![Mount { host: "/cache/a".into(), inside: "/run/belfry/tree".into() }];
        let parts = ContainerParts { mounts, variables: vec!["A=b".into()] };
        let options =
            ["--mount", "type=bind,source=/cache/a,target=/run/belfry/tree,readonly", "--env", "A=b"];
        assert_eq!(parts.options(), options);
        let spec = cdi(&[parts.device("gfx1100")]);
        assert_eq!(spec["kind"], "belfry.dev/gpu");
        let device = &spec["devices"][0];
        assert_eq!(
            (&device["name"], &device["containerEdits"]["env"][0]),
            (&json!("gfx1100"), &json!("A=b"))
        );
        assert_eq!(device["containerEdits"]["mounts"][0]["containerPath"], "/run/belfry/tree");
    }
}
