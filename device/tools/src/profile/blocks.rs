//! Basic blocks of a profiled kernel, from the instructions that were executed.

use belfry_device::profile::{KernelProfile, Site};

/// Instructions that are executed one after the other: no wave jumped to any but the first, and only the last
/// may jump.
#[derive(Clone, Debug, PartialEq)]
pub struct Block<'a> {
    /// Its instructions, at least one.
    pub sites: &'a [Site],
    /// Executions of the first instruction, by waves.
    pub executions: u64,
    /// Executions of all instructions, by waves.
    pub instructions: u64,
}

/// Returns the basic blocks of a kernel's executed code, those with most instructions first.
#[must_use]
pub fn blocks(kernel: &KernelProfile) -> Vec<Block<'_>> {
    let mut blocks = Vec::new();
    let mut rest = kernel.sites.as_slice();
    while !rest.is_empty() {
        let begins = |pair: &[Site]| {
            let [before, site] = pair else { return false };
            site.entered || before.ends_block || before.pc.wrapping_add(before.size.into()) != site.pc
        };
        let end = rest.windows(2).position(begins).map_or(rest.len(), |at| at + 1);
        let (sites, behind) = rest.split_at(end);
        rest = behind;
        blocks.push(Block {
            sites,
            executions: sites.first().map_or(0, |site| site.executions),
            instructions: sites.iter().map(|site| site.executions).sum(),
        });
    }
    blocks.sort_by_key(|block| std::cmp::Reverse(block.instructions));
    blocks
}

#[cfg(test)]
mod tests {
    use belfry_isa::exec::Class;

    use super::*;

    fn site(pc: u64, executions: u64, entered: bool, ends_block: bool) -> Site {
        let text = String::new();
        let class = Class::Scalar;
        Site { pc, size: 4, text, class, executions, lanes: 0, entered, ends_block, global: None, lds: None }
    }

    #[test]
    fn blocks_begin_at_targets_and_behind_branches_and_gaps() {
        let sites = vec![
            site(0, 2, true, false),
            site(4, 2, false, false),
            // The loop.
            site(8, 20, true, false),
            site(12, 20, false, true),
            site(16, 2, false, true),
            // Between these is code that was not executed.
            site(32, 1, false, false),
        ];
        let kernel = KernelProfile { sites, ..KernelProfile::default() };
        let found: Vec<_> = blocks(&kernel)
            .iter()
            .map(|block| (block.sites[0].pc, block.sites.len(), block.executions, block.instructions))
            .collect();
        assert_eq!(found, [(8, 2, 20, 40), (0, 2, 2, 4), (16, 1, 2, 2), (32, 1, 1, 1)]);
        assert_eq!(blocks(&KernelProfile::default()), []);
    }
}
