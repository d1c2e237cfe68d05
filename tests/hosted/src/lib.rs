//! Parts that the tests of the whole path in one process share. The tests need no machine and fetch nothing,
//! if there is a clang 19.

pub mod assembly;
pub mod compiler;
