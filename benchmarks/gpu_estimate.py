"""Estimate the speed of generated GPU code from its programs, its machine code and data sheets.

    python -m benchmarks.gpu_estimate --gpu h100 FILE...

Nothing is measured: every figure is an estimate. The model of a thread block is Little's law. Loads
of 16 bytes arrive after the latency of the memory, at the rate at which a processor exchanges data
with the L2. Stores leave at the same rate. The model of a call adds the times of its steps. A step
takes the latency of a link and the longest of three times: its fullest link, its busiest thread
block, and the memory of its busiest GPU without hits in the L2. The model ignores packet headers.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sccl.codegen.ir import Landing, Op, Program
from sccl.codegen.passes import compile_program
from sccl.codegen.switch_points import INSTRUCTION_US
from sccl.codegen.targets.codegen_options import CodegenOptions, gpu_slot_bytes
from sccl.codegen.targets.gpu import THREADS, link_slices
from sccl.core.algorithm import Algorithm
from sccl.core.files.algorithms import load_algorithm
from sccl.errors import InputError
from sccl.topo.symmetry.expansion import expand_algorithm

VECTORS = 4
"""Concurrent loads of 16 bytes per thread, in machine code of copies and float reductions."""

WHOLE_CHUNK = 8 * 2**20
"""Bytes of a chunk of a program without scratch. Its calls have one piece."""


@dataclass(frozen=True)
class Gpu:
    """Published figures of a GPU.

    Attributes:
        clock_ghz: Boost clock.
        latency: Cycles of a load from memory.
        bytes_per_cycle: Bytes between a processor and the L2.
        memory_gb_per_s: Bandwidth of the memory.
    """

    clock_ghz: float
    latency: int
    bytes_per_cycle: int
    memory_gb_per_s: float


GPUS = {"h100": Gpu(1.755, 479, 64, 3350), "v100": Gpu(1.53, 466, 64, 900)}
"""Clocks and bandwidths of SXM modules from data sheets, except the clock of the H100's PCIe card.
Latencies of an H100, and of an A100 for lack of a V100's: arXiv 2402.13499."""


@dataclass(frozen=True)
class Estimate:
    """Estimated time of a piece of a call.

    Attributes:
        bytes: Bytes of the buffer of C chunks in this piece.
        links_us: Time of the fullest link, step by step.
        piece_us: Time of the piece.
        blocks: Thread blocks of a rank.
    """

    bytes: int
    links_us: float
    piece_us: float
    blocks: int

    @property
    def of_links(self) -> float:
        """Return the attained part of the links' speed."""
        return self.links_us / self.piece_us


def block_gb_per_s(gpu: Gpu, sources: int) -> float:
    """Return the bytes that a block stores per nanosecond, read from ``sources`` chunks."""
    batch = THREADS * VECTORS * 16
    transfer = batch / gpu.bytes_per_cycle
    # Loads of the first two sources start at once, and others as registers become free.
    first = gpu.latency + transfer * min(sources, 2)
    others = max(0, sources - 2) * max(gpu.latency, transfer)
    return batch * gpu.clock_ghz / (first + others + transfer)


def estimate_call(algorithm: Algorithm, program: Program, gpu: Gpu) -> Estimate:
    """Return the estimate of a full piece of a large call."""
    slots = program.scratch_slots
    chunk = gpu_slot_bytes(slots) if slots else WHOLE_CHUNK
    slices = link_slices(algorithm, CodegenOptions())
    busy = _block_us(program, gpu, chunk / slices)
    lane = min(link.gb_per_s for link in algorithm.topology.links) * 1e3
    links = [rounds * chunk / lane for rounds in algorithm.rounds_per_step]
    alpha_us = max(link.alpha_us for link in algorithm.topology.links)
    moved = _chunks_moved(program)
    piece = 2 * INSTRUCTION_US + alpha_us  # all blocks end, then neighbors are notified
    for step in range(algorithm.steps):
        memory = moved[step] * chunk / gpu.memory_gb_per_s / 1e3
        piece += max(links[step], busy[step], memory) + alpha_us
    blocks = max(len(rank.blocks) for rank in program.ranks) * slices
    return Estimate(chunk * algorithm.collective.chunks, sum(links), piece, blocks)


def _chunks_moved(program: Program) -> Counter[int]:
    """Return the number of chunks that the busiest memory loads and stores in each step."""
    maxima: Counter[int] = Counter()
    for rank in program.ranks:
        moved: Counter[int] = Counter()
        for _, line in rank.instructions():
            moved[line.step] += len(line.reads()) + len(line.writes()) + len(line.lands())
        maxima |= moved
    return maxima


def _block_us(program: Program, gpu: Gpu, bytes_: float) -> Mapping[int, float]:
    """Return the time of the busiest thread block in each step.

    Args:
        bytes_: Bytes of a chunk that a block handles.
    """
    busy: dict[int, float] = defaultdict(float)
    for rank in program.ranks:
        for block in rank.blocks:
            spent: dict[int, float] = defaultdict(float)
            for line in block.instructions:
                us = INSTRUCTION_US * (1 + len(line.after))
                if line.op not in (Op.RECV, Op.CREDIT):
                    us += bytes_ / block_gb_per_s(gpu, len(line.reads())) / 1e3
                spent[line.step] += us
            for step, us in spent.items():
                busy[step] = max(us, busy[step])
    return busy


def main(words: Sequence[str]) -> int:
    """Print the estimates of algorithms."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu_estimate")
    parser.add_argument("--gpu", choices=sorted(GPUS), required=True)
    parser.add_argument("files", nargs="+", help="files of algorithms")
    options = parser.parse_args(words)
    gpu = GPUS[options.gpu]
    print(f"All figures are estimates for {options.gpu}. None is measured.")
    copy, *sums = (block_gb_per_s(gpu, sources) for sources in (1, 2, 8))
    print(
        f"a thread block stores {copy:.0f} GB/s of copies, {sums[0]:.0f} of sums of two chunks, "
        f"{sums[1]:.0f} of sums of eight"
    )
    for name in options.files:
        try:
            algorithm = expand_algorithm(load_algorithm(Path(name))[0])
        except InputError as error:
            print(f"error: {error}", file=sys.stderr)
            return 2
        program = compile_program(algorithm, Landing.OUTPUT, serial=False)
        calm, busy = (
            estimate_call(algorithm, program, replace(gpu, latency=times * gpu.latency))
            for times in (1, 2)
        )
        print(
            f"{algorithm.collective.name} C={algorithm.collective.chunks} S={algorithm.steps} "
            f"R={algorithm.rounds}: {calm.bytes / calm.piece_us / 1e3:.0f} GB/s of buffer, "
            f"{calm.of_links:.0%} of the links ({busy.of_links:.0%} if loads take twice as long), "
            f"{calm.blocks} thread blocks, {calm.piece_us:.0f} us for {calm.bytes / 1e6:.0f} MB"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
