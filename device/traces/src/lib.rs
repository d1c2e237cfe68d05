//! Traces of the GPU: events of the device and of the driver in the formats of files, and tables and pictures of them.
//!
//! | part | file |
//! | --- | --- |
//! | contents of a trace | `trace.rs` |
//! | names and times as people read them | `name.rs`, `time.rs` |
//! | the choice of events that are kept | `only.rs` |
//! | Perfetto's form | `perfetto.rs`, written and read with `schema.rs`, the part of the published schema that is used |
//! | JSON and CSV | `json.rs`, `csv.rs` |
//! | events of a guest's driver | `driver.rs` |
//! | the packets that an event belongs to | `flow.rs` |
//! | tables | `summary.rs`, `diff.rs`, `profiled.rs` |
//! | pictures | `svg.rs` |

pub mod csv;
mod diff;
pub mod driver;
mod flow;
pub mod json;
mod links;
mod name;
mod only;
pub mod perfetto;
mod profiled;
mod schema;
mod summary;
mod svg;
mod time;
mod trace;

use belfry_device::trace::{Contents, RingError};

pub use diff::diff;
pub use flow::Flows;
pub use links::Matrix;
pub use name::{demangled, kernel};
pub use only::{Only, OnlyError};
pub use summary::summary;
pub use svg::{escaped, svg};
pub use time::Time;
pub use trace::{GpuOf, NoTrace, Trace};

/// Reads the bytes of a trace: in Perfetto's format, in JSON, or a ring that a process has left.
///
/// # Errors
///
/// Bytes that are no trace, or that are damaged.
pub fn read(bytes: &[u8]) -> Result<Trace, NoTrace> {
    if Contents::is_ring(bytes) {
        let damaged = |error: RingError| NoTrace::Damaged(error.to_string());
        return Contents::read(bytes).map(Trace::from).map_err(damaged);
    }
    match bytes.first() {
        None => Err(NoTrace::Damaged("it is empty".to_owned())),
        Some(b'{') => json::read(bytes),
        Some(_) => perfetto::read(bytes),
    }
}
