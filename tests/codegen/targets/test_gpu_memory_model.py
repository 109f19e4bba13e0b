"""The memory models of GPUs: published litmus tests, and the protocol of the kernels."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache

import pytest

from sccl.codegen.project_writer import generate
from tests.kit.hard_algorithms import FOUR, load
from tests.kit.litmus import Program, Thread, allows_hip, allows_ptx, primitives


def program(*threads: str) -> Program:
    """Return threads that are written as ``GPU.CTA: instruction; instruction``."""
    parsed = []
    for text in threads:
        where, _, lines = text.partition(":")
        gpu, cta = map(int, where.split("."))
        parsed.append(Thread(gpu, cta, tuple(line.strip() for line in lines.split(";"))))
    return Program(tuple(parsed))


FORBIDDEN, ALLOWED = False, True

MESSAGE = "r1 == 1 and r2 == 0"
BOTH = "r1 == 0 and r2 == 0"
CYCLE = "r1 == 1 and r2 == 1"
IRIW = "r1 == 1 and r2 == 0 and r3 == 1 and r4 == 0"

PUBLISHED: dict[str, tuple[tuple[str, ...], str, bool]] = {
    "MP, release and acquire": (
        ("0.0: st.weak x, 1; st.release.gpu f, 1", "0.1: ld.acquire.gpu r1, f; ld.weak r2, x"),
        *(MESSAGE, FORBIDDEN),
    ),
    "MP, fences": (
        (
            "0.0: st.weak x, 1; fence.acq_rel.gpu; st.relaxed.gpu f, 1",
            "0.1: ld.relaxed.gpu r1, f; fence.acq_rel.gpu; ld.weak r2, x",
        ),
        *(MESSAGE, FORBIDDEN),
    ),
    "MP, relaxed store": (
        ("0.0: st.weak x, 1; st.relaxed.gpu f, 1", "0.1: ld.acquire.gpu r1, f; ld.weak r2, x"),
        *(MESSAGE, ALLOWED),
    ),
    "MP, relaxed load": (
        ("0.0: st.weak x, 1; st.release.gpu f, 1", "0.1: ld.relaxed.gpu r1, f; ld.weak r2, x"),
        *(MESSAGE, ALLOWED),
    ),
    "MP, weak flag": (
        ("0.0: st.weak x, 1; st.weak f, 1", "0.1: ld.weak r1, f; ld.weak r2, x"),
        *(MESSAGE, ALLOWED),
    ),
    "MP, scope of a thread block": (
        ("0.0: st.weak x, 1; st.release.cta f, 1", "0.1: ld.acquire.gpu r1, f; ld.weak r2, x"),
        *(MESSAGE, ALLOWED),
    ),
    "MP within a thread block": (
        ("0.0: st.weak x, 1; st.release.cta f, 1", "0.0: ld.acquire.cta r1, f; ld.weak r2, x"),
        *(MESSAGE, FORBIDDEN),
    ),
    "MP, scope of a GPU between two": (
        ("0.0: st.weak x, 1; st.release.gpu f, 1", "1.0: ld.acquire.sys r1, f; ld.weak r2, x"),
        *(MESSAGE, ALLOWED),
    ),
    "MP, a later write of the releasing thread": (
        (
            "0.0: st.weak x, 1; st.release.gpu f, 1; st.relaxed.gpu f, 2",
            "0.1: ld.acquire.gpu r1, f; ld.weak r2, x",
        ),
        *("r1 == 2 and r2 == 0", FORBIDDEN),
    ),
    "MP, through an atomic addition": (
        (
            "0.0: st.weak x, 1; st.release.gpu f, 1",
            "0.1: atom.relaxed.gpu.add r3, f, 1",
            "0.2: ld.acquire.gpu r1, f; ld.weak r2, x",
        ),
        *("r1 == 2 and r2 == 0 and r3 == 1", FORBIDDEN),
    ),
    "SB": (
        (
            "0.0: st.relaxed.gpu x, 1; ld.relaxed.gpu r1, y",
            "0.1: st.relaxed.gpu y, 1; ld.relaxed.gpu r2, x",
        ),
        *(BOTH, ALLOWED),
    ),
    "SB, fences without a total order": (
        (
            "0.0: st.relaxed.gpu x, 1; fence.acq_rel.gpu; ld.relaxed.gpu r1, y",
            "0.1: st.relaxed.gpu y, 1; fence.acq_rel.gpu; ld.relaxed.gpu r2, x",
        ),
        *(BOTH, ALLOWED),
    ),
    "SB, fences with a total order": (
        (
            "0.0: st.relaxed.gpu x, 1; fence.sc.gpu; ld.relaxed.gpu r1, y",
            "0.1: st.relaxed.gpu y, 1; fence.sc.gpu; ld.relaxed.gpu r2, x",
        ),
        *(BOTH, FORBIDDEN),
    ),
    "SB, a barrier": (
        ("0.0: st.weak x, 1; bar 0; ld.weak r1, y", "0.0: st.weak y, 1; bar 0; ld.weak r2, x"),
        *(BOTH, FORBIDDEN),
    ),
    "SB, barriers of two thread blocks": (
        ("0.0: st.weak x, 1; bar 0; ld.weak r1, y", "0.1: st.weak y, 1; bar 0; ld.weak r2, x"),
        *(BOTH, ALLOWED),
    ),
    "LB": (
        (
            "0.0: ld.relaxed.gpu r1, x; st.relaxed.gpu y, 1",
            "0.1: ld.relaxed.gpu r2, y; st.relaxed.gpu x, 1",
        ),
        *(CYCLE, ALLOWED),
    ),
    "LB, values out of thin air": (
        (
            "0.0: ld.relaxed.gpu r1, x; st.relaxed.gpu y, r1",
            "0.1: ld.relaxed.gpu r2, y; st.relaxed.gpu x, r2",
        ),
        *(CYCLE, FORBIDDEN),
    ),
    "LB, release and acquire": (
        (
            "0.0: ld.acquire.gpu r1, x; st.release.gpu y, 1",
            "0.1: ld.acquire.gpu r2, y; st.release.gpu x, 1",
        ),
        *(CYCLE, FORBIDDEN),
    ),
    "IRIW, release and acquire": (
        (
            "0.0: st.release.gpu x, 1",
            "0.1: st.release.gpu y, 1",
            "0.2: ld.acquire.gpu r1, x; ld.acquire.gpu r2, y",
            "0.3: ld.acquire.gpu r3, y; ld.acquire.gpu r4, x",
        ),
        *(IRIW, ALLOWED),
    ),
    "IRIW, fences with a total order": (
        (
            "0.0: st.relaxed.gpu x, 1",
            "0.1: st.relaxed.gpu y, 1",
            "0.2: ld.relaxed.gpu r1, x; fence.sc.gpu; ld.relaxed.gpu r2, y",
            "0.3: ld.relaxed.gpu r3, y; fence.sc.gpu; ld.relaxed.gpu r4, x",
        ),
        *(IRIW, FORBIDDEN),
    ),
    "WRC, release and acquire": (
        (
            "0.0: st.relaxed.gpu x, 1",
            "0.1: ld.relaxed.gpu r1, x; st.release.gpu y, 1",
            "0.2: ld.acquire.gpu r2, y; ld.relaxed.gpu r3, x",
        ),
        *("r1 == 1 and r2 == 1 and r3 == 0", FORBIDDEN),
    ),
    "WRC, weak write": (
        (
            "0.0: st.weak x, 1",
            "0.1: ld.relaxed.gpu r1, x; st.release.gpu y, 1",
            "0.2: ld.acquire.gpu r2, y; ld.relaxed.gpu r3, x",
        ),
        *("r1 == 1 and r2 == 1 and r3 == 0", ALLOWED),
    ),
    "ISA2, scopes that grow": (
        (
            "0.0: st.weak x, 1; st.release.gpu y, 1",
            "0.1: ld.acquire.gpu r1, y; st.release.sys z, 1",
            "1.0: ld.acquire.sys r2, z; ld.weak r3, x",
        ),
        *("r1 == 1 and r2 == 1 and r3 == 0", FORBIDDEN),
    ),
    "ISA2, a scope that is too small": (
        (
            "0.0: st.weak x, 1; st.release.cta y, 1",
            "0.1: ld.acquire.gpu r1, y; st.release.sys z, 1",
            "1.0: ld.acquire.sys r2, z; ld.weak r3, x",
        ),
        *("r1 == 1 and r2 == 1 and r3 == 0", ALLOWED),
    ),
    "CoRR": (
        ("0.0: st.relaxed.gpu x, 1", "0.1: ld.relaxed.gpu r1, x; ld.relaxed.gpu r2, x"),
        *(MESSAGE, FORBIDDEN),
    ),
    "CoRR, weak": (
        ("0.0: st.weak x, 1", "0.1: ld.weak r1, x; ld.weak r2, x"),
        *(MESSAGE, ALLOWED),
    ),
    "two atomic additions": (
        ("0.0: atom.relaxed.gpu.add r1, x, 1", "0.1: atom.relaxed.gpu.add r2, x, 1"),
        *(BOTH, FORBIDDEN),
    ),
    "two atomic additions of too small a scope": (
        ("0.0: atom.relaxed.cta.add r1, x, 1", "0.1: atom.relaxed.cta.add r2, x, 1"),
        *(BOTH, ALLOWED),
    ),
}
"""Threads, an outcome, and whether PTX allows it: from the paper and the manual of PTX."""


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_litmus_tests(name: str) -> None:
    threads, outcome, allowed = PUBLISHED[name]
    assert allows_ptx(program(*threads), outcome) == allowed


AWAITED = "ld.acquire.gpu r1, f; await r1 == 1; ld.weak r2, x"

OF_C11: dict[str, tuple[tuple[str, ...], str, bool]] = {
    "MP, release and acquire": (
        ("0.0: st.weak x, 1; st.release.gpu f, 1", f"0.1: {AWAITED}"),
        *("r2 == 0", FORBIDDEN),
    ),
    "MP, fences": (
        (
            "0.0: st.weak x, 1; fence.release.gpu; st.relaxed.gpu f, 1",
            "0.1: ld.relaxed.gpu r1, f; await r1 == 1; fence.acquire.gpu; ld.weak r2, x",
        ),
        *("r2 == 0", FORBIDDEN),
    ),
    "MP, relaxed store": (
        ("0.0: st.weak x, 1; st.relaxed.gpu f, 1", f"0.1: {AWAITED}"),
        *("r2 == 0", ALLOWED),
    ),
    "MP, a race that shows no other value": (
        ("0.0: st.weak x, 1; st.relaxed.gpu f, 1", f"0.1: {AWAITED}"),
        *("r2 == 2", ALLOWED),
    ),
    "MP, scope of a thread block": (
        ("0.0: st.weak x, 1; st.release.cta f, 1", f"0.1: {AWAITED}"),
        *("r2 == 0", ALLOWED),
    ),
    "MP, scope of a GPU between two": (
        ("0.0: st.weak x, 1; st.release.gpu f, 1", f"1.0: {AWAITED}"),
        *("r2 == 0", ALLOWED),
    ),
    "MP, through an atomic addition": (
        (
            "0.0: st.weak x, 1; st.release.gpu f, 1",
            "0.1: atom.relaxed.gpu.add r3, f, 1",
            "0.2: ld.acquire.gpu r1, f; await r1 == 2; ld.weak r2, x",
        ),
        *("r2 == 0 and r3 == 1", FORBIDDEN),
    ),
    "SB, release and acquire": (
        (
            "0.0: st.release.gpu x, 1; ld.acquire.gpu r1, y",
            "0.1: st.release.gpu y, 1; ld.acquire.gpu r2, x",
        ),
        *(BOTH, ALLOWED),
    ),
    "SB, a barrier": PUBLISHED["SB, a barrier"],
    "SB, barriers of two thread blocks": PUBLISHED["SB, barriers of two thread blocks"],
    "IRIW, release and acquire": PUBLISHED["IRIW, release and acquire"],
    "WRC, release and acquire": PUBLISHED["WRC, release and acquire"],
    "CoRR": PUBLISHED["CoRR"],
    "two atomic additions": PUBLISHED["two atomic additions"],
    "ISA2, scopes that grow": (
        (
            "0.0: st.weak x, 1; st.release.gpu y, 1",
            "0.1: ld.acquire.gpu r1, y; await r1 == 1; st.release.sys z, 1",
            "1.0: ld.acquire.sys r2, z; await r2 == 1; ld.weak r3, x",
        ),
        *("r3 == 0", FORBIDDEN),
    ),
}
"""The same of C11 with scopes, in which a race allows everything."""


@pytest.mark.parametrize("name", OF_C11)
def test_litmus_tests_of_c11(name: str) -> None:
    threads, outcome, allowed = OF_C11[name]
    assert allows_hip(program(*threads), outcome) == allowed


MODELS: dict[str, Callable[[Program, str], bool]] = {"cuda": allows_ptx, "hip": allows_hip}


@cache
def gpu_code(target: str) -> str:
    return generate([load(FOUR[0])], target)["gpu.hpp"]


def expanded(text: str, mnemonics: dict[str, list[str]]) -> str:
    """Return a thread in which instructions stand for primitives.

    Packets are two words that are not ordered.
    """
    where, _, lines = text.partition(":")
    into = []
    for line in lines.split(";"):
        name, _, operands = line.strip().partition(" ")
        if name not in mnemonics:
            into.append(line.strip())
        elif name.endswith("_packet"):
            (instruction,) = mnemonics[name]
            first, second = operands.split(", ")
            halves = [(first, f"{second}{half}") for half in "ab"]
            if name == "store_packet":
                halves = [(f"{first}{half}", second) for half in "ab"]
            else:
                halves = [(f"{first}{n}", place) for n, (_, place) in enumerate(halves)]
            into.append(" & ".join(f"{instruction} {a}, {b}" for a, b in halves))
        else:
            for instruction in mnemonics[name]:
                addend = ".add" if name == "count_up" and not instruction.endswith(".add") else ""
                one = ", 1" if name == "count_up" else ""
                fence = instruction.startswith("fence")
                into.append(instruction if fence else f"{instruction}{addend} {operands}{one}")
    return f"{where}: " + "; ".join(into)


RELAXED_FLAG = ("store_flag", "st.relaxed.sys")
WEAK_FLAG = ("store_flag", "st.weak")
SMALL_FLAG = ("store_flag", "st.release.cta")
RELAXED_LOOK = ("load_flag", "ld.relaxed.sys")
RELAXED_OWN = ("store_own", "st.relaxed.gpu")
SMALL_OWN = ("store_own", "st.release.cta")

PROTOCOL: dict[str, tuple[tuple[str, ...], str, dict[str, tuple[str, str]]]] = {
    "a chunk and its flag": (
        (
            "0.0: st.weak x, 1; fence_for_barrier; bar sent",
            "0.0: fence_for_barrier; bar sent; store_flag f, 1",
            "1.0: load_flag r1, f; await r1 == 1; bar come",
            "1.0: bar come; ld.weak r2, x",
        ),
        "r2 == 0",
        {
            "weak flag": WEAK_FLAG,
            "relaxed flag": RELAXED_FLAG,
            "flag of a thread block": SMALL_FLAG,
            "flag of a GPU": ("store_flag", "st.release.gpu"),
            "relaxed look": RELAXED_LOOK,
            "look of a GPU": ("load_flag", "ld.acquire.gpu"),
            "no barrier before the flag": ("bar sent", "fence_for_barrier"),
            "no barrier behind the look": ("; bar come|bar come; ", ""),
            "flag before the barrier": ("bar sent; store_flag f, 1", "store_flag f, 1; bar sent"),
            "look behind the barrier": (
                *(
                    "load_flag r1, f; await r1 == 1; bar come",
                    "bar come; load_flag r1, f; await r1 == 1",
                ),
            ),
        },
    ),
    "a block of the same GPU, then a peer": (
        (
            "0.0: st.weak x, 1; fence_for_barrier; bar made",
            "0.0: fence_for_barrier; bar made; store_own p, 1",
            "0.1: load_flag r1, p; await r1 == 1; fence_for_barrier; bar sent; store_flag f, 1",
            "1.0: load_flag r2, f; await r2 == 1; bar come",
            "1.0: bar come; ld.weak r3, x",
        ),
        "r3 == 0",
        {
            "relaxed mark": RELAXED_OWN,
            "mark of a thread block": SMALL_OWN,
            "relaxed flag": ("fence_for_barrier; bar sent; store_flag", "bar sent; st.relaxed.sys"),
            "flag of a GPU": ("store_flag", "st.release.gpu"),
            "relaxed looks": RELAXED_LOOK,
            "no barrier before the mark": ("bar made", "fence_for_barrier"),
        },
    ),
    "a credit": (
        (
            "1.0: ld.weak r1, x; fence_for_barrier; bar read",
            "1.0: fence_for_barrier; bar read; store_flag c, 1",
            "0.0: load_flag r2, c; await r2 == 1; bar free",
            "0.0: bar free; st.weak x, 1",
        ),
        "r1 == 1",
        {
            "weak credit": WEAK_FLAG,
            "relaxed credit": RELAXED_FLAG,
            "credit of a thread block": SMALL_FLAG,
            "relaxed look": RELAXED_LOOK,
            "no barrier before the credit": ("bar read", "fence_for_barrier"),
            "no barrier behind the look": ("; bar free|bar free; ", ""),
        },
    ),
    "packets that are overwritten two pieces later": (
        (
            "1.1: load_packet r1, p; bar read",
            "1.1: bar read; store_own d, 1",
            "1.0: load_flag r2, d; await r2 == 1; fence_for_barrier; bar left",
            "1.0: fence_for_barrier; bar left; store_flag e, 1",
            "0.0: load_flag r3, e; await r3 == 1; bar open",
            "0.0: bar open; store_packet p, 3",
        ),
        "r10 == 3 or r11 == 3",
        {
            "relaxed end": RELAXED_OWN,
            "relaxed entry": RELAXED_FLAG,
            "relaxed looks": RELAXED_LOOK,
            "no barrier of the reader": ("bar read", "fence_for_barrier"),
            "no barrier before the entry": ("bar left", "fence_for_barrier"),
        },
    ),
    "a slot that packets fill two pieces later": (
        (
            "1.1: ld.weak r1, x; fence_for_barrier; bar read",
            "1.1: fence_for_barrier; bar read; store_own d, 1",
            (
                "1.0: load_flag r2, d; await r2 == 1; "
                "fence_for_barrier; bar left; store_flag e, 1; store_flag o, 1"
            ),
            "0.0: load_flag r3, e; await r3 == 1; bar open",
            "0.0: bar open; store_packet p, 1",
            "1.2: load_flag r4, o; await r4 == 1; bar free",
            "1.2: bar free; load_packet r5, p; await r50 == 1 and r51 == 1; st.weak x, 1",
        ),
        "r1 == 1",
        {
            "no look at the own entry": ("load_flag r4, o; await r4 == 1; ", ""),
            "relaxed end": RELAXED_OWN,
            "relaxed entry": (
                "fence_for_barrier; bar left; store_flag e, 1; store_flag o, 1",
                "bar left; st.relaxed.sys e, 1; st.relaxed.sys o, 1",
            ),
            "no barrier behind the look": ("bar free", "fence_for_barrier"),
        },
    ),
    "a piece begins when all blocks have left the one before the last": (
        (
            "1.1: ld.weak r1, x; fence_for_barrier; bar read",
            "1.1: fence_for_barrier; bar read; store_own d, 1",
            "1.0: load_flag r2, d; await r2 == 1; fence_for_barrier; bar left",
            "1.0: fence_for_barrier; bar left; store_flag e, 1",
            "0.0: load_flag r3, e; await r3 == 1; bar open",
            "0.0: bar open; st.weak x, 1",
        ),
        "r1 == 1",
        {
            "relaxed end": RELAXED_OWN,
            "end of a thread block": SMALL_OWN,
            "relaxed entry": RELAXED_FLAG,
            "entry of a GPU": ("store_flag", "st.release.gpu"),
            "relaxed looks": RELAXED_LOOK,
            "no barrier of the block": ("bar read", "fence_for_barrier"),
            "no barrier before the entry": ("bar left", "fence_for_barrier"),
            "no barrier behind the look": ("bar open", "fence_for_barrier"),
        },
    ),
    "the last block counts the pieces": (
        (
            "0.0: ld.weak r1, n; bar begun",
            "0.0: bar begun; count_up r2, l",
            "0.1: count_up r3, l; await r3 == 1; st.weak n, 1",
        ),
        "r1 == 1",
        {
            "relaxed count": ("count_up (r., l)", r"atom.relaxed.gpu.add \1, 1"),
            "count of a thread block": ("count_up (r., l)", r"atom.acq_rel.cta.add \1, 1"),
            "no barrier": ("; bar begun|bar begun; ", ""),
        },
    ),
}
"""Threads of the protocol, an outcome that must not be, and changes that let it be.

