"""Estimates of generated GPU code follow from programs and published figures."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.gpu_estimate import GPUS, block_gb_per_s, estimate_call, main
from sccl.codegen.ir import Landing
from sccl.codegen.passes import compile_program
from sccl.codegen.targets.codegen_options import SLOT_BYTES
from tests.kit.hard_algorithms import Hard, load

ALLREDUCE = Hard("dgx1", "allreduce", (48, 5, 14), trees=True)


def test_block_speed_follows_from_loads_under_way() -> None:
    """Per batch of 32 KiB: 479 cycles of latency, 512 to load it, and 512 to store it."""
    assert block_gb_per_s(GPUS["h100"], 1) == pytest.approx(32768 * 1.755 / (479 + 512 + 512))
    rates = [block_gb_per_s(GPUS["h100"], sources) for sources in (1, 2, 3, 8)]
    assert rates == sorted(rates, reverse=True)


def test_estimate_of_a_call_is_bounded_by_its_links() -> None:
    algorithm = load(ALLREDUCE)
    program = compile_program(algorithm, Landing.OUTPUT, serial=False)
    fast, slow = (
        estimate_call(algorithm, program, replace(GPUS["v100"], latency=cycles))
        for cycles in (466, 5000)
    )
    assert fast.links_us == pytest.approx(14 * SLOT_BYTES / 25e3)
    assert fast.bytes == 48 * SLOT_BYTES
    assert slow.of_links < 0.5 < fast.of_links < 1


def test_estimates_are_marked_as_such(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--gpu", "v100", str(ALLREDUCE.file)]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("All figures are estimates for v100. None is measured.\n")
    assert "allreduce C=48 S=5 R=14: 85 GB/s of buffer, 99% of the links" in shown
    assert main(["--gpu", "v100", "nowhere.json"]) == 2
