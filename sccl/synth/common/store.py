"""Store verdicts in an SQLite file, so that a repeated or wider sweep continues an earlier one.

There is one row per instance and solver. It is written as soon as the answer is known, so a killed
process loses only the query in progress. Several sweeps may share a file. Answers are JSON. An
algorithm is verified again when it is read, because anyone may have written the file. An unsat
names its origin.
"""

from __future__ import annotations

import random
import sqlite3
import time
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Annotated, NamedTuple, TypeVar

import msgspec
from msgspec import Meta

from sccl.core.answer import Answer, Origin, Sat, Unknown, Unsat, verdict
from sccl.core.files.algorithms import (
    answer_from_wire,
    answer_to_wire,
    instance_from_wire,
    instance_to_wire,
)
from sccl.core.files.json_text import digest, parse
from sccl.core.files.shapes import AnswerWire, InstanceWire, Part, Seconds
from sccl.core.instance import Instance
from sccl.errors import InputError, JudgeError, ParameterError, ScclWarning
from sccl.judge import require_valid

T = TypeVar("T")
SCHEMA_VERSION = 1
"""Version of the tables. A file of another version is rejected."""

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
_COLUMNS = (
    ("instance", "TEXT"), ("solver", "TEXT"), ("answer", "TEXT"), ("seconds", "REAL"),
    ("given", "REAL"), ("version", "TEXT"), ("at", "TEXT"), ("question", "TEXT"),
    ("content", "TEXT"),
)  # fmt: skip
_LOCK_TIMEOUT_S = 20.0
"""Longest wait for another process's lock. A write takes milliseconds, but on a slow disk a process
that writes without pause can win the lock many times in a row."""

_derived_unsats: set[tuple[str, str]] = set()
"""The (instance, solver) of each unsat that this process derived and put into any store."""
_LOCK_ERRORS = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}


class VerdictPart(Part, frozen=True):
    """A verdict of the store."""

    instance: Annotated[str, "The digest of the instance."]
    solver: str
    answer: Annotated[str, Meta(pattern="^(sat|unsat|unknown)$")]
    seconds: Seconds
    version: str
    at: Annotated[str, "When, in UTC."]
    topology: str
    collective: str
    chunks: int
    steps: int
    rounds: int


class _ListedRow(NamedTuple):
    instance: str
    solver: str
    answer: str
    seconds: float
    version: str
    at: str
    question: str


class _AnswerRow(NamedTuple):
    instance: str
    solver: str
    question: str
    content: str


