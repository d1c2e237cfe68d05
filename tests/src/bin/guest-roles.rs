//! Roles of the whole-system tests as a program without shared libraries, for guests: `guest-roles ROLE ARGUMENTS`.

fn main() -> anyhow::Result<()> {
    belfry_test_roles::command::run()
}
