//! A trace as rows of text.

use std::io;

use crate::trace::Trace;

/// Writes a row of names, and a row for each event.
///
/// # Errors
///
/// A failure of `out`.
pub fn write(trace: &Trace, out: &mut impl io::Write) -> io::Result<()> {
    writeln!(out, "time_ns,event,engine,gpu,process,vmid,queue,job,arguments,text")?;
    for record in &trace.records {
        let owner = record.owner;
        let queue = owner.doorbell.map_or(String::new(), |doorbell| format!("{doorbell:#x}"));
        let names = record.kind.arguments().iter().zip(record.arguments);
        let arguments: Vec<_> = names.map(|(name, value)| format!("{name}={value:#x}")).collect();
        let text = record.text.replace('"', "\"\"");
        writeln!(
            out,
            "{},{},{},{},{:#x},{},{queue},{:#x},{},\"{text}\"",
            record.time,
            record.kind.name(),
            owner.engine,
            owner.gpu,
            owner.pasid,
            owner.vmid,
            record.job.bits(),
            arguments.join(" ")
        )?;
    }
    Ok(())
}
