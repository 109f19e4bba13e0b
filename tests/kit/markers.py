"""Markers of the requirements of tests, by file and name, fixtures, and duration.

``make test`` leaves out tests with a requirement and long ones, but for an example of each kind.
``make test-rest`` runs them. pyproject.toml describes each marker.
"""

from __future__ import annotations

import pytest

from tests.kit import file_order

BY_NAME = {  # by how the name of a test begins
    "tests/codegen/targets/test_gpu.py": "compiler",
    "tests/codegen/targets/test_gpu_memory_order.py": "compiler",
    "tests/torch_backend/control/test_control_plane.py::test_processes": "torch",
    "tests/torch_backend/calls/test_device_calls.py::test_calls_go": "torch",
    "tests/torch_backend/calls/test_device_calls.py::test_without_a_plan": "torch",
    "tests/torch_backend/test_example.py": "torch",
    "tests/torch_backend/test_executor.py": "torch",
    "tests/torch_backend/test_scripts.py::test_blocks_that_are": "torch",
    "tests/torch_backend/test_scripts.py::test_job_": "torch",
    "tests/torch_backend/test_scripts.py::test_interfaces": "torch",
    "tests/torch_backend/test_group.py::test_carrier": "torch",
    "tests/torch_backend/test_group.py::test_every": "torch",
    "tests/torch_backend/test_group.py::test_group_that": "torch",
    "tests/torch_backend/test_group.py::test_job_may": "torch",
    "tests/torch_backend/test_group.py::test_no_thread": "torch",
    "tests/torch_backend/test_group.py::test_training": "torch",
    "tests/torch_backend/test_group.py::test_who": "torch",
    "tests/torch_backend/bundles/test_host_service.py": "torch",
    "tests/torch_backend/test_hard_cases.py": "torch",
    "tests/torch_backend/test_recorder.py::test_a_job_is_recorded": "torch",
    "tests/torch_backend/test_strided_tensors.py": "torch",
    "tests/torch_backend/control/test_plan_switch_jobs.py": "torch",
    "tests/torch_backend/test_recorder.py::test_waits_for_futures": "torch",
    "tests/torch_backend/test_torch_cases.py::test_all": "torch",
    "tests/torch_backend/test_torch_cases.py::test_some": "torch",
    "tests/torch_backend/test_gloo_types.py": "torch",
    "tests/codegen/targets/test_gpu_machine_code.py": "compiler",
    "tests/codegen/targets/test_gpu_processes.py": "mpi",
    "tests/codegen/test_process_groups.py::test_processes": "mpi",
    "tests/codegen/test_process_groups.py::test_kernels": "compiler",
    "tests/codegen/targets/test_host.py": "mpi",
    "tests/codegen/targets/test_gpu_profiler.py": "compiler",
    "tests/runtime/test_link_profile.py::test_every_row": "mpi",
    "tests/cli/test_profile.py::test_two_ranks": "mpi",
    "tests/house/test_benchmarks.py::test_bundles": "torch",
    "tests/house/test_benchmarks.py::test_smoke[collectives]": "mpi",
    "tests/house/test_benchmarks.py::test_smoke[enforce]": "torch",
    "tests/house/test_benchmarks.py::test_osu": "mpi",
    "tests/house/test_benchmarks.py::test_what_is_not_osu": "mpi",
    "tests/house/test_gpu_check.py": "compiler",
    "tests/house/test_notebooks.py": "notebook",
    "tests/house/test_readme.py": "page",
    "tests/house/test_wheel.py": "wheel",
}

_NAMES = {
    marker: tuple(name for name, other in BY_NAME.items() if other == marker)
    for marker in BY_NAME.values()
}

BY_FIXTURE = {"browser": "browser", "site": "page"}

LONG_S = 0.5
"""From how many processor seconds on, as they were last measured, a test is a long one."""

DAILY = {
    "tests/codegen/targets/test_gpu.py::test_kernels_on_threads[four ranks, one block]",
    "tests/codegen/targets/test_host.py::test_every_program_between_processes[mpich-4-5001]",
    "tests/codegen/test_protocol.py::test_every_interleaving_is_as_one_run_says",
    "tests/house/test_readme.py::test_commands_of_a_page_work[README.md]",
    "tests/house/test_readme.py::test_commands_of_a_page_work[docs/how-to/simulate.md]",
    "tests/synth/teccl/test_epochs.py::test_schedules_are_right_and_no_faster_than_their_bound",
}
"""Long tests and tests with a requirement that ``make test`` runs: the cheapest of their kind."""


def add_markers(item: pytest.Item) -> None:
    """Add the markers of its requirements to a test."""
    markers = [marker for marker, names in _NAMES.items() if item.nodeid.startswith(names)]
    fixtures = getattr(item, "fixturenames", ())
    markers += [BY_FIXTURE[fixture] for fixture in fixtures if fixture in BY_FIXTURE]
    if file_order.stored_durations().get(item.nodeid, 0) >= LONG_S:
        markers.append("long")
    if markers and item.nodeid not in DAILY:
        markers.append("rest")
    for marker in markers:
        item.add_marker(marker)
