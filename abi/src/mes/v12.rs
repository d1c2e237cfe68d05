//! Frames of version 12, by the places of their fields in frames of version 11.
//!
//! Linux `drivers/gpu/drm/amd/include/mes_v12_api_def.h` has the opcodes and fields of version 11, packed to eight bytes
//! instead of four. Fields have equal meanings, so there is one type for each frame: the one of version 11.

use super::{FRAME_SIZE, Header, MiscOpcode, Opcode};

/// Bytes that lie elsewhere, and are contiguous in both versions.
#[derive(Clone, Copy, Debug)]
struct Moved {
    /// Offset in a frame of version 11.
    v11: usize,
    /// Offset in one of version 12.
    v12: usize,
    len: usize,
}

const fn moved(v11: usize, v12: usize, len: usize) -> Moved {
    Moved { v11, v12, len }
}

/// A frame of either version.
type Frame = [u8; FRAME_SIZE];

/// Returns the parts of a frame that have moved; the other fields that both versions have are in the same
/// place.
fn moves(frame: &Frame) -> &'static [Moved] {
    let word = |at: usize| u32::from_le_bytes([frame[at], frame[at + 1], frame[at + 2], frame[at + 3]]);
    match Header(word(0)).opcode() {
        // grace_period_other_levels to normal_yield_percent; api_status and timestamp.
        Opcode::SET_SCHEDULING_CONFIG => const { &[moved(0x04, 0x08, 0x7c), moved(0x80, 0x88, 0x18)] },
        // mqd_addr to sch_id; timestamp to alignment_mode_setting.
        Opcode::ADD_QUEUE => const { &[moved(0x4c, 0x50, 0x64), moved(0xb0, 0xb8, 0x1c)] },
        // api_status to queue_type.
        Opcode::REMOVE_QUEUE => const { &[moved(0x14, 0x18, 0x28)] },
        // api_status.
        Opcode::SUSPEND => const { &[moved(0x1c, 0x20, 0x10)] },
        // page_table_base_addr to api_status.
        Opcode::UPDATE_ROOT_PAGE_TABLE => const { &[moved(0x04, 0x08, 0x20)] },
        // api_status to flags; mes_info_ctx_mc_addr and all that follows.
        Opcode::SET_HW_RSRC_1 => const { &[moved(0x04, 0x08, 0x1c), moved(0x20, 0x28, 0xd8)] },
        // The address of the buffer.
        Opcode::MISC if word(4) == MiscOpcode::READ_REG.0 => const { &[moved(0x1c, 0x20, 0x08)] },
        _ => &[],
    }
}

/// Copies a frame and moves the parts that have moved. Bytes after the first move that are in no move become
/// 0.
fn convert(frame: &Frame, place: impl Fn(&Moved) -> (usize, usize)) -> Frame {
    let moves = moves(frame);
    let mut converted = *frame;
    if let Some(first) = moves.first() {
        converted[first.v11..].fill(0);
        for moved in moves {
            let (from, to) = place(moved);
            converted[to..to + moved.len].copy_from_slice(&frame[from..from + moved.len]);
        }
    }
    converted
}

/// The frame of version 11 with the meaning of this frame of version 12.
#[must_use]
pub fn to_v11(frame: &[u8; FRAME_SIZE]) -> [u8; FRAME_SIZE] {
    convert(frame, |moved| (moved.v12, moved.v11))
}

