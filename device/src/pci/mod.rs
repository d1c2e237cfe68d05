//! pci.
