//! The GPU: a PCI function that runs AMD machine code, free of any transport.
