//! What the tests of the whole path in one process share. They need no machine and, where there is a
//! clang 19, nothing that is fetched.

pub mod assembly;
pub mod compiler;