/// The frame of version 12 with the meaning of this frame of version 11.
#[must_use]
pub fn from_v11(frame: &[u8; FRAME_SIZE]) -> [u8; FRAME_SIZE] {
    convert(frame, |moved| (moved.v11, moved.v12))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mes::{AddQueue, ApiStatus, Misc, RemoveQueue, SetHwResources1, api_status_offset};
    use zerocopy::{FromBytes, FromZeros, IntoBytes};

    fn u64_at(frame: &Frame, at: usize) -> u64 {
        u64::from_le_bytes(frame[at..at + 8].try_into().unwrap())
    }

    fn u32_at(frame: &Frame, at: usize) -> u32 {
        u32::from_le_bytes(frame[at..at + 4].try_into().unwrap())
    }

    fn bytes<T: IntoBytes + zerocopy::Immutable>(frame: &T) -> Frame {
        frame.as_bytes().try_into().unwrap()
    }

    #[test]
    fn fields_of_add_queue_are_where_the_header_has_them() {
        let mut frame = AddQueue::new_zeroed();
        frame.header = Header::new(Opcode::ADD_QUEUE);
        frame.gang_context_addr = 0x1111.into();
        frame.mqd_addr = 0x2222_0000_3333.into();
        frame.queue_type = 7;
        frame.trap_handler_addr = 0x4444_0000_5555.into();
        frame.vm_context_cntl = 8;
        frame.flags.0 = 9;
        frame.api_status.api_completion_fence_value = 10.into();
        frame.tma_addr = 11.into();
        frame.timestamp = 12.into();
        frame.queue_id = 13;
        frame.alignment_mode_setting = 14;
        let v12 = from_v11(&bytes(&frame));
        assert_eq!((u64_at(&v12, 0x38), u64_at(&v12, 0x50)), (0x1111, 0x2222_0000_3333));
        assert_eq!((u32_at(&v12, 0x70), u64_at(&v12, 0x88)), (7, 0x4444_0000_5555));
        assert_eq!((u32_at(&v12, 0x90), u32_at(&v12, 0x94), u64_at(&v12, 0xa0)), (8, 9, 10));
        assert_eq!((u64_at(&v12, 0xa8), u64_at(&v12, 0xb8)), (11, 12));
        assert_eq!((u32_at(&v12, 0xcc), u32_at(&v12, 0xd0)), (13, 14));
        assert_eq!(AddQueue::read_from_bytes(&to_v11(&v12)).unwrap(), frame);
    }

    #[test]
    fn frames_come_back_as_they_were() {
        for opcode in (0..32).map(Opcode) {
            let mut frame: Frame = core::array::from_fn(|at| at as u8);
            frame[..4].copy_from_slice(&Header::new(opcode).0.to_le_bytes());
            let v12 = from_v11(&frame);
            let back = to_v11(&v12);
            let end = moves(&frame).last().map_or(FRAME_SIZE, |last| last.v11 + last.len);
            assert_eq!(frame[..end], back[..end], "{opcode:?}");
            if let Some(status) = api_status_offset(opcode) {
                let place = moves(&frame)
                    .iter()
                    .find(|moved| (moved.v11..moved.v11 + moved.len).contains(&status))
                    .map_or(status, |moved| status - moved.v11 + moved.v12);
                assert_eq!(place % 8, 0, "{opcode:?}");
                let len = size_of::<ApiStatus>();
                assert_eq!(v12[place..place + len], frame[status..status + len], "{opcode:?}");
            }
        }
    }

    #[test]
    fn small_frames_move_what_is_packed_otherwise() {
        let mut frame = RemoveQueue::new_zeroed();
        frame.header = Header::new(Opcode::REMOVE_QUEUE);
        (frame.pipe_id, frame.tf_addr, frame.queue_type) = (1, 2.into(), 3);
        let v12 = from_v11(&bytes(&frame));
        assert_eq!((u32_at(&v12, 0x28), u64_at(&v12, 0x30), u32_at(&v12, 0x3c)), (1, 2, 3));

        let mut frame = SetHwResources1::new_zeroed();
        frame.header = Header::new(Opcode::SET_HW_RSRC_1);
        (frame.timestamp, frame.flags, frame.mes_info_ctx_size, frame.later[0]) = (1.into(), 2, 3, 4);
        let v12 = from_v11(&bytes(&frame));
        assert_eq!((u64_at(&v12, 0x18), u32_at(&v12, 0x20)), (1, 2));
        assert_eq!((u32_at(&v12, 0x30), u32_at(&v12, 0x34)), (3, 4));

        let mut frame = Misc::new_zeroed();
        frame.header = Header::new(Opcode::MISC);
        frame.opcode = MiscOpcode::READ_REG.0;
        frame.data[..3].copy_from_slice(&[1, 2, 3]);
        let v12 = from_v11(&bytes(&frame));
        assert_eq!((u32_at(&v12, 0x18), u32_at(&v12, 0x20), u32_at(&v12, 0x24)), (1, 2, 3));
        frame.opcode = MiscOpcode::WRITE_REG.0;
        assert_eq!(from_v11(&bytes(&frame)), bytes(&frame));
    }
}
