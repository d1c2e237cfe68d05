; Adds a number to the one in memory, as LLVM does that for the chip; see sum.hip.
define amdgpu_kernel void @k(ptr addrspace(1) %sum, float %number) {
  %before = atomicrmw fadd ptr addrspace(1) %sum, float %number syncscope("agent") monotonic, !amdgpu.no.fine.grained.memory !0
  ret void
}
!0 = !{}
