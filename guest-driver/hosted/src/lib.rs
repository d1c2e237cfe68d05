//! The driver core over an in-process device: no VM, no kernel.
