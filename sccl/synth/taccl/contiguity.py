"""Step 3, contiguity: which neighbours in the order of a link go together, in exact times.

TACCL (NSDI 2023), appendix B.3, equations 16 to 21: chunks that go together start together, take
one alpha and the sum of the betas, and arrive together. Others go one after the other, in the order
of step 2. There a variable stands for each pair of chunks on a link. Here one for each chunk but
the first states whether it goes with the one before it, and a number counts them: as many variables
as chunks, and no constant larger than the horizon.
"""

from __future__ import annotations

from collections.abc import Sequence

from sccl.solvers import cpsat
from sccl.solvers.cpsat import CpModel, IntervalVar, IntVar
from sccl.solvers.effort import Effort
from sccl.synth.intervals.posed import Posed
from sccl.synth.intervals.ways import Hop
from sccl.synth.taccl.batches import Batch, BatchCosts

MOST = 8_000
"""Chunks on ways that a model is made of."""

STRATEGY = cpsat.Strategy(conflicts=4000)

_Key = tuple[int, int]


def contiguous(
    posed: Posed, batches: Sequence[Batch], least: int, effort: Effort
) -> tuple[tuple[Batch, ...], float]:
    """Return chunks in the order that they have on their ways, in batches where that is faster.

    Args:
        batches: a schedule: its order, and the start of the model.
        least: lower bound on its time, units.

    Returns:
        The schedule, which is the given one if no better one was found, and the effort spent.

    Raises:
        KeyboardInterrupt: the user interrupted.
    """
    if sum(len(b.chunks) for b in batches) > MOST:
        return tuple(batches), 0.0
    model = _Contiguity(posed, batches, least)
    found = cpsat.solve(model.model, effort, STRATEGY)
    if not found.found:
        return tuple(batches), found.units
    return model.read(found), found.units


class _Contiguity:
    """The model."""

    def __init__(self, posed: Posed, batches: Sequence[Batch], least: int) -> None:
        self.posed, self.costs, self.model = posed, BatchCosts(posed), CpModel()
        self.horizon = self.costs.finish(batches)
        self.start: dict[_Key, IntVar] = {}
        self.arrive: dict[_Key, IntVar] = {}
        self.with_before: dict[_Key, IntVar] = {}
        self.many: dict[_Key, IntVar] = {}
        self.last: dict[_Key, IntVar] = {}
        self.order: dict[int, list[int]] = {}
        self._begin(batches)
        for way, chunks in sorted(self.order.items()):
            self._along(way, chunks)
        self._after_one_another()
        self._share()
        finish = self.model.new_int_var(least, self.horizon, "")
        self.model.add_max_equality(finish, list(self.arrive.values()))
        self.model.minimize(finish)

    def _begin(self, batches: Sequence[Batch]) -> None:
        """Add chunks in the order of their ways, and a schedule to begin from."""
        model = self.model
        for batch in sorted(batches, key=lambda b: (b.start, b.way)):
            arrives = self.costs.arrives(batch)
            for place, chunk in enumerate(batch.chunks):
                key = (chunk, batch.way)
                self.order.setdefault(batch.way, []).append(chunk)
                self.start[key] = model.new_int_var(0, self.horizon, "")
                self.arrive[key] = model.new_int_var(0, self.horizon, "")
                self.with_before[key] = model.new_bool_var("")
                model.add_hint(self.start[key], batch.start)
                model.add_hint(self.arrive[key], arrives)
                model.add_hint(self.with_before[key], place > 0)

    def _along(self, way: int, chunks: list[int]) -> None:
        """Let chunks of a way go one after the other, or together."""
        model, alone = self.model, self.costs.cost(way, 1)
        joins = self.costs.joins[way]
        more = self.costs.more(way) if joins else 0
        busy = max(hop.busy for hop in self.posed.hops[way])
        for place, chunk in enumerate(chunks):
            key = (chunk, way)
            merged = self.with_before[key]
            # of those that it goes with, how many are before it
            many = self.many[key] = model.new_int_var(0, place if joins else 0, "")
            if not place or not joins:
                model.add(merged == 0)
            model.add(many == 0).only_enforce_if(~merged)
            if place:
                before = (chunks[place - 1], way)
                model.add(many == self.many[before] + 1).only_enforce_if(merged)
                model.add(self.start[key] == self.start[before]).only_enforce_if(merged)
                model.add(self.arrive[key] == self.arrive[before]).only_enforce_if(merged)
                free = self.start[before] + busy + more * self.many[before]
                model.add(self.start[key] >= free).only_enforce_if(~merged)
            last = self.last[key] = model.new_bool_var("")  # of those that go together
            if place + 1 < len(chunks):
                model.add(last == 1 - self.with_before[chunks[place + 1], way])
            else:
                model.add(last == 1)
            long = self.start[key] + alone + more * many
            model.add(self.arrive[key] == long).only_enforce_if(last)

    def _after_one_another(self) -> None:
        """Let a chunk leave a rank once it has come there."""
        posed = self.posed
        comes = {(chunk, posed.dst[way]): self.arrive[chunk, way] for chunk, way in self.start}
        for (chunk, way), start in self.start.items():
            if (chunk, posed.src[way]) in comes:
                self.model.add(start >= comes[chunk, posed.src[way]])

    def _share(self) -> None:
        """Add the use of resources shared by several ways: the last of a batch holds them."""
        posed, model, rows = self.posed, self.model, dict[int, list[tuple[Hop, _Key]]]()
        for key in self.start:
            for hop in posed.hops[key[1]]:
                rows.setdefault(hop.thing, []).append((hop, key))
        for thing, own in sorted(rows.items()):
            if len({way for _, (_, way) in own}) == 1:
                continue  # ordered along the way
            held = [self._over(hop, key) for hop, key in own]
            if posed.room[thing] == 1:
                model.add_no_overlap(held)
            else:
                model.add_cumulative(held, [hop.weight for hop, _ in own], posed.room[thing])

    def _over(self, hop: Hop, key: _Key) -> IntervalVar:
        """Return when a transfer holds something."""
        model, begin = self.model, self.start[key] + hop.offset
        if not self.costs.joins[key[1]]:
            return model.new_fixed_size_interval_var(begin, hop.busy, "")
        more = self.costs.more(key[1])
        size = model.new_int_var(hop.busy, hop.busy + more * len(self.order[key[1]]), "")
        model.add(size == hop.busy + more * self.many[key])
        end = model.new_int_var(0, 2 * self.horizon, "")
        model.add(end == begin + size)
        return model.new_optional_interval_var(begin, size, end, self.last[key], "")

    def read(self, found: cpsat.Result) -> tuple[Batch, ...]:
        """Return the batches of a solution."""
        batches = []
        for way, chunks in self.order.items():
            together: list[int] = []
            for chunk in chunks:
                if together and not found.value(self.with_before[chunk, way]):
                    batches.append(self._batch(found, way, together))
                    together = []
                together.append(chunk)
            batches.append(self._batch(found, way, together))
        return tuple(sorted(batches, key=lambda b: (b.start, b.way, b.chunks)))

    def _batch(self, found: cpsat.Result, way: int, chunks: list[int]) -> Batch:
        return Batch(found.value(self.start[chunks[0], way]), way, tuple(sorted(chunks)))
