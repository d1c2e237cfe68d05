//! Registers of Navi 31, by page.
