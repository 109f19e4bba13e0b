"""Convert a training plan to a script of transfers for the ranks of a job."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import accumulate, groupby, pairwise
from pathlib import Path

from sccl.core.files.disk import read_text
from sccl.core.files.json_text import digest, to_text
from sccl.core.sizes import ITEM_BYTES
from sccl.errors import InputError, JudgeError, ParameterError
from sccl.torch_backend.script import PlanScript, ScriptMotif, ScriptOp, find_script_fault
from sccl.training.files.training_plans import training_plan_to_wire
from sccl.training.files.workloads import workload_to_wire
from sccl.training.motifs import apply_recipe, buffer_elements, parse_recipe
from sccl.training.motifs.collective_motif import even_offsets
from sccl.training.options.carriers import CARRIER_BY_NAME, LinkedRings
from sccl.training.options.measured_costs import COMPLEMENT_SEPARATOR
from sccl.training.options.motif_costs import MotifCosts, MotifPlanner, build_motif_planner
from sccl.training.options.option_enumeration import motif_of
from sccl.training.plan_files import load_training_files, training_faults
from sccl.training.types.motif import Motif
from sccl.training.types.training_plan import OptionMotif, TrainingPlan
from sccl.training.types.workload_ops import CommOp, HostAction
from sccl.training.validate.plan_costs import recipe_motifs
from sccl.transform.levels import algorithm_from_schedule

_NATIVE = {
    "allgather": ("direct", "ring"),
    "allreduce": ("direct", "ring"),
    "alltoall": ("direct",),
    "broadcast": ("direct", "tree"),
    "gather": ("direct",),
    "reduce": ("direct", "ring"),
    "scatter": ("direct",),
}
"""Carriers that gloo's own collective replaces, because it moves at most as much over each link.
gloo implements a reducescatter as an allreduce, which is slower."""

_PART_COLLECTIVES = ("allgather", "allreduce", "alltoall")
"""Collectives for which gloo also supports a part of each block."""

_MAX_TRANSFERS = 2**22

_PIECE_BYTES, _MAX_PIECES = 2**15, 12
"""Approximate size of a message in an all-to-all step, and the largest number of messages."""

_Row = tuple[int, int, int, int, int, bool]
"""A transfer, with the fields of ``transfers`` in
:class:`~sccl.torch_backend.script.ScriptMotif`."""


def compile_file(file: Path) -> PlanScript:
    """Return the script of a verified plan file.

    Raises:
        InputError: The file is not a plan, fails verification, or no job can follow the plan.
    """
    read_text(file)  # reports a missing file as such
    plans, rest = load_training_files([file])
    if rest or len(plans) != 1 or plans[0].claimed is not None:
        raise InputError(f"{file}: it is no training plan: give one that 'sccl train plan' wrote")
    faults = training_faults(plans[0])
    if faults:
        raise InputError(f"{file}: {faults[0].message}: plan it again with 'sccl train plan'")
    try:
        return compile_plan(plans[0].plan)
    except ParameterError as error:
        raise InputError(f"{file}: {error}") from error


def compile_plan(plan: TrainingPlan) -> PlanScript:
    """Return the script of a plan.

    Raises:
        ParameterError: No job can follow the plan.
        JudgeError: The script is invalid, which is a defect.
    """
    workload = plan.workload
    if len(workload.roles) != 1 or workload.roles[0].ranks != tuple(range(workload.ranks)):
        raise ParameterError(
            f"its workload has {len(workload.roles)} roles: expected one of all ranks, which "
            "submit the same calls in the same order"
        )
    events = workload.submits[0].events
    names = [event.op for event in events if event.action is HostAction.SUBMIT]
    calls = {op.id: op for op in workload.collectives()}
    places = {name: k for k, name in enumerate(names)}
    # Operation and index of each call, including calls that are merged into another one
    called = {entry.id: (k, part) for k, name in enumerate(names)
              for part, entry in enumerate(calls[name].merged or (calls[name],))}  # fmt: skip
    asked = plan.input_workload.submits[0].events
    order = [i for i in plan.order if i.op in places]
    lanes = _assign_lanes(plan)
    options = dict(plan.options)
    maker = _ScriptCompiler(plan)
    ops = tuple(
        maker.compile_op(calls[name], [lanes[name, k] for k in range(len(options[name].motifs))])
        for name in names
    )
    wire = training_plan_to_wire(plan)
    script = PlanScript(
        plan=digest(wire),
        workload=digest(workload_to_wire(plan.input_workload)),
        ranks=workload.ranks,
        channels=tuple((entry.name, entry.streams) for entry in plan.fabric.channels),
        ops=ops,
        submits=tuple(called[entry.op] for entry in asked if entry.action is HostAction.SUBMIT),
        order=tuple((places[i.op], i.motif, i.shift) for i in order),
        period_us=plan.period_ns / 1000,
        given=to_text(wire),
    )
    if wrong := find_script_fault(script):
        raise JudgeError(f"the script of {workload.name!r:.60}: {wrong}")
    return script


def _assign_lanes(plan: TrainingPlan) -> dict[tuple[str, int], tuple[int, int]]:
    """Return the channel and stream of each motif, with the streams of a channel round-robin."""
    number = {channel.name: k for k, channel in enumerate(plan.fabric.channels)}
    of = {(name, k): number[motif.channel] for name, k, motif in plan.motifs()}
    count: dict[int, int] = defaultdict(int)
    lanes: dict[tuple[str, int], tuple[int, int]] = {}
    for issue in plan.order:
        channel = of.get((issue.op, issue.motif))
        if channel is not None:
            lanes[issue.op, issue.motif] = (
                channel,
                (count[channel] % plan.fabric.channels[channel].streams),
            )
            count[channel] += 1
    return lanes


class _ScriptCompiler:
    def __init__(self, plan: TrainingPlan) -> None:
        self._plan, self._options = plan, dict(plan.options)
        self._ranks = plan.workload.ranks
        self._calls = {op.id: op for op in plan.workload.collectives()}
        self._planner: MotifPlanner | None = None
        self._rings = [LinkedRings(channel.topology) for channel in plan.fabric.channels]

    def compile_op(self, op: CommOp, lanes: list[tuple[int, int]]) -> ScriptOp:
        option, even = self._options[op.id], _with_even_blocks(op)
        made = self._op_motifs(op, even)
        is_single = len(made) == 1 and not op.merged
        rows = zip(made, option.motifs, lanes, strict=True) if made else ()
        motifs = [self._compile_motif(even, *row, is_single=is_single) for row in rows]
        by_way = op.collective == "alltoall" and _is_relayed(even, motifs)
        is_native = is_single and motifs[0].native
        as_made = is_native or not made or (by_way and even is not op)
        if as_made and not is_native:
            motifs = [ScriptMotif(channel=channel, stream=stream) for channel, stream in lanes]
        roots: tuple[int, ...] = ()
        if op.root is not None:
            place = op.group.index(op.root)
            roots = tuple(group[place] for group in op.groups)
        return ScriptOp(
            id=op.id,
            collective=op.collective,
            groups=op.groups,
            count=even.count,
            dtype=op.dtype,
            motifs=tuple(motifs),
            roots=roots,
            reduce=op.reduce or "",
            merged=tuple(part.count for part in even.merged),
            as_made=as_made,
            keeps_blocks=by_way and not as_made,
        )

    def _op_motifs(self, op: CommOp, even: CommOp) -> tuple[Motif, ...]:
        """Return the motifs of a collective. Empty: nothing moves, or its recipe needs real sizes.

        Args:
            op: Collective.
            even: The collective with blocks of equal size.
        """
        try:
            return recipe_motifs(even, self._options[op.id])
        except InputError:
            if even is op:
                raise
            return ()  # a recipe may depend on sizes

    def _compile_motif(
        self, op: CommOp, motif: Motif, by: OptionMotif, lane: tuple[int, int], *, is_single: bool
    ) -> ScriptMotif:
        channel, stream = lane
        item_bytes = ITEM_BYTES[op.dtype]
        size = buffer_elements(motif) * item_bytes
        option = f"{by.channel} {by.carrier}"
        timed = None  # splines of an alltoall have no row
        if size and not motif.offsets and op == self._calls[op.id]:  # uneven sizes vary
            timed = (motif.collective, option, motif.max_group_size, size)
        carrier = by.carrier.partition(COMPLEMENT_SEPARATOR)[0]
        gloos = carrier in _NATIVE.get(op.collective, ()) and _is_complete_collective(op, motif)
        in_pieces = carrier == "direct" and size > motif.max_group_size * _PIECE_BYTES
        if op.collective == "alltoall" or not is_single:
            # gloo sends all data at once, or around a ring in which each rank waits for all
            # others. split_in_turns balances arrivals instead.
            gloos = gloos and not (in_pieces and op.collective in ("allreduce", "alltoall"))
        if op.merged:  # buffers of an allreduce are concatenated, others interleave blocks
            gloos = gloos and op.collective == "allreduce"
        if gloos and (is_single or (op.collective in _PART_COLLECTIVES and op.reduce != "bitwise")):
            share = motif.shares[0]
            start, stop = motif.span(share, 0)
            return ScriptMotif(
                channel=channel,
                stream=stream,
                after=motif.after,
                native=True,
                part=(start - share.cells[0], stop - share.cells[0]),
                timed=timed,
            )
        if op.reduce == "bitwise":
            raise ParameterError(
                f"operation {op.id!r:.60} reduces bit by bit, which only gloo itself does: plan it "
                "with --max-motifs 1, and without --merge"
            )
        rows = tuple(self._motif_transfers(motif, carrier, channel, item_bytes))
        if len(rows) > _MAX_TRANSFERS:
            raise ParameterError(f"operation {op.id!r:.60} takes {len(rows)} transfers, too many")
        return ScriptMotif(
            channel=channel, stream=stream, after=motif.after, timed=timed, transfers=rows
        )

    def _motif_transfers(
        self, motif: Motif, carrier: str, channel: int, item_bytes: int
    ) -> list[_Row]:
        """Return the transfers of a motif by its carrier or by its synthesizer."""
        if carrier in CARRIER_BY_NAME:
            sends = CARRIER_BY_NAME[carrier].build_transfers(motif, self._rings[channel])
            rows = list(zip(*(column.tolist() for column in sends), strict=True))
            return split_in_turns(rows, self._ranks, item_bytes) if carrier == "direct" else rows
        if carrier != self._plan.planned_by:
            raise ParameterError(f"a motif is carried by {carrier!r:.60}, which is not known")
        return self._planned_transfers(motif, channel, item_bytes)

    def _planned_transfers(self, motif: Motif, channel: int, item_bytes: int) -> list[_Row]:
        """Return the transfers of a motif's schedules. An allreduce has two in sequence."""
        if self._planner is None:
            self._planner = build_motif_planner(self._plan.planned_by, self._plan.seed)
            self._costs = MotifCosts(self._plan.fabric)
        parts = [motif]
        if motif.collective == "allreduce":
            parts = list(apply_recipe(motif, parse_recipe("ring")))
        schedules = self._costs.planned_schedules(motif, channel, self._planner.plan, item_bytes)
        rows: list[_Row] = []
        for part, schedule in zip(parts, schedules, strict=True):
            spans = [move.span for move in part.moves()]
            before = 1 + (rows[-1][0] if rows else -1)
            # The order of the schedule is valid for all chunk sizes.
            alike = replace(schedule, collective=replace(schedule.collective, counts=()))
            sends = sorted(algorithm_from_schedule(alike).sends, key=lambda send: send.step)
            rows += [
                (before + send.step, *spans[send.chunk], send.src, send.dst, send.reduce)
                for send in sends
            ]
        return rows


