"""The ``cuda`` target: one NVIDIA GPU per rank."""

from __future__ import annotations

from functools import partial

from sccl.codegen.switch_points import Protocols
from sccl.codegen.targets import gpu

SERIAL = False
PROTOCOLS: Protocols = (("p", 0), ("e", gpu.PACKET_PART_BYTES), ("d", 64 * 1024))
"""Below the last size, the second copy of eager calls takes less time than the exchange of
addresses for direct calls."""

README = {
    "target": "cuda",
    "gpu": "NVIDIA GPU",
    "target_flag": "cuda",
    "toolkit_note": "The Makefile builds for sm_70, sm_80, sm_90 and sm_100, as far as nvcc "
    "supports them (`ARCHS=90 make` for one). A V100\n(DGX-1) needs CUDA 12.9 or older "
    "and a driver of release 580 or older: CUDA 13 dropped sm_70. If nvcc lacks one "
    "of\nthem, the Makefile uses the newest toolkit in /usr/local/cuda-* that has all "
    "(`TOOLKITS`, `GPUCXX`).",
}

TEXTS = {
    "target": "cuda",
    "api": "cuda",
    "noinline": "__noinline__",
    "kernel_parameter": "const __grid_constant__",
    "captures": "true",
    "flushes": "false",
    "counts_blocks": "true",
    "default_streams": "cudaStreamLegacy, cudaStreamPerThread",
    "alloc_flags": "cudaMalloc(at, bytes)",
    "alloc_host": "cudaHostAlloc(at, bytes, cudaHostAllocMapped | cudaHostAllocPortable)",
    "free_host": "cudaFreeHost",
    "ticks_per_ms": "1000000",
    "function_attributes": "cudaFuncAttributes",
    "pointer_attributes": "cudaPointerAttributes",
    "pointer_kind": "type",
    "language_flags": "-x cu",
    "host_flags": "-x c++",
    "install_hint": "install the CUDA toolkit (Debian: apt-get install nvidia-cuda-toolkit)",
}

files = partial(gpu.files, target=TEXTS)
readme = partial(gpu.readme, README)
