"""Enumerate options of a collective: recipes on channels, with carriers and costs.

The recipes depend on the kind of the collective and on the nodes of its ranks. The motifs of a
recipe are verified before costs are computed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import combinations, groupby, product
from typing import TypeVar

from sccl.core.sizes import ITEM_BYTES
from sccl.core.topology import Topology
from sccl.errors import InputError, ParameterError
from sccl.training.motifs import (
    MERGE,
    apply_recipe,
    build_collective_motif,
    merge_collectives,
    parse_recipe,
)
from sccl.training.motifs.extents import execution_work
from sccl.training.options.candidate_options import CandidateOption
from sccl.training.options.carriers import CARRIERS
from sccl.training.options.measured_costs import COMPLEMENT_SEPARATOR, CostTable
from sccl.training.options.motif_costs import MotifCost, MotifCosts, MotifPlanner
from sccl.training.types.fabric import Fabric
from sccl.training.types.motif import Motif
from sccl.training.types.training_plan import Option
from sccl.training.types.workload_ops import CommOp

CandidateT = TypeVar("CandidateT")

CarryFunction = Callable[[Motif], tuple[int, str, MotifCost]]
"""Function from a motif to its channel, its carrier, and its cost."""

_MIN_LAUNCHES = 4
"""A collective is divided only if each part takes at least this multiple of its launch time."""

_MAX_PLANNED_RANKS = 16
"""Largest number of ranks of a machine for which a synthesizer plans schedules."""

_CARRIER_NAMES = frozenset(carrier.name for carrier in CARRIERS)

_UNLIMITED_NS = 10**15
"""Duration in nanoseconds of a collective that no channel carries whole. It may be divided
freely."""

_NO_RECIPE = "none"
"""Name of the carrier if collectives have different carriers, or none."""

_MAX_MIXED_CHANNELS = 8
"""Largest number of assignments of phases to channels. Above it, all phases share a channel."""


@dataclass(frozen=True, slots=True)
class OptionSettings:
    """Settings of options.

    Attributes:
        max_motifs: Largest number of motifs of a recipe.
        max_options: Largest number of options of a collective.
        bitwise: Whether only options with the default order of reduction are kept.
        recipes: Recipes to try. None: chosen by collective.
        planner: Planner of schedules for small machines with links between ranks. None: none.
        measured: Measured times instead of modeled ones.
        complementary: Whether this planner also offers options on remainders of a channel.
    """

    max_motifs: int = 16
    max_options: int = 12
    bitwise: bool = False
    recipes: tuple[str, ...] | None = None
    planner: MotifPlanner | None = None
    measured: CostTable | None = None
    complementary: bool = True


@dataclass
class OptionEnumerator:
    """Derives the options of collectives, one after another.

    Attributes:
        costs: Costs computed so far.
        refused: Refused recipes with reasons, for each collective by id.
    """

    fabric: Fabric
    settings: OptionSettings
    costs: MotifCosts = field(init=False)
    refused: dict[str, dict[str, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.costs = MotifCosts(self.fabric, self.settings.measured)

    def enumerate_options(self, op: CommOp) -> list[CandidateOption]:
        """Return all options of a collective, the default first.

        Raises:
            InputError: There is no option, or the group has ranks outside the fabric.
        """
        if (last := max(op.members)) >= self.fabric.ranks:
            raise ParameterError(
                f"operation {op.id!r}: rank {last} is in its group, and fabric "
                f"{self.fabric.name!r} has {self.fabric.ranks} ranks, 0 to {self.fabric.ranks - 1}:"
                " give a larger fabric"
            )
        motif = motif_of(op)
        if motif is None:
            return [self._launch_only_candidate(op)]
        offers, refused = self._try_recipes(op, motif)
        if not offers:
            reasons = "; ".join(f"{recipe}: {why}" for recipe, why in refused.items())
            raise ParameterError(
                f"operation {op.id!r}, {op.collective} of {len(op.group)} ranks, has no option: "
                f"{reasons}"
            )
        self.refused[op.id] = refused
        return offers

    def carry_recipe(self, op: CommOp, recipe: str, carry: CarryFunction) -> CandidateOption | None:
        """Return the option of a recipe whose motifs are carried by a function.

        Returns:
            Option. None: nothing moves, or the option does not keep a required order of reduction.

        Raises:
            InputError: The recipe is refused, or a motif cannot be carried.
        """
        motif = motif_of(op)
        if motif is None:
            return None
        motifs = self._apply_recipe(op, recipe)
        parts = tuple(map(carry, motifs))
        default = self._default_carrier(op, motif, {})
        carriers = [carrier.partition(COMPLEMENT_SEPARATOR)[0] for _, carrier, _ in parts]
        bitwise = _is_same_order(op, recipe, motifs, carriers, default)
        if self.settings.bitwise and not bitwise:
            return None
        return CandidateOption(
            recipe, parts, tuple(piece.after for piece in motifs), bitwise, is_protected=True
        )

    def keeps_reduction_order(self, op: CommOp, option: Option) -> bool:
        """Return whether an option keeps the order of reduction of the unsplit collective.

        Raises:
            InputError: The recipe is refused.
        """
        motif = motif_of(op)
        if motif is None:
            return True
        motifs = self._apply_recipe(op, option.recipe)
        carriers = [piece.carrier.partition(COMPLEMENT_SEPARATOR)[0] for piece in option.motifs]
        default = self._default_carrier(op, motif, {})
        return _is_same_order(op, option.recipe, motifs, carriers, default)

    @staticmethod
    def _apply_recipe(op: CommOp, recipe: str) -> tuple[Motif, ...]:
        """Return the motifs of a recipe for a collective that moves data.

        Raises:
            InputError: The recipe is refused.
        """
        wholes = original_motifs(op)
        assert wholes is not None
        return apply_recipe(wholes, parse_recipe(recipe), ITEM_BYTES[op.dtype])

    def _launch_only_candidate(self, op: CommOp) -> CandidateOption:
        """Return the option of a collective that moves nothing, with only a launch."""
        cost = self.costs.launch_cost(op.members, 0)
        return CandidateOption("whole", ((0, CARRIERS[0].name, cost),), ((),), bitwise=True)

    def _try_recipes(
        self, op: CommOp, motif: Motif
    ) -> tuple[list[CandidateOption], dict[str, str]]:
        """Return all options, the default first, and the reasons for refused recipes."""
        made, refused = list[CandidateOption](), dict[str, str]()
        default = self._default_carrier(op, motif, refused)
        for recipe in self._recipes_to_try(op, motif, refused):
            try:
                made += self._recipe_candidates(op, recipe, default)
            except InputError as error:
                refused[recipe] = str(error)
        if default == _NO_RECIPE and not op.merged:
            made.sort(key=lambda offer: offer.ns)
        return made, refused

    def _default_carrier(self, op: CommOp, motif: Motif, refused: dict[str, str]) -> str:
        """Return the fastest carrier of the unsplit collective on the first channel that joins it.

        If no channel joins all ranks, parts may still have carriers, but there is no default. A
        merged collective has a default only if it is the same for all its members.
        """
        if op.merged:
            each = {
                self._default_carrier(member, member_motif, refused)
                for member in op.merged
                if (member_motif := motif_of(member)) is not None
            }
            return each.pop() if len(each) == 1 else _NO_RECIPE
        for number, channel in enumerate(self.fabric.channels):
            try:
                return self._fastest_carrier(motif, number, op)[0]
            except InputError as error:
                refused[f"whole on {channel.name}"] = str(error)
        return _NO_RECIPE

    def _recipes_to_try(self, op: CommOp, motif: Motif, refused: dict[str, str]) -> list[str]:
        """Return the recipes to try, and add the others with reasons to ``refused``."""
        first = MERGE if op.merged else ""
        if self.settings.recipes is not None:
            return [_recipe_starting_with(first, recipe) for recipe in self.settings.recipes]
        machines = [channel.topology for channel in self.fabric.channels]
        node = node_level_sizes(op.groups, machines)
        took = {}
        for number, channel in enumerate(self.fabric.channels):
            try:
                took[channel.name] = self._fastest_carrier(motif, number, op)[1].ns
            except InputError:
                continue
        best_ns = min(took.values(), default=_UNLIMITED_NS)
        launch = min(channel.launch_us for channel in self.fabric.channels) * 1000
        rules = list(candidate_recipes(motif, node))
        levels = f"levels({node})"
        all_recipes = [*rules, *lane_recipes(took, levels if levels in rules else "")]
        tried = []
        for recipe in all_recipes:
            count = _parallel_part_count(recipe)
            if count == 1 or best_ns >= _MIN_LAUNCHES * launch * count:
                tried.append(_recipe_starting_with(first, recipe))
            else:
                refused[_recipe_starting_with(first, recipe)] = (
                    f"it divides {best_ns / 1000:.4g} us into {count}, and launching each takes "
                    f"{launch / 1000:.4g}: expected {_MIN_LAUNCHES} times as much of each"
                )
        return tried

    def _recipe_candidates(self, op: CommOp, text: str, default: str) -> list[CandidateOption]:
        """Return the options of a recipe: each carrier on each channel, and mixed phases.

        Raises:
            InputError: The recipe is refused.
        """
        motifs = self._apply_recipe(op, text)
        if len(motifs) > self.settings.max_motifs:
            raise ParameterError(
                f"it makes {len(motifs)} motifs, expected {self.settings.max_motifs} at the most"
            )
        offers: dict[tuple[object, ...], CandidateOption] = {}
        error: InputError | None = None
        after = tuple(motif.after for motif in motifs)
        for channels in self._channel_choices(motifs):
            for wanted in self._carrier_choices(channels):
                try:
                    parts = tuple(
                        (number, *self._carry_motif(motif, number, op, wanted))
                        for motif, number in zip(motifs, channels, strict=True)
                    )
                except InputError as refused:
                    error = refused
                    continue
                bitwise = _is_same_order(op, text, motifs, [p[1] for p in parts], default)
                if bitwise or not self.settings.bitwise:
                    key = tuple((number, id(cost)) for number, _, cost in parts)
                    offers.setdefault(
                        key, CandidateOption(str(parse_recipe(text)), parts, after, bitwise)
                    )
        if not offers:
            raise error or ParameterError(
                "its order of reduction differs from that of the unsplit collective"
            )
        return list(offers.values())

    def _carrier_choices(self, channels: Sequence[int]) -> list[str | None]:
        """Return possible carriers of motifs. None: the fastest for each."""
        if len(set(channels)) > 1:
            return [None]
        names: list[str | None] = [None, *(carrier.name for carrier in CARRIERS)]
        if self.settings.planner is not None and self.can_plan(channels[0]):
            names.append(self.settings.planner.name)
        return names

    def can_plan(self, channel: int) -> bool:
        """Return whether a synthesizer plans on a channel: few ranks, with links between them."""
        machine = self.fabric.channels[channel].topology
        return machine.ranks <= _MAX_PLANNED_RANKS and any(
            max(link.edge) < machine.ranks for link in machine.links
        )

    def _channel_choices(self, motifs: Sequence[Motif]) -> list[tuple[int, ...]]:
        """Return assignments of motifs to channels. Motifs of one phase have the same channel."""
        names = [channel.name for channel in self.fabric.channels]
        for motif in motifs:
            if motif.channel:
                self.fabric.channel(motif.channel)
        phases = list(dict.fromkeys(_phase_key(motif) for motif in motifs))
        free = [phase for phase in phases if not phase[0]]
        choices = list(product(range(len(names)), repeat=len(free)))
        if len(choices) > _MAX_MIXED_CHANNELS:
            choices = [choice for choice in choices if len(set(choice)) == 1]
        assignments = []
        for choice in choices:
            of = dict(zip(free, choice, strict=True))
            assignments.append(
                tuple(names.index(m.channel) if m.channel else of[_phase_key(m)] for m in motifs)
            )
        return assignments

    def _carry_motif(
        self, motif: Motif, channel: int, op: CommOp, wanted: str | None
    ) -> tuple[str, MotifCost]:
        """Return the carrier of a motif and its cost.

        It is the requested carrier if this supports the motif's collective, else the fastest one.
        """
        planner = self.settings.planner
        if planner is not None and wanted == planner.name:
            size = ITEM_BYTES[op.dtype]
            return planner.name, self.costs.planned_cost(motif, channel, planner.plan, size)
        names = {carrier.name for carrier in CARRIERS if motif.collective in carrier.collectives}
        return self._fastest_carrier(motif, channel, op, {wanted} & names or names)

    def _fastest_carrier(
        self, motif: Motif, channel: int, op: CommOp, among: Iterable[str | None] = _CARRIER_NAMES
    ) -> tuple[str, MotifCost]:
        carriers = [c for c in CARRIERS if motif.collective in c.collectives and c.name in among]
        size = ITEM_BYTES[op.dtype]
        carrier, cost = fastest(
            carriers, lambda carrier: self.costs.carrier_cost(motif, channel, carrier, size)
        )
        return carrier.name, cost


def fastest(
    candidates: Iterable[CandidateT], cost_of: Callable[[CandidateT], MotifCost]
) -> tuple[CandidateT, MotifCost]:
    """Return the candidate with the shortest duration, and its cost.

    Raises:
        InputError: No candidate has a cost. It has the reason of the first.
    """
    rows, refused = list[tuple[CandidateT, MotifCost]](), list[InputError]()
    for candidate in candidates:
        try:
            rows.append((candidate, cost_of(candidate)))
        except InputError as error:
            refused.append(error)
    if not rows:
        raise refused[0]
    return min(rows, key=lambda row: row[1].ns)


def motif_of(op: CommOp) -> Motif | None:
    """Return a collective, with all its groups, as one motif. None: it moves nothing."""
    wholes = original_motifs(op)
    return merge_collectives(wholes) if isinstance(wholes, tuple) else wholes


def original_motifs(op: CommOp) -> Motif | tuple[Motif, ...] | None:
    """Return the motif of a collective, or of each merged collective. None: nothing moves."""
    if op.merged:
        several = tuple(motif for motif in map(motif_of, op.merged) if motif is not None)
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
        build_collective_motif(
            op.collective, group, op.count, None if root is None else group[root], op.splits
        )
        for group in op.groups
    ]
    return replace(each[0], shares=tuple(motif.shares[0] for motif in each))


def _recipe_starting_with(first: str, recipe: str) -> str:
    """Return a recipe with a rule inserted at its start. Empty rule: the recipe itself."""
    if not first:
        return recipe
    return first if recipe == "whole" else f"{first}.{recipe}"


def _phase_key(motif: Motif) -> tuple[object, ...]:
    """Return a key that is equal for motifs of one phase, which share a channel."""
    if motif.channel:
        return (motif.channel,)
    return ("", motif.collective, tuple(share.group for share in motif.shares))


def _parallel_part_count(recipe: str) -> int:
    """Return the number of parallel parts that a recipe makes."""
    count = 1
    for term in parse_recipe(recipe).terms:
        if term.name in {"seg", "spline", "sources"}:
            count *= term.numbers[0][0]
        elif term.name == "lanes":
            count *= len(term.channels)
    return count


_ORDER_KEEPING_RULES = frozenset({"seg", "spline", "sources", "lanes", MERGE})


def _is_same_order(
    op: CommOp, text: str, motifs: Sequence[Motif], carriers: Iterable[str], default: str
) -> bool:
    """Return whether a recipe reduces in the order of the default, so results are bitwise equal.

    Direct and tree carriers reduce all elements in the same order. A ring starts the reduction of
    each part at another rank.
    """
    names = {carrier for carrier, motif in zip(carriers, motifs, strict=True) if motif.is_combining}
    if not names or op.reduce in {"bitwise", "max", "min"}:
        return True
    terms = {term.name for term in parse_recipe(text).terms}
    if not terms:
        return names == {default}
    allowed = _ORDER_KEEPING_RULES | ({"ring", "sag"} if default == "direct" else set())
    return names == {default} and default != "ring" and terms <= allowed


_MAX_WORK = 2**20
"""Largest cost of executing motifs in verification: a second or two."""

_MAX_SIZES = 200
"""Largest number of characters of group sizes in a recipe."""

_EIGHTHS = 8
"""Denominator of the shares of lanes."""


def candidate_recipes(motif: Motif, node: str) -> Iterator[str]:
    """Yield recipes for a collective as one motif, the preferred ones first.

    Args:
        node: Numbers of consecutive ranks of the group on each node, as parameters of ``levels``.
            Empty: the group has no such structure.
    """
    places, name, work = motif.max_group_size, motif.collective, max(1, execution_work(motif))
    yield "whole"
    if name == "allreduce":
        yield "ring"
    if node and name in {"allgather", "allreduce", "alltoall", "reducescatter"}:
        yield f"levels({node})"
    if node and name == "allreduce":
        yield f"tree({node})"
    if name == "alltoall":
        yield from (f"spline({parts})" for parts in (2, 4, 8) if parts <= places // 2)
    if name in {"broadcast", "reduce"}:
        yield "sag"
    segments = [count for count in (2, 4, 8) if count * work <= _MAX_WORK]
    yield from (f"seg({count})" for count in segments)
    if node and name in {"allgather", "allreduce", "alltoall", "reducescatter"}:
        yield from (f"levels({node}).seg({count})" for count in segments[:2])
    if name in {"broadcast", "gather", "scatter"} and places > 2:
        yield "spline(2)"
    if name in {"allgather", "reducescatter"} and places > 2:
        yield "sources(2)"


def lane_recipes(took: Mapping[str, int], levels: str = "") -> Iterator[str]:
    """Yield recipes that divide a collective over two channels, in proportion to their speed.

    Shares are multiples of an eighth around the proportional one, and a simple fraction near it.

    Args:
        took: Duration of the whole collective on each channel in nanoseconds, by channel name.
        levels: Rule that also splits the lanes of the first division. Empty: none.
    """
    for channel, peer in combinations(took, 2):
        part = Fraction(took[peer], took[channel] + took[peer])
        middle = min(max(round(part * _EIGHTHS), 1), _EIGHTHS - 1)
        near = part.limit_denominator(_EIGHTHS)
        first = near if 0 < near < 1 else Fraction(middle, _EIGHTHS)
        around = [Fraction(k, _EIGHTHS) for k in (middle, middle + 1, middle - 1)]
        for one_part in dict.fromkeys((first, *around)):
            if 0 < one_part < 1:
                weights = one_part / (1 - one_part)
                lanes = f"lanes({channel}:{weights.numerator}, {peer}:{weights.denominator})"
                yield lanes
                if levels and one_part == first:
                    yield f"{lanes}.{levels}"


def node_level_sizes(groups: Iterable[Sequence[int]], machines: Iterable[Topology]) -> str:
    """Return the number of consecutive ranks of groups on each node, in the notation of levels.

    Args:
        machines: Machines. The first one with known chassis determines the nodes.

    Returns:
        Text such as ``8``, or ``3+5`` for nodes of different sizes. Empty: one rank per node, one
        node, or groups differ.
    """
    node: dict[int, int] = {}
    for machine in machines:
        if machine.chassis and not node:
            node = {rank: k for k, ranks in enumerate(machine.chassis) for rank in ranks}
    texts = set()
    for group in groups:
        runs = [(node_number, len(list(row))) for node_number, row in groupby(group, node.get)]
        sizes = [size for _, size in runs]
        again = len({node_number for node_number, _ in runs}) < len(runs)
        if len(runs) < 2 or max(sizes) < 2 or (again and len(set(sizes)) > 1):
            return ""
        alike = len({*sizes[:-1]}) == 1 and 2 <= sizes[-1] <= sizes[0]
        texts.add(str(sizes[0]) if alike else "+".join(map(str, sizes)))
    return texts.pop() if len(texts) == 1 and max(map(len, texts)) <= _MAX_SIZES else ""