def split_in_turns(rows: Sequence[_Row], ranks: int, item_bytes: int) -> list[_Row]:
    """Split the transfers of each step into pieces, in rotation over target ranks.

    If each rank sends to several ranks at once, arrivals are unbalanced, and some links idle at the
    end. Here each rank sends pieces to the next rank, then to the one after it, and so on. So it
    receives from one rank at a time. A step must not send data that it receives.
    """
    turned_rows: list[_Row] = []
    for _, step_rows in groupby(rows, key=lambda row: row[0]):
        step = list(step_rows)
        sizes: dict[tuple[int, int], int] = defaultdict(int)
        for _, start, stop, source, target, _ in step:
            sizes[source, target] += (stop - start) * item_bytes
        count = min(_MAX_PIECES, -(-max(sizes.values()) // _PIECE_BYTES))
        before = 1 + (turned_rows[-1][0] if turned_rows else -1)
        turns = [
            (before + piece * ranks + (target - source) % ranks, *span, source, target, adds)
            for _, start, stop, source, target, adds in step
            for piece, span in enumerate(pairwise(even_offsets(start, stop, count)))
            if span[0] < span[1]
        ]
        turned_rows += sorted(turns, key=lambda row: row[0])
    return turned_rows


def _with_even_blocks(op: CommOp) -> CommOp:
    """Return a collective with blocks of equal size in place of an alltoall with splits.

    At run time, parts of blocks are fractions of the job's actual blocks.
    """
    if op.merged and any(part.splits for part in op.merged):
        parts = tuple(map(_with_even_blocks, op.merged))
        return replace(op, count=sum(part.count for part in parts), splits=(), merged=parts)
    if not op.splits:
        return op
    ranks = len(op.group)
    return replace(op, count=-(-op.count // ranks) * ranks, splits=())


def _is_relayed(op: CommOp, motifs: Iterable[ScriptMotif]) -> bool:
    """Return whether other ranks relay parts of an alltoall's blocks."""
    places = {rank: place for group in op.groups for place, rank in enumerate(group)}
    ranks = len(op.group)
    counts = [part.count for part in op.merged or (op,)]
    starts = list(accumulate((count * ranks for count in counts), initial=0))
    for motif in motifs:
        for _, start, _, source, target, _ in motif.transfers:
            call = bisect_right(starts, start) - 1
            cell = (start - starts[call]) // (counts[call] // ranks)
            if divmod(cell, ranks) != (places[source], places[target]):
                return True
    return False


def _is_complete_collective(op: CommOp, motif: Motif) -> bool:
    """Return whether a motif is the whole collective on a part of each block."""
    full_motif = motif_of(op)
    assert full_motif is not None
    return (motif.collective, motif.shares, motif.offsets) == (
        full_motif.collective,
        full_motif.shares,
        (),
    )
