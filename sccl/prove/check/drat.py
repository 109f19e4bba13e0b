"""Check DRAT proofs by unit propagation only.

If ``drat-trim`` is on the PATH, it checks them a second time.
"""

from __future__ import annotations

import shutil
import subprocess
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

Literals = tuple[int, ...]


class ProofError(ValueError):
    """A proof fails to show its claim. The message names the place."""


def parse_dimacs(text: str) -> list[Literals]:
    """Return the clauses of a DIMACS file.

    Raises:
        ProofError: A line is no clause.
    """
    clauses = []
    for number, line in enumerate(text.splitlines(), 1):
        if line and line[0] not in "pc":
            clauses.append(_literals(line, number))
    return clauses


def parse_drat(text: str) -> Iterator[tuple[bool, Literals]]:
    """Yield (whether it is a deletion, clause) for each line of a DRAT file in text form.

    Raises:
        ProofError: A line is no clause.
    """
    for number, line in enumerate(text.splitlines(), 1):
        if line:
            deletes = line.startswith("d ")
            yield deletes, _literals(line[2:] if deletes else line, number)


def _literals(line: str, number: int) -> Literals:
    try:
        *literals, end = (int(word) for word in line.split())
    except ValueError as error:
        raise ProofError(f"line {number} is not a clause: {line[:40]!r}") from error
    if end != 0 or 0 in literals:
        raise ProofError(f"line {number} does not end with its only 0")
    return tuple(literals)


def check_refutation(
    clauses: Iterable[Literals],
    proof: Iterable[tuple[bool, Literals]],
    spend: Callable[[int], object] = lambda _: None,
) -> int:
    """Check that a proof refutes the clauses, and return the number of lemmas used.

    Args:
        spend: Callback with the number of visited clauses, which may raise an error to end the
            check.

    Raises:
        ProofError: A lemma does not follow, or the proof ends without a conflict.
    """
    checker = _Checker(spend)
    for clause in clauses:
        if checker.add(clause):
            return 0
    lemmas = 0
    for deletes, clause in proof:
        if deletes:
            checker.delete(clause)
            continue
        lemmas += 1
        if not checker.follows(clause):
            shown = " ".join(map(str, clause[:12])) + (" ..." if len(clause) > 12 else "")
            raise ProofError(f"lemma {lemmas} does not follow: {shown}")
        if checker.add(clause):
            return lemmas
    raise ProofError(f"the proof ends after {lemmas} lemmas without a conflict")


class _Checker:
    """Clauses with two watched literals each, and their consequences by unit propagation."""

    def __init__(self, spend: Callable[[int], object]) -> None:
        self.spend = spend
        self.clauses: dict[int, list[int]] = {}
        self.numbers: dict[Literals, list[int]] = defaultdict(list)
        self.watchers: dict[int, list[int]] = defaultdict(list)
        self.true: set[int] = set()  # literals that hold without assumptions
        self.next = 0

    def add(self, clause: Sequence[int]) -> bool:
        """Add a clause and return whether propagation now derives a contradiction."""
        literals = list(dict.fromkeys(clause))
        free = [x for x in literals if -x not in self.true]
        if any(x in self.true for x in literals) and len(literals) > 1:
            free = [x for x in literals if x in self.true] + [x for x in free if x not in self.true]
        if not free:
            return True
        number, self.next = self.next, self.next + 1
        self.numbers[tuple(sorted(literals))].append(number)
        rest = [x for x in literals if x not in free]
        self.clauses[number] = [*free, *rest]
        if len(literals) > 1:
            for x in self.clauses[number][:2]:
                self.watchers[x].append(number)
        if len(free) == 1 and free[0] not in self.true:
            return self._propagate([free[0]], self.true) is not None
        return False

    def delete(self, clause: Sequence[int]) -> None:
        """Delete a clause, but ignore unit clauses and missing clauses."""
        key = tuple(sorted(dict.fromkeys(clause)))
        numbers = self.numbers.get(key)
        if not numbers:
            return
        literals = self.clauses[numbers[-1]]
        if len([x for x in literals if -x not in self.true]) <= 1:
            return  # now a unit clause: it stays, since its consequences stay
        del self.clauses[numbers.pop()]

    def follows(self, clause: Sequence[int]) -> bool:
        """Return whether a clause follows by RUP or RAT on its first literal."""
        assumed = self._refute(clause, set())
        if assumed is None:
            return True
        if not clause:
            return False
        first = clause[0]
        self.spend(len(self.clauses))
        others = [c for c in self.clauses.values() if -first in c]
        for other_clause in others:
            more = [x for x in other_clause if x != -first]
            if any(-x in clause for x in more if x != first):
                continue  # their resolvent is a tautology
            if self._refute(more, assumed) is not None:
                return False
        return True

    def _refute(self, clause: Sequence[int], assumed: set[int]) -> set[int] | None:
        """Return the consequences of the negated clause, or None if that is contradictory."""
        self.spend(len(assumed) + len(self.true) // 16)
        holds = assumed | self.true if assumed else set(self.true)
        negated = []
        for x in clause:
            if x in holds:
                return None
            if -x not in holds:
                negated.append(-x)
        return None if self._propagate(negated, holds) is not None else holds

    def _propagate(self, queue: list[int], holds: set[int]) -> int | None:
        """Add all consequences to ``holds``, and return the number of a violated clause."""
        clauses, watchers = self.clauses, self.watchers
        for x in queue:
            if -x in holds:
                return -1
            holds.add(x)
        queue = list(queue)
        while queue:
            false = -queue.pop()
            watching, kept = watchers[false], []
            self.spend(1 + len(watching))
            for at, number in enumerate(watching):
                clause = clauses.get(number)
                if clause is None:
                    continue  # deleted
                if clause[0] == false:
                    clause[0], clause[1] = clause[1], false
                if clause[1] != false:
                    continue  # the clause now watches other literals
                if clause[0] in holds:
                    kept.append(number)
                    continue
                for i in range(2, len(clause)):
                    if -clause[i] not in holds:
                        clause[1], clause[i] = clause[i], false
                        watchers[clause[1]].append(number)
                        break
                else:
                    kept.append(number)
                    if -clause[0] in holds:
                        watchers[false] = kept + watching[at + 1 :]
                        return number
                    holds.add(clause[0])
                    queue.append(clause[0])
            watchers[false] = kept
        return None


_TIMEOUT_S = 600


def run_drat_trim(formula: Path, proof: Path) -> bool | None:
    """Return whether drat-trim verifies a proof, or None if it is not installed or times out."""
    program = shutil.which("drat-trim")
    if program is None:
        return None
    command = [program, str(formula), str(proof), "-t", str(_TIMEOUT_S)]
    try:
        done = subprocess.run(  # noqa: S603 - its name is fixed, the files are ours to check
            command, capture_output=True, text=True, check=False, timeout=_TIMEOUT_S + 10
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if "s TIMEOUT" in done.stdout:
        return None
    return "s VERIFIED" in done.stdout.splitlines()
