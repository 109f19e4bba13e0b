"""Apply recipes: texts with a sequence of rules that split a collective into motifs.

For example, ``levels(8).seg(4)`` makes the phases of an allreduce, and four segments of each phase.
Each rule splits all motifs from the previous rules that it can split. A segment waits only for
segments of earlier phases with the same elements. ``levels(3+5)`` has groups of three and of five
ranks. ``merge`` is only valid as the first rule. It merges several collectives into one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from sccl.core.formatting import format_count
from sccl.core.sizes import parse_size
from sccl.errors import ParameterError, unknown_name
from sccl.training.motifs.collective_motif import merge_collectives
from sccl.training.motifs.extents import do_overlap, element_count, execution_work, spans_of
from sccl.training.motifs.motif_judge import check_work, find_motif_fault
from sccl.training.motifs.splitting_rules import (
    MAX_SEGMENTS,
    RULES,
    Motifs,
    Number,
    split_by_weights,
)
from sccl.training.types.motif import Motif

MAX_MOTIFS = 4096
MAX_TEXT = 400

_RULE_BY_NAME = {rule.name: rule for rule in RULES}
MERGE = "merge"
_NAMES = (*_RULE_BY_NAME, "lanes", MERGE)
_TERM = re.compile(r"([a-z]+)(?:\(([^()]*)\))?")
_LANE = re.compile(r"([A-Za-z0-9_.-]{1,60}):([1-9][0-9]{0,5})")
_SIZE = re.compile(r"[1-9][0-9]{0,14}([KMG]i?)?B")
_INTEGER, _SUM = re.compile("[0-9]{1,9}"), re.compile(r"[0-9]{1,9}(\+[0-9]{1,9})*")


@dataclass(frozen=True, slots=True)
class RecipeTerm:
    """A rule of a recipe, with its parameters.

    Attributes:
        name: Name of the rule.
        numbers: Parameters of the rule: numbers or sizes of groups. For lanes: weight of each lane.
        channels: For lanes: channel of each lane.
        most_bytes: For segments: largest size of a segment. 0: ``numbers`` has their number.
    """

    name: str
    numbers: tuple[Number, ...] = ()
    channels: tuple[str, ...] = ()
    most_bytes: int = 0

    def __str__(self) -> str:
        """Return the rule in the notation of recipes."""
        numbers = ["+".join(map(str, parts)) for parts in self.numbers]
        if self.channels:
            pairs = zip(self.channels, numbers, strict=True)
            return f"lanes({', '.join(f'{name}:{weight}' for name, weight in pairs)})"
        text = f"{self.most_bytes}B" if self.most_bytes else ", ".join(numbers)
        return f"{self.name}({text})" if text else self.name


@dataclass(frozen=True, slots=True)
class Recipe:
    """A sequence of rules. An empty sequence leaves a collective unsplit."""

    terms: tuple[RecipeTerm, ...] = ()

    def __str__(self) -> str:
        """Return the text of the recipe. Without rules: ``whole``."""
        return ".".join(map(str, self.terms)) or "whole"


def parse_recipe(text: str) -> Recipe:
    """Parse a recipe.

    Raises:
        ParameterError: The text is not a valid recipe.
        UnknownNameError: A rule does not exist.
    """
    plain = "".join(text.split())
    if len(plain) > MAX_TEXT:
        raise ParameterError(f"recipe has {len(plain)} letters, expected {MAX_TEXT} at the most")
    if plain in {"", "whole"}:
        return Recipe()
    terms, at = [], 0
    while at < len(plain):
        match = _TERM.match(plain, at)
        if match is None or (match.end() < len(plain) and plain[match.end()] != "."):
            raise ParameterError(
                f"recipe {text!r:.60} cannot be read from {plain[at : at + 20]!r} on: expected "
                "rules such as levels(8).seg(4), with points between them"
            )
        terms.append(_parse_term(match[1], match[2] or ""))
        at = match.end() + 1
    if plain.endswith("."):
        raise ParameterError(f"recipe {text!r:.60} ends with a point: expected a rule after it")
    return Recipe(tuple(terms))


def _parse_term(name: str, text: str) -> RecipeTerm:
    if name not in _NAMES:
        raise unknown_name("rule", name, _NAMES, f"the rules are {', '.join(_NAMES)}")
    parts = text.split(",") if text else []
    if name == "lanes":
        lanes = [_LANE.fullmatch(part) for part in parts]
        if len(lanes) < 2 or not all(lanes):
            raise ParameterError(
                f"lanes({text:.60}): expected two or more channels with their weights, such as "
                "lanes(nvlink:2, pcie:1)"
            )
        return RecipeTerm(
            name,
            tuple((int(lane[2]),) for lane in lanes if lane),
            tuple(lane[1] for lane in lanes if lane),
        )
    if name == MERGE and not text:
        return RecipeTerm(name)
    if name == MERGE:
        raise ParameterError(f"merge({text:.60}): expected merge, without parameters")
    if name == "seg" and len(parts) == 1 and _SIZE.fullmatch(parts[0]):
        return RecipeTerm(name, most_bytes=parse_size(parts[0]))
    rule = _RULE_BY_NAME[name]
    wanted = 1 if rule.parameters else 0
    form = _SUM if name in {"levels", "tree"} else _INTEGER
    if any(not form.fullmatch(part) for part in parts) or (
        len(parts) < wanted or (len(parts) > wanted and name != "levels")
    ):
        raise ParameterError(
            f"{name}({text:.60}): expected {name}({rule.parameters})"
            if rule.parameters
            else f"{name}({text:.60}): expected {name}, without parameters"
        )
    return RecipeTerm(name, tuple(tuple(map(int, part.split("+"))) for part in parts))


def apply_recipe(motif: Motif | Sequence[Motif], recipe: Recipe, item_bytes: int = 1) -> Motifs:
    """Apply a recipe, and return the verified motifs in topological order.

    Args:
        motif: Motif to split, or several collectives, which the recipe's first rule merges.
        recipe: Recipe to apply.
        item_bytes: Bytes of an element.

    Raises:
        ParameterError: A rule does not apply to any motif, or makes too many motifs, or motifs
            without elements. Or the motifs fail verification: for example, a part of a broadcast
            delivers the root's data to the root while another part sends them.
    """
    terms = recipe.terms
    merges = bool(terms) and terms[0].name == MERGE
    if isinstance(motif, Motif):
        base = motif
    elif not merges:
        raise ParameterError(
            f"recipe {recipe} applies to one collective, and there are {len(motif)}: begin the "
            "recipe with merge, which makes them one"
        )
    else:
        base, terms = merge_collectives(motif), terms[1:]
    made: Motifs = (replace(base, after=()),)
    check_work(2 * execution_work(base))  # the base is the reference
    for term in terms:
        made = _apply_term(made, term, item_bytes)
    if wrong := find_motif_fault(motif, made):
        raise ParameterError(f"recipe {recipe} of {base.collective} is refused: {wrong}")
    return made


def _apply_term(motifs: Motifs, term: RecipeTerm, item_bytes: int) -> Motifs:
    """Apply a rule to all motifs that it can split, and keep the others."""
    refused, parts = list[ParameterError](), list[Motifs]()
    for motif in motifs:
        try:
            parts.append(_apply_rule(term, motif, item_bytes))
        except ParameterError as error:
            refused.append(error)
            parts.append((replace(motif, after=()),))
    if len(refused) == len(motifs):
        raise refused[0]
    if (count := sum(map(len, parts))) > MAX_MOTIFS:
        raise ParameterError(f"{term} makes {count} motifs, expected {MAX_MOTIFS} at the most")
    return _chain_motifs(motifs, parts)


def _apply_rule(term: RecipeTerm, motif: Motif, item_bytes: int) -> Motifs:
    if term.name == MERGE:
        raise ParameterError(
            "merge is the first rule of a recipe, of several collectives: here it is one alone"
        )
    if term.channels:
        weights = [weight for (weight,) in term.numbers]
        motifs = split_by_weights(replace(motif, after=()), weights)
        motifs = tuple(
            replace(part, channel=name) for part, name in zip(motifs, term.channels, strict=True)
        )
    else:
        numbers = term.numbers
        if term.most_bytes:
            numbers = ((_segment_count(motif, term.most_bytes, item_bytes),),)
        motifs = _RULE_BY_NAME[term.name].apply(motif, numbers)
    check_work(sum(map(execution_work, motifs)))  # before elements are counted
    if empty := sum(not element_count(part) for part in motifs):
        raise ParameterError(
            f"{term} leaves {format_count(empty, 'motif')} of the {len(motifs)} that it makes of a "
            f"{motif.collective} without an element: make fewer"
        )
    return motifs


def _segment_count(motif: Motif, most_bytes: int, item_bytes: int) -> int:
    """Return the number of segments of at most some bytes in a rank's largest buffer."""
    elements = element_count(motif)
    if motif.collective == "alltoall":
        elements = -(-elements // motif.max_group_size)
    count = -(-elements * item_bytes // most_bytes)
    if not 2 <= count <= MAX_SEGMENTS:
        raise ParameterError(
            f"seg({most_bytes}B) makes {format_count(count, 'segment')} of {elements * item_bytes} "
            f"bytes, expected 2 to {MAX_SEGMENTS}"
        )
    return count


def _chain_motifs(motifs: Motifs, parts: Sequence[Motifs]) -> Motifs:
    """Return the parts of motifs. A part waits for parts of predecessors with the same elements."""
    first = [sum(map(len, parts[:k])) for k in range(len(parts))]
    spans = [[spans_of(piece) for piece in batch] for batch in parts]
    after = list[set[int]]()
    for k, batch in enumerate(parts):
        for place, piece in enumerate(batch):
            waits = {first[k] + inner for inner in piece.after}
            for before in motifs[k].after:
                waits.update(
                    first[before] + index
                    for index, its in enumerate(spans[before])
                    if do_overlap(its, spans[k][place])
                )
            after.append(waits)
    all_pieces = [piece for batch in parts for piece in batch]
    return tuple(
        replace(piece, after=batch)
        for piece, batch in zip(all_pieces, _transitive_reduction(after), strict=True)
    )


def _transitive_reduction(after: Sequence[set[int]]) -> list[tuple[int, ...]]:
    """Return the transitive reduction of dependencies. Predecessors have smaller indices."""
    reach, direct = list[int](), list[tuple[int, ...]]()
    for waits in after:
        beyond = 0
        for k in waits:
            beyond |= reach[k]
        direct.append(tuple(sorted(k for k in waits if not beyond >> k & 1)))
        reach.append(beyond | sum(1 << k for k in waits))
    return direct
