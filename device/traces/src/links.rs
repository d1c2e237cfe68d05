//! Bytes over the links between GPUs, as a matrix.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use belfry_device::trace::Kind;

use crate::trace::{GpuOf, Trace};

/// Bytes from each GPU of a machine to each other one, by their numbers.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Matrix(BTreeMap<(u16, u16), u64>);

impl Matrix {
    /// Adds bytes that went from one GPU to another one.
    pub fn add(&mut self, from: u16, to: u16, bytes: u64) {
        let sum = self.0.entry((from, to)).or_default();
        *sum = sum.saturating_add(bytes);
    }

    /// Returns true if no bytes went from one to another.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.values().all(|&bytes| bytes == 0)
    }

    /// Returns the last counts that the GPUs of a trace have recorded of their links: a matrix of one machine, or of each process that has
    /// several GPUs, with the first of these.
    pub(crate) fn of(trace: &Trace) -> Vec<(Option<&GpuOf>, Self)> {
        let mut last = BTreeMap::new();
        for record in &trace.records {
            let argument = |name| record.argument(name).unwrap_or(0);
            // Numbers that no GPU has are none of a link.
            let Ok(peer) = u16::try_from(argument("peer")) else { continue };
            let gpu = record.owner.gpu;
            let own = match trace.gpus.get(usize::from(gpu)) {
                Some(of) => of.number.unwrap_or(0),
                None => gpu,
            };
            let link = match record.kind {
                Kind::LinkTo => (own, peer),
                Kind::LinkFrom => (peer, own),
                _ => continue,
            };
            // Counts only grow; those of two engines may be in any order.
            let count: &mut u64 = last.entry((gpu.saturating_sub(own), own, link)).or_default();
            *count = (*count).max(argument("value"));
        }
        let mut each = BTreeMap::<u16, Self>::new();
        for ((first, _, (from, to)), bytes) in last {
            if bytes > 0 {
                each.entry(first).or_default().add(from, to, bytes);
            }
        }
        each.into_iter().map(|(first, matrix)| (trace.gpus.get(usize::from(first)), matrix)).collect()
    }
}

/// A row for each GPU that bytes came from, a column for each that they went to, and lines before and between.
impl fmt::Display for Matrix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let gpus: BTreeSet<u16> = self.0.keys().flat_map(|&(from, to)| [from, to]).collect();
        write!(f, "{:<40}", "bytes over links, from row to column")?;
        gpus.iter().try_for_each(|gpu| write!(f, " {:>13}", format!("GPU {gpu}")))?;
        writeln!(f)?;
        for from in &gpus {
            write!(f, "{:<40}", format!("GPU {from}"))?;
            for to in &gpus {
                match self.0.get(&(*from, *to)) {
                    Some(bytes) => write!(f, " {bytes:>13}")?,
                    None => write!(f, " {:>13}", "-")?,
                }
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use belfry_device::trace::{ARGUMENTS, Job, Owner, Record};

    use super::*;

    fn record(gpu: u16, kind: Kind, peer: u64, value: u64) -> Record {
        let mut arguments = [0; ARGUMENTS];
        arguments[..2].copy_from_slice(&[peer, value]);
        let owner = Owner { gpu, ..Owner::default() };
        Record { sequence: 0, time: 0, job: Job::NONE, owner, kind, arguments, text: String::new() }
    }

    #[test]
    fn counts_of_both_ends_of_a_link_are_added_and_the_last_one_of_each_counts() {
        let records = [
            record(0, Kind::LinkTo, 1, 100),
            record(0, Kind::LinkTo, 1, 300),
            record(0, Kind::LinkTo, 1, 200),
            record(1, Kind::LinkFrom, 0, 5),
            record(1, Kind::LinkTo, 2, 7),
            record(0, Kind::Counter, 1, 9),
            record(0, Kind::LinkTo, u64::MAX, 9),
        ];
        let trace = Trace { records: records.to_vec(), ..Trace::default() };
        let [(None, matrix)] = &Matrix::of(&trace)[..] else { panic!("one matrix of one machine") };
        let mut expected = Matrix::default();
        expected.add(0, 1, 305);
        expected.add(1, 2, 7);
        assert_eq!(*matrix, expected);
        assert!(!matrix.is_empty() && Matrix::default().is_empty());
        let text = matrix.to_string();
        let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(rows[0][7..], ["GPU", "0", "GPU", "1", "GPU", "2"]);
        assert_eq!(rows[1], ["GPU", "0", "-", "305", "-"]);
        assert_eq!(rows[2], ["GPU", "1", "-", "-", "7"]);
        assert_eq!(rows[3], ["GPU", "2", "-", "-", "-"]);
    }

    #[test]
    fn processes_with_several_gpus_have_a_matrix_each() {
        let records = [
            record(1, Kind::LinkTo, 0, 10),
            record(3, Kind::LinkTo, 1, 20),
            record(4, Kind::LinkFrom, 0, 30),
        ];
        let gpu = |process, number| GpuOf { process, name: "p".into(), number };
        let gpus = vec![gpu(7, Some(0)), gpu(7, Some(1)), gpu(8, None), gpu(9, Some(0)), gpu(9, Some(1))];
        let trace = Trace { records: records.to_vec(), gpus, ..Trace::default() };
        let found = Matrix::of(&trace);
        let of: Vec<_> = found.iter().map(|(of, _)| of.map(|gpu| gpu.process)).collect();
        assert_eq!(of, [Some(7), Some(9)]);
        let mut expected = [Matrix::default(), Matrix::default()];
        expected[0].add(1, 0, 10);
        expected[1].add(0, 1, 50);
        assert!(found.iter().map(|(_, matrix)| matrix).eq(&expected), "{found:?}");
    }
}
