//! Fetches the C headers `xtask header-check` compares with and prints the directory to include.

use anyhow::{Result, bail};
use belfry_image::{Cache, Freshness, Progress, c_headers};

fn main() -> Result<()> {
    let which = std::env::args().nth(1).unwrap_or_default();
    let (cache, progress) = (Cache::open()?, Progress::new());
    let directory = match which.as_str() {
        "linux" => c_headers::user_headers(&cache, Freshness::Cached, &progress)?.linux,
        "hsa" => c_headers::user_headers(&cache, Freshness::Cached, &progress)?.hsa,
        "kernel" => c_headers::kernel_headers_of_amdgpu(&cache, Freshness::Cached, &progress)?,
        other => bail!("unknown headers {other:?}: one of linux, hsa, kernel"),
    };
    println!("{}", directory.display());
    Ok(())
}
