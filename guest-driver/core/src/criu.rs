//! CRIU_OP (`kfd_ioctl_criu`): checked as amdkfd does, and then not built.

use alloc::sync::Arc;

use belfry_abi::kfd::criu::{
    CriuArgs, KFD_CRIU_OP_CHECKPOINT, KFD_CRIU_OP_PROCESS_INFO, KFD_CRIU_OP_RESTORE, KFD_CRIU_OP_RESUME,
    KFD_CRIU_OP_UNPAUSE,
};

use crate::errno::{Errno, Result};
use crate::os::{Os, Target};
use crate::process::Process;
use crate::processes::Processes;

/// Words about it in the documentation.
pub(crate) const MISSING: &str = "rights and arguments are checked as in Linux, then every operation that would have an effect is \
                                  refused: EOPNOTSUPP(95), as queues and memory of a process cannot be made again under \
                                  their old numbers, so that nothing could be restored";

/// CRIU_OP.
///
/// # Errors
///
/// `EINVAL` for an unknown operation, for addresses and counts that are missing, for a process whose queues are not paused and for
/// one that is not there; `ENODEV` without a VM; else `EOPNOTSUPP`.
pub(crate) fn criu<O: Os>(
    processes: &Processes<O>,
    process: &Arc<Process<O>>,
    args: &mut CriuArgs,
) -> Result<u32> {
    let has_vm = !process.state.lock().devices.has_no_space();
    let errno = match args.op {
        KFD_CRIU_OP_PROCESS_INFO | KFD_CRIU_OP_CHECKPOINT => {
            let checkpoint = args.op == KFD_CRIU_OP_CHECKPOINT;
            if checkpoint && [args.devices, args.bos, args.priv_data].contains(&0) {
                Errno::EINVAL
            } else if !has_vm {
                Errno::ENODEV
            } else if checkpoint {
                // PROCESS_INFO pauses the queues first, and never does.
                Errno::EINVAL
            } else {
                Errno::EOPNOTSUPP
            }
        }
        KFD_CRIU_OP_UNPAUSE => Errno::EINVAL,
        KFD_CRIU_OP_RESTORE => {
            let without_bos = args.num_bos > 0 && args.bos == 0;
            let sizes = [args.devices, args.priv_data, args.priv_data_size, args.num_devices.into()];
            if without_bos || sizes.contains(&0) { Errno::EINVAL } else { Errno::EOPNOTSUPP }
        }
        KFD_CRIU_OP_RESUME => {
            let target = process.os().target(args.pid).map_err(|_| Errno::EINVAL)?;
            match processes.of_key(target.key()) {
                Some(_) => Errno::EOPNOTSUPP,
                None => Errno::EINVAL,
            }
        }
        _ => Errno::EINVAL,
    };
    Err(errno)
}
