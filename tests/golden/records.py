"""Records of the golden tests, and the two ways to compare a result with its record.

``bytes`` compares everything, digests of files included. ``values`` suits a change of an engine:
bounds may rise, completion times may grow by 2 %, and files may differ if they are verified.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import subprocess
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import sccl
from tests.kit.paths import GOLDEN, ROOT

RECORDS = GOLDEN / "records"

LINE = 140
"""Characters of a line of a record."""

VOLATILE = {"at", "compilation_seconds", "from_store", "sccl", "seconds", "version"}
"""Fields that differ from run to run, or with the version."""

BOUNDS = {"bandwidth", "bound_us", "limit", "lower", "weighted_bound_us"}
TIMES = {"bandwidth_cost", "finish_us", "period_us", "time_us", "upper", "weighted_us"}
PROOFS = {"attained", "complete", "every_k", "proved"}
DETAILS = {"certificate", "certificates", "inputs", "open", "unsat"}
"""Fields that say why a bound or proof holds, in which engines may differ."""

ROUNDING = Fraction(1, 10**6)
"""Relative error of a bound in microseconds, which is a rounded linear-programming optimum."""

GROWTH = Fraction(2, 100)
"""Relative growth of a completion time or of R/C that an engine may cost."""

Compare = Callable[[Any, Any], Iterator[str]]


@dataclass(frozen=True, slots=True)
class Net:
    """Mode of comparison of this run.

    Attributes:
        values: Whether a change of an engine is tolerated.
        since: Revision of the records, None for the working tree.
        update: Whether records are written.
    """

    values: bool
    since: str | None
    update: bool

    @property
    def verifies(self) -> bool:
        """Return whether files are verified: equal bytes were verified when they were recorded."""
        return self.values or self.update

    def check(
        self, area: str, case: str, result: Any, by_value: Compare, *, exact: bool = True
    ) -> None:
        """Compare a result with its record, or record it. ``exact`` compares bytes."""
        if self.update:
            _write(area, case, result)
            return
        records = read(area, self.since)
        if self.since is not None and case not in records:
            return  # a case that the revision does not have yet
        assert case in records, f"{area}: no record of {case!r}; see --update-golden"
        compare = differences if exact and not self.values else by_value
        problems = list(compare(records[case], json.loads(json.dumps(result))))
        shown = "\n".join(problems[:20])
        assert not problems, f"{area}: {case}\n{shown}\n({len(problems)} differences in all)"

    def check_cases(self, area: str, cases: Iterable[str]) -> None:
        """Check that an area has no records of other cases, or delete them."""
        stale = read(area).keys() - set(cases)
        if self.update and stale:
            with _locked():
                kept = {case: record for case, record in read(area).items() if case not in stale}
                _save(area, kept)
            return
        assert not stale, f"{area}: records of no case, see --update-golden: {sorted(stale)}"


def read(area: str, revision: str | None = None) -> dict[str, Any]:
    """Return the records of an area by case, as of a revision or of the working tree."""
    file = RECORDS / f"{area}.json"
    if revision is None:
        text = file.read_text(encoding="utf-8") if file.exists() else "{}"
    else:
        command = ["git", "show", f"{revision}:{file.relative_to(ROOT)}"]
        text = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    records: dict[str, Any] = json.loads(text)
    return records


def _write(area: str, case: str, result: Any) -> None:
    with _locked():  # several workers write records of one area
        _save(area, read(area) | {case: result})


@contextmanager
def _locked() -> Iterator[None]:
    folder = os.open(RECORDS, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def _save(area: str, records: dict[str, Any]) -> None:
    (RECORDS / f"{area}.json").write_text("".join(_pieces(records)) + "\n", encoding="utf-8")


def _pieces(value: Any, indent: str = "") -> Iterator[str]:
    """Yield the JSON text of a value, with short values on one line."""
    flat = json.dumps(value, ensure_ascii=False, sort_keys=True)
    if not isinstance(value, dict | list) or len(indent) + len(flat) <= LINE:
        yield flat
        return
    named = isinstance(value, dict)
    rows = sorted(value.items()) if isinstance(value, dict) else [("", row) for row in value]
    yield "{" if named else "["
    for index, (name, row) in enumerate(rows):
        yield f"{',' if index else ''}\n{indent} "
        if named:
            yield f"{json.dumps(name, ensure_ascii=False)}: "
        yield from _pieces(row, f"{indent} ")
    yield f"\n{indent}{'}' if named else ']'}"


def digests(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of every file in a folder, without the version, by its path there."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): _digest(path) for path in files}


def _digest(path: Path) -> str:
    """Return the SHA-256 of a file without the version that wrote it."""
    content = path.read_bytes()
    for text in ("sccl {}", '"sccl": "{}"'):
        content = content.replace(text.format(sccl.__version__).encode(), b"sccl VERSION")
    return hashlib.sha256(content).hexdigest()


def stable(document: Any, *folders: Path) -> Any:
    """Return a document without fields that differ from run to run, and without its folders."""
    if isinstance(document, dict):
        items = {key: value for key, value in document.items() if key not in VOLATILE}
        return {str(stable(k, *folders)): stable(v, *folders) for k, v in items.items()}
    if isinstance(document, list):
        return [stable(value, *folders) for value in document]
    if isinstance(document, str):
        for folder in folders:
            document = document.replace(str(folder), "FOLDER")
    return document


# --- comparisons ---------------------------------------------------------------------------------


def differences(old: Any, new: Any, where: str = "") -> Iterator[str]:
    """Yield every difference."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | new.keys()):
            place = f"{where}/{key}"
            if key not in new:
                yield f"{place}: missing, was {_short(old[key])}"
            elif key not in old:
                yield f"{place}: new, {_short(new[key])}"
            else:
                yield from differences(old[key], new[key], place)
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (before, after) in enumerate(zip(old, new, strict=True)):
            yield from differences(before, after, f"{where}/{index}")
    elif old != new:
        yield f"{where}: was {_short(old)}, is {_short(new)}"


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 160 else f"{text[:157]}..."


