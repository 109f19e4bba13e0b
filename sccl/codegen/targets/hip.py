"""The ``hip`` target: one AMD GPU per rank."""

from __future__ import annotations

from functools import partial

from sccl.codegen.switch_points import Protocols
from sccl.codegen.targets import gpu

SERIAL = False
PROTOCOLS: Protocols = (("p", 0), ("e", gpu.PACKET_PART_BYTES))
"""There is no direct protocol by default, because buffers of users are coarse-grained memory: a
running kernel may not see the writes of other GPUs in it. The windows are fine-grained."""

README = {
    "target": "hip",
    "gpu": "AMD GPU",
    "target_flag": "rocm",
    "toolkit_note": "The Makefile builds for gfx906 (`ARCHS=gfx90a make` for another). Direct "
    "programs run only on request, because they need\nbuffers from hipExtMallocWithFlags(..., "
    "hipDeviceMallocFinegrained).\nFor access over PCIe, set HSA_FORCE_FINE_GRAIN_PCIE=1.\n"
    "Before gfx90a each process must see all GPUs: do not set HIP_VISIBLE_DEVICES or "
    "ROCR_VISIBLE_DEVICES.",
}

TEXTS = {
    "target": "hip",
    "api": "hip",
    "noinline": "__attribute__((noinline))",  # clang treats __noinline__ as a hint
    "kernel_parameter": "const",
    "captures": "false",
    "flushes": "true",
    "counts_blocks": "false",
    "default_streams": "hipStream_t{}, hipStreamPerThread",
    "alloc_flags": "hipExtMallocWithFlags(at, bytes, SCCL_SHARED_MEMORY)",
    "alloc_host": "hipHostMalloc(at, bytes, hipHostMallocMapped | hipHostMallocPortable | "
    "hipHostMallocCoherent)",
    "free_host": "hipHostFree",
    "ticks_per_ms": "25000",  # value of gfx9, for which the runtime has no query
    "function_attributes": "hipFuncAttributes",
    "pointer_attributes": "hipPointerAttribute_t",
    "pointer_kind": "SCCL_POINTER_KIND",
    "language_flags": "-x hip",
    "host_flags": "-x c++ -D__HIP_PLATFORM_AMD__",
    "install_hint": "install the HIP compiler (Debian: apt-get install hipcc rocm-device-libs "
    "libamdhip64-dev)",
}

files = partial(gpu.files, target=TEXTS)
readme = partial(gpu.readme, README)
