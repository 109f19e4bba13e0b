"""The process group ``sccl`` in real jobs, beside gloo."""

from __future__ import annotations

from pathlib import Path

import pytest

from sccl.errors import ToolError
from sccl.torch_backend.torch_releases import check_release, is_supported
from tests.kit.nightly import is_night
from tests.kit.torch_jobs import autoloading, finished, run_job


@pytest.mark.parametrize(
    ("release", "ranks"), [("newest", 2), pytest.param("oldest", 4, marks=pytest.mark.nightly)]
)
def test_every_collective_is_gloos_bit_for_bit(release: str, ranks: int, tmp_path: Path) -> None:
    env = {"PYTHONPATH": autoloading(tmp_path)}
    lines = finished(run_job(release, ranks, "torch_collectives.py", env=env))
    compared = {tuple(map(int, line.split(": ")[1].split())) for line in lines}
    assert len(lines) == ranks
    ((calls, refused),) = compared
    assert calls == 3 * 17 * 2 * 21  # sizes, types, blocking or not, and calls
    assert refused < calls // 2  # calls that gloo rejects


@pytest.mark.parametrize(
    ("release", "ranks", "bundles"),
    [
        ("oldest", 2, ""),
        pytest.param("oldest", 4, "0", marks=pytest.mark.nightly),
        pytest.param("newest", 2, "0", marks=pytest.mark.nightly),
    ],
)
def test_training_ends_in_the_same_parameters(
    release: str, ranks: int, bundles: str, tmp_path: Path
) -> None:
    """Bundles add in another order, which is none where there are two numbers."""
    env = {"PYTHONPATH": autoloading(tmp_path), "SCCL_BUNDLES": bundles}
    done = run_job(release, ranks, "torch_training.py", env=env, as_users_do=is_night())
    lines = finished(done)
    digests = [line.split()[2:] for line in lines]
    assert len(digests) == 3 * ranks
    assert all(ours == theirs for ours, theirs in digests)


def test_carrier_of_a_call_is_reported_once() -> None:
    job = "import sccl.torch, torch, torch.distributed as d; d.init_process_group('sccl'); "
    job += "[d.all_reduce(torch.ones(2)) for _ in range(3)]; d.destroy_process_group()"
    done = run_job("oldest", 1, "run_code.py", job, env={"SCCL_DEBUG": "1"})
    finished(done)
    assert done.stderr.count("sccl: rank 0: all_reduce: gloo") == 1


def test_no_thread_outlives_the_groups() -> None:
    """One of gloo's that lets go of a tensor while Python ends takes the process along."""
    job = (
        "import sccl.torch, pathlib, torch, torch.distributed as d; d.init_process_group('sccl'); "
        "group = d.new_group([0, 1]); t = torch.ones(3); d.all_reduce(t, group=group); "
        "[d.all_reduce(t) for _ in range(20)]; f = d.all_reduce(t, async_op=True).get_future(); "
        "f.wait(); tasks = pathlib.Path('/proc/self/task'); before = len([*tasks.iterdir()]); "
        "d.destroy_process_group(); print(f'{before > 1} {len([*tasks.iterdir()])}\\n', end='')"
    )
    done = run_job("oldest", 2, "run_code.py", job, env={"SCCL_BUNDLES": ""})
    assert finished(done) == ["True 1", "True 1"]


def test_group_that_is_destroyed_is_reported() -> None:
    job = (
        "import sccl.torch, torch, torch.distributed as d; d.init_process_group('sccl'); "
        "group = d.new_group([0]); d.destroy_process_group(group); group.abort(); "
        "group.shutdown(); said = 'nothing'\n"
        "try: group.allreduce([torch.ones(3)])\n"
        "except RuntimeError as error: said = str(error)\n"
        "print(said); d.destroy_process_group()"
    )
    said = "the process group of rank 0 is destroyed: create another one"
    assert finished(run_job("newest", 1, "run_code.py", job)) == [said]


UNSAID = """
import atexit, contextlib, pathlib, sys
import torch, torch.distributed as d, sccl.torch, sccl.torch_backend.group

def of_gloo():
    names = []
    for task in pathlib.Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):
            names.append((task / "comm").read_text())
    return sum("gloo" in name for name in names)

sccl.torch_backend.group._AT_EXIT_S = 100  # however little of the machine there is for it
d.init_process_group("sccl")
d.all_reduce(torch.ones(3))
during = of_gloo()
atexit._run_exitfuncs()  # as Python does before its end
sys.stdout.write(f"{during > 0} {of_gloo()}\\n")
"""


def test_job_may_end_without_a_word() -> None:
    """Threads of gloo let go of tensors before Python is at its end, or abort the process."""
    done = run_job("newest", 2, "run_code.py", UNSAID, env={"SCCL_BUNDLES": "0"})
    assert finished(done) == ["True 0", "True 0"]


def test_releases_that_are_not_supported() -> None:
    assert is_supported("2.13.0+cpu")
    assert is_supported("2.14.1+cu130")
    assert not is_supported("2.15.0a0")
    for release in ("2.12.1", "2.15.0", "1.13", "nonsense"):
        with pytest.raises(ToolError, match=r"works with 2\.13 up to below 2\.15"):
            check_release(release)
