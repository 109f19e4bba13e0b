"""Every lower bound on time that the program prints or certifies, compared with schedules.

``python -m tests.kit.compared_bounds MACHINES [SEED] [SEARCH]`` compares the bounds of so many
random machines. Bounds of synthesizers, and printed ones, take longer: one machine in SEARCH
(default 50) is given to these. It prints counts, and each false bound with its case.
"""

from __future__ import annotations

import json
import random
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from functools import partial
from pathlib import Path

from sccl.collectives import Spec, collective_names, is_allreduce
from sccl.core.clock import AlphaModel
from sccl.core.files.json_text import to_text
from sccl.core.files.schedules import schedule_to_wire
from sccl.core.files.topologies import topology_to_wire
from sccl.core.outcome import Inconclusive, Solution
from sccl.core.schedule import Schedule
from sccl.errors import ContradictionError, InputError, JudgeError
from sccl.judge import violations
from sccl.prove.bounds.time_cuts import completion_time_bound
from sccl.prove.check.ingress_relay_check import ingress_relay_bound
from sccl.prove.check.time_bounds import (
    LinearTimeBound,
    cut_time_bound,
    group_time_bound,
    price_time_bound,
)
from sccl.solvers.effort import Effort
from sccl.synth.common import registry
from sccl.synth.common.contract import Request
from sccl.synth.packing.by_time.time_bound import compute_time_bound, lower_bound_curve
from sccl.synth.packing.by_time.time_certificate import write_time_certificate
from tests.kit.best_orders import best_schedule
from tests.kit.certificates import free
from tests.kit.commands import sccl
from tests.kit.optimum_cases import Case, draw_cases, draw_machine, draw_spec

Bounds = Iterator[tuple[str, Fraction]]
"""Name and value (microseconds) of each bound."""

TOLERANCE = Fraction(1, 10**6)
"""Relative error of bounds in floating point."""


EFFORT = Effort(units=0.2)
"""Budget of each synthesizer, small because only its bound matters."""


MOST_CHUNKS = 16
"""Number of schedules with random orders."""


def cuts(case: Case, _: random.Random) -> Bounds:
    """Yield each cut, and the greatest bound of all that is known without prices."""
    least = completion_time_bound(case.machine, case.spec)
    for crossing in least.cuts:
        kind = "groups" if isinstance(crossing.cut, tuple) else "cut"
        yield f"least_time {kind}", crossing.us(case.size_bytes)
    yield "least_time", least.us(case.size_bytes)


def certified(case: Case, rng: random.Random) -> Bounds:
    """Yield the bounds that the checker derives from random cuts, groups, and prices."""
    machine, size = case.machine, case.size_bytes
    collective = case.spec.at(case.spec.unit)
    nodes, ranks = range(machine.ranks + len(machine.switches)), range(machine.ranks)
    proofs: list[tuple[str, Callable[[], LinearTimeBound]]] = []
    for _ in range(8):
        sides = [_some(rng, nodes) for _ in range(3)]
        if rng.random() < 0.5:
            sides[1:] = [set(nodes), set(nodes)]
        left, sources, goals = sides
        told = Fraction(rng.choice((size, rng.randint(1, size))))
        cut = partial(cut_time_bound, machine, collective, told, (left, sources, goals), free)
        proofs.append(("by_cut", cut))
    for _ in range(4 if is_allreduce(case.spec) else 0):
        of = [rng.randint(0, 2) for _ in nodes]
        groups = [[node for node in nodes if of[node] == side] for side in set(of)]
        told = Fraction(rng.choice((size, rng.randint(1, size))))
        proofs.append(
            ("by_groups", partial(group_time_bound, machine, collective, told, groups, free))
        )
    chunks = collective.chunks
    for _ in range(0 if case.spec.combining else 4):
        inside, apart = _some(rng, ranks), case.us * rng.randint(0, 8) / 12
        late = partial(
            ingress_relay_bound,
            machine,
            collective,
            chunks,
            Fraction(size),
            inside,
            ranks,
            apart,
            free,
        )
        proofs.append(("by_late", late))
        parts = sorted(rng.sample(range(1, 13), rng.randint(1, 4)))
        borders = [Fraction(0), *(case.us * part / 12 for part in parts)]
        slots = len(borders) - 1
        keys = [constraint.key for constraint in machine.constraints()]
        prices = [
            (rng.choice(keys), rng.randrange(slots), Fraction(rng.randint(0, 3)))
            for _ in range(rng.randint(1, 12))
        ]
        middle = rng.choice((None, rng.randrange(slots)))
        paid = partial(price_time_bound, machine, collective, chunks, borders, prices, middle, free)
        proofs.append(("by_prices", paid))
    for name, prove in proofs:
        try:
            floor = prove()
        except ValueError:
            continue
        yield name, floor.us(size)


