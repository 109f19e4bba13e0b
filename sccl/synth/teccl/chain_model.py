"""The continuous-time model of allreduce as chains: two intervals for each chunk and way.

One is present if a partial result goes that way to be reduced, the other if the result is copied
over it. Every rank but the root, of which each chunk has one, sends its partial result once, after
all contributions that it reduces have come, and gets the result once. So the reductions are a tree
into the root, and the copies one out of it: around a cycle each would wait for itself.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sccl.solvers import cpsat
from sccl.solvers.cpsat import IntervalVar, IntVar
from sccl.solvers.effort import Effort
from sccl.synth.intervals.model import Action, Improved, IntervalModel
from sccl.synth.intervals.posed import ChunkSend, Posed
from sccl.synth.teccl.chains import ChainSend, is_reduced


class ChainModel(IntervalModel):
    """The model. The base class handles chunks, and here their copies."""

    def __init__(
        self,
        posed: Posed,
        action: Action,
        horizon: int,
        known: Sequence[ChunkSend] = (),
        free: Collection[int] | None = None,
    ) -> None:
        """Make it, without an objective.

        Args:
            posed: an allgather of the chunks; who holds a chunk there may be its root, or not.
            horizon: units by which all has arrived.
            known: sends of first chunks, as the base takes them.
            free: first chunks that are scheduled. None: all.
        """
        self._reduced: dict[tuple[int, int], IntVar] = {}
        self._begins: dict[tuple[int, int], IntVar] = {}
        self._root: dict[tuple[int, int], IntVar] = {}
        far = posed.soonest[: posed.ranks]  # rank r holds chunk r
        self._before = far.max(axis=0).tolist()
        self._after = far.max(axis=1).tolist()
        super().__init__(posed, action, horizon, known, free)

    def _wanted(self) -> list[tuple[int, IntVar]]:
        """Return when results arrive: everybody wants all of them."""
        return [(0, at) for at in self.arrive.values()]

    def _route(self, chunk: int) -> None:
        """Add a chunk: its root, over which ways it goes to it and from it, and when.

        No rank has the result before the last contribution can have come there, and from when a
        partial result has come to a rank on, it takes as long as from there to the farthest.
        """
        posed, model, horizon = self.posed, self.model, self.horizon
        complete: dict[int, IntVar] = {}
        for rank in range(posed.ranks):
            before, after = self._before[rank], self._after[rank]
            root = self._root[chunk, rank] = model.new_bool_var("")
            complete[rank] = model.new_int_var(0, max(0, horizon - after), "")
            have = model.new_int_var(min(before, horizon), horizon, "")
            self.arrive[chunk, rank] = have
            if before + after > horizon:
                model.add(root == 0)
            model.add(have >= complete[rank])
        model.add_exactly_one([self._root[chunk, rank] for rank in range(posed.ranks)])
        for way in range(len(posed.src)):
            self._reduce(chunk, way, complete)
            self._copy(chunk, way)
        for rank in range(posed.ranks):
            out = [self._reduced.get((chunk, way)) for way in posed.out[rank]]
            into = [self.x.get((chunk, way)) for way in posed.into[rank]]
            for ways in (out, into):
                model.add_exactly_one(
                    [self._root[chunk, rank], *(x for x in ways if x is not None)]
                )

    def _reduce(self, chunk: int, way: int, complete: dict[int, IntVar]) -> None:
        posed, model = self.posed, self.model
        src, dst, cost = posed.src[way], posed.dst[way], posed.cost[way]
        latest = self.horizon - self._after[dst] - cost
        if latest < 0:
            return
        x = self._reduced[chunk, way] = model.new_bool_var("")
        start = self._begins[chunk, way] = model.new_int_var(0, latest, "")
        model.add(start >= complete[src]).only_enforce_if(x)
        model.add(complete[dst] >= start + cost).only_enforce_if(x)

    def _copy(self, chunk: int, way: int) -> None:
        posed, model = self.posed, self.model
        src, dst, cost = posed.src[way], posed.dst[way], posed.cost[way]
        soonest = self._before[src]
        if soonest + cost > self.horizon:
            return
        x = self.x[chunk, way] = model.new_bool_var("")
        start = self.start[chunk, way] = model.new_int_var(soonest, self.horizon - cost, "")
        model.add(start >= self.arrive[chunk, src]).only_enforce_if(x)
        model.add(self.arrive[chunk, dst] >= start + cost).only_enforce_if(x)

    def _held(self) -> dict[int, list[tuple[IntervalVar, int]]]:
        """Return the uses of each resource: by copies, and by reductions, each separately."""
        held, posed = super()._held(), self.posed
        for (chunk, way), x in self._reduced.items():
            start = self._begins[chunk, way]
            own = [
                self.model.new_optional_fixed_size_interval_var(start + h.offset, h.busy, x, "")
                for h in posed.hops[way]
            ]
            for ways in self.action.ways:
                for interval, hop in zip(own, posed.hops[ways[way]], strict=True):
                    if hop.thing in held:
                        held[hop.thing].append((interval, hop.weight))
        return held

    def _hint(self, sends: Sequence[ChunkSend]) -> None:
        if not sends:
            return
        copied = {(s.chunk, s.way): s.start for s in sends if not is_reduced(s)}
        reduced = {(s.chunk, s.way): s.start for s in sends if is_reduced(s)}
        posed, model = self.posed, self.model
        complete = dict.fromkeys(self._root, 0)
        for (chunk, way), start in reduced.items():
            there = (chunk, posed.dst[way])
            complete[there] = max(complete[there], start + posed.cost[way])
        have = {(c, posed.dst[way]): at + posed.cost[way] for (c, way), at in copied.items()}
        for here, root in self._root.items():
            model.add_hint(root, here not in have)
            model.add_hint(self.arrive[here], have.get(here, complete[here]))
        for at, xs, starts in (
            (copied, self.x, self.start),
            (reduced, self._reduced, self._begins),
        ):
            for key, x in xs.items():
                model.add_hint(x, key in at)
                if key in at:
                    model.add_hint(starts[key], at[key])

    def solved(self, effort: Effort, strategy: cpsat.Strategy) -> Improved:
        """Return CP-SAT's result.

        Raises:
            KeyboardInterrupt: the user interrupted.
        """
        result = cpsat.solve(self.model, effort, strategy)
        if not result.found:
            return Improved(None, result.refuted, optimal=False, units=result.units)
        taken = [
            ChainSend(result.value(starts[key]), *key, reduce)
            for xs, starts, reduce in (
                (self._reduced, self._begins, True),
                (self.x, self.start, False),
            )
            for key, x in xs.items()
            if result.value(x)
        ]
        return Improved(
            (*self._fixed, *taken), refuted=False, optimal=result.optimal, units=result.units
        )