Threads are written as ``GPU.CTA``. A ``bar NAME`` is one barrier of a thread block.
"""


def allows(target: str, name: str, code: str, change: tuple[str, str] = ("$^", "")) -> bool:
    """Return whether a target allows the outcome of a test of the protocol, after a change."""
    threads, outcome, _ = PROTOCOL[name]
    mnemonics = primitives(code, target)
    changed = [re.sub(*change, thread) for thread in threads]
    assert (changed != list(threads)) == (change[1] != "" or change[0] != "$^")
    return MODELS[target](program(*(expanded(thread, mnemonics) for thread in changed)), outcome)


@pytest.mark.parametrize("target", MODELS)
@pytest.mark.parametrize("name", PROTOCOL)
def test_protocol_keeps_order(name: str, target: str) -> None:
    assert not allows(target, name, gpu_code(target))


@pytest.mark.parametrize("target", MODELS)
@pytest.mark.parametrize("name", PROTOCOL)
def test_weaker_protocol_does_not_keep_order(name: str, target: str) -> None:
    for variant, change in PROTOCOL[name][2].items():
        assert allows(target, name, gpu_code(target), change), variant


WEAKER = {
    "cuda": [
        ("st.release.sys", "st.release.gpu"),
        ("ld.acquire.sys", "ld.relaxed.sys"),
        ("st.release.gpu", "st.release.cta"),
        ("atom.acq_rel.gpu", "atom.relaxed.gpu"),
    ],
    "hip": [
        (
            "__ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_SYSTEM",
            "__ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM",
        ),
        (
            "__ATOMIC_ACQUIRE, __HIP_MEMORY_SCOPE_SYSTEM",
            "__ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM",
        ),
        (
            "__ATOMIC_RELEASE, __HIP_MEMORY_SCOPE_AGENT",
            "__ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT",
        ),
        (
            "__ATOMIC_ACQ_REL, __HIP_MEMORY_SCOPE_AGENT",
            "__ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT",
        ),
    ],
}


@pytest.mark.parametrize(
    ("target", "old", "new"),
    [(target, *change) for target, row in WEAKER.items() for change in row],
)
def test_weaker_primitives_do_not_keep_order(target: str, old: str, new: str) -> None:
    code = gpu_code(target)
    assert old in code
    assert any(allows(target, name, code.replace(old, new)) for name in PROTOCOL)
