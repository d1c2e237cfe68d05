//! Whole-system tests: hosted, vfio-user, and QEMU guests.
