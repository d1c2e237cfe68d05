//! A job for Kubernetes: an Indexed Job, each of whose pods runs one shard of the matrix, and the objects that it needs.
//!
//! The result is a `List` in JSON, which `kubectl apply -f` takes. No device plugin is needed: the GPU is software.

use serde_json::{Value, json};

use crate::file::Matrix;

/// A job for a cluster.
#[derive(Debug, Clone)]
pub struct Job {
    /// Image of containers that has `belfry`.
    pub image: String,
    /// Pods, each with a shard of the cells.
    pub shards: usize,
    /// Pods at a time.
    pub parallelism: usize,
    /// Further options of `belfry matrix`.
    pub options: Vec<String>,
}

/// Name of all objects.
const NAME: &str = "belfry-matrix";

impl Job {
    /// Returns the objects: the matrix file as a config map, a claim for the results, and the job.
    #[must_use]
    pub fn objects(&self, matrix: &Matrix) -> Value {
        let labels = json!({ "app.kubernetes.io/name": NAME });
        let metadata = json!({ "name": NAME, "labels": labels });
        let mut arguments: Vec<String> =
            ["matrix", "/matrix/matrix.toml", "--out", "/results"].map(Into::into).into();
        // Kubernetes puts the pod's index there, which counts from 0.
        arguments.extend(["--index".into(), format!("$(JOB_COMPLETION_INDEX)/{}", self.shards)]);
        arguments.extend(self.options.iter().cloned());
        let resources = json!({ "cpu": matrix.processors.to_string(), "memory": matrix.memory.to_string() });
        let container = json!({
            "name": "belfry",
            "image": self.image,
            "command": ["belfry"],
            "args": arguments,
            "resources": { "requests": resources, "limits": { "memory": resources["memory"] } },
            "volumeMounts": [
                { "name": "matrix", "mountPath": "/matrix", "readOnly": true },
                { "name": "results", "mountPath": "/results" },
            ],
        });
        json!({
            "apiVersion": "v1",
            "kind": "List",
            "items": [
                { "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": { "matrix.toml": matrix.text } },
                {
                    "apiVersion": "v1",
                    "kind": "PersistentVolumeClaim",
                    "metadata": metadata,
                    "spec": { "accessModes": ["ReadWriteMany"], "resources": { "requests": { "storage": "1Gi" } } },
                },
                {
                    "apiVersion": "batch/v1",
                    "kind": "Job",
                    "metadata": metadata,
                    "spec": {
                        "completionMode": "Indexed",
                        "completions": self.shards,
                        "parallelism": self.parallelism,
                        // A pod ends with status 1 if a cell failed: that is a result, and no reason to run it again. A pod
                        // whose node was lost counts as disrupted, and runs again.
                        "backoffLimitPerIndex": 1,
                        "maxFailedIndexes": self.shards,
                        "podFailurePolicy": { "rules": [
                            { "action": "FailIndex", "onExitCodes": { "containerName": "belfry", "operator": "In", "values": [1] } },
                            { "action": "Ignore", "onPodConditions": [{ "type": "DisruptionTarget", "status": "True" }] },
                        ] },
                        "template": {
                            "metadata": { "labels": labels },
                            "spec": {
                                "restartPolicy": "Never",
                                "containers": [container],
                                "volumes": [
                                    { "name": "matrix", "configMap": { "name": NAME } },
                                    { "name": "results", "persistentVolumeClaim": { "claimName": NAME } },
                                ],
                            },
                        },
                    },
                },
            ],
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn job_has_a_pod_for_each_shard() {
        let matrix = Matrix {
            title: "m".into(),
            base: "/".into(),
            limit: Duration::from_secs(90),
            memory: 1 << 30,
            processors: 2,
            programs: Vec::new(),
            text: "[[program]]".into(),
        };
        let job =
            Job { image: "belfry:1".into(), shards: 8, parallelism: 4, options: vec!["--no-records".into()] };
        let objects = job.objects(&matrix);
        let spec = &objects["items"][2]["spec"];
        assert_eq!((&spec["completions"], &spec["parallelism"]), (&json!(8), &json!(4)));
        let container = &spec["template"]["spec"]["containers"][0];
        assert_eq!(container["args"][5], "$(JOB_COMPLETION_INDEX)/8");
        assert_eq!(container["resources"]["requests"]["memory"], "1073741824");
        assert_eq!(objects["items"][0]["data"]["matrix.toml"], "[[program]]");
    }
}
