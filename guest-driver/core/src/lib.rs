//! The operating-system-agnostic KFD driver, in the nouns of Linux amdkfd.
