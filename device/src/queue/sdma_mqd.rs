//! MQD of an SDMA queue in memory: the state of a queue that is on no hardware queue.

use belfry_abi::mqd::SdmaMqd;
use zerocopy::{IntoBytes as _, transmute};

use super::{DmaBuffer, DmaContext};
use crate::chip::SdmaMqdForm;
use crate::guest_error::GuestError;
use crate::vm::AddressSpace;

/// `MIDCMD_DATA` dwords in which a [`DmaContext`] is kept. Real firmware keeps data of its own in them.
const DONE: usize = 0;
const CLOCK: usize = 2;

fn join(lo: u32, hi: u32) -> u64 {
    u64::from(hi) << 32 | u64::from(lo)
}

/// Returns the bytes of the ring; `None` if the field names more than a ring can have.
pub(crate) fn ring_bytes(mqd: &SdmaMqd) -> Option<u64> {
    let log2 = mqd.sdmax_rlcx_rb_cntl.rb_size();
    (log2 < 31).then(|| 4 << log2)
}

/// Returns the position of the queue.
pub(crate) fn context(mqd: &SdmaMqd) -> DmaContext {
    let left = mqd.sdmax_rlcx_ib_size & DmaContext::MOST;
    let data = &mqd.sdmax_rlcx_midcmd_data;
    DmaContext {
        buffer: (left != 0).then(|| DmaBuffer { at: mqd.buffer_base(), left }),
        done: join(data[DONE], data[DONE + 1]),
        clock: join(data[CLOCK], data[CLOCK + 1]),
    }
}

/// An MQD in memory.
#[derive(Clone, Copy)]
pub(crate) struct SdmaImage<'a> {
    pub(crate) form: SdmaMqdForm,
    pub(crate) space: &'a AddressSpace,
    pub(crate) address: u64,
}

/// Dwords of an MQD.
type Image = [u32; 128];

impl SdmaImage<'_> {
    fn dwords(&self) -> Option<Image> {
        let mut dwords = [0; 128];
        self.space.read_bytes(self.address, dwords.as_mut_bytes()).ok()?;
        Some(dwords)
    }

    fn fields(&self, dwords: &Image) -> SdmaMqd {
        match self.form {
            SdmaMqdForm::V9 => SdmaMqd::from_v9(dwords),
            SdmaMqdForm::V11 => transmute!(*dwords),
            SdmaMqdForm::V12 => SdmaMqd::from_v12(dwords),
        }
    }

    /// Reads the MQD and checks that it is one. It has no header, so the checks are of its ring.
    pub(crate) fn read(&self) -> Result<SdmaMqd, GuestError> {
        let mqd = self.fields(&self.dwords().ok_or(GuestError::MqdUnmapped)?);
        if mqd.ring_base() == 0 {
            return Err(GuestError::MqdWithoutRing);
        }
        // A ring holds the longest packet that cannot be split.
        if ring_bytes(&mqd).is_none_or(|bytes| bytes < 64) {
            return Err(GuestError::MqdRingSize);
        }
        Ok(mqd)
    }

    /// Writes a queue's pointers and position into its MQD. Returns false if it is not mapped.
    pub(crate) fn save(&self, read_index: u64, context: &DmaContext) -> bool {
        let Some(mut dwords) = self.dwords() else { return false };
        let mut mqd = self.fields(&dwords);
        mqd.set_read_pointer(read_index);
        let buffer = context.buffer.unwrap_or(DmaBuffer { at: 0, left: 0 });
        mqd.set_buffer_base(buffer.at);
        mqd.sdmax_rlcx_ib_size = buffer.left;
        let data = &mut mqd.sdmax_rlcx_midcmd_data;
        for (at, value) in [(DONE, context.done), (CLOCK, context.clock)] {
            (data[at], data[at + 1]) = (value as u32, (value >> 32) as u32);
        }
        match self.form {
            SdmaMqdForm::V9 => mqd.write_v9(&mut dwords),
            SdmaMqdForm::V11 => dwords = transmute!(mqd),
            SdmaMqdForm::V12 => mqd.write_v12(&mut dwords),
        }
        self.space.write_bytes(self.address, dwords.as_bytes()).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use zerocopy::FromZeros as _;

    use super::*;

    #[test]
    fn size_of_a_ring_is_that_of_its_field() {
        let mut mqd = SdmaMqd::new_zeroed();
        mqd.sdmax_rlcx_rb_cntl.set_rb_size(18);
        assert_eq!(ring_bytes(&mqd), Some(1 << 20));
        mqd.sdmax_rlcx_rb_cntl.set_rb_size(31);
        assert_eq!(ring_bytes(&mqd), None);
    }

    #[test]
    fn place_of_a_queue_is_in_its_mqd() {
        let mut mqd = SdmaMqd::new_zeroed();
        assert_eq!(context(&mqd), DmaContext::default());
        (mqd.sdmax_rlcx_ib_size, mqd.sdmax_rlcx_midcmd_data[1]) = (0x10_0005, 1);
        mqd.set_buffer_base(0x7_0000_0020);
        let buffer = DmaBuffer { at: 0x7_0000_0020, left: 5 };
        assert_eq!(context(&mqd), DmaContext { buffer: Some(buffer), done: 1 << 32, clock: 0 });
    }
}
