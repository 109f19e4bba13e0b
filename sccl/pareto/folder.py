"""Where a sweep keeps the algorithms it finds."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sccl.core.codec import any_algorithm_to_wire, text_of
from sccl.core.files import check_can_write, make_directory, slug, write_atomically
from sccl.core.symmetric import AnyAlgorithm


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder of algorithm files, one per point, named by what they are."""

    path: Path

    def prepare(self) -> None:
        """Create the folder.

        Raises:
            InputError: it cannot be created.
        """
        make_directory(self.path)
        check_can_write(self.path / "probe")

    def file_of(self, algorithm: AnyAlgorithm) -> Path:
        """Return the file of an algorithm, such as ``allgather-dgx1-c6-s3-r7.json``."""
        a = algorithm
        root = "" if a.collective.root in (None, 0) else f"-root{a.collective.root}"
        name = f"{slug(a.collective.name)}{root}-{slug(a.topology.name)}"
        return self.path / f"{name}-c{a.collective.chunks}-s{a.steps}-r{a.rounds}.json"

    def save(self, algorithm: AnyAlgorithm) -> Path:
        """Write an algorithm and return its file.

        Raises:
            InputError: the file cannot be written.
        """
        path = self.file_of(algorithm)
        write_atomically(path, text_of(any_algorithm_to_wire(algorithm)))
        return path

    def discard(self, path: Path) -> None:
        """Remove a file that a better algorithm of the same sweep replaces."""
        path.unlink(missing_ok=True)
