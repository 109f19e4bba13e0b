"""Torch's own test cases of a backend: ``torch_own_cases.py BACKEND RANKS LIKE [NAME ..]``.

They are part of ``torch.testing`` and run as torch runs them, each in separate processes. A
backend's name determines its cases. They are chosen as for LIKE (gloo, or mpi, the only one with
alltoall tests on CPUs), and run over BACKEND. Without names all are run. A line of JSON for each
has its result and the reason.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import tempfile
import types
import unittest
import warnings
from typing import Any
from unittest import mock

# Torch's cases choose themselves by these when they are loaded.
BACKEND, RANKS, LIKE = sys.argv[1:4]
os.environ |= {"BACKEND": LIKE, "WORLD_SIZE": RANKS, "DISTRIBUTED_TESTS_DEFAULT_TIMEOUT": "100"}
os.environ["INIT_METHOD"] = f"file://{tempfile.gettempdir()}/again-{os.getpid()}"

if importlib.util.find_spec("expecttest") is None:
    # Torch derives its cases from its own class, whose additions to unittest are unused here.
    stand_in: Any = types.ModuleType("expecttest")
    stand_in.TestCase, stand_in.ACCEPT = unittest.TestCase, False
    sys.modules["expecttest"] = stand_in

import torch  # noqa: E402 - after the change above
from torch.testing._internal.distributed import distributed_test  # noqa: E402 - after the change above

import sccl.torch  # noqa: E402, F401 - registers the backend

LENGTH = 600


class OwnCases(distributed_test.TestDistBackend, distributed_test.DistributedTest._DistTestBase):
    """Torch's cases, in processes that are forked, so that none loads torch anew."""

    def setUp(self) -> None:
        super().setUp()
        self._start_processes(torch.multiprocessing.get_context("fork").Process)

    @classmethod
    def _run(cls, rank: int, test_name: str, file_name: str, pipe: Any, **more: Any) -> None:
        torch.set_num_threads(1)
        super()._run(rank, test_name, file_name, pipe, **more)

    def _test_accumulate_gradients_no_sync(self, *args: Any, **more: Any) -> None:
        # It makes a model only for backends that it knows by name.
        with mock.patch.object(distributed_test, "BACKEND", LIKE):
            super()._test_accumulate_gradients_no_sync(*args, **more)


class Told(unittest.TestResult):
    """Prints how each case ended."""

    def say(self, test: unittest.TestCase, ended: str, why: str = "") -> None:
        line = {"case": test.id().rpartition(".")[2], "ended": ended, "why": why[-LENGTH:]}
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()

    def addSuccess(self, test: unittest.TestCase) -> None:  # noqa: N802 - unittest's name
        self.say(test, "passed")

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:  # noqa: N802 - likewise
        self.say(test, "skipped", reason)

    def addFailure(self, test: unittest.TestCase, err: Any) -> None:  # noqa: N802 - likewise
        self.say(test, "failed", self._exc_info_to_string(err, test))  # type: ignore[attr-defined]

    addError = addFailure  # noqa: N815 - unittest's name


def main() -> None:
    warnings.simplefilter("ignore")
    # From here on cases run, and the processes that they start are ours.
    distributed_test.BACKEND = os.environ["BACKEND"] = BACKEND
    names = sys.argv[4:] or unittest.defaultTestLoader.getTestCaseNames(OwnCases)
    unittest.TestSuite(map(OwnCases, names)).run(Told())


if __name__ == "__main__":
    main()
