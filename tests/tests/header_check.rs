//! The ABI's layouts are those of the published headers.

use belfry_image::{Cache, Freshness, Progress, c_headers};

#[test]
fn abi_agrees_with_the_user_headers() {
    let cache = Cache::open().unwrap();
    let headers = c_headers::user_headers(&cache, Freshness::Cached, &Progress::new()).unwrap();
    let held = xtask::header_check::check_user(&headers.linux, &headers.hsa).unwrap();
    assert!(held > 300, "only {held} layouts and constants were compared");
}
