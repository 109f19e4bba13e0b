"""Damaged and forged certificates: none is believed, none breaks the checker or keeps it busy."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from sccl.core.files.claims import (
    CLAIMS,
    AlgorithmClaimWire,
    AllreduceBoundWire,
    BandwidthWire,
    Claim,
    LimitClaimWire,
    LimitPointWire,
    ParetoWire,
    StepsWire,
    UnsatWire,
)
from sccl.errors import InputError
from sccl.prove.check.case import Case, read_case
from sccl.prove.check.certificate import check_case
from tests.kit.nightly import seed, times
from tests.kit.paths import PUBLISHED

MACHINES = ("dgx1", "z52")
COLLECTIVES = ("allgather", "allreduce", "alltoall", "broadcast", "reducescatter", "scatter")
KINDS = [f"{sort}{m}-{c}" for sort in ("", "limits/") for m in MACHINES for c in COLLECTIVES]
TIMES = times(12)  # for each kind (400 of each passed a manual run)

_NUMBERS = (-1, 0, 1, 2, 3, 7, 512, 513, 2**22, 2**31, 10**12, 10**30)
_TEXTS = ("", "0", "1", "1/1", "3/2", "7/6", "1/3", "9" * 4000, "x\n", "../x", "claims.json", "any")


@dataclass(frozen=True)
class Truth:
    """True values for a machine and a collective, from all its published certificates."""

    steps: int
    bandwidth: Fraction
    limits: tuple[tuple[int, Fraction, bool], ...]
    algorithms: tuple[tuple[int, int, int, bool], ...]

    @staticmethod
    def of(name: str) -> Truth:
        whole = [
            claim for sort in (".", "limits") for claim in read_case(PUBLISHED / sort / name).claims
        ]
        return Truth(
            max(c.at_least for c in whole if isinstance(c, StepsWire)),
            max(Fraction(c.at_least) for c in whole if isinstance(c, BandwidthWire)),
            tuple(
                (c.steps, Fraction(c.at_least), c.trees)
                for c in whole
                if isinstance(c, LimitClaimWire)
            ),
            tuple(
                (c.chunks, c.steps, c.rounds, "trees" in c.file or "halves" in c.file)
                for c in whole
                if isinstance(c, AlgorithmClaimWire)
            ),
        )

    def contradicts(self, case: Case, claim: Claim) -> bool:
        """Return whether a claim is known to be false."""
        match claim:
            case StepsWire():
                return claim.at_least > self.steps
            case BandwidthWire():
                return Fraction(claim.at_least) > self.bandwidth
            case LimitClaimWire():
                known = [v for s, v, t in self.limits if s <= claim.steps and t == claim.trees]
                least = Fraction(claim.at_least)
                return least > min(known, default=least) and least > self.bandwidth
            case AllreduceBoundWire() | UnsatWire():
                return any(self._refutes(other, claim) for other in self.algorithms)
            case ParetoWire() | LimitPointWire():
                return any(self._beats(case, other, claim) for other in self.algorithms)
        return False

    def _refutes(
        self, other: tuple[int, int, int, bool], claim: AllreduceBoundWire | UnsatWire
    ) -> bool:
        c, s, r, trees = other
        if isinstance(claim, AllreduceBoundWire):
            within = claim.steps is None or s <= claim.steps
            return within and Fraction(r, c) < Fraction(claim.at_least)
        fits = c >= claim.chunks and s <= claim.steps
        return not trees and fits and r + claim.steps - s <= claim.rounds

    def _beats(
        self,
        case: Case,
        other: tuple[int, int, int, bool],
        claim: ParetoWire | LimitPointWire,
    ) -> bool:
        chunks, steps, rounds, trees = other
        every = isinstance(claim, LimitPointWire) and claim.every
        if not every and trees != (isinstance(claim, LimitPointWire) and claim.trees):
            return False
        if isinstance(claim, ParetoWire) and (
            rounds > steps + claim.k * case.dual.phases
            or (claim.max_chunks is not None and chunks > claim.max_chunks)
        ):
            return False
        cost, mine = Fraction(rounds, chunks), Fraction(claim.rounds, claim.chunks)
        return steps <= claim.steps and cost <= mine and (steps, cost) != (claim.steps, mine)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield where something stands in a file."""
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    for key, below in inner:
        yield (*path, key)
        if isinstance(below, dict | list):
            yield from places(below, (*path, key))


def damage(content: dict[str, Any], rng: random.Random, others: list[dict[str, Any]]) -> None:
    """Change a certificate somewhere, or in several places."""
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        claims = content["claims"]
        how = rng.random()
        if how < 0.08 and len(claims) > 1:
            del claims[rng.randrange(len(claims))]
        elif how < 0.16:
            claims.insert(rng.randrange(len(claims) + 1), rng.choice(rng.choice(others)["claims"]))
        elif how < 0.2:
            what = rng.choice(("topology", "collective"))
            content[what] = rng.choice(others)[what]
        elif how < 0.25:
            rng.shuffle(claims)
        else:
            content["claims"] = changed(claims, rng)


def changed(claims: list[Any], rng: random.Random) -> list[Any]:
    """Return claims with one value changed."""
    claims = json.loads(json.dumps(claims))
    *way, last = rng.choice(list(places(claims)))
    place: Any = claims
    for key in way:
        place = place[key]
    old = place[last]
    how = rng.random()
    if how < 0.1 and way:
        del place[last]
    elif isinstance(old, bool):
        place[last] = not old
    elif isinstance(old, int):
        place[last] = rng.choice((*_NUMBERS, old + 1, old - 1, old * 2, -old))
    elif isinstance(old, str):
        texts = [old.replace("/", "0/"), f"1{old}", f"{old}1", old.upper()]
        place[last] = rng.choice((*_TEXTS, *texts))
    elif isinstance(old, list) and old:
        place[last] = rng.choice((old[1:], [*old, old[0]], old[::-1], []))
    else:
        place[last] = rng.choice((None, 1, "x", [], {}))
    return claims


@pytest.mark.parametrize("kind", KINDS)
def test_damage_is_seen(kind: str, tmp_path: Path) -> None:
    rng = random.Random(seed(kind))  # noqa: S311 - by day the same damage on every run
    name = kind.removeprefix("limits/")
    truth = Truth.of(name)
    original = json.loads((PUBLISHED / kind / CLAIMS).read_text())
    others = [json.loads((PUBLISHED / other / CLAIMS).read_text()) for other in KINDS]
    for path in (PUBLISHED / kind).iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    for _ in range(TIMES):
        content = json.loads(json.dumps(original))
        damage(content, rng, others)
        (tmp_path / CLAIMS).write_text(json.dumps(content))
        try:
            case = read_case(tmp_path)
        except InputError:
            continue
        same = content["topology"] == original["topology"]
        same &= content["collective"] == original["collective"]
        for claim, verdict in zip(case.claims, check_case(case), strict=True):
            assert verdict.state in {"ok", "failed", "searched", "unchecked"}
            assert not (same and verdict.state == "ok" and truth.contradicts(case, claim)), verdict
            assert len(verdict.detail) < 2000


@pytest.mark.parametrize("kind", KINDS)
def test_truth_does_not_contradict_itself(kind: str) -> None:
    truth, case = Truth.of(kind.removeprefix("limits/")), read_case(PUBLISHED / kind)
    assert not any(truth.contradicts(case, claim) for claim in case.claims)
