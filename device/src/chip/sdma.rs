//! MQDs and packets that SDMA engines take.

/// The SDMA engines of a generation.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SdmaRules {
    /// Form of the MQDs of their queues.
    pub mqd: SdmaMqdForm,
    /// Form of packets.
    pub packets: SdmaPackets,
}

/// Form of the MQDs of SDMA queues.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SdmaMqdForm {
    /// `struct v9_sdma_mqd`.
    V9,
    /// `struct v11_sdma_mqd`.
    V11,
    /// `struct v12_sdma_mqd`.
    V12,
}

/// Form of packets, where it differs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SdmaPackets {
    /// SDMA 4: linux `vega10_sdma_pkt_open.h`. There is no `GCR_REQ`.
    V4,
    /// SDMA 6: linux `sdma_v6_0_0_pkt_open.h`.
    V6,
    /// SDMA 7: boxes have wider fields, and linear copies may have a word about compression. No public header has the places of
    /// the wider fields: these are those that ROCr fills in for gfx12.
    V7,
}
