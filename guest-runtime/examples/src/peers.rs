//! Several GPUs that reach each other's memory: copies, kernels, atomics, and kernels that answer each other.

use std::io::Write;
use std::time::Duration;

use anyhow::{Context, ensure};
use belfry_runtime::{Buffer, Gpu, Kernel, Queue, Runtime};

use crate::numbers::Random;
use crate::{count, kernels, verify};

/// Rounds in which kernels answer each other.
const ROUNDS: u32 = 20;
/// Work-items that add to one word, on each GPU.
const TALLIES: u32 = 1024;
/// Far more than anything here takes, on a loaded machine and in a translated guest as well.
const LIMIT: Option<Duration> = Some(Duration::from_secs(300));

/// A GPU with its number and what it runs.
struct Member<'a> {
    number: usize,
    gpu: &'a Gpu,
    queue: Queue,
    step: Kernel,
    tally: Kernel,
    answer: Kernel,
}

impl<'a> Member<'a> {
    fn new((number, gpu): (usize, &'a Gpu)) -> anyhow::Result<Self> {
        let module = gpu.load(kernels::PEERS.on(gpu)?)?;
        let [step, tally, answer] = ["step", "tally", "answer"].map(|name| module.kernel(name));
        Ok(Self { number, gpu, queue: gpu.queue()?, step: step?, tally: tally?, answer: answer? })
    }
}

pub(crate) fn run(runtime: &Runtime, args: &[String], out: &mut dyn Write) -> anyhow::Result<()> {
    let items = count(args, 20_011, 1..=1 << 20, 1)?;
    let gpus = runtime.gpus();
    ensure!(gpus.len() > 1, "it needs several GPUs, and there is one: `belfry run --gpus 2`");
    let members = gpus.iter().enumerate().map(Member::new).collect::<anyhow::Result<Vec<_>>>()?;
    let mut random = Random::new(31);
    for from in &members {
        for to in members.iter().filter(|to| to.number != from.number) {
            let pair = format!("from GPU {} to GPU {}", from.number, to.number);
            let data: Vec<u32> = (0..items).map(|_| random.next() as u32).collect();
            copies(gpus, (from, to), &data).with_context(|| format!("copies {pair}"))?;
            steps(gpus, (from, to), &data).with_context(|| format!("kernels {pair}"))?;
        }
    }
    tallies(gpus, &members)?;
    for (at, first) in members.iter().enumerate() {
        members[at + 1..].iter().try_for_each(|second| answers(gpus, first, second))?;
    }
    writeln!(out, "peers: {} GPUs copied, stored and added in each other's memory: verified", gpus.len())?;
    Ok(())
}

/// Copies from one to the other, by an engine of either.
fn copies(gpus: &[Gpu], (from, to): (&Member<'_>, &Member<'_>), data: &[u32]) -> anyhow::Result<()> {
    let source = from.gpu.vram_for(gpus).buffer_from(data)?;
    for worker in [from, to] {
        let target = to.gpu.vram_for(gpus).buffer::<u32>(data.len())?;
        let mut engine = worker.gpu.copy_queue()?;
        engine.copy(&source, &target)?;
        engine.finish(LIMIT)?;
        verify::equal(&format!("a copy by GPU {}", worker.number), &target.to_vec(), data)?;
    }
    Ok(())
}

/// A kernel of the one reads its own memory and stores to the other's; a kernel of the other reads there and stores back.
fn steps(gpus: &[Gpu], (one, other): (&Member<'_>, &Member<'_>), data: &[u32]) -> anyhow::Result<()> {
    let items = data.len() as u32;
    let own = one.gpu.vram_for(gpus).buffer_from(data)?;
    let there = other.gpu.vram_for(gpus).buffer::<u32>(data.len())?;
    for (member, (to, from)) in [(one, (&there, &own)), (other, (&own, &there))] {
        member.step.launch(&member.queue).grid(items).block(256).args((to, from, items)).run()?;
    }
    let stepped = |word: &u32| word.wrapping_mul(5).wrapping_add(1);
    let once: Vec<u32> = data.iter().map(stepped).collect();
    verify::equal("the other one's memory", &there.to_vec(), &once)?;
    verify::equal("the own memory", &own.to_vec(), &once.iter().map(stepped).collect::<Vec<_>>())
}

/// All GPUs add to one word at the same time, in the memory of each.
fn tallies(gpus: &[Gpu], members: &[Member<'_>]) -> anyhow::Result<()> {
    for owner in gpus {
        let sum = owner.vram_for(gpus).buffer_from(&[0u32])?;
        let running = members
            .iter()
            .map(|member| member.tally.launch(&member.queue).grid(TALLIES).block(64).args((&sum,)).submit());
        for completion in running.collect::<Result<Vec<_>, _>>()? {
            completion.wait()?;
        }
        verify::equal("a word that all add to", &sum.to_vec(), &[TALLIES * gpus.len() as u32])?;
    }
    Ok(())
}

/// Kernels of two run at the same time, and each waits for stores of the other one to its memory.
fn answers(gpus: &[Gpu], first: &Member<'_>, second: &Member<'_>) -> anyhow::Result<()> {
    let word = |member: &Member<'_>| member.gpu.vram_for(gpus).buffer_from(&[0u32]);
    let words: [Buffer<u32>; 2] = [word(first)?, word(second)?];
    let mut running = Vec::new();
    for (turn, member) in [first, second].into_iter().enumerate() {
        let args = (&words[turn], &words[1 - turn], turn as u32, ROUNDS);
        running.push(member.answer.launch(&member.queue).grid(1).block(1).args(args).submit()?);
    }
    for completion in running {
        completion.wait()?;
    }
    for (turn, word) in words.iter().enumerate() {
        let what = format!("the word of GPU {}", [first, second][turn].number);
        verify::equal(&what, &word.to_vec(), &[2 * ROUNDS])?;
    }
    Ok(())
}