class Store:
    """A file of verdicts. Open it, use it from one thread, close it.

    The store may fail during a sweep: the disk is full, or another process damages or locks the
    file. Then it warns once, and the sweep continues without it.

    Args:
        path: The file.
        version: Version of sccl.
        is_user_store: Whether it is the user's own store, and not a file that others may have
            written.
        writing: Whether the file must be writable, which is tested. Otherwise a missing file counts
            as an empty store and is not created.

    Raises:
        InputError: The file cannot be opened, is no store, is damaged, is locked, or has another
            version.
    """

    def __init__(
        self, path: Path, *, version: str, is_user_store: bool = True, writing: bool = True
    ) -> None:
        self.path, self.version, self.is_user_store = path, version, is_user_store
        self._has_warned = self._is_write_disabled = False
        with self._as_input_error():
            if writing:
                path.parent.mkdir(parents=True, exist_ok=True)
            place = path if writing or path.exists() else ":memory:"  # reading creates no file
            self._db = sqlite3.connect(place, timeout=0, isolation_level=None)
            try:
                self._prepare()
                if writing:
                    self._execute("BEGIN IMMEDIATE")
                    self._execute("ROLLBACK")
            except BaseException:
                self.close()
                raise

    def _prepare(self) -> None:
        """Create the tables in an empty file, and check those of another one."""
        version = self._schema_version()
        if version == 0:
            self._execute("BEGIN IMMEDIATE")  # another process may do the same
            version = self._schema_version()
            if version == 0 and not self._execute("SELECT name FROM sqlite_master").fetchone():
                self._execute(_TABLES)
                self._execute(f"PRAGMA user_version={SCHEMA_VERSION}")
                version = SCHEMA_VERSION
            self._execute("COMMIT")
            if version == SCHEMA_VERSION:
                self._execute("PRAGMA journal_mode=WAL")  # readers and a writer at the same time
        if version != SCHEMA_VERSION:
            raise InputError(
                f"{self.path} is a store of version {version}, and this sccl uses version "
                f"{SCHEMA_VERSION}: give another file (--store) or move this one away"
            )
        columns = self._execute("SELECT name, type FROM pragma_table_info('verdicts')")
        if tuple(columns.fetchall()) != _COLUMNS:
            raise InputError(
                f"the store {self.path} is damaged: its tables lack the expected columns"
            )

    def _schema_version(self) -> int:
        return int(self._execute("PRAGMA user_version").fetchone()[0])

    def close(self) -> None:
        """Close the file."""
        with suppress(sqlite3.Error):  # the entry is stored, and the rest is cleanup
            self._db.close()

    def _execute(self, text: str, values: Iterable[object] = ()) -> sqlite3.Cursor:
        """Execute a statement. Wait a little for other processes, with possible interruption.

        Raises:
            sqlite3.Error: The file is locked for longer, or the statement fails.
        """
        deadline = time.monotonic() + _LOCK_TIMEOUT_S
        while True:
            try:
                return self._db.execute(text, tuple(values))
            except sqlite3.OperationalError as error:
                if not _is_locked(error) or time.monotonic() > deadline:
                    raise
                time.sleep(random.uniform(0, 0.01))  # noqa: S311 - avoids lockstep

    @contextmanager
    def _as_input_error(self) -> Iterator[None]:
        try:
            yield
        except (OSError, sqlite3.Error, UnicodeError) as error:
            raise InputError(
                f"cannot use the store {self.path} ({_failure_text(error)}); give another file "
                "with "
                "--store, or --no-store"
            ) from error

    def _warn(self, error: Exception) -> None:
        if not self._has_warned:
            self._has_warned = True
            warnings.warn(
                f"the store {self.path} fails ({_failure_text(error)}): going on without it",
                ScclWarning,
                stacklevel=3,
            )

    def get(self, instance: Instance, solver: str, timeout_s: float | None) -> Answer | None:
        """Return the known answer of an instance. None: there is no usable one.

        Runs must be repeatable, so only this solver's answers count. An unknown counts if its time
        limit was at least as long as ``timeout_s``, in this version. An unsat names its origin.
        """
        key = digest(instance_to_wire(instance))
        try:
            row = self._execute(
                "SELECT content, given, version FROM verdicts WHERE instance = ? AND solver = ?",
                (key, solver),
            ).fetchone()
        except (sqlite3.Error, UnicodeError) as error:
            self._warn(error)
            return None
        if row is None:
            return None
        content, time_limit, version = row
        try:
            where = f"{self.path}, {key}"
            answer = answer_from_wire(parse(content, AnswerWire, where), where)
        except InputError:
            return None  # a damaged answer counts as missing
        if isinstance(answer, Unknown):
            longer = time_limit is None or (timeout_s is not None and time_limit >= timeout_s)
            return answer if longer and version == self.version else None
        if isinstance(answer, Unsat):
            return replace(answer, origin=self._origin(answer, (key, solver), version))
        return answer if is_valid_answer(answer, instance) else None

    def _origin(self, answer: Unsat, key: tuple[str, str], version: str) -> Origin:
        if key in _derived_unsats:
            return Origin.THIS_PROCESS
        if not self.is_user_store:
            return Origin.STORE_FILE
        if answer.origin is Origin.CLUSTER:
            return Origin.CLUSTER
        return Origin.STORED if version == self.version else Origin.OTHER_VERSION

    def put(self, instance: Instance, solver: str, timeout_s: float | None, answer: Answer) -> None:
        """Store an answer, if possible."""
        question = instance_to_wire(instance)
        key = digest(question)
        if isinstance(answer, Unsat) and answer.origin is Origin.THIS_PROCESS:
            _derived_unsats.add((key, solver))
        if self._is_write_disabled:
            return
        values = (
            key,
            solver,
            verdict(answer),
            answer.seconds,
            timeout_s,
            self.version,
            msgspec.json.encode(question).decode(),
            msgspec.json.encode(answer_to_wire(answer)).decode(),
        )
        try:
            self._execute(
                "INSERT OR REPLACE INTO verdicts "
                "(instance, solver, answer, seconds, given, version, question, content) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                values,
            )
        except sqlite3.Error as error:
            self._is_write_disabled = True
            self._warn(error)

    def rows(self) -> Iterator[VerdictPart]:
        """Yield the stored rows, oldest first.

        Raises:
            InputError: The file is damaged.
        """
        stored_rows = self._select(
            "SELECT instance, solver, answer, seconds, version, at, question FROM verdicts "
            "ORDER BY at, instance, solver",
            _ListedRow,
        )
        for key, solver, answer, seconds, version, at, question in stored_rows:
            asked = _decode_question(question, f"{self.path}, {key}")
            yield VerdictPart(
                key.removeprefix("sha256:"),
                solver,
                answer,
                round(seconds, 3),
                version,
                at,
                asked.topology.name,
                asked.collective.name,
                asked.collective.chunks,
                asked.steps,
                asked.rounds,
            )

    def find(self, start: str) -> list[tuple[Instance, str, Answer]]:
        """Return (question, solver, answer) of the instance whose digest has this prefix.

        Raises:
            ParameterError: No instance or several instances have it.
            InputError: The file is damaged.
        """
        if not start or not all(c in "0123456789abcdef" for c in start):
            raise ParameterError(f"{start!r} is no start of a digest; see 'sccl doctor cache'")
        matches = self._select(
            "SELECT instance, solver, question, content FROM verdicts WHERE instance LIKE ? "
            "ORDER BY solver",
            _AnswerRow,
            (f"sha256:{start}%",),
        )
        if len({row[0] for row in matches}) != 1:
            how = "several instances" if matches else "no instance"
            raise ParameterError(
                f"{self.path} has {how} of a digest that starts with {start!r}; "
                "see 'sccl doctor cache'"
            )
        rows = []
        for key, solver, question, content in matches:
            where = f"{self.path}, {key}"
            answer = answer_from_wire(parse(content, AnswerWire, where), where)
            rows.append((_decode_question(question, where), solver, answer))
        return rows

    def discard(self, *, older_than_days: float | None, unknown: bool) -> int:
        """Delete rows, free their space, and return their number.

        Args:
            older_than_days: Minimum age of deleted rows. None: any age.
            unknown: Whether to delete only undecided rows.

        Raises:
            InputError: The file is damaged, locked, or not writable.
        """
        conditions, values = ["1"], []
        if older_than_days is not None:
            conditions.append("at < datetime('now', ?)")
            values.append(f"-{older_than_days} days")
        if unknown:
            conditions.append("answer = 'unknown'")
        delete = f"DELETE FROM verdicts WHERE {' AND '.join(conditions)}"  # noqa: S608 - constants
        with self._as_input_error():
            done = self._execute(delete, values)
            self._execute("VACUUM")
        return done.rowcount

    def _select(self, text: str, row: type[T], values: Iterable[object] = ()) -> list[T]:
        """Return rows of a file that anyone may have written.

        Raises:
            InputError: The file cannot be read, or has unexpected contents.
        """
        with self._as_input_error():
            rows = self._execute(text, values).fetchall()
        try:
            return msgspec.convert(rows, list[row])  # type: ignore[valid-type]
        except msgspec.ValidationError as error:
            raise InputError(f"the store {self.path} is damaged ({error}): delete it") from error


def _is_locked(error: Exception) -> bool:
    return (
        getattr(error, "sqlite_errorcode", None) in _LOCK_ERRORS
    )  # errors of Python's own sqlite3 code have no error code


def _failure_text(error: Exception) -> str:
    if _is_locked(error):
        return "another process has locked it"
    if isinstance(error, UnicodeError) or not hasattr(error, "sqlite_errorcode"):
        return getattr(error, "strerror", None) or "it is damaged: text that cannot be decoded"
    return str(error)


def _decode_question(text: str, where: str) -> Instance:
    return instance_from_wire(parse(text, InstanceWire, where), where)


def is_valid_answer(answer: Sat, instance: Instance) -> bool:
    """Return whether an algorithm of unknown origin answers an instance and is valid."""
    a = answer.algorithm
    asked = (a.topology, a.collective, a.steps, a.rounds)
    if asked != (instance.topology, instance.collective, instance.steps, instance.rounds):
        return False
    try:
        require_valid(a, "the store")
    except (JudgeError, InputError):
        return False
    return True
