//! CPUID of each vCPU: KVM's features without those that the machine does not have, and the vCPU's own place in the
//! topology.
//!
//! One package of single-threaded cores that share their last-level cache. Intel SDM volume 2A, CPUID; AMD APM volume 3,
//! appendix E; Linux `Documentation/virt/kvm/x86/cpuid.rst`.

use kvm_bindings::{CpuId, KVM_MAX_CPUID_ENTRIES, kvm_cpuid_entry2};
use kvm_ioctls::{Cap, Kvm};

/// Leaf 1, `ecx`.
const MONITOR: u32 = 1 << 3;
const VMX: u32 = 1 << 5;
const TSC_DEADLINE: u32 = 1 << 24;
const HYPERVISOR: u32 = 1 << 31;
/// Leaf 1, `edx`: the package has more than one logical processor.
const HTT: u32 = 1 << 28;
/// Leaf 0x8000_0001, `ecx`.
const CMP_LEGACY: u32 = 1 << 1;
const SVM: u32 = 1 << 2;
const SKINIT: u32 = 1 << 12;

/// Level types of leaf 0xb.
const THREADS: u32 = 1 << 8;
const CORES: u32 = 2 << 8;

/// Features that the processors of this host have for guests.
#[derive(Debug)]
pub(super) struct Features {
    supported: CpuId,
    tsc_deadline: bool,
}

impl Features {
    pub(super) fn new(kvm: &Kvm) -> Result<Self, kvm_ioctls::Error> {
        Ok(Self {
            supported: kvm.get_supported_cpuid(KVM_MAX_CPUID_ENTRIES)?,
            // The in-kernel APIC has it, but this program has to report it.
            tsc_deadline: kvm.check_extension(Cap::TscDeadlineTimer),
        })
    }

    /// Returns the bits of a physical address.
    pub(super) fn address_bits(&self) -> u32 {
        let leaf = self.supported.as_slice().iter().find(|entry| entry.function == 0x8000_0008);
        leaf.map_or(36, |entry| entry.eax & 0xff)
    }

    /// Returns the leaves of one of `cpus` vCPUs; its APIC has the number of the vCPU.
    pub(super) fn of(&self, number: u8, cpus: u8) -> Result<CpuId, kvm_ioctls::Error> {
        let topology = Topology { number: number.into(), cpus: cpus.into() };
        let mut entries: Vec<_> =
            self.supported.as_slice().iter().copied().filter(|entry| !replaced(entry.function)).collect();
        for entry in &mut entries {
            topology.apply(entry);
            match entry.function {
                1 => {
                    entry.ecx = entry.ecx & !(VMX | MONITOR) | HYPERVISOR;
                    if self.tsc_deadline {
                        entry.ecx |= TSC_DEADLINE;
                    }
                }
                0x8000_0001 => entry.ecx &= !(SVM | SKINIT),
                // Features of SVM, which the machine does not have.
                0x8000_000a => (entry.eax, entry.ebx, entry.ecx, entry.edx) = (0, 0, 0, 0),
                _ => {}
            }
        }
        // Leaf 0xb is answered if the highest leaf allows for it.
        if entries.iter().any(|entry| entry.function == 0 && entry.eax >= 0xb) {
            entries.extend(topology.levels());
        }
        CpuId::from_entries(&entries).map_err(|_| kvm_ioctls::Error::new(libc::E2BIG))
    }
}

/// Clears the fields that the processor changes by itself: OSXSAVE, OSPKE, and the size of the state that XCR0
/// enables.
fn stable(entry: &kvm_cpuid_entry2) -> kvm_cpuid_entry2 {
    let mut entry = *entry;
    match (entry.function, entry.index) {
        (1, _) => entry.ecx &= !(1 << 27),
        (7, 0) => entry.ecx &= !(1 << 4),
        (0xd, 0 | 1) => entry.ebx = 0,
        _ => {}
    }
    entry
}

/// Returns the first leaf that differs between two vCPUs.
pub(super) fn difference(one: &[kvm_cpuid_entry2], other: &[kvm_cpuid_entry2]) -> Option<u32> {
    let key = |entry: &kvm_cpuid_entry2| (entry.function, entry.index);
    let missing = |these: &[kvm_cpuid_entry2], those: &[kvm_cpuid_entry2]| {
        let found = |entry: &&kvm_cpuid_entry2| {
            those.iter().any(|that| key(that) == key(entry) && stable(that) == stable(entry))
        };
        these.iter().find(|entry| !found(entry)).map(|entry| entry.function)
    };
    missing(one, other).or_else(|| missing(other, one))
}

/// Returns true for leaves of the host's own topology, of which only the first is answered here.
fn replaced(function: u32) -> bool {
    matches!(function, 0xb | 0x1f | 0x8000_0026)
}

/// A vCPU, and the number of all.
#[derive(Clone, Copy)]
struct Topology {
    number: u32,
    cpus: u32,
}

impl Topology {
    /// Returns the number of bits of an APIC's number that tell the cores of the package apart.
    fn bits(self) -> u32 {
        self.cpus.next_power_of_two().trailing_zeros()
    }

