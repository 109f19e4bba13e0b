"""Consecutive calls never conflict in any interleaving, and each part of the protocol is needed."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sccl.codegen.ir import Landing, Program
from sccl.codegen.passes import compile_program
from sccl.codegen.protocol import PROTOCOL, Mode, Protocol, SendStage, Stage, find_neighbors
from sccl.core.answer import Sat
from sccl.synth.syncoll import solve
from sccl.topo.symmetry.expansion import expand_algorithm
from sccl.transform import build_question, solve_question
from tests.kit.easy_algorithms import frontier
from tests.kit.hard_algorithms import Hard, load
from tests.kit.nightly import times
from tests.kit.protocol import (
    Await,
    Call,
    Model,
    Operation,
    Processes,
    Read,
    Set,
    Write,
    explore,
    faults_after_death,
    judge,
)
from tests.kit.strategies import diameter, specs, topologies

COLLECTIVES = ("allgather", "broadcast", "alltoall", "reduce")
MACHINES = ("line:3", "ring:4")
"""A machine without links between some pairs."""

DGX1 = [
    Hard("dgx1", "allgather", (6, 3, 7)),
    Hard("dgx1", "broadcast", (6, 3, 5), root=5),
    Hard("dgx1", "alltoall", (24, 2, 8)),
]

WITH_PARTS = [
    Hard("one-way", "reduce", (5, 4, 6), root=2),
    Hard("one-way", "reducescatter", (8, 3, 7)),
    Hard("dgx1", "allgather", (6, 3, 7)),
    Hard("dgx1", "allreduce", (16, 4, 6), trees=True),
]
"""Instructions of one part follow from those of others in these."""

CREDITED = Hard("one-way", "reduce", (5, 4, 6), root=2)
"""Some slots are awaited, and some results are sent on at once, in direct programs."""


def landing(mode: Mode) -> Landing:
    return Landing.OUTPUT if mode is Mode.DIRECT else Landing.SCRATCH


def program(
    machine: str, collective: str, mode: Mode, *, serial: bool = False, point: int = -1
) -> Program:
    return compile_program(frontier(machine, collective)[point], landing(mode), serial=serial)


def in_a_row(symbols: Sequence[Call], length: int) -> list[Call]:
    """Return calls in which every row of so many follows somewhere: a sequence of de Bruijn."""
    found: list[int] = []
    word = [0] * (length * len(symbols))

    def extend(at: int, period: int) -> None:
        if at > length:
            if length % period == 0:
                found.extend(word[1 : period + 1])
            return
        word[at] = word[at - period]
        extend(at + 1, period)
        for symbol in range(word[at - period] + 1, len(symbols)):
            word[at] = symbol
            extend(at + 1, at)

    extend(1, 1)
    return [symbols[n] for n in (*found, *found[: length - 1])]


def calls_of(machine: str, *, serial: bool = False) -> list[Call]:
    """Return a call of every collective in every mode: no two alike in pieces, cuts and places."""
    return [
        Call(
            program(machine, collective, mode, serial=serial),
            mode,
            units=2 + number % 3,
            in_place=bool(number % 2),
        )
        for number, (collective, mode) in enumerate(product(COLLECTIVES, Mode))
    ]


@pytest.mark.parametrize(
    ("machine", "serial"), [*((machine, False) for machine in MACHINES), ("ring:4", True)]
)
def test_nothing_goes_wrong(machine: str, serial: bool) -> None:
    """Every three consecutive calls: epoch e conflicts with nothing later than e + 2.

    Before a rank enters e + 2 it has left e, and all writers into its window know it. Then calls of
    one to three pieces, between which no kernel ends.
    """
    calls = calls_of(machine, serial=serial)
    some = calls[:: 2 if serial else 3]
    model = Model(in_a_row(some, 3), bundle=[call.program for call in calls])
    assert judge(model.processes()) == set()
    assert not model.unmapped
    most = 1 if serial else 3
    long = [
        replace(call, pieces=1 + n % 3, slices=1 + n // 2 % most)
        for n, call in enumerate(calls[:9])
    ]
    last = replace(long[0], empty=frozenset({0}))
    model = Model(in_a_row([*long, last], 2))
    assert judge(model.processes()) == set()
    assert not model.unmapped


@pytest.mark.parametrize("mode", Mode)
def test_nothing_goes_wrong_on_a_dgx1(mode: Mode) -> None:
    programs = [compile_program(load(hard), landing(mode), serial=False) for hard in DGX1]
    calls = [Call(p, mode, pieces=1 + n, in_place=n == 0) for n, p in enumerate(programs)]
    model = Model(in_a_row(calls, 2))
    assert judge(model.processes()) == set()
    assert not model.unmapped
    assert all(len(near) < 7 for near in find_neighbors(programs, 8))


@given(data=st.data())
@settings(max_examples=times(20))
def test_nothing_goes_wrong_whichever_parts_are_empty(data: st.DataObject) -> None:
    """Instructions on empty parts are skipped, with all that waits for them."""
    hard = data.draw(st.sampled_from(WITH_PARTS))
    mode = data.draw(st.sampled_from(Mode))
    one = compile_program(load(hard), landing(mode), serial=data.draw(st.booleans()))
    empty = data.draw(st.frozensets(st.integers(0, one.layout.parts - 1)))
    call = Call(one, mode, in_place=data.draw(st.booleans()))
    assert judge(Model([replace(call, empty=empty), call]).processes()) == set()


@pytest.mark.nightly
@pytest.mark.parametrize(
    "machine", ["star:4", "mesh:2x3", "torus:3x3", "z52", "hypercube:3", "full:4"]
)
def test_nothing_goes_wrong_on_larger_machines(machine: str) -> None:
    calls = calls_of(machine)
    calls = [replace(c, pieces=1 + n % 3, slices=1 + n % 2) for n, c in enumerate(calls)]
    model = Model(in_a_row(calls, 2))
    assert judge(model.processes()) == set()
    assert not model.unmapped


@given(data=st.data())
@settings(max_examples=times(10))
def test_nothing_goes_wrong_on_random_machines(data: st.DataObject) -> None:
    topology = data.draw(topologies(max_ranks=5))
    calls = []
    for spec in data.draw(st.lists(specs(topology.ranks), min_size=2, max_size=3)):
        steps = diameter(topology) * (2 if spec.name == "allreduce" else 1)
        answer = solve_question(
            build_question(topology, spec, spec.unit, steps, steps * 4), solve.solve
        )
        if not isinstance(answer, Sat):
            continue
        for mode in Mode:
            serial = data.draw(st.booleans())
            one = compile_program(expand_algorithm(answer.algorithm), landing(mode), serial=serial)
            calls.append(
                Call(one, mode, *data.draw(st.tuples(st.integers(1, 3), st.integers(2, 5))))
            )
    some = data.draw(st.lists(st.sampled_from(calls), max_size=12)) if calls else []
    model = Model(
        [
            replace(call, in_place=data.draw(st.booleans()), slices=data.draw(st.integers(1, 3)))
            for call in some
        ],
        wrap=data.draw(st.sampled_from([4, 6, 2**32])),
        bundle=[call.program for call in calls],
    )
    if some:
        assert judge(model.processes(), data.draw(st.randoms()).randrange) == set()
        assert not model.unmapped


def with_flags_as_places(processes: Processes) -> Processes:
    """Return processes in which a flag is written where it is set, and read where it is awaited."""

    def seen(op: Operation) -> list[Operation]:
        match op:
            case Set(("flag", *rest), value):
                return [Write(("held", *rest), value), op]
            case Await(("flag", *rest), value):
                return [op, Read(("held", *rest), value)]
        return [op]

    return {name: [new for op in own for new in seen(op)] for name, own in processes.items()}


@pytest.mark.parametrize("machine", MACHINES)
def test_flag_is_not_set_again_before_all_have_seen_it(machine: str) -> None:
    """So streams may await exactly an epoch and its tag, since they would miss a later one."""
    calls = [call for call in calls_of(machine, serial=True) if call.mode is not Mode.PACKETS]
    long = [replace(call, pieces=1 + n % 3) for n, call in enumerate(calls)]
    for protocol, fine in ((PROTOCOL, True), (replace(PROTOCOL, copies=1), False)):
        model = Model(in_a_row(long, 2), protocol)
        wrong = judge(with_flags_as_places(model.processes()))
        assert any("held" in fault for fault in wrong) is not fine
        assert bool(wrong) is not fine


def without(stage: Stage) -> Protocol:
    return replace(PROTOCOL, entry=tuple(s for s in PROTOCOL.entry if s is not stage))


def turned(first: Stage, then: Stage) -> Protocol:
    """Return the protocol in which two stages change places."""
    other = {first: then, then: first}
    return replace(PROTOCOL, entry=tuple(other.get(s, s) for s in PROTOCOL.entry))


def unsent(stage: SendStage) -> Protocol:
    return replace(PROTOCOL, send=tuple(s for s in PROTOCOL.send if s is not stage))


def behind(mode: Mode) -> Protocol:
    """Return the protocol in which a peer may be one epoch further behind."""
    return replace(PROTOCOL, behind={**PROTOCOL.behind, mode: PROTOCOL.behind[mode] + 1})


FLAG_FIRST = (SendStage.OPEN, SendStage.CREDIT, SendStage.FLAG, SendStage.WRITE)

WEAKER: dict[str, tuple[Protocol, Mode]] = {
    "one copy, eager": (replace(PROTOCOL, copies=1), Mode.EAGER),
    "one copy, packets": (replace(PROTOCOL, copies=1), Mode.PACKETS),
    **{f"further behind, {mode}": (behind(mode), mode) for mode in Mode},
    "told before all have left": (turned(Stage.LEAVE, Stage.ANNOUNCE), Mode.EAGER),
    "not all have left": (without(Stage.LEAVE), Mode.EAGER),
    "nobody is told": (without(Stage.ANNOUNCE), Mode.EAGER),
    "nobody asks": (unsent(SendStage.OPEN), Mode.EAGER),
    "no credit is asked for": (unsent(SendStage.CREDIT), Mode.DIRECT),
    "flags come first": (replace(PROTOCOL, send=FLAG_FIRST), Mode.EAGER),
    "no flag": (unsent(SendStage.FLAG), Mode.EAGER),
    "no offer": (without(Stage.OFFER), Mode.DIRECT),
    "offered too late": (turned(Stage.OFFER, Stage.ANNOUNCE), Mode.DIRECT),
    "cleared too early": (turned(Stage.LEAVE, Stage.CLEAR), Mode.PACKETS),
    "cleared too late": (turned(Stage.CLEAR, Stage.ANNOUNCE), Mode.PACKETS),
    "not cleared": (without(Stage.CLEAR), Mode.PACKETS),
    "clearing is not heeded": (replace(PROTOCOL, heeded=False), Mode.PACKETS),
    "the first to end moves epochs on": (replace(PROTOCOL, last=False), Mode.EAGER),
}


def small(mode: Mode, protocol: Protocol, wrap: int = 4) -> Model:
    """Return calls in which each part is needed."""
    names = ("allgather", "broadcast", "alltoall", "broadcast")
    programs = [program("ring:4", name, mode, point=0) for name in names]
    programs.append(compile_program(load(CREDITED), landing(mode), serial=False))
    calls = [Call(one, mode, pieces=pieces) for pieces in (2, 2, 1, 3) for one in programs]
    return Model(calls, protocol, wrap=wrap)


@pytest.mark.parametrize("mode", Mode)
def test_numbers_of_packets_may_begin_again(mode: Mode) -> None:
    for wrap in (4, 6, 8):
        assert judge(small(mode, PROTOCOL, wrap).processes()) == set()


@pytest.mark.parametrize("weaker", WEAKER)
def test_each_part_is_needed(weaker: str) -> None:
    protocol, mode = WEAKER[weaker]
    assert judge(small(mode, protocol).processes())


def test_slices_tell_together() -> None:
    """Since another call cuts slots elsewhere, or into fewer slices."""
    one = program("line:3", "broadcast", Mode.EAGER)
    calls = [Call(one, pieces=2, units=2, slices=2), Call(one, units=8, slices=2)]
    assert judge(Model(calls).processes()) == set()
    assert judge(Model(calls, apart=True).processes())


def test_windows_are_needed_of_the_neighbours_in_all_programs() -> None:
    both = [compile_program(load(hard), Landing.SCRATCH, serial=False) for hard in DGX1[1:]]
    model = Model([Call(p) for p in both * 2], bundle=both[:1])
    assert judge(model.processes())  # a rank without notification waits for ever
    assert model.unmapped


def tiny() -> list[tuple[str, Callable[[Protocol], Model]]]:
    """Return models of few processes, of which every interleaving can be walked through."""
    found: list[tuple[str, Callable[[Protocol], Model]]] = []
    for machine, names, serial, pieces in (
        ("line:2", ("allgather", "broadcast", "broadcast"), True, 2),
        ("line:2", ("broadcast", "alltoall"), False, 2),
        ("line:3", ("broadcast", "reduce", "broadcast", "broadcast"), True, 1),
        ("line:3", ("broadcast", "reduce"), False, 2),
    ):
        for mode in Mode:
            calls = [
                Call(
                    program(machine, name, mode, serial=serial),
                    mode,
                    pieces=pieces,
                )
                for name in names
            ]

            def model(protocol: Protocol, calls: list[Call] = calls) -> Model:
                return Model(calls, protocol, wrap=4)

            found.append((f"{machine} {' '.join(names)} {mode}", model))
    return found


def agree(models: Sequence[tuple[str, Callable[[Protocol], Model]]]) -> set[tuple[bool, bool]]:
    """Check both judges against one another, and return whether they find faults, and where."""
    verdicts = set()
    for name, model in models:
        for protocol in (PROTOCOL, *(protocol for protocol, _ in WEAKER.values())):
            processes = model(protocol).processes()
            found = bool(explore(processes))
            assert found == bool(judge(processes)), (name, protocol)
            verdicts.add((found, protocol == PROTOCOL))
    return verdicts


def test_every_interleaving_is_as_one_run_says() -> None:
    """Walking through all of them finds something wrong exactly where one run with clocks does."""
    assert agree(tiny()[:4]) == {(False, True), (False, False), (True, False)}


@pytest.mark.nightly
def test_every_interleaving_of_more_is_as_one_run_says() -> None:
    assert agree(tiny()[4:]) == {(False, True), (False, False), (True, False)}


@given(st.randoms(use_true_random=False), st.sampled_from(list(Mode)))
@settings(max_examples=times(10))
def test_schedule_of_that_run_does_not_matter(rng: random.Random, mode: Mode) -> None:
    assert judge(small(mode, PROTOCOL).processes(), rng.randrange) == set()


@pytest.mark.parametrize("machine", ["line:3", "ring:4"])
def test_no_rank_hangs_after_a_death(machine: str) -> None:
    """A rank that waits for the dead rank gives up, and marks of neighbors reach all others.

    A rank with its mark set ends and marks its neighbors, and no rank reads anything wrong.
    """
    calls = [
        Call(program(machine, name, mode), mode)
        for name, mode in (("allgather", Mode.EAGER), ("alltoall", Mode.DIRECT))
    ]
    near = find_neighbors([call.program for call in calls], Model(calls).ranks)
    processes = Model(calls).processes()
    reached = 0
    for dead in range(len(near)):
        total = sum(len(own) for name, own in processes.items() if name[0] == dead)
        for after in range(0, total, 3):
            wrong, waits = faults_after_death(processes, dead, after)
            assert wrong == set()
            ended = {rank for rank, others in waits.items() if dead in others}
            assert bool(ended) == bool(waits)
            while more := {r for r in waits.keys() - ended if near[r] & ended}:
                ended |= more
                reached += len(more)
            assert ended == set(waits)
    assert reached or machine == "line:3"
