"""The writing of certificates, for ``--certify``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from rich.markup import escape

from sccl.cli.report import err, named

if TYPE_CHECKING:
    from sccl.core.algorithm import Algorithm
    from sccl.synth.frontier import Frontier
    from sccl.synth.limit.allreduce import TreeFrontier
    from sccl.synth.limit.frontier import LimitFrontier


def certify(
    frontier: Frontier,
    folder: Path,
    seconds: float,
    composed: Sequence[Algorithm] = (),
    *,
    quiet: bool,
) -> None:
    """Write the certificate of a frontier and say where.

    Args:
        seconds: for each proof.
        composed: of allreduce, compositions of any two halves.
    """
    from sccl.synth.ksync.certify import write_certificate  # noqa: PLC0415 - loads much

    console = err()
    with console.status("certificate") as status:
        path = write_certificate(
            frontier,
            folder,
            seconds,
            lambda text: status.update(f"certificate: {escape(text)}"),
            composed,
        )
    _say(path, folder, quiet=quiet)


def certify_limits(
    frontier: LimitFrontier,
    trees: TreeFrontier | None,
    folder: Path,
    composed: Sequence[Algorithm] = (),
    *,
    quiet: bool,
) -> None:
    """Write the certificate of a limit frontier and say where."""
    from sccl.synth.limit.certify import write_limit_certificate  # noqa: PLC0415 - loads much

    _say(write_limit_certificate(frontier, trees, folder, composed), folder, quiet=quiet)


def no_certificate(folder: Path) -> None:
    """Say that an interrupted sweep has none, and leave no empty folder."""
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()
    err().print("interrupted: no certificate is written", markup=False)


def _say(path: Path, folder: Path, *, quiet: bool) -> None:
    if not quiet:
        check = f"sccl verify-certificate {quote(str(folder))}"
        text = f"certificate: {named(path)}; check it with: {named(check)}"
        err().print(text, markup=False, soft_wrap=True)
