//! Work for a file of the render node, and the file as memory of its program sees it.

use alloc::sync::Arc;

use super::Client;
use crate::device::Device;
use crate::object::Holder;
use crate::os::{Os, Work};
use crate::space::Space;

/// Has a file's work looked at; runs under any lock.
pub(crate) struct Kick<O: Os>(pub(crate) Arc<Client<O>>);

impl<O: Os> Work for Kick<O> {
    fn run(&self) {
        self.0.kick();
    }
}

/// Goes on with the work of a file, away from the interrupt thread.
pub(super) struct Pump<O: Os> {
    pub(super) device: Arc<Device<O>>,
    pub(super) id: u64,
}

impl<O: Os> Work for Pump<O> {
    fn run(&self) {
        self.device.users.pump(self.id);
    }
}

impl<O: Os> Holder<O> for Client<O> {
    fn device(&self) -> &Arc<Device<O>> {
        Client::device(self)
    }

    fn space(&self) -> &Space<O> {
        Client::space(self)
    }

    fn is_closed(&self) -> bool {
        self.lock().is_closed()
    }

    fn pump(&self) {
        Client::pump(self);
    }
}