def no_differences(_old: Any, _new: Any) -> Iterator[str]:
    """Yield nothing: help texts may change with an engine."""
    yield from ()


def names_differ(old: Any, new: Any) -> Iterator[str]:
    """Yield the missing and new files, ignoring digests."""
    yield from differences(sorted(old), sorted(new))


def regressions(old: Any, new: Any, where: str = "") -> Iterator[str]:
    """Yield each bound that fell, time that grew by more than 2 %, and proof that is lost."""
    if isinstance(old, dict):
        if not isinstance(new, dict):
            yield f"{where}: missing"
            return
        for key, before in old.items():
            yield from _regressions_of_field(key, old, new, before, f"{where}/{key}")
        yield from _unsound(old, new, where)
    elif isinstance(old, list):
        frontier = any(isinstance(item, dict) and "bandwidth_cost" in item for item in old)
        yield from (_frontier_regressions if frontier else _row_regressions)(old, new, where)


def _regressions_of_field(key: str, old: Any, new: Any, before: Any, where: str) -> Iterator[str]:
    after = new.get(key)
    is_bound = key in BOUNDS or (key == "steps" and "bandwidth" in old)
    if before is None or key in DETAILS:
        return
    if key == "attained" and isinstance(before, dict):  # by a construction: no bounds
        before = {"bandwidth_cost": before["bandwidth"]}
        after = {"bandwidth_cost": (after or {}).get("bandwidth")}
    if isinstance(before, dict | list):
        yield from regressions(before, after, where)
    elif is_bound or key in TIMES:
        slack = ROUNDING if isinstance(before, float) else 0
        if after is None:
            yield f"{where}: missing, was {before}"
        elif is_bound and _number(after) < _number(before) * (1 - slack):
            yield f"{where}: the bound fell from {before} to {after}"
        elif key in TIMES and _number(after) > _number(before) * (1 + GROWTH):
            yield f"{where}: grew from {before} to {after}, more than 2 %"
    elif isinstance(before, bool):
        if key in PROOFS and before and not after:
            yield f"{where}: no longer proved"
    elif key == "exit_code" and after != before and (before, after) != (3, 0):  # 3: undecided
        yield f"{where}: was {before}, is {after}"


