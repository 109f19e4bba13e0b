"""Verdicts kept in one SQLite file, so that a repeated or wider sweep goes on where one stopped.

One row per instance and solver, written as soon as the answer is there: whoever is killed loses the
query in flight. Several sweeps may share a file. Answers are JSON; an algorithm is judged again
when it is read, since anyone may have written the file.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from sccl.core.answer import Answer, Sat, Unknown, Unsat, verdict
from sccl.core.codec import answer_of_wire, answer_to_wire, instance_of_wire, instance_to_wire
from sccl.core.instance import Instance
from sccl.core.text import digest, parse
from sccl.core.wire import AnswerWire, InstanceWire
from sccl.errors import InputError, JudgeError, ParameterError
from sccl.pareto.ask import Solve
from sccl.transform import require_judged

VERSION = 1
"""Of the tables; a file of another version is refused."""

_TABLES = """
CREATE TABLE IF NOT EXISTS verdicts (
    instance TEXT NOT NULL,   -- sha256 of the question
    solver TEXT NOT NULL,     -- with what decides its answer: symmetry, seed
    answer TEXT NOT NULL,     -- sat, unsat or unknown
    seconds REAL NOT NULL,
    given REAL,               -- the time limit it had, seconds; null: none
    version TEXT NOT NULL,    -- of sccl
    at TEXT NOT NULL DEFAULT (datetime('now')),
    question TEXT NOT NULL,   -- JSON
    content TEXT NOT NULL,    -- JSON
    PRIMARY KEY (instance, solver)
) STRICT;
"""
_PATIENCE_S = 60.0


@dataclass(frozen=True, slots=True)
class Row:
    """What is kept of a query, without the answer itself."""

    instance: str
    solver: str
    answer: str
    seconds: float
    version: str
    at: str
    topology: str
    collective: str
    chunks: int
    steps: int
    rounds: int


class Store:
    """A file of verdicts. Open it, use it from one thread, close it.

    Raises:
        InputError: the file cannot be opened, is no store, or is one of another version.
    """

    def __init__(self, path: Path, *, version: str) -> None:
        self.path, self.version = path, version
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._db = sqlite3.connect(path, timeout=_PATIENCE_S, isolation_level=None)
            found = int(self._db.execute("PRAGMA user_version").fetchone()[0])
            empty = not self._db.execute("SELECT name FROM sqlite_master").fetchone()
            if found != VERSION and not (found == 0 and empty):
                self._db.close()
                raise InputError(
                    f"{path} is a store of version {found}, this sccl keeps version {VERSION}: "
                    "give another file (--store) or move this one away"
                )
            self._db.execute("PRAGMA journal_mode=WAL")  # readers and a writer at the same time
            self._db.execute(_TABLES)
            self._db.execute(f"PRAGMA user_version={VERSION}")
        except (OSError, sqlite3.Error) as error:
            raise InputError(
                f"cannot use the store {path} ({error}); give another file with --store, or "
                "--no-store"
            ) from error

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def get(self, instance: Instance, solver: str, timeout_s: float | None) -> Answer | None:
        """Return what is known of an instance; None if nothing, or nothing that would do.

        Unsat holds whoever said it, and so does an algorithm; but runs are to be repeatable, so
        only this solver's answers count. Unknown counts if it was given as much time as there is
        now, by this version.
        """
        key = digest(instance_to_wire(instance))
        row = self._db.execute(
            "SELECT content, given, version FROM verdicts WHERE instance = ? AND solver = ?",
            (key, solver),
        ).fetchone()
        if row is None:
            return None
        content, given, version = row
        try:
            where = f"{self.path}, {key}"
            answer = answer_of_wire(parse(content, AnswerWire, where), where)
        except InputError:
            return None  # damaged: as if it were not there
        if isinstance(answer, Unknown):
            longer = given is None or (timeout_s is not None and given >= timeout_s)
            return answer if longer and version == self.version else None
        return answer if _fits(answer, instance) else None

    def put(self, instance: Instance, solver: str, timeout_s: float | None, answer: Answer) -> None:
        """Keep an answer."""
        question = instance_to_wire(instance)
        self._db.execute(
            "INSERT OR REPLACE INTO verdicts "
            "(instance, solver, answer, seconds, given, version, question, content) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (
                digest(question),
                solver,
                verdict(answer),
                answer.seconds,
                timeout_s,
                self.version,
                msgspec.json.encode(question).decode(),
                msgspec.json.encode(answer_to_wire(answer)).decode(),
            ),
        )

    def rows(self) -> Iterator[Row]:
        """Yield what is kept, oldest first."""
        found = self._db.execute(
            "SELECT instance, solver, answer, seconds, version, at, question FROM verdicts "
            "ORDER BY at, instance, solver"
        )
        for key, solver, answer, seconds, version, at, question in found:
            asked = _question(question, f"{self.path}, {key}")
            yield Row(
                key.removeprefix("sha256:"),
                solver,
                answer,
                seconds,
                version,
                at,
                asked.topology.name,
                asked.collective.name,
                asked.collective.chunks,
                asked.steps,
                asked.rounds,
            )

    def find(self, start: str) -> list[tuple[Instance, str, Answer]]:
        """Return (question, solver, answer) of the instances whose digest starts so.

        Raises:
            ParameterError: there is none, or several instances do.
        """
        if not start or not all(c in "0123456789abcdef" for c in start):
            raise ParameterError(f"{start!r} is no start of a digest; see 'sccl store ls'")
        found = self._db.execute(
            "SELECT instance, solver, question, content FROM verdicts WHERE instance LIKE ? "
            "ORDER BY solver",
            (f"sha256:{start}%",),
        ).fetchall()
        if len({row[0] for row in found}) != 1:
            how = "no instance" if not found else "several instances"
            raise ParameterError(f"{how} in {self.path} start with {start!r}; see 'sccl store ls'")
        rows = []
        for key, solver, question, content in found:
            where = f"{self.path}, {key}"
            answer = answer_of_wire(parse(content, AnswerWire, where), where)
            rows.append((_question(question, where), solver, answer))
        return rows

    def discard(self, *, older_than_days: float | None, unknown: bool) -> int:
        """Delete rows, give the space back, and return how many there were.

        Args:
            older_than_days: only those; None: of any age.
            unknown: only the undecided.
        """
        conditions, values = ["1"], []
        if older_than_days is not None:
            conditions.append("at < datetime('now', ?)")
            values.append(f"-{older_than_days} days")
        if unknown:
            conditions.append("answer = 'unknown'")
        done = self._db.execute(f"DELETE FROM verdicts WHERE {' AND '.join(conditions)}", values)  # noqa: S608 - constants
        self._db.execute("VACUUM")
        return done.rowcount


def _question(text: str, where: str) -> Instance:
    return instance_of_wire(parse(text, InstanceWire, where), where)


def _fits(answer: Answer, instance: Instance) -> bool:
    """Return whether an answer from the file may be believed: an algorithm is judged again."""
    if isinstance(answer, Unsat):
        return True
    assert isinstance(answer, Sat)
    a = answer.algorithm
    shape = (a.topology, a.collective, a.steps, a.rounds)
    if shape != (instance.topology, instance.collective, instance.steps, instance.rounds):
        return False
    try:
        require_judged(a, "the store")
    except (JudgeError, InputError):
        return False
    return True


_KEPT = " (from the store)"


def is_kept(answer: Answer) -> bool:
    """Return whether an answer was found in a store."""
    return answer.solver.endswith(_KEPT)


def remembering(solve: Solve, store: Store, solver: str, timeout_s: float | None) -> Solve:
    """Return ``solve`` with a memory.

    Args:
        solver: its name, with whatever else decides its answers.
    """

    def ask(instance: Instance) -> Answer:
        known = store.get(instance, solver, timeout_s)
        if known is not None:
            return replace(known, solver=f"{known.solver}{_KEPT}")
        answer = solve(instance)
        store.put(instance, solver, timeout_s, answer)
        return answer

    return ask
