//! Trace events of the packets of SDMA queues.

use belfry_abi::sdma::{Header, Op};

use super::SdmaQueue;
use crate::trace::{Counter, Engine, Job, JobScope, Owner, TraceEvent};

impl SdmaQueue {
    /// Returns true if a packet has to stay where it is because the device is halted in front of it.
    pub(super) fn keeps(&self, header: Header) -> bool {
        let inner = self.context.buffer.map_or(0, |buffer| buffer.at.wrapping_add(1));
        let place = (self.config.identity.doorbell.dwords(), self.read_index, inner);
        let kind = || ("SDMA:", Op(header.op()).name().unwrap_or("unknown"));
        self.env.cp.shader.stops().keeps_packet(place, kind, String::new)
    }

    /// Records a packet when it is first looked at; later events belong to the packet of the ring.
    pub(super) fn trace_packet(&mut self, header: Header) -> JobScope {
        let tracer = &self.env.cp.tracer;
        if !tracer.is_on() {
            return tracer.scope(Job::NONE);
        }
        let scope = tracer.scope(tracer.job(self.config.identity.doorbell, self.read_index));
        let place = (self.read_index, self.context.buffer.map(|buffer| buffer.at));
        if self.traced != Some(place) {
            self.traced = Some(place);
            let kind = Op(header.op()).name().unwrap_or("unknown");
            tracer.event(self.owner(), TraceEvent::Packet { kind, index: self.read_index });
        }
        scope
    }

    fn owner(&self) -> Owner {
        self.config.identity.owner(Engine::Sdma(self.config.identity.me.into()))
    }

    /// Records that a transfer has begun.
    pub(super) fn trace_start(&mut self, bytes: u64) {
        if self.env.cp.tracer.is_on() && self.began.is_none() {
            self.began = Some(bytes);
            self.env.cp.tracer.event(self.owner(), TraceEvent::SdmaStart { bytes });
        }
    }

    /// Records that the packet at the read pointer, and with it its transfer, is over.
    pub(super) fn trace_end(&mut self) {
        let Some(bytes) = self.began.take() else { return };
        let (tracer, owner) = (&self.env.cp.tracer, self.owner());
        tracer.event(owner, TraceEvent::SdmaEnd { bytes });
        self.moved = self.moved.wrapping_add(bytes);
        tracer.event(owner, TraceEvent::Counter { counter: Counter::SdmaBytes, value: self.moved });
    }
}
