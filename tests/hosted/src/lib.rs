//! What the tests of the whole path in one process share. They need no machine and nothing that is fetched.

pub mod assembly;
