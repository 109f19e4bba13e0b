"""Litmus tests of the memory models of GPUs: all executions of a few instructions, enumerated.

PTX: Lustig, Sahasrabuddhe, Giroux, "A Formal Analysis of the NVIDIA PTX Memory Consistency Model"
(ASPLOS 2019), with the causality order of PTX ISA 7.5. All accesses are of the generic proxy. HIP:
happens-before of C11 with scopes ("Memory Model" in LLVM's "User Guide for AMDGPU Backend"), where
a race of a non-atomic access allows any outcome.

Threads are lists of instructions: ``st.release.sys x, 1``, ``ld.acquire.gpu r1, x``,
``atom.acq_rel.gpu.add r1, x, 1``, ``fence.sc.sys``, ``bar 0``. In addition, ``await r1 == 1`` keeps
the executions that satisfy the condition, and later instructions depend on the register.
Instructions joined by ``&`` are unordered, like the parts of a vector. Locations are 0 at first.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import product

SCOPES = ("cta", "gpu", "sys")

Relation = frozenset[tuple[int, int]]
"""Pairs of events, by their numbers."""


@dataclass(frozen=True)
class Thread:
    """A thread with its location and instructions.

    Attributes:
        gpu: Number of the GPU.
        cta: Number of the thread block on that GPU.
    """

    gpu: int
    cta: int
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Event:
    """One access, fence, or barrier.

    Attributes:
        kind: R, W, F, or B.
        thread: Number of the thread, -1 for the initialization of a location.
        position: Position of the instruction, shared by the parts of a vector.
        sem: weak, relaxed, acquire, release, acq_rel, or sc.
        place: Location, or the name and instance of a barrier.
        value: Written value: a number, a register, or a register and an addend.
        registers: Registers that the event depends on.
    """

    kind: str
    thread: int
    position: int
    sem: str = "weak"
    scope: str = "sys"
    place: str = ""
    register: str = ""
    value: str = "0"
    registers: frozenset[str] = frozenset()

    def has(self, kind: str, *sems: str) -> bool:
        return self.kind == kind and (not sems or self.sem in sems)


ACQUIRES = ("acquire", "acq_rel", "sc")
RELEASES = ("release", "acq_rel", "sc")
REGISTER = re.compile(r"\b[rs]\d+\b")


@dataclass
class Program:
    """The events of some threads.

    Attributes:
        awaited: Conditions of registers that hold in all executions.
        rmw: Pairs of a read and a write of one atomic instruction.
    """

    threads: tuple[Thread, ...]
    events: list[Event] = field(default_factory=list)
    awaited: list[str] = field(default_factory=list)
    rmw: Relation = frozenset()

    def __post_init__(self) -> None:
        for number, thread in enumerate(self.threads):
            self._add(number, thread)
        for place in sorted({e.place for e in self.events if e.kind in "RW"}):
            self.events.append(Event("W", -1, 0, place=place))

    def _add(self, number: int, thread: Thread) -> None:
        awaited: frozenset[str] = frozenset()
        barriers: dict[str, int] = {}
        for position, line in enumerate(thread.lines):
            for part in line.split("&"):
                name, _, rest = part.strip().partition(" ")
                if name == "await":
                    self.awaited.append(rest)
                    awaited |= set(REGISTER.findall(rest))
                    continue
                op, *words = name.split(".")
                operands = [operand.strip() for operand in rest.split(",")]
                sem = words[0] if words else ""
                scope = words[1] if len(words) > 1 and words[1] in SCOPES else "sys"
                depends = awaited | set(
                    REGISTER.findall(operands[-1] if op in {"st", "atom"} else "")
                )
                event = Event("", number, position, sem, scope, registers=frozenset(depends))
                if op == "bar":
                    instance = barriers[rest] = barriers.get(rest, 0) + 1
                    self._append(event, kind="B", place=f"{rest} {instance}")
                elif op == "fence":
                    self._append(event, kind="F")
                elif op == "ld":
                    self._append(event, kind="R", register=operands[0], place=operands[1])
                elif op == "st":
                    self._append(event, kind="W", place=operands[0], value=operands[1])
                else:
                    register, place, addend = operands
                    read = {"acq_rel": "acquire", "release": "relaxed"}.get(sem, sem)
                    write = {"acq_rel": "release", "acquire": "relaxed"}.get(sem, sem)
                    self._append(event, kind="R", sem=read, register=register, place=place)
                    value = f"{register} + {addend}"
                    depends |= {register}
                    self._append(
                        event, kind="W", sem=write, place=place, value=value, registers=depends
                    )
                    self.rmw |= {(len(self.events) - 2, len(self.events) - 1)}

    def _append(self, event: Event, **changes: object) -> None:
        self.events.append(Event(**(vars(event) | changes)))

    def pairs(self, holds: Callable[[Event, Event], bool]) -> Relation:
        """Return all pairs of different events for which a condition holds."""
        numbered = list(enumerate(self.events))
        return frozenset((i, j) for i, a in numbered for j, b in numbered if i != j and holds(a, b))

    def program_order(self) -> Relation:
        ordered = self.pairs(lambda a, b: a.thread == b.thread >= 0 and a.position < b.position)
        return ordered | self.rmw

    def same_place(self) -> Relation:
        return self.pairs(lambda a, b: a.kind in "RW" and b.kind in "RW" and a.place == b.place)

    def within_scope(self) -> Relation:
        """Return the pairs of which each has a scope that includes the thread of the other."""

        def includes(a: Event, b: Event) -> bool:
            if a.thread < 0 or b.thread < 0:
                return False
            one, other = self.threads[a.thread], self.threads[b.thread]
            if a.scope == "sys":
                return True
            return one.gpu == other.gpu and (a.scope == "gpu" or one.cta == other.cta)

        return self.pairs(lambda a, b: includes(a, b) and includes(b, a))

    def barriers(self) -> Relation:
        """Return the pairs of arrivals at one barrier."""

        def meet(a: Event, b: Event) -> bool:
            if a.kind != "B" or b.kind != "B" or a.place != b.place:
                return False
            one, other = self.threads[a.thread], self.threads[b.thread]
            return (one.gpu, one.cta) == (other.gpu, other.cta)

        return self.pairs(meet)

    def executions(self) -> Iterator[tuple[Relation, dict[str, int]]]:
        """Yield all ways to read, as pairs of a write and its reader, and the registers."""
        reads = [i for i, e in enumerate(self.events) if e.kind == "R"]
        writes = [
            [
                w
                for w, e in enumerate(self.events)
                if e.kind == "W" and e.place == self.events[r].place
            ]
            for r in reads
        ]
        dependencies = self.pairs(lambda a, b: a.kind == "R" and a.register in b.registers)
        for chosen in product(*writes):
            reads_from = frozenset(zip(chosen, reads, strict=True))
            if is_cyclic(reads_from | dependencies):  # no value comes out of thin air
                continue
            registers = self._registers(dict(zip(reads, chosen, strict=True)))
            if all(holds(condition, registers) for condition in self.awaited):
                yield reads_from, registers

    def _registers(self, writer: dict[int, int]) -> dict[str, int]:
        registers: dict[str, int] = {}

        def read(number: int) -> int:
            event = self.events[number]
            if event.register not in registers:
                written = self.events[writer[number]]
                for name in REGISTER.findall(written.value):
                    read(next(r for r in writer if self.events[r].register == name))
                registers[event.register] = evaluated(written.value, registers)
            return registers[event.register]

        for number in writer:
            read(number)
        return registers


def evaluated(text: str, registers: dict[str, int]) -> int:
    return int(eval(text, {"__builtins__": {}}, registers))  # noqa: S307 - it is our own


def holds(condition: str, registers: dict[str, int]) -> bool:
    return bool(evaluated(condition, registers))


def then(*relations: Relation) -> Relation:
    """Return the composition of relations."""
    first, *others = relations
    for other in others:
        after: dict[int, list[int]] = {}
        for b, c in other:
            after.setdefault(b, []).append(c)
        first = frozenset((a, c) for a, b in first for c in after.get(b, ()))
    return first


def closure(relation: Relation) -> Relation:
    """Return the transitive closure."""
    while True:
        longer = relation | then(relation, relation)
        if longer == relation:
            return relation
        relation = longer


def is_cyclic(relation: Relation) -> bool:
    return any(a == b for a, b in closure(relation))


def orders(pairs: Relation) -> Iterator[Relation]:
    """Yield all choices of a direction for each pair of a symmetric relation."""
    for directions in product(*([(a, b), (b, a)] for a, b in sorted(pairs) if a < b)):
        yield frozenset(directions)


def coherence_orders(program: Program, least: Relation, related: Relation) -> Iterator[Relation]:
    """Yield the transitive orders of writes that contain ``least`` and order all ``related``."""
    events = program.events
    write = frozenset((i, i) for i, e in enumerate(events) if e.kind == "W")
    same = then(write, program.same_place(), write)
    first = frozenset((a, b) for a, b in same if events[a].thread < 0)
    least = closure((least & same) | first)
    for chosen in orders(frozenset(p for p in related & same if not {p, p[::-1]} & least)):
        order = closure(least | chosen)
        if not any(a == b for a, b in order):
            yield order


def allows_ptx(program: Program, outcome: str) -> bool:
    """Return whether an execution with this outcome is consistent with the model of PTX."""
    events = program.events
    po, same, scope = program.program_order(), program.same_place(), program.within_scope()

    def only(kind: str, *sems: str) -> Relation:
        return frozenset((i, i) for i, e in enumerate(events) if e.has(kind, *sems))

    strong = frozenset(
        i for i, e in enumerate(events) if e.kind == "F" or (e.kind in "RW" and e.sem != "weak")
    )
    in_order = po | frozenset((b, a) for a, b in po)
    reached = frozenset((a, b) for a, b in scope if {a, b} <= strong)
    memory = program.pairs(lambda a, b: a.kind in "RW" and b.kind in "RW")
    morally_strong = (in_order | reached) & (same | (program.pairs(lambda *_: True) - memory))
    strong_read, strong_write = (
        frozenset((i, i) for i in strong if events[i].kind == kind) for kind in "RW"
    )
    release_write, acquire_read = only("W", *RELEASES), only("R", *ACQUIRES)
    release = (
        then(release_write, strong_write)
        | then(release_write, po & same, strong_write)
        | then(only("F", *RELEASES), po, strong_write)
    )
    acquire = (
        then(strong_read, acquire_read)
        | then(strong_read, po & same, acquire_read)
        | then(strong_read, po, only("F", *ACQUIRES))
    )
    fences = then(only("F", "sc"), morally_strong, only("F", "sc"))
    for reads_from, registers in program.executions():
        if not holds(outcome, registers):
            continue
        observation = (morally_strong & reads_from) | program.rmw
        synchronizes = then(release, closure(observation), acquire) & morally_strong
        for fence_order in orders(fences):
            base = closure(po | synchronizes | fence_order | program.barriers())
            if is_cyclic(fence_order) or any((b, a) in base for a, b in fence_order):
                continue
            cause = (base | then(observation, base)) & (same | frozenset((i, i) for i in strong))
            for order in coherence_orders(program, cause, morally_strong):
                from_reads = then(frozenset((r, w) for w, r in reads_from), order)
                torn = then(morally_strong & from_reads, morally_strong & order) & program.rmw
                backwards = any((b, a) in cause for a, b in reads_from | from_reads)
                if not torn and not backwards:
                    return True
    return False


def allows_hip(program: Program, outcome: str) -> bool:
    """Return whether C11 with scopes allows this outcome, or leaves the program undefined."""
    events = program.events
    po, same, scope = program.program_order(), program.same_place(), program.within_scope()
    atomic = frozenset((i, i) for i, e in enumerate(events) if e.kind in "RW" and e.sem != "weak")

    def only(kind: str, *sems: str) -> Relation:
        return frozenset((i, i) for i, e in enumerate(events) if e.has(kind, *sems))

    release = then(only("W", *RELEASES), atomic) | then(only("F", *RELEASES), po, only("W"), atomic)
    acquire = then(atomic, only("R", *ACQUIRES)) | then(atomic, only("R"), po, only("F", *ACQUIRES))
    conflicts = frozenset(
        (a, b)
        for a, b in same
        if events[a].thread != events[b].thread
        and min(events[a].thread, events[b].thread) >= 0
        and "W" in events[a].kind + events[b].kind
        and not ((a, a) in atomic and (b, b) in atomic and (a, b) in scope)
    )
    first = program.pairs(lambda a, b: a.thread < 0 <= b.thread)
    for reads_from, registers in program.executions():
        observation = closure(then(atomic, reads_from, atomic) | program.rmw)
        synchronizes = then(release, observation, acquire) & scope
        before = closure(po | first | synchronizes | program.barriers())
        for order in coherence_orders(program, before, same):
            from_reads = then(frozenset((r, w) for w, r in reads_from), order)
            communication = closure(reads_from | order | from_reads)
            torn = then(from_reads, order) & program.rmw
            if torn or any((b, a) in before for a, b in communication):
                continue
            if holds(outcome, registers) or any(not {p, p[::-1]} & before for p in conflicts):
                return True
    return False


_HIP_OPS = {"load": "ld", "store": "st", "fetch_add": "atom"}
_HIP_SCOPES = {"SYSTEM": "sys", "AGENT": "gpu", "WORKGROUP": "cta", '""': "sys"}


def primitives(code: str, target: str) -> dict[str, list[str]]:
    """Return the memory instructions of each primitive of generated code, without operands."""
    instructions = {}
    for body in re.split(r"^(?=SCCL_DEVICE )", code, flags=re.MULTILINE)[1:]:
        name = body.split("(")[0].split()[-1]
        if target == "cuda":
            asm = re.findall(r'asm volatile\("((?:ld|st|atom|fence)\.[\w.]+?)(?:\.u64)?[ ;]', body)
            instructions[name] = [instruction.replace(".v2", "") for instruction in asm]
        else:
            words = r"__(?:hip_atomic|builtin_amdgcn)_(\w+)\(.*?"
            order = r"__ATOMIC_(\w+), (?:__HIP_MEMORY_SCOPE_)?(\w+|\"\")\)"
            instructions[name] = [
                f"{_HIP_OPS.get(op, op)}.{sem.lower()}.{_HIP_SCOPES[scope]}"
                for op, sem, scope in re.findall(words + order, body)
            ]
    return instructions
