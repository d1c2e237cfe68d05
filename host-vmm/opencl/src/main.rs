//! Runs kernels on the processor through PoCL, as its standard input says; see the library of this package for the messages.

mod processors;

use std::io;

use belfry_opencl::{Answer, Failure, Request, receive, send};
use processors::{Prepared, Processors};

fn main() -> io::Result<()> {
    let (mut from, mut to) = (io::stdin().lock(), io::stdout().lock());
    let Some(first) = receive(&mut from)? else { return Ok(()) };
    let opened = match first {
        Request::Open { processors, sources } => Processors::new(processors, &sources),
        _ => Err(Failure::Order("no processors were asked for".into())),
    };
    let processors = match opened {
        Ok(processors) => processors,
        Err(failure) => return send(&mut to, &Answer::Failed(failure)),
    };
    send(&mut to, &Answer::Done)?;
    let mut prepared = None;
    while let Some(request) = receive(&mut from)? {
        let answer = answer(&processors, &mut prepared, &request);
        send(&mut to, &answer.unwrap_or_else(Answer::Failed))?;
    }
    Ok(())
}

fn answer<'a>(
    processors: &'a Processors,
    prepared: &mut Option<Prepared<'a>>,
    request: &Request,
) -> Result<Answer, Failure> {
    let kernel = || prepared.as_ref().ok_or_else(|| Failure::Order("there is no kernel".into()));
    Ok(match request {
        Request::Open { .. } => return Err(Failure::Order("the processors are taken".into())),
        Request::Prepare(kernel) => {
            *prepared = None;
            *prepared = Some(processors.prepare(kernel)?);
            Answer::Done
        }
        Request::Run => {
            let time = kernel()?.run()?;
            Answer::Took(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
        }
        Request::Output => Answer::Output(kernel()?.output()?),
    })
}
