"""Finds options of a collective: recipes that are made, judged, and carried over channels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

from sccl.core.dtypes import ITEM_BYTES
from sccl.core.fabric import Fabric
from sccl.core.motif import Motif
from sccl.core.training_plan import Option
from sccl.core.workload_ops import CommOp
from sccl.errors import InputError, ParameterError
from sccl.motif import MERGE, joined, motifs_of, recipe_of, whole
from sccl.train.carriers import CARRIERS
from sccl.train.costs import MotifCost, MotifCosts, MotifPlanner
from sccl.train.offers import Offer
from sccl.train.recipes import lanes_for, ranks_of_node, recipes_for
from sccl.train.tables import BESIDE, CostTable

Carry = Callable[[Motif], tuple[int, str, MotifCost]]
"""Return a motif's channel, its carrier, and its cost."""

_LEAST_LAUNCHES = 4
"""A part of a collective takes at least this multiple of its launch time, or it is not divided."""

_MOST_PLANNED = 16
"""Ranks of a machine for which schedules are planned."""

_ANY = frozenset(carrier.name for carrier in CARRIERS)

_ANY_TIME = 10**15
"""Nanoseconds that stand for a collective that no channel carries whole. It may be divided
freely.
"""

_NONE = "none"
"""Name of the carrier if collectives have different carriers, or none."""

_MOST_CHANNELS_MIXED = 8
"""Ways to give phases of a recipe to channels."""


@dataclass(frozen=True, slots=True)
class OptionSettings:
    """Settings of options.

    Attributes:
        max_motifs: Largest number of motifs of a recipe.
        most: Largest number of options of a collective.
        bitwise: Whether only options with the default order of reduction are kept.
        recipes: Recipes to try. None: chosen by collective.
        planner: Planner of schedules for small machines with links between ranks. None: none.
        measured: Measured times instead of modelled ones.
        beside: Whether this planner also offers options on remainders of a channel.
    """

    max_motifs: int = 16
    most: int = 12
    bitwise: bool = False
    recipes: tuple[str, ...] | None = None
    planner: MotifPlanner | None = None
    measured: CostTable | None = None
    beside: bool = True