    fn apply(self, entry: &mut kvm_cpuid_entry2) {
        let Self { number, cpus } = self;
        match entry.function {
            1 => {
                entry.ebx = entry.ebx & 0xffff | cpus << 16 | number << 24;
                entry.edx = entry.edx & !HTT | if cpus > 1 { HTT } else { 0 };
            }
            // Intel's caches, by the processors that share them: all share the last level.
            4 if entry.eax & 0x1f != 0 => {
                let level = entry.eax >> 5 & 7;
                let sharing = if level >= 3 { (1 << self.bits()) - 1 } else { 0 };
                let cores = ((1 << self.bits()) - 1).min(0x3f);
                entry.eax = entry.eax & 0x3fff | sharing << 14 | cores << 26;
            }
            0x8000_0001 => entry.ecx = entry.ecx & !CMP_LEGACY | if cpus > 1 { CMP_LEGACY } else { 0 },
            0x8000_0008 => entry.ecx = entry.ecx & !0xf0ff | self.bits() << 12 | (cpus - 1),
            // AMD's caches, likewise.
            0x8000_001d if entry.eax & 0x1f != 0 => {
                let level = entry.eax >> 5 & 7;
                let sharing = if level >= 3 { cpus - 1 } else { 0 };
                entry.eax = entry.eax & 0x3fff | sharing << 14;
            }
            // One thread of a core of its own, on node 0.
            0x8000_001e => (entry.eax, entry.ebx, entry.ecx, entry.edx) = (number, number & 0xff, 0, 0),
            _ => {}
        }
    }

    /// Returns leaf 0xb: a level of threads, a level of cores, and the level that ends them.
    fn levels(self) -> [kvm_cpuid_entry2; 3] {
        let level = |index: u32, eax: u32, ebx: u32, kind: u32| kvm_cpuid_entry2 {
            function: 0xb,
            index,
            flags: kvm_bindings::KVM_CPUID_FLAG_SIGNIFCANT_INDEX,
            eax,
            ebx,
            ecx: kind | index,
            edx: self.number,
            ..Default::default()
        };
        [level(0, 0, 1, THREADS), level(1, self.bits(), self.cpus, CORES), level(2, 0, 0, 0)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn features(leaves: &[(u32, u32, [u32; 4])]) -> Features {
        let entries: Vec<_> = leaves
            .iter()
            .map(|&(function, index, [eax, ebx, ecx, edx])| kvm_cpuid_entry2 {
                function,
                index,
                eax,
                ebx,
                ecx,
                edx,
                ..Default::default()
            })
            .collect();
        Features { supported: CpuId::from_entries(&entries).unwrap(), tsc_deadline: true }
    }

    fn leaf(cpuid: &CpuId, function: u32, index: u32) -> [u32; 4] {
        let found: Vec<_> = cpuid
            .as_slice()
            .iter()
            .filter(|entry| (entry.function, entry.index) == (function, index))
            .map(|entry| [entry.eax, entry.ebx, entry.ecx, entry.edx])
            .collect();
        assert_eq!(found.len(), 1, "leaf {function:#x} {index}: {found:x?}");
        found[0]
    }

    #[test]
    fn every_vcpu_has_its_number_in_every_leaf_of_the_topology() {
        let host = features(&[
            (0, 0, [0x1f, 0, 0, 0]),
            (1, 0, [0, 0x5510_0800, 0x28, 0]),
            (4, 3, [0xfc00_4163, 0, 0, 0]),
            (0xb, 0, [1, 2, 0x100, 77]),
            (0xb, 1, [7, 64, 0x201, 77]),
            (0x1f, 0, [1, 2, 0x100, 77]),
            (0x8000_0001, 0, [0, 0, 0x1004, 0]),
            (0x8000_0008, 0, [48, 0, 0x703f, 0]),
            (0x8000_001d, 3, [0x3c163, 0, 0, 0]),
            (0x8000_001e, 0, [77, 0x107, 0x300, 0]),
            (0x8000_0026, 0, [1, 2, 3, 77]),
        ]);
        assert_eq!(host.address_bits(), 48);
        for (cpus, bits) in [(1u8, 0), (2, 1), (3, 2), (4, 2), (64, 6)] {
            for number in 0..cpus {
                let cpuid = host.of(number, cpus).unwrap();
                let (id, count) = (u32::from(number), u32::from(cpus));
                let [_, ebx, ecx, edx] = leaf(&cpuid, 1, 0);
                assert_eq!((ebx, ecx), (id << 24 | count << 16 | 0x0800, HYPERVISOR | TSC_DEADLINE));
                assert_eq!(edx & HTT != 0, cpus > 1);
                assert_eq!(leaf(&cpuid, 0xb, 0), [0, 1, 0x100, id]);
                assert_eq!(leaf(&cpuid, 0xb, 1), [bits, count, 0x201, id]);
                assert_eq!(leaf(&cpuid, 0xb, 2), [0, 0, 2, id]);
                assert_eq!(leaf(&cpuid, 4, 3)[0] >> 14 & 0xfff, (1 << bits) - 1);
                assert_eq!(leaf(&cpuid, 0x8000_0001, 0)[2], if cpus > 1 { CMP_LEGACY } else { 0 });
                assert_eq!(leaf(&cpuid, 0x8000_0008, 0)[2], bits << 12 | (count - 1));
                assert_eq!(leaf(&cpuid, 0x8000_001e, 0), [id, id, 0, 0]);
                assert!(cpuid.as_slice().iter().all(|entry| !matches!(entry.function, 0x1f | 0x8000_0026)));
            }
        }
    }

    #[test]
    fn processors_without_the_leaf_get_none() {
        let cpuid = features(&[(0, 0, [1, 0, 0, 0]), (1, 0, [0; 4])]).of(0, 2).unwrap();
        assert!(cpuid.as_slice().iter().all(|entry| entry.function != 0xb));
    }
}