def _unsound(old: Any, new: Any, where: str) -> Iterator[str]:
    """Yield bounds above a completion time or R/C that a verified plan has attained."""
    for bound in ("bound_us", "limit", "lower"):
        for attained in ("finish_us", "period_us", "time_us", "bandwidth_cost", "upper"):
            if not isinstance(new.get(bound), str | float | int) or old.get(attained) is None:
                continue
            if _number(new[bound]) > _number(old[attained]) * (1 + ROUNDING):
                yield f"{where}/{bound}: {new[bound]}, but {old[attained]} was attained"


def _number(value: Any) -> Fraction:
    return Fraction(str(value))


def _frontier_regressions(old: Any, new: Any, where: str) -> Iterator[str]:
    """Compare points by S: fewer steps or a lower R/C are improvements."""
    for point in old:
        place = f"{where}/S={point['steps']}"
        near = [p for p in new or () if p["steps"] <= point["steps"]]
        if not near:
            yield f"{place}: no point with at most as many steps"
            continue
        best = min(near, key=lambda p: (_number(p["bandwidth_cost"]), not p["proved"]))
        grown = _number(best["bandwidth_cost"]) > _number(point["bandwidth_cost"])
        if point["proved"] and grown:
            yield f"{place}: R/C grew from {point['bandwidth_cost']}, which was proved optimal"
        elif best["steps"] == point["steps"]:
            yield from regressions(point, best, place)


def _row_regressions(old: Any, new: Any, where: str) -> Iterator[str]:
    """Compare rows by their names, sizes, or steps, and otherwise by position."""
    rows = {_name_of(row, index): row for index, row in enumerate(new or ())}
    for index, row in enumerate(old):
        if isinstance(row, dict):
            name = _name_of(row, index)
            yield from regressions(row, rows.get(name), f"{where}/{name}")


def _name_of(row: Any, index: int) -> str:
    keys = ("name", "class", "search", "size_bytes", "steps") if isinstance(row, dict) else ()
    return next((str(row[key]) for key in keys if key in row), str(index))


def shapes_differ(old: Any, new: Any, where: str = "") -> Iterator[str]:
    """Yield the missing or new fields and those of another type. Null fits every type."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() ^ new.keys()):
            yield f"{where}/{key}: {'missing' if key in old else 'new'}"
        for key in sorted(old.keys() & new.keys()):
            yield from shapes_differ(old[key], new[key], f"{where}/{key}")
    elif isinstance(old, list) and isinstance(new, list):
        yield from shapes_differ(_fields_of_rows(old), _fields_of_rows(new), f"{where}/*")
    elif None not in (old, new) and _type(old) != _type(new):
        yield f"{where}: was {_type(old)}, is {_type(new)}"


def blank(value: Any) -> Any:
    """Return the shape of a document: its values are empty, and each list has one row."""
    if isinstance(value, dict):
        return {key: blank(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [blank(_fields_of_rows(value))]
    return None if value is None else type(value)()


def _fields_of_rows(rows: list[Any]) -> Any:
    """Return all fields of the rows of a list in one row, or None without fields."""
    merged: dict[str, Any] = {}
    for row in rows:
        if not isinstance(row, dict):
            return row
        merged |= {key: value for key, value in row.items() if merged.get(key) is None}
    return merged or None


def _type(value: Any) -> str:
    return "number" if isinstance(value, float) else type(value).__name__.replace("int", "number")


def schemas_differ(old: Any, new: Any) -> Iterator[str]:
    """Yield differences of JSON schemas other than descriptions."""
    yield from differences(_undescribed(old), _undescribed(new))


def _undescribed(schema: Any) -> Any:
    if isinstance(schema, dict):
        texts = {key for key in ("description", "about") if isinstance(schema.get(key), str)}
        return {key: _undescribed(value) for key, value in schema.items() if key not in texts}
    return list(map(_undescribed, schema)) if isinstance(schema, list) else schema