def _some(rng: random.Random, nodes: Iterable[int]) -> set[int]:
    return {node for node in nodes if rng.random() < 0.5}


def curves(case: Case, _: random.Random) -> Bounds:
    """Yield the bounds of ``compare`` and of plotted lines for a size."""
    sizes = [max(1, case.size_bytes // 4), case.size_bytes, 3 * case.size_bytes]
    curve = lower_bound_curve(case.machine, case.spec, sizes)
    for number in (0, 1):  # fewer bytes take no longer
        yield "least_by_size", Fraction(curve.us(sizes[number]))


def limits(case: Case, _: random.Random) -> Bounds:
    """Yield the bounds of ``limits --time``, and those of its certificate."""
    found = _plan("limits-time", Request(case.machine, case.spec, case.size_bytes))
    if found is None:
        return
    yield "limits --time", found.bound.value
    with tempfile.TemporaryDirectory() as folder:
        written = write_time_certificate(
            case.machine, case.spec, {case.size_bytes: found}, Path(folder, "certificate")
        )
    yield from (("limits --certify", us) for us in written.lower_bounds.values())


def _plan(name: str, request: Request, **options: object) -> Solution | None:
    """Return a synthesizer's plan, or None if it rejects the request or finds none.

    Raises:
        JudgeError: Its schedule is wrong.
        ContradictionError: Its schedule takes less than its bound.
    """
    synthesizer = registry.load(name)
    try:
        outcome = registry.plan(synthesizer, request, synthesizer.Options(**options), EFFORT)
    except InputError:
        return None
    best = outcome.best if isinstance(outcome, Inconclusive) else outcome
    return best if isinstance(best, Solution) else None


def false_bounds(
    us: Fraction, bounds: Iterable[tuple[str, Fraction]]
) -> list[tuple[str, Fraction]]:
    """Return the bounds above the time that some schedule takes."""
    return [(name, bound) for name, bound in bounds if bound > us * (1 + TOLERANCE)]


# --- schedules of chunks of given sizes ----------------------------------------------------------


def draw_schedule(rng: random.Random) -> tuple[Schedule, Spec] | None:
    """Return a good schedule and its collective, or None if there is none of few chunks."""
    machine = draw_machine(rng)
    spec = draw_spec(rng, machine.ranks)
    collective = spec.at(spec.unit * rng.choice((1, 1, 2)))
    if collective.num_chunks > MOST_CHUNKS:
        return None
    unit, counts = 3000 * rng.choice((1, 10, 100)), collective.counts or (1,)
    sizes = [unit * counts[chunk % len(counts)] for chunk in range(collective.num_chunks)]
    schedule = best_schedule(machine, collective, sizes, rng.choice(list(AlphaModel)), rng)
    if schedule is None:
        return None
    assert violations(schedule) == []
    return schedule, spec


def of_chunks(schedule: Schedule, spec: Spec) -> Bounds:
    """Yield the bounds of ``simulate`` and others for a schedule of chunks that are sent alone."""
    machine, collective, clock = schedule.topology, schedule.collective, schedule.clock
    ticks = compute_time_bound(machine, spec, collective, clock).value
    yield f"time_bound {schedule.model}", Fraction(ticks * schedule.tick_ps, 10**6)
    if schedule.model is AlphaModel.TRAVELS:
        least = completion_time_bound(machine, spec).us(
            collective.served_bytes(schedule.chunk_bytes)
        )
        yield f"least_time {schedule.model}", least


def of_synthesizers(schedule: Schedule, spec: Spec) -> Bounds:
    """Yield the bounds of TACOS, TE-CCL and TACCL for chunks like those of a schedule."""
    collective = schedule.collective
    if collective.chunks != spec.unit:
        return
    size = int(collective.served_bytes(schedule.chunk_bytes))
    request = Request(schedule.topology, spec, size)
    for name in ("tacos", "teccl", "taccl"):
        found = _plan(name, request, chunks=1, alpha=schedule.model.value)
        if found is not None:
            yield f"{name} {schedule.model}", found.bound.value


# --- on the screen -------------------------------------------------------------------------------


def printed_by_simulate(schedule: Schedule, spec: Spec) -> Bounds:
    """Yield the bounds that ``sccl simulate`` prints for a schedule, and writes as JSON."""
    del spec
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "schedule.json")
        file.write_text(to_text(schedule_to_wire(schedule)))
        _, text, _ = sccl("simulate", file)
        _, content, _ = sccl("simulate", file, "--json")
    (run,) = json.loads(content)["runs"]
    (part,) = run["collectives"]
    if part["bound_us"] is None:
        return
    yield "simulate --json", Fraction(str(part["bound_us"]))
    (number, unit), *_ = re.findall(r"lower bound ([0-9.e+-]+) (us|s)\b", text)
    yield "simulate printed", _unrounded(number) * (1 if unit == "us" else 10**6)


def printed_by_compare(case: Case, _: random.Random) -> Bounds:
    """Yield the bounds that ``sccl compare`` prints for a named collective, and writes as JSON."""
    if case.spec.parts or case.spec.name not in collective_names():
        return
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "machine.json")
        file.write_text(to_text(topology_to_wire(case.machine)))
        asked: list[str | Path] = [
            "--collective",
            case.spec.name,
            "--topo",
            file,
            "--size",
            f"{case.size_bytes}B",
        ]
        asked += ["--only", "tacos", "--only", "ring"]
        if case.spec.root is not None:
            asked += ["--root", str(case.spec.root)]
        code, text = sccl("compare", *asked)[:2]
        content = sccl("compare", *asked, "--json")[1]
    if code:
        return
    (size,) = json.loads(content)["sizes"]
    yield "compare --json", Fraction(str(size["bound_us"]))
    heads, row = (
        [cell.strip() for cell in re.split("[┃│]", line)]
        for line in re.findall(r"(?m)^(?:┃ +size .*|│.*)$", text)[:2]
    )
    yield "compare printed", _unrounded(row[heads.index("bound (us)")])


