//! A matrix: programs on many chips, root file systems, numbers of GPUs, schedules and faults.
//!
//! [`mod@file`] reads the matrix, [`cells`] makes a cell of each combination, [`local`] and [`slurm`] run cells,
//! [`results`] keeps their results in a folder, and [`report`] tells of them. [`kubernetes`] writes a job for a cluster.

pub mod cells;
pub mod file;
pub mod kubernetes;
pub mod local;
pub mod report;
pub mod results;
pub mod slurm;
