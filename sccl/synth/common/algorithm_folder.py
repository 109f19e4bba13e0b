"""Save the algorithms and the frontier of a sweep in a folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sccl.core.files.algorithms import algorithm_to_wire
from sccl.core.files.disk import check_can_write, make_directory, slugify, write_atomically
from sccl.core.files.json_text import to_text
from sccl.core.frontier import Frontier, StepLimitFrontier
from sccl.core.symmetric import AnyAlgorithm


@dataclass(frozen=True, slots=True)
class AlgorithmFolder:
    """A folder of algorithm files, one per point, named by collective, machine and numbers."""

    path: Path

    def prepare(self) -> None:
        """Create the folder.

        Raises:
            InputError: It cannot be created.
        """
        make_directory(self.path)
        check_can_write(self.path / "probe")

    def file_of(self, algorithm: AnyAlgorithm, kind: str = "") -> Path:
        """Return the file of an algorithm, such as ``allgather-dgx1-c6-s3-r7.json``.

        Args:
            algorithm: The algorithm.
            kind: Family that is not the usual one of the collective, such as ``"trees"``.
        """
        a = algorithm
        name = _question_slug(a.topology.name, a.collective.name, a.collective.root)
        cost = f"c{a.collective.chunks}-s{a.steps}-r{a.rounds}"
        return self.path / f"{name}-{cost}{f'-{kind}' if kind else ''}.json"

    def save(self, algorithm: AnyAlgorithm, kind: str = "") -> Path:
        """Write an algorithm and return its file.

        Raises:
            InputError: The file cannot be written.
        """
        path = self.file_of(algorithm, kind)
        write_atomically(path, to_text(algorithm_to_wire(algorithm)))
        return path

    def save_frontier(self, frontier: Frontier, head: Mapping[str, Any]) -> Path:
        """Write a frontier, without durations, and return its file.

        Args:
            frontier: The frontier.
            head: First fields of the file.

        Raises:
            InputError: The file cannot be written.
        """
        from sccl.core.files.frontiers import frontier_to_plain  # noqa: PLC0415 - few sweeps are saved

        name = _question_slug(frontier.topology, frontier.collective, frontier.root)
        kind = "limits" if isinstance(frontier, StepLimitFrontier) else "frontier"
        path = self.path / f"{name}-{kind}.json"
        plain = {**head, **frontier_to_plain(frontier.without_transient)}
        write_atomically(path, json.dumps(plain, indent=1) + "\n")
        return path

    def discard(self, path: Path) -> None:
        """Remove a file that a better algorithm of the same sweep replaces."""
        path.unlink(missing_ok=True)


def _question_slug(topology: str, collective: str, root: int | None) -> str:
    return f"{slugify(collective)}{f'-root{root}' if root else ''}-{slugify(topology)}"