@dataclass
class OptionFinder:
    """Derives the options of collectives, one after another.

    Attributes:
        costs: Costs computed so far.
        refused: For each collective, by id: refused recipes with reasons.
    """

    fabric: Fabric
    asked: OptionSettings
    costs: MotifCosts = field(init=False)
    refused: dict[str, dict[str, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.costs = MotifCosts(self.fabric, self.asked.measured)

    def found(self, op: CommOp) -> list[Offer]:
        """Return all options of a collective, the default first.

        Raises:
            InputError: there is none, or its group is outside.
        """
        if (last := max(op.members)) >= self.fabric.ranks:
            raise ParameterError(
                f"operation {op.id!r}: rank {last} is in its group, and fabric "
                f"{self.fabric.name!r} has {self.fabric.ranks} ranks, 0 to {self.fabric.ranks - 1}:"
                " give a larger fabric"
            )
        motif = motif_of(op)
        if motif is None:
            return [self._nothing(op)]
        every, refused = self._tried(op, motif)
        if not every:
            told = "; ".join(f"{recipe}: {why}" for recipe, why in refused.items())
            raise ParameterError(
                f"operation {op.id!r}, {op.collective} of {len(op.group)} ranks, has no option: "
                f"{told}"
            )
        self.refused[op.id] = refused
        return every

    def carried_by(self, op: CommOp, recipe: str, carry: Carry) -> Offer | None:
        """Return an option of a recipe, carried as is told. None: none is to be offered.

        Raises:
            InputError: it is refused, or a motif cannot be carried so.
        """
        motif = motif_of(op)
        if motif is None:
            return None
        motifs = self._made(op, recipe)
        parts = tuple(map(carry, motifs))
        default = self._default(op, motif, {})
        carriers = [carrier.partition(BESIDE)[0] for _, carrier, _ in parts]
        bitwise = _same_order(op, recipe, motifs, carriers, default)
        if self.asked.bitwise and not bitwise:
            return None
        return Offer(recipe, parts, tuple(one.after for one in motifs), bitwise, sure=True)

    def keeps_order(self, op: CommOp, option: Option) -> bool:
        """Return whether an option reduces in the order in which its collective does as it is.

        Raises:
            InputError: its recipe is refused.
        """
        motif = motif_of(op)
        if motif is None:
            return True
        motifs = self._made(op, option.recipe)
        carriers = [one.carrier.partition(BESIDE)[0] for one in option.motifs]
        default = self._default(op, motif, {})
        return _same_order(op, option.recipe, motifs, carriers, default)

    @staticmethod
    def _made(op: CommOp, recipe: str) -> tuple[Motif, ...]:
        """Return the motifs of a recipe for a collective that moves data.

        Raises:
            InputError: The recipe is refused.
        """
        wholes = wholes_of(op)
        assert wholes is not None
        return motifs_of(wholes, recipe_of(recipe), ITEM_BYTES[op.dtype])

    def _nothing(self, op: CommOp) -> Offer:
        """Return the option of a collective that moves nothing: its launch."""
        cost = self.costs.nothing(op.members, 0)
        return Offer("whole", ((0, CARRIERS[0].name, cost),), ((),), bitwise=True)

    def _tried(self, op: CommOp, motif: Motif) -> tuple[list[Offer], dict[str, str]]:
        """Return all options, the default first, and why recipes were refused."""
        made, refused = list[Offer](), dict[str, str]()
        default = self._default(op, motif, refused)
        for recipe in self._recipes(op, motif, refused):
            try:
                made += self._of_recipe(op, recipe, default)
            except InputError as error:
                refused[recipe] = str(error)
        if default == _NONE and not op.merged:
            made.sort(key=lambda one: one.ns)
        return made, refused

    def _default(self, op: CommOp, motif: Motif, refused: dict[str, str]) -> str:
        """Return the fastest carrier of the whole on the first channel that joins its ranks.

        If there is none, parts of it may still have carriers, but none is the default. Merged
        collectives have a common carrier, if it is the same for each of them.
        """
        if op.merged:
            each = {
                self._default(one, own, refused)
                for one in op.merged
                if (own := motif_of(one)) is not None
            }
            return each.pop() if len(each) == 1 else _NONE
        for number, channel in enumerate(self.fabric.channels):
            try:
                return self._fastest(motif, number, op)[0]
            except InputError as error:
                refused[f"whole on {channel.name}"] = str(error)
        return _NONE

    def _recipes(self, op: CommOp, motif: Motif, refused: dict[str, str]) -> list[str]:
        """Return the recipes that are tried; of others it is said why they are not."""
        first = MERGE if op.merged else ""
        if self.asked.recipes is not None:
            return [_after(first, recipe) for recipe in self.asked.recipes]
        machines = [channel.topology for channel in self.fabric.channels]
        node = ranks_of_node(op.groups, machines)
        took = {}
        for number, channel in enumerate(self.fabric.channels):
            try:
                took[channel.name] = self._fastest(motif, number, op)[1].ns
            except InputError:
                continue
        least = min(took.values(), default=_ANY_TIME)
        launch = min(channel.launch_us for channel in self.fabric.channels) * 1000
        rules = list(recipes_for(motif, node))
        levels = f"levels({node})"
        every = [*rules, *lanes_for(took, levels if levels in rules else "")]
        tried = []
        for recipe in every:
            count = _pieces(recipe)
            if count == 1 or least >= _LEAST_LAUNCHES * launch * count:
                tried.append(_after(first, recipe))
            else:
                refused[_after(first, recipe)] = (
                    f"it divides {least / 1000:.4g} us into {count}, and launching each takes "
                    f"{launch / 1000:.4g}: expected {_LEAST_LAUNCHES} times as much of each"
                )
        return tried

    def _of_recipe(self, op: CommOp, text: str, default: str) -> list[Offer]:
        """Return a recipe's options: on each channel by each carrier, and phases mixed.

        Raises:
            InputError: it is refused.
        """
        motifs = self._made(op, text)
        if len(motifs) > self.asked.max_motifs:
            raise ParameterError(
                f"it makes {len(motifs)} motifs, expected {self.asked.max_motifs} at the most"
            )
        found: dict[tuple[object, ...], Offer] = {}
        error: InputError | None = None
        after = tuple(one.after for one in motifs)
        for channels in self._channels(motifs):
            for wanted in self._carriers(channels):
                try:
                    parts = tuple(
                        (number, *self._carried(one, number, op, wanted))
                        for one, number in zip(motifs, channels, strict=True)
                    )
                except InputError as refused:
                    error = refused
                    continue
                bitwise = _same_order(op, text, motifs, [p[1] for p in parts], default)
                if bitwise or not self.asked.bitwise:
                    key = tuple((number, id(cost)) for number, _, cost in parts)
                    found.setdefault(key, Offer(str(recipe_of(text)), parts, after, bitwise))
        if not found:
            raise error or ParameterError("it reduces in another order than the whole")
        return list(found.values())

    def _carriers(self, channels: Sequence[int]) -> list[str | None]:
        """Return possible carriers of motifs. None: the fastest for each."""
        if len(set(channels)) > 1:
            return [None]
        names: list[str | None] = [None, *(carrier.name for carrier in CARRIERS)]
        if self.asked.planner is not None and self.plans(channels[0]):
            names.append(self.asked.planner.name)
        return names

    def plans(self, channel: int) -> bool:
        """Return whether schedules are planned on a channel: few ranks, which links join."""
        machine = self.fabric.channels[channel].topology
        return machine.ranks <= _MOST_PLANNED and any(
            max(link.edge) < machine.ranks for link in machine.links
        )

    def _channels(self, motifs: Sequence[Motif]) -> list[tuple[int, ...]]:
        """Return which channels motifs may take: all one, or each phase one of its own."""
        names = [channel.name for channel in self.fabric.channels]
        for motif in motifs:
            if motif.channel:
                self.fabric.channel(motif.channel)
        phases = list(dict.fromkeys(_phase(motif) for motif in motifs))
        free = [phase for phase in phases if not phase[0]]
        ways = list(product(range(len(names)), repeat=len(free)))
        if len(ways) > _MOST_CHANNELS_MIXED:
            ways = [way for way in ways if len(set(way)) == 1]
        found = []
        for way in ways:
            of = dict(zip(free, way, strict=True))
            found.append(
                tuple(names.index(m.channel) if m.channel else of[_phase(m)] for m in motifs)
            )
        return found

    def _carried(
        self, motif: Motif, channel: int, op: CommOp, wanted: str | None
    ) -> tuple[str, MotifCost]:
        """Return the carrier of a motif: the requested one, if it supports its collective."""
        planner = self.asked.planner
        if planner is not None and wanted == planner.name:
            size = ITEM_BYTES[op.dtype]
            return planner.name, self.costs.planned(motif, channel, planner.plan, size)
        names = {carrier.name for carrier in CARRIERS if motif.collective in carrier.of}
        return self._fastest(motif, channel, op, {wanted} & names or names)

    def _fastest(
        self, motif: Motif, channel: int, op: CommOp, among: Iterable[str | None] = _ANY
    ) -> tuple[str, MotifCost]:
        rows, refused = list[tuple[str, MotifCost]](), list[InputError]()
        for one in CARRIERS:
            if motif.collective in one.of and one.name in among:
                try:
                    cost = self.costs.of(motif, channel, one, ITEM_BYTES[op.dtype])
                except InputError as error:
                    refused.append(error)
                else:
                    rows.append((one.name, cost))
        if not rows:
            raise refused[0]
        return min(rows, key=lambda row: row[1].ns)


def motif_of(op: CommOp) -> Motif | None:
    """Return a collective as one motif, of all of its groups. None: it moves nothing."""
    wholes = wholes_of(op)
    return joined(wholes) if isinstance(wholes, tuple) else wholes


def wholes_of(op: CommOp) -> Motif | tuple[Motif, ...] | None:
    """Return a collective as one motif, or those that it stands for. None: nothing moves."""
    if op.merged:
        several = tuple(one for one in map(motif_of, op.merged) if one is not None)
        return several or None
    places = len(op.group)
    if places < 2 or not op.count:
        return None
    if op.splits and not any(
        size for k, row in enumerate(op.splits) for j, size in enumerate(row) if j != k
    ):
        return None
    root = None if op.root is None else op.group.index(op.root)
    each = [
        whole(op.collective, group, op.count, None if root is None else group[root], op.splits)
        for group in op.groups
    ]
    return replace(each[0], shares=tuple(one.shares[0] for one in each))


def _after(first: str, recipe: str) -> str:
    """Return a recipe that begins with some rule, if there is one."""
    if not first:
        return recipe
    return first if recipe == "whole" else f"{first}.{recipe}"


def _phase(motif: Motif) -> tuple[object, ...]:
    """Return a key that is equal for motifs of one phase, which share a channel."""
    if motif.channel:
        return (motif.channel,)
    return ("", motif.collective, tuple(share.group for share in motif.shares))


def _pieces(recipe: str) -> int:
    """Return into how many parts, one beside the other, a recipe cuts."""
    found = 1
    for term in recipe_of(recipe).terms:
        if term.name in {"seg", "spline", "sources"}:
            found *= term.numbers[0][0]
        elif term.name == "lanes":
            found *= len(term.channels)
    return found


_KEEPS_ORDER = frozenset({"seg", "spline", "sources", "lanes", MERGE})


def _same_order(
    op: CommOp, text: str, motifs: Sequence[Motif], carriers: Iterable[str], default: str
) -> bool:
    """Return whether a recipe reduces in the order in which the default does, to the last bit.

    Directly, and along a tree, each element is reduced in one order wherever it lies; around a ring
    it begins with another rank for each part.
    """
    names = {carrier for carrier, one in zip(carriers, motifs, strict=True) if one.combines}
    if not names or op.reduce in {"bitwise", "max", "min"}:
        return True
    terms = {term.name for term in recipe_of(text).terms}
    if not terms:
        return names == {default}
    allowed = _KEEPS_ORDER | ({"ring", "sag"} if default == "direct" else set())
    return names == {default} and default != "ring" and terms <= allowed
