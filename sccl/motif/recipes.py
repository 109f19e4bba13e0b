"""Apply recipes: texts of rules that split a collective into motifs, one after another.

``levels(8).seg(4)`` makes phases of an allreduce, and four segments of each. A rule applies to all
motifs from the rules before it to which it applies. A segment waits only for earlier segments with
the same elements. ``levels(3+5)`` has groups of three and of five ranks. ``merge`` may come first
only, and turns several collectives into one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from sccl.core.motif import Motif
from sccl.core.words import counted
from sccl.errors import ParameterError, unknown_name
from sccl.motif.extents import extent, meet, spans_of, work_of
from sccl.motif.judge import check_work, wrong_in
from sccl.motif.merge import joined
from sccl.motif.rule import Motifs, Number
from sccl.motif.rules import MOST_SEGMENTS, RULES, weighed

MOST_MOTIFS = 4096
MOST_TEXT = 400

_RULES = {rule.name: rule for rule in RULES}
MERGE = "merge"
_NAMES = (*_RULES, "lanes", MERGE)
_TERM = re.compile(r"([a-z]+)(?:\(([^()]*)\))?")
_LANE = re.compile(r"([A-Za-z0-9_.-]{1,60}):([1-9][0-9]{0,5})")
_SIZE = re.compile(r"([1-9][0-9]{0,14})(B|KB|KiB|MB|MiB|GB|GiB)")
_ONE, _SUM = re.compile("[0-9]{1,9}"), re.compile(r"[0-9]{1,9}(\+[0-9]{1,9})*")
_UNITS = {"B": 1, "KB": 10**3, "KiB": 2**10, "MB": 10**6, "MiB": 2**20, "GB": 10**9, "GiB": 2**30}


@dataclass(frozen=True, slots=True)
class Term:
    """A rule of a recipe, with its parameters.

    Attributes:
        numbers: Parameters of the rule: one number, or sizes that add up. For lanes: their weights.
        channels: For lanes: channel of each.
        most_bytes: For segments: largest size of each. 0: their number is given.
    """

    name: str
    numbers: tuple[Number, ...] = ()
    channels: tuple[str, ...] = ()
    most_bytes: int = 0

    def __str__(self) -> str:
        """Return it as recipes have it."""
        numbers = ["+".join(map(str, own)) for own in self.numbers]
        if self.channels:
            pairs = zip(self.channels, numbers, strict=True)
            return f"lanes({', '.join(f'{name}:{weight}' for name, weight in pairs)})"
        told = f"{self.most_bytes}B" if self.most_bytes else ", ".join(numbers)
        return f"{self.name}({told})" if told else self.name


@dataclass(frozen=True, slots=True)
class Recipe:
    """Rules, the first first. None at all leaves a collective as it is."""

    terms: tuple[Term, ...] = ()

    def __str__(self) -> str:
        """Return its text; ``whole`` where it has no rule."""
        return ".".join(map(str, self.terms)) or "whole"


def recipe_of(text: str) -> Recipe:
    """Return the recipe that a text says.

    Raises:
        ParameterError: it says none.
        UnknownNameError: a rule does not exist.
    """
    plain = "".join(text.split())
    if len(plain) > MOST_TEXT:
        raise ParameterError(f"recipe has {len(plain)} letters, expected {MOST_TEXT} at the most")
    if plain in {"", "whole"}:
        return Recipe()
    terms, at = [], 0
    while at < len(plain):
        found = _TERM.match(plain, at)
        if found is None or (found.end() < len(plain) and plain[found.end()] != "."):
            raise ParameterError(
                f"recipe {text!r:.60} cannot be read from {plain[at : at + 20]!r} on: expected "
                "rules such as levels(8).seg(4), with points between them"
            )
        terms.append(_term(found[1], found[2] or ""))
        at = found.end() + 1
    if plain.endswith("."):
        raise ParameterError(f"recipe {text!r:.60} ends with a point: expected a rule after it")
    return Recipe(tuple(terms))


def _term(name: str, told: str) -> Term:
    if name not in _NAMES:
        raise unknown_name("rule", name, _NAMES, f"the rules are {', '.join(_NAMES)}")
    parts = told.split(",") if told else []
    if name == "lanes":
        lanes = [_LANE.fullmatch(part) for part in parts]
        if len(lanes) < 2 or not all(lanes):
            raise ParameterError(
                f"lanes({told:.60}): expected two or more channels with their weights, such as "
                "lanes(nvlink:2, pcie:1)"
            )
        return Term(
            name,
            tuple((int(lane[2]),) for lane in lanes if lane),
            tuple(lane[1] for lane in lanes if lane),
        )
    if name == MERGE and not told:
        return Term(name)
    if name == MERGE:
        raise ParameterError(f"merge({told:.60}): expected merge, without parameters")
    if name == "seg" and len(parts) == 1 and (size := _SIZE.fullmatch(parts[0])):
        return Term(name, most_bytes=int(size[1]) * _UNITS[size[2]])
    rule = _RULES[name]
    wanted = 1 if rule.told else 0
    form = _SUM if name in {"levels", "tree"} else _ONE
    if any(not form.fullmatch(part) for part in parts) or (
        len(parts) < wanted or (len(parts) > wanted and name != "levels")
    ):
        raise ParameterError(
            f"{name}({told:.60}): expected {name}({rule.told})"
            if rule.told
            else f"{name}({told:.60}): expected {name}, without parameters"
        )
    return Term(name, tuple(tuple(map(int, part.split("+"))) for part in parts))


def motifs_of(motif: Motif | Sequence[Motif], recipe: Recipe, item_bytes: int = 1) -> Motifs:
    """Return the motifs that a recipe makes, numbered from 0, each after those that it waits for.

    Args:
        motif: Motif to split, or several collectives, which the recipe's first rule merges.
        item_bytes: Bytes of an element.

    Raises:
        ParameterError: A rule applies to none of the motifs before it. There would be motifs
            without an element, or too many. Or they fail verification: for example, two parts of a
            broadcast deliver the root's data to it while the other sends them.
    """
    terms = recipe.terms
    merges = bool(terms) and terms[0].name == MERGE
    if isinstance(motif, Motif):
        one = motif
    elif not merges:
        raise ParameterError(
            f"recipe {recipe} is of one collective, and there are {len(motif)}: merge has to be "
            "its first rule, which makes them one"
        )
    else:
        one, terms = joined(motif), terms[1:]
    made: Motifs = (replace(one, after=()),)
    check_work(2 * work_of(one))  # it is what they are held against
    for term in terms:
        made = _split(made, term, item_bytes)
    if wrong := wrong_in(motif, made):
        raise ParameterError(f"recipe {recipe} of {one.collective} is refused: {wrong}")
    return made


def _split(motifs: Motifs, term: Term, item_bytes: int) -> Motifs:
    """Return motifs after a rule was applied to all that it is of."""
    refused, parts = list[ParameterError](), list[Motifs]()
    for motif in motifs:
        try:
            parts.append(_applied(term, motif, item_bytes))
        except ParameterError as error:
            refused.append(error)
            parts.append((replace(motif, after=()),))
    if len(refused) == len(motifs):
        raise refused[0]
    if (count := sum(map(len, parts))) > MOST_MOTIFS:
        raise ParameterError(f"{term} makes {count} motifs, expected {MOST_MOTIFS} at the most")
    return _joined(motifs, parts)


def _applied(term: Term, motif: Motif, item_bytes: int) -> Motifs:
    if term.name == MERGE:
        raise ParameterError(
            "merge is the first rule of a recipe, of several collectives: here it is one alone"
        )
    if term.channels:
        weights = [weight for (weight,) in term.numbers]
        found = weighed(replace(motif, after=()), weights)
        found = tuple(
            replace(one, channel=name) for one, name in zip(found, term.channels, strict=True)
        )
    else:
        numbers = term.numbers
        if term.most_bytes:
            numbers = ((_segments_of(motif, term.most_bytes, item_bytes),),)
        found = _RULES[term.name].applied(motif, numbers)
    check_work(sum(map(work_of, found)))  # before it is looked at cell by cell
    if empty := sum(not extent(one) for one in found):
        raise ParameterError(
            f"{term} leaves {counted(empty, 'motif')} of the {len(found)} that it makes of a "
            f"{motif.collective} without an element: make fewer"
        )
    return found


def _segments_of(motif: Motif, most_bytes: int, item_bytes: int) -> int:
    """Return the number of segments of a rank's largest buffer."""
    elements = extent(motif)
    if motif.collective == "alltoall":
        elements = -(-elements // motif.places)
    count = -(-elements * item_bytes // most_bytes)
    if not 2 <= count <= MOST_SEGMENTS:
        raise ParameterError(
            f"seg({most_bytes}B) makes {counted(count, 'segment')} of {elements * item_bytes} "
            f"bytes, expected 2 to {MOST_SEGMENTS}"
        )
    return count


def _joined(motifs: Motifs, parts: Sequence[Motifs]) -> Motifs:
    """Return the parts of motifs, each after the earlier parts with the same elements."""
    first = [sum(map(len, parts[:k])) for k in range(len(parts))]
    spans = [[spans_of(one) for one in own] for own in parts]
    after = list[set[int]]()
    for k, own in enumerate(parts):
        for place, one in enumerate(own):
            waits = {first[k] + inner for inner in one.after}
            for before in motifs[k].after:
                waits.update(
                    first[before] + other
                    for other, its in enumerate(spans[before])
                    if meet(its, spans[k][place])
                )
            after.append(waits)
    every = [one for own in parts for one in own]
    return tuple(replace(one, after=own) for one, own in zip(every, _reduced(after), strict=True))


def _reduced(after: Sequence[set[int]]) -> list[tuple[int, ...]]:
    """Return whom each waits for, without whom these wait for. They come before it."""
    reach, found = list[int](), list[tuple[int, ...]]()
    for waits in after:
        beyond = 0
        for k in waits:
            beyond |= reach[k]
        found.append(tuple(sorted(k for k in waits if not beyond >> k & 1)))
        reach.append(beyond | sum(1 << k for k in waits))
    return found
