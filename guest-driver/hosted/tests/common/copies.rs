//! Queues of copy engines, and their packets.

use belfry_abi::kfd::queue::CreateQueueArgs;
use belfry_abi::sdma::{Header, Op};

use crate::common::Client;

/// A packet without flags.
pub(crate) fn packet(op: Op, body: &[u32]) -> Vec<u32> {
    [&[Header::new(op, 0).bits()], body].concat()
}

/// Arguments of CREATE_QUEUE for an SDMA queue: no end-of-pipe buffer, no context save area.
pub(crate) fn args(client: &Client, queue_type: u32) -> CreateQueueArgs {
    CreateQueueArgs {
        queue_type,
        eop_buffer_address: 0,
        eop_buffer_size: 0,
        ctx_save_restore_address: 0,
        ctx_save_restore_size: 0,
        ctl_stack_size: 0,
        ..client.queue_args().unwrap()
    }
}
