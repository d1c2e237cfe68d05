//! The KFD user interface (uapi/linux/kfd_ioctl.h).
