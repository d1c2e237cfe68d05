//! MQDs of gfx12 (`kfd_mqd_manager_v12.c`): the compute MQD is that of gfx11 in all that a driver puts in, that of an SDMA queue
//! has its fields elsewhere.

use belfry_abi::mqd::SdmaMqd;
use zerocopy::FromZeros;

use crate::asic::gfx11::{self, MQD_MANAGER};
use crate::asic::{MqdManager, UserQueue, UserRing};
use crate::errno::Result;
use crate::request::{Image, SdmaPlace};

pub(super) const MANAGER: MqdManager = MqdManager { init_sdma, update_sdma, set_takes_traps, ..MQD_MANAGER };

/// The bit of `COMPUTE_PGM_RSRC2` in an MQD that says that waves take traps: bit 6, where it was, is `ENABLE_DYNAMIC_VGPR`.
const TRAP_PRESENT: u32 = 1 << 31;

fn set_takes_traps(image: &mut Image, takes: bool) -> Result<()> {
    let mqd = image.mqd()?;
    mqd.compute_pgm_rsrc2 = mqd.compute_pgm_rsrc2 & !TRAP_PRESENT | if takes { TRAP_PRESENT } else { 0 };
    Ok(())
}

fn init_sdma(image: &mut Image, queue: &UserQueue<'_>, place: SdmaPlace) -> Result<()> {
    let mut mqd = SdmaMqd::new_zeroed();
    gfx11::init_sdma_mqd(&mut mqd, queue, place);
    mqd.write_v12(image.sdma_dwords()?);
    Ok(())
}

fn update_sdma(image: &mut Image, ring: &UserRing) -> Result<()> {
    let dwords = image.sdma_dwords()?;
    let mut mqd = SdmaMqd::from_v12(dwords);
    gfx11::update_sdma_mqd(&mut mqd, ring);
    mqd.write_v12(dwords);
    Ok(())
}

#[cfg(test)]
mod tests {
    use belfry_abi::doorbell::DoorbellIndex;
    use belfry_abi::kfd::queue::CreateQueueArgs;

    use super::*;
    use crate::asic::Share;

    const ALONE: Share = Share { number: 0, count: 1, first: 0, stride: 4096 };

    #[test]
    fn mqd_of_an_sdma_queue_has_its_fields_where_gfx12_has_them() {
        let args = CreateQueueArgs {
            read_pointer_address: 0x7_0000_1010,
            write_pointer_address: 0x7_0000_1008,
            ..Default::default()
        };
        let mut image = Image::zeroed().unwrap();
        let queue =
            UserQueue { mqd: 0x1000, args: &args, doorbell: DoorbellIndex::of_number(0x401), share: ALONE };
        init_sdma(&mut image, &queue, SdmaPlace { engine: 1, queue: 2 }).unwrap();
        // A saved read pointer, which an update leaves alone.
        image.sdma_dwords().unwrap()[3] = 55;
        update_sdma(
            &mut image,
            &UserRing { base: 0x7_0000_2000, size: 1 << 20, priority: 15, aql: false, leads: true },
        )
        .unwrap();
        let dwords = *image.sdma_dwords().unwrap();
        assert_eq!(dwords[..4], [18 << 1 | 1 << 11 | 1 << 12 | 6 << 16, 0x0700_0020, 0, 55]);
        assert_eq!((dwords[7], dwords[8]), (0x1010, 7), "RB_RPTR_ADDR");
        assert_eq!((dwords[24], dwords[25]), (0x1008, 7), "RB_WPTR_POLL_ADDR");
        assert_eq!((dwords[17], dwords[23]), (0x802 << 2, 0xf), "DOORBELL_OFFSET, DUMMY_REG");
        assert_eq!((dwords[126], dwords[127]), (1, 2));
    }
}
