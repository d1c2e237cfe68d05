//! The VMIDs of processes. All partitions take theirs from the hubs' one set of contexts.

use super::Slots;
use crate::firmware::Ports;
use crate::queue::Partition;
use crate::vm::AddressSpace;

impl Slots {
    /// Gives a process a VMID: the one it holds, a free one, or the one of a process that does nothing.
    pub(super) fn vmid(&mut self, ports: &Ports, kernel: &AddressSpace, key: u64) -> Option<u8> {
        let process = self.processes.get(&key)?;
        if let Some(vmid) = process.vmid {
            return Some(vmid);
        }
        let partition = process.partition;
        let vmid = match self.free_vmid(partition) {
            Some(vmid) => vmid,
            None => self.steal_vmid(ports, kernel, partition)?,
        };
        let process = self.processes.get_mut(&key)?;
        process.vmid = Some(vmid);
        let tables = process.tables(ports.contexts.tables(vmid));
        ports.contexts.map_process(vmid, process.pasid, tables);
        if let Some(memory) = process.shader {
            ports.contexts.change_shader_memory(vmid, |shader| *shader = memory);
        }
        match &process.space {
            // The space comes back with the code that the shader engine knows. Its cached translations go, because no flush
            // reached them while the space had no VMID.
            Some(space) if ports.contexts.install_space(vmid, space) => space.invalidate(),
            _ => process.space = ports.contexts.space(vmid),
        }
        process.set_waiting(ports.chip);
        if let (Some(space), Some(settings)) = (&process.space, self.debuggers.get(&key)) {
            space.set_debug(settings);
        }
        Some(vmid)
    }

    /// Returns a VMID that no process has. All partitions take theirs from the hubs' one set of contexts: the last free
    /// ones are for partitions that have none.
    fn free_vmid(&self, partition: Partition) -> Option<u8> {
        let vmids = self.hardware(partition)?.vmids;
        let taken = self
            .processes
            .values()
            .filter_map(|process| process.vmid)
            .fold(0u32, |mask, vmid| mask | 1 << vmid);
        let has_one = |partition| {
            self.processes.values().any(|process| process.partition == partition && process.vmid.is_some())
        };
        let free = vmids & !taken;
        let kept = if has_one(partition) {
            let others = self.hardware.iter().filter(|other| other.vmids & vmids != 0);
            others.filter(|other| !has_one(other.partition)).count()
        } else {
            0
        };
        (free.count_ones() as usize > kept).then_some(free.trailing_zeros() as u8)
    }

    /// Takes the VMID of a process of the partition. None of the process's queues is at work on a slot, and it has been
    /// so for the longest time.
    fn steal_vmid(&mut self, ports: &Ports, kernel: &AddressSpace, partition: Partition) -> Option<u8> {
        let at_rest =
            |key: u64| !self.queues.values().any(|queue| queue.process == key && queue.is_at_work());
        let last = |key: u64| {
            self.queues.values().filter(|queue| queue.process == key).map(|queue| queue.turn).max()
        };
        let key = self
            .processes
            .iter()
            .filter(|(_, process)| process.partition == partition && process.vmid.is_some())
            .filter(|&(&key, _)| at_rest(key))
            .min_by_key(|&(&key, _)| last(key))
            .map(|(&key, _)| key)?;
        let mut off = true;
        for queue in self.queues.values_mut().filter(|queue| queue.process == key) {
            off &= queue.unmap(ports, Some(kernel));
        }
        if !off {
            return None;
        }
        let vmid = self.processes.get_mut(&key)?.vmid.take()?;
        ports.contexts.unmap_process(vmid);
        Some(vmid)
    }
}
