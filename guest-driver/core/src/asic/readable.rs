//! Registers that user space may read with `AMDGPU_INFO_READ_MMR_REG`.
//!
//! Source: linux 6.12 `soc21.c`, `soc24.c` and `soc15.c`, `*_allowed_read_registers`. `GB_ADDR_CONFIG` is in each of them as well; the
//! driver answers it from what it knows.

use belfry_abi::regs::gc::{
    CP_CPC_BUSY_STAT, CP_CPC_STALLED_STAT1, CP_CPC_STATUS, CP_CPF_BUSY_STAT, CP_CPF_STALLED_STAT1,
    CP_CPF_STATUS, CP_STALLED_STAT1, CP_STALLED_STAT2, CP_STALLED_STAT3, CP_STAT, DB_DEBUG2, GRBM_STATUS,
    GRBM_STATUS_SE0, GRBM_STATUS_SE1, GRBM_STATUS_SE2, GRBM_STATUS_SE3, GRBM_STATUS2, SDMA0_STATUS_REG,
    SDMA1_STATUS_REG,
};
use belfry_abi::regs::gfx9::sdma::SDMA_STATUS_REG;
use belfry_abi::regs::{Ip, Offset, Register};

/// A register, by its block and its place on Navi 31.
pub(crate) type Readable = (Ip, Offset);

const fn of<R: Register>() -> Readable {
    (R::IP, R::AT)
}

/// Registers of the graphics core that all lists have, and two more.
const fn with(first: Readable, second: Readable) -> [Readable; 18] {
    [
        of::<GRBM_STATUS>(),
        of::<GRBM_STATUS2>(),
        of::<GRBM_STATUS_SE0>(),
        of::<GRBM_STATUS_SE1>(),
        of::<GRBM_STATUS_SE2>(),
        of::<GRBM_STATUS_SE3>(),
        of::<CP_STAT>(),
        of::<CP_STALLED_STAT1>(),
        of::<CP_STALLED_STAT2>(),
        of::<CP_STALLED_STAT3>(),
        of::<CP_CPF_BUSY_STAT>(),
        of::<CP_CPF_STALLED_STAT1>(),
        of::<CP_CPF_STATUS>(),
        of::<CP_CPC_BUSY_STAT>(),
        of::<CP_CPC_STALLED_STAT1>(),
        of::<CP_CPC_STATUS>(),
        first,
        second,
    ]
}

/// GC 11 and 12.
pub(super) static NAVI: [Readable; 18] = with(of::<SDMA0_STATUS_REG>(), of::<SDMA1_STATUS_REG>());

/// GC 9.4.3. The second SDMA engine is an instance of the first one's block there, so that Linux does not find it.
pub(super) static GFX9: [Readable; 18] = with(of::<SDMA_STATUS_REG>(), of::<DB_DEBUG2>());
