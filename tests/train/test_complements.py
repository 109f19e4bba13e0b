"""Options that leave one another their links: two collectives at once on one machine of NVLinks."""

from __future__ import annotations

import pytest

from sccl.core.training_plan import WHOLE_LOAD, Option
from sccl.errors import UnknownNameError
from sccl.tasks.motif_planning import motif_planner
from sccl.topo import fabric_of
from sccl.train import planned, wrong_in_plan
from sccl.train.jobs import Job
from sccl.train.options import OptionSettings, options_of
from tests.kit.workloads import calling, comm

MB = 2**18


TACOS = motif_planner("tacos")

STEP = calling(
    8,
    comm("gradients", "allreduce", range(8), 64 * MB),
    comm("tokens", "alltoall", range(8), 16 * MB),
)
DGX = fabric_of("dgx1-pcie")


def together(one: Option, other: Option) -> int:
    """Return the most that two options of one motif each load a resource."""
    loads = [dict(option.motifs[0].loads) for option in (one, other)]
    return max(sum(load.get(name, 0) for load in loads) for name in {*loads[0], *loads[1]})


def test_an_alltoall_is_planned_on_the_links_that_a_ring_leaves() -> None:
    options = options_of(STEP, DGX, OptionSettings(planner=TACOS))
    (beside,) = [
        option
        for option in options.of["tokens"]
        if option.motifs[0].carrier == "tacos without ring of allreduce"
    ]
    rings = [o for o in options.of["gradients"] if o.motifs[0].carrier == "ring" and o.ns]
    assert (beside.recipe, beside.motifs[0].channel) == ("whole", "nvlink")
    ring = next(o for o in rings if (o.recipe, o.motifs[0].channel) == ("whole", "nvlink"))
    assert together(ring, beside) <= WHOLE_LOAD
    links = [
        {name for name, _ in option.motifs[0].loads if "streams" not in name}
        for option in (ring, beside)
    ]
    assert not links[0] & links[1]
    plain = next(o for o in options.of["tokens"] if o.motifs[0].carrier == "tacos")
    assert plain.motifs[0].ns <= beside.motifs[0].ns
    assert together(ring, plain) > WHOLE_LOAD


def test_so_both_run_at_once_and_end_earlier() -> None:
    finish = []
    for settings in (
        OptionSettings(recipes=("whole",)),
        OptionSettings(recipes=("whole",), planner=TACOS),
    ):
        job = Job(STEP, options_of(STEP, DGX, settings).of)
        problem = job.problem.step
        best = planned(problem, 4000, 0).plan
        assert not wrong_in_plan(problem, best)
        finish.append(best.finish(problem))
    assert finish[1] < finish[0]


def test_machines_around_switches_have_no_such_options() -> None:
    options = options_of(STEP, fabric_of("hgx2"), OptionSettings(planner=TACOS))
    carriers = {m.carrier for own in options.of.values() for o in own for m in o.motifs}
    assert carriers <= {"direct", "ring", "tree"}


def test_synthesisers_that_there_are_not_are_told() -> None:
    with pytest.raises(UnknownNameError, match="tacoz"):
        motif_planner("tacoz")
