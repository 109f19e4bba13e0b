"""Conformance test of a target of generated code: :func:`check_target`.

`tests/codegen/targets/` tests the compiled code by target.
"""

from __future__ import annotations

from functools import partial

from sccl.codegen.program_file import PROGRAM_FILE
from sccl.codegen.project_writer import generate, targets
from sccl.codegen.targets.codegen_options import TRANSPORTS, CodegenOptions
from sccl.core.algorithm import Algorithm
from sccl.core.files.algorithms import algorithm_to_wire
from sccl.core.files.json_text import parse, to_text
from sccl.core.files.programs import ProjectWire, project_text
from tests.kit import once
from tests.kit.easy_algorithms import frontier
from tests.kit.processes import run_with_other_hashes

_FILES = {PROGRAM_FILE, "Makefile", "README.md", "sccl.h", "selection.hpp", "steps.hpp"}
"""Files of every project."""


def check_target(name: str) -> None:
    """Check the contract of a target: complete projects with its name, and reproducible bytes.

    Raises:
        AssertionError: The target violates the contract.
    """
    assert name in targets()
    for options in (CodegenOptions(transport=transport) for transport in TRANSPORTS):
        files = generate(algorithms(), name, options)
        check_project(name, files)
        assert generate(list(algorithms()), name, options) == files
        if options == CodegenOptions():
            check_same_bytes(name, files)


def check_project(name: str, files: dict[str, str]) -> None:
    """Check that a project is complete and names its algorithms."""
    assert files.keys() >= _FILES
    assert all(text.endswith("\n") and text.isascii() for text in files.values())
    program = parse(files[PROGRAM_FILE], ProjectWire, PROGRAM_FILE)
    assert project_text(program) == files[PROGRAM_FILE]
    assert program.target == name
    assert sum(len(entry.algorithms) for entry in program.collectives) == len(algorithms())


def check_same_bytes(name: str, files: dict[str, str]) -> None:
    """Check that it writes the same where sets of strings have another order."""
    texts = [to_text(algorithm_to_wire(algorithm)) for algorithm in algorithms()]
    program = partial(run_with_other_hashes, "tests.programs.emitted", texts)
    assert once.value("projects for all targets, with other hashes", program)[name] == files


def algorithms() -> list[Algorithm]:
    """Return algorithms of two collectives, one of which reduces."""
    return [*frontier("ring:4", "allreduce"), *frontier("ring:4", "alltoall")]
