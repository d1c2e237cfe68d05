//! The choice of how doorbells travel, and what each mode makes of it.

/// Ways in which doorbells reach the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Doorbell {
    /// Every write leaves the guest: exact and counted (any mode; qemu's default).
    Trapped,
    /// The page is mapped into the guest and looked at while there are queues (qemu).
    Polled,
    /// A write makes KVM wake the device, which reads the queue's write pointer (kvm).
    Ioeventfd,
    /// A page is memory while it is rung or its queues have work, and traps otherwise (kvm's default).
    Adaptive,
}

/// A way a mode does not have.
#[derive(Debug, thiserror::Error)]
#[error("--doorbell {} is not for {mode}, which has {has}", .doorbell.name())]
pub struct NoSuchWay {
    doorbell: Doorbell,
    mode: &'static str,
    has: &'static str,
}

impl Doorbell {
    fn name(self) -> &'static str {
        match self {
            Self::Trapped => "trapped",
            Self::Polled => "polled",
            Self::Ioeventfd => "ioeventfd",
            Self::Adaptive => "adaptive",
        }
    }
}

/// Returns the doorbell mode of Belfry's own machine for a choice, or for none. A GPU that is recorded traps every
/// ring.
///
/// # Errors
///
/// A way that this machine does not have, or any other than trapped for a GPU that is recorded.
pub fn on_kvm(
    choice: Option<Doorbell>,
    is_recorded: bool,
) -> Result<belfry_machine::DoorbellMode, NoSuchWay> {
    match choice {
        None | Some(Doorbell::Trapped) if is_recorded => Ok(belfry_machine::DoorbellMode::Trapped),
        Some(doorbell) if is_recorded => {
            Err(NoSuchWay { doorbell, mode: "kvm mode with --record", has: "trapped alone" })
        }
        None => Ok(belfry_machine::DoorbellMode::default()),
        Some(Doorbell::Trapped) => Ok(belfry_machine::DoorbellMode::Trapped),
        Some(Doorbell::Ioeventfd) => Ok(belfry_machine::DoorbellMode::Ioeventfd),
        Some(Doorbell::Adaptive) => Ok(belfry_machine::DoorbellMode::Adaptive),
        Some(doorbell @ Doorbell::Polled) => {
            Err(NoSuchWay { doorbell, mode: "kvm mode", has: "trapped, ioeventfd and adaptive" })
        }
    }
}

/// Returns the doorbell mode under QEMU for a choice, or for none.
///
/// # Errors
///
/// A way that QEMU does not have.
pub fn on_qemu(choice: Option<Doorbell>) -> Result<belfry_vfio_user::DoorbellMode, NoSuchWay> {
    match choice {
        None => Ok(belfry_vfio_user::DoorbellMode::default()),
        Some(Doorbell::Trapped) => Ok(belfry_vfio_user::DoorbellMode::Trapped),
        Some(Doorbell::Polled) => Ok(belfry_vfio_user::DoorbellMode::Polled),
        Some(doorbell @ (Doorbell::Ioeventfd | Doorbell::Adaptive)) => {
            Err(NoSuchWay { doorbell, mode: "qemu mode", has: "trapped and polled" })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_a_mode_does_not_have_are_refused_with_those_it_has() {
        let error = on_kvm(Some(Doorbell::Polled), false).unwrap_err().to_string();
        assert!(error.contains("polled") && error.contains("adaptive"), "{error}");
        let error = on_qemu(Some(Doorbell::Adaptive)).unwrap_err().to_string();
        assert!(error.contains("adaptive") && error.contains("polled"), "{error}");
        assert_eq!(on_kvm(None, false).unwrap(), belfry_machine::DoorbellMode::Adaptive);
        assert_eq!(on_kvm(None, true).unwrap(), belfry_machine::DoorbellMode::Trapped);
        for doorbell in [Doorbell::Adaptive, Doorbell::Ioeventfd, Doorbell::Polled] {
            let error = on_kvm(Some(doorbell), true).unwrap_err().to_string();
            assert!(error.contains("--record") && error.contains(doorbell.name()), "{error}");
        }
        assert_eq!(on_qemu(None).unwrap(), belfry_vfio_user::DoorbellMode::Trapped);
    }
}
