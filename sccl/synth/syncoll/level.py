"""The state of the candidates of one number of steps, and the choice of the next one to solve."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from sccl.core.answer import Answer, Origin, Sat, Unknown, Unsat
from sccl.core.frontier import OpenCandidate, RefutedCandidate
from sccl.core.instance import Candidate
from sccl.core.step_limit import StepLimit
from sccl.core.stop import StopKind, StopReason


@dataclass(frozen=True, slots=True)
class Level:
    """The candidates of one number of steps.

    Attributes:
        steps: S.
        undecided: Undecided candidates that are cheaper than the best, the cheapest first.
        refuted: Candidates without an algorithm.
        open: Candidates on which the solver gave up.
        best: The cheapest candidate with an algorithm.
        is_queried: Whether the oracle has been asked for the cheapest candidate.
        is_limit_asked: Whether the oracle has been asked for the limit of R/C.
    """

    steps: int = 0
    undecided: tuple[Candidate, ...] = ()
    refuted: tuple[RefutedCandidate, ...] = ()
    open: tuple[OpenCandidate, ...] = ()
    best: Candidate | None = None
    is_queried: bool = False
    is_limit_asked: bool = False

    def next_candidate(self) -> Candidate:
        """Return the cheapest undecided candidate first, then the middle one."""
        return _choose_candidate(self.undecided, asked=self.is_queried)

    def upcoming_candidates(self) -> Iterator[Candidate]:
        """Yield the next candidate, then its possible successors after any answers."""
        queue = [(self.is_queried, self.undecided)]
        seen: set[Candidate] = set()
        for asked, undecided in queue:
            if not undecided:
                continue
            candidate = _choose_candidate(undecided, asked=asked)
            if candidate not in seen:
                seen.add(candidate)
                yield candidate
            queue.append((True, tuple(c for c in undecided if c < candidate)))
            queue.append((True, tuple(c for c in undecided if not candidate.implies_unsat(c))))

    def record(self, answer: Answer, candidate: Candidate) -> Level:
        """Return the state after the answer for a candidate, with all consequences."""
        is_cheapest = candidate == self.undecided[0]
        level = replace(self, is_queried=self.is_queried or is_cheapest)
        match answer:
            case Sat():
                cheaper = tuple(c for c in self.undecided if c < candidate)
                return replace(level, best=candidate, undecided=cheaper)
            case Unsat() if not answer.is_accepted:
                return level.mark_unverified(candidate, answer.origin)
            case Unsat(evidence):
                why = RefutedCandidate(
                    candidate, evidence, answer.seconds, answer.origin, answer.solver
                )
                follows = f"follows from {candidate}: no more rounds, no fewer chunks"
                without = replace(
                    level, undecided=self._without(candidate), refuted=(*self.refuted, why)
                )
                return without.refute(
                    candidate.implies_unsat, follows, answer.solver, origin=answer.origin
                )
            case Unknown(reason):
                gone = [c for c in self.undecided if answer.best and c.cost < answer.best]
                still = (OpenCandidate(c, reason) for c in dict.fromkeys((candidate, *gone)))
                left = tuple(c for c in self.undecided if c != candidate and c not in gone)
                # the outcome of the first is likely to be that of the cheapest that is left
                asked = level.is_queried and (bool(self.open) or answer.best is None)
                return replace(level, is_queried=asked, undecided=left, open=(*self.open, *still))

    def refute_below(self, limit: StepLimit, seconds: float) -> Level:
        """Return the state after a limit, which refutes all candidates below, for any k and C.

        Args:
            limit: The limit of R/C for these steps, or a lower bound on it.
            seconds: Time it took.
        """
        kind = "limit of R/C" if limit.is_exact else "bound on R/C"
        why = f"no algorithm of {limit.steps} steps has R/C below {limit.lower} ({kind})"
        return self.refute(lambda c: c.cost < limit.lower, why, limit.method, seconds)

    def mark_unverified(self, candidate: Candidate, origin: Origin) -> Level:
        """Return the state after an unverified origin claims that a candidate is unsat.

        The candidate, and all that would follow from it, stay open: they are not solved again, and
        no point that they may dominate is proved.
        """
        reason = StopReason(
            StopKind.UNVERIFIED, f"unsat according to {origin.description} (not verified here)"
        )
        gone = [c for c in self.undecided if candidate.implies_unsat(c)]
        still = (OpenCandidate(c, reason, origin) for c in gone)
        left = tuple(c for c in self.undecided if c not in gone)
        return replace(self, undecided=left, open=(*self.open, *still))

    def refute(
        self,
        is_refuted: Callable[[Candidate], bool],
        why: str,
        refuted_by: str,
        seconds: float = 0.0,
        origin: Origin = Origin.THIS_PROCESS,
    ) -> Level:
        """Return the state without these candidates. ``seconds`` is the time for the first one.

        If this process repeats a refutation of another origin, it becomes the origin.
        """
        again = {
            r.candidate
            for r in self.refuted
            if origin is Origin.THIS_PROCESS
            and r.origin is not Origin.THIS_PROCESS
            and is_refuted(r.candidate)
        }
        candidates = [*self.undecided, *(o.candidate for o in self.open), *sorted(again)]
        gone = [c for c in candidates if is_refuted(c)]
        refuted = (
            RefutedCandidate(c, why, 0.0 if i else seconds, origin, refuted_by)
            for i, c in enumerate(gone)
        )
        return replace(
            self,
            undecided=tuple(c for c in self.undecided if not is_refuted(c)),
            refuted=(*(r for r in self.refuted if r.candidate not in again), *refuted),
            open=tuple(o for o in self.open if not is_refuted(o.candidate)),
        )

    def open_candidates(self) -> tuple[OpenCandidate, ...]:
        """Return the undecided candidates that would be cheaper than the best."""
        not_tried = StopReason(StopKind.INTERRUPTED, "not tried: interrupted")
        rest = (OpenCandidate(c, not_tried) for c in self.undecided)
        open_candidates = sorted((*self.open, *rest), key=lambda o: o.candidate)
        return tuple(
            o for o in open_candidates if not self.best or o.candidate.cost < self.best.cost
        )

    def _without(self, candidate: Candidate) -> tuple[Candidate, ...]:
        return tuple(c for c in self.undecided if c != candidate)


def _choose_candidate(undecided: tuple[Candidate, ...], *, asked: bool) -> Candidate:
    return undecided[len(undecided) // 2 if asked else 0]
