"""Generated projects, exported files, and the checker's verdicts on the committed certificates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.golden.records import Net, digests, names_differ, regressions, stable
from tests.kit.documents import run
from tests.kit.paths import GOLDEN, PUBLISHED

TARGETS = ("cuda", "hip", "host")
FORMATS = (
    "astra-sim",
    "chakra",
    "chrome-trace",
    "csv",
    "goal",
    "msccl-json",
    "msccl-xml",
    "mscclpp",
)
ALGORITHMS = GOLDEN / "algorithms"
SIZE = "1152KB"  # divides into the chunks of all plans
SCHEDULE = "tacos allreduce torus:2x2"
PLANS = (
    "allgather-dgx1-c6-s3-r7",
    "allgather-torus-4x4-c4-s4-r15",
    "alltoall-z52-pcie-c8-s3-r16",
    "allreduce-dgx1-c24-s4-r8",
    "broadcast-one-way-c2-s2-r4-root3",
    "ends-star-4-c3-s3-r7",
    "reducescatter-one-way-c8-s3-r7",
    SCHEDULE,
)
"""Several features: uneven rounds, budgets, trees, roots, a custom collective, times."""

PROJECTS: dict[str, tuple[str, ...]] = {name: (name,) for name in PLANS} | {
    "two algorithms": ("allgather-dgx1-c2-s2-r3", "allgather-dgx1-c6-s3-r7"),
    "two collectives": ("allgather-dgx1-c6-s3-r7", "allreduce-dgx1-c16-s4-r6"),
}
OPTIONS = {
    "": (),
    "blocks": ("--blocks-per-link", "2"),
    "dma": ("--transport", "dma"),
}
CERTIFICATES = sorted(
    path.parent.relative_to(PUBLISHED).as_posix() for path in PUBLISHED.rglob("claims.json")
)


def plan_file(name: str, folder: Path) -> Path:
    """Return the file of a plan, which is generated for the schedule."""
    if name != SCHEDULE:
        return ALGORITHMS / f"{name}.json"
    file = folder / "schedule.json"
    if not file.exists():
        on = ("--collective", "allreduce", "--topo", "torus:2x2", "--size", "1MB")
        assert run("synth", "tacos", *on, "-o", file)[0] == 0
    return file


def project_cases() -> list[str]:
    """Return target, algorithms, and options of every project."""
    cases = [f"{target}, {name}" for target in TARGETS for name in PROJECTS]
    gpus = [target for target in TARGETS if target != "host"]
    return cases + [f"{target}, {PLANS[0]}, {name}" for target in gpus for name in OPTIONS if name]


@pytest.mark.parametrize("case", project_cases())
def test_project_equals_record(case: str, net: Net, tmp_path: Path) -> None:
    target, name, *options = case.split(", ")
    files = [plan_file(plan, tmp_path) for plan in PROJECTS[name]]
    project = tmp_path / "project"
    more = [word for option in options for word in OPTIONS[option]]
    code, document = run("project", "new", *files, "--target", target, *more, "-o", project)
    assert code == 0, document
    net.check("projects", case, digests(project), by_value=names_differ)


EXPORTS = [f"{name}, {plan}" for name in FORMATS for plan in PLANS]


@pytest.mark.parametrize("case", EXPORTS)
def test_export_equals_record(case: str, net: Net, tmp_path: Path) -> None:
    name, plan = case.split(", ")
    out = tmp_path / "out"
    out.mkdir()
    size = () if plan == SCHEDULE else ("--size", SIZE)
    given = ("--format", name, *size, "-o", out / "plan")
    code, document = run("export", plan_file(plan, tmp_path), *given)
    record: dict[str, Any] = {"exit_code": code}
    if code:
        record["message"] = stable(document["error"]["message"], tmp_path)
    else:
        record["files"] = digests(out)
        record["notes"] = stable(document["notes"], tmp_path)
        record["imported"] = imported(out)
    net.check("exports", case, record, by_value=exports_differ)


def imported(out: Path) -> str | None:
    """Return the digest of a single exported file as a plan, or why it is none."""
    files = [path for path in out.rglob("*") if path.is_file()]
    if len(files) != 1:
        return None
    plan = out.with_suffix(".json")
    code, document = run("import", files[0], "-o", plan)
    message = document["error"]["message"] if code else None
    return stable(message, out.parent) if code else digests(plan.parent)[plan.name]


def exports_differ(old: Any, new: Any) -> Iterator[str]:
    """Yield an export that fails, succeeds, or has other files than before."""
    if old["exit_code"] != new["exit_code"]:
        yield f"was {old}, is {new}"
    yield from names_differ(old.get("files", ()), new.get("files", ()))


@pytest.mark.parametrize("plan", PLANS)
def test_simulation_equals_record(plan: str, net: Net, tmp_path: Path) -> None:
    size = () if plan == SCHEDULE else ("--size", SIZE)
    _, document = run("simulate", plan_file(plan, tmp_path), *size)
    net.check("simulate", plan, stable(document, tmp_path, ALGORITHMS), by_value=regressions)


@pytest.mark.parametrize("name", CERTIFICATES)
def test_committed_certificate_equals_record(name: str, net: Net) -> None:
    code, document = run("certificate", "verify", PUBLISHED / name)
    claims = [f"{row['state']}: {row['claim']} ({row['detail']})" for row in document["claims"]]
    net.check("certificates", name, {"exit_code": code, "claims": claims}, by_value=claims_lost)


def claims_lost(old: Any, new: Any) -> Iterator[str]:
    """Yield a certificate that holds no longer, or has fewer claims that hold."""
    yield from regressions({"exit_code": old["exit_code"]}, {"exit_code": new["exit_code"]})
    before, after = (
        sum(claim.startswith("ok: ") for claim in record["claims"]) for record in (old, new)
    )
    if after < before:
        yield f"{after} claims hold, {before} did"


@pytest.mark.parametrize(
    ("area", "cases"),
    [
        ("projects", project_cases()),
        ("exports", EXPORTS),
        ("simulate", PLANS),
        ("certificates", CERTIFICATES),
    ],
)
def test_records_have_no_other_cases(area: str, cases: Sequence[str], net: Net) -> None:
    net.check_cases(area, cases)