def _unrounded(text: str) -> Fraction:
    """Return the least number that is printed so, with six digits."""
    return Fraction(text) * (1 - Fraction(5, 10**6))


# --- in bulk -------------------------------------------------------------------------------------


def compare(machines: int, seed: str, search: int) -> tuple[Counter[str], list[str]]:
    """Return the number of compared bounds by name, and the false ones with their cases.

    Args:
        machines: Number of machines.
        seed: Seed of the random numbers.
        search: Interval of the machines that synthesizers and commands get, too.
    """
    counts, false = Counter[str](), list[str]()

    def take(us: Fraction, bounds: Bounds, case: object) -> None:
        """Count bounds, and note the false ones."""
        listed: list[tuple[str, Fraction]] = []
        try:
            listed.extend(bounds)
        except (ContradictionError, JudgeError) as error:
            false.append(f"{error}, for {case}")
        counts.update(name for name, _ in listed)
        for name, bound in false_bounds(us, listed):
            false.append(f"{name}: {float(bound)} us, but {float(us)} us are enough for {case}")

    for number in range(machines):
        rng = random.Random(f"{seed} {number}")  # noqa: S311 - the same every time
        for case in (cases := draw_cases(rng)):
            searched = number % search == 0 and case is cases[0]
            slow = [curves, limits, printed_by_compare] if searched else []
            for bounds in [cuts, certified, *slow]:
                take(case.us, bounds(case, rng), case)
        if drawn := draw_schedule(rng):
            schedule, spec = drawn
            us = Fraction(schedule.finish * schedule.tick_ps, 10**6)
            about = (schedule.topology, spec, schedule.model, schedule.chunk_bytes)
            take(us, of_chunks(schedule, spec), about)
            if number % max(1, search // 5) == 0:
                take(us, of_synthesizers(schedule, spec), about)
            if number % search == 0:
                take(us, printed_by_simulate(schedule, spec), about)
    return counts, false


def _main(machines: str, seed: str = "bulk", search: str = "50") -> None:
    counts, false = compare(int(machines), seed, int(search))
    lines = [f"FALSE {line}" for line in false]
    lines.append(f"{machines} machines, {counts.total()} bounds, {len(false)} false")
    lines += [f"{count:8} {name}" for name, count in sorted(counts.items())]
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    _main(*sys.argv[1:])
