//! Numbers of devices on the root bus.

/// The first GPU's device number.
const FIRST_GPU: u8 = 1;
/// The guest channel's device number.
pub(crate) const CHANNEL_DEVICE: u8 = 2;
/// The number behind the last one.
const END: u8 = 32;

/// Returns the device number of a GPU of a machine with `count` of them: those after the first one have the last numbers, so that all other
/// devices are where they are in a machine with one, and GPUs follow each other in their order.
pub(crate) fn of_gpu(gpu: usize, count: usize) -> u8 {
    match gpu {
        0 => FIRST_GPU,
        _ => END - (count - gpu) as u8,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpus_after_the_first_one_have_the_last_numbers() {
        let numbers = |count| (0..count).map(|gpu| of_gpu(gpu, count)).collect::<Vec<_>>();
        assert_eq!((numbers(1), numbers(2), numbers(4)), (vec![1], vec![1, 31], vec![1, 29, 30, 31]));
    }
}
