"""The kinds of files: the list from which reading and published schemas derive."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, get_args, get_type_hints

import msgspec


@dataclass(frozen=True)
class Kind:
    """A kind of file: all are JSON except packed schedules, which have a head in JSON.

    Attributes:
        name: Value of its field ``kind``.
        identifying_fields: Alternative sets of fields, one of which identifies a hand-written file
            without ``kind``.
        home: module and name of the shape that reading checks, which is loaded when it is needed.
            None: it has a separate reader.
    """

    name: str
    identifying_fields: tuple[frozenset[str], ...]
    home: tuple[str, str] | None = None

    @cached_property
    def shape(self) -> type[msgspec.Struct] | None:
        """Return the shape that reading checks."""
        if self.home is None:
            return None
        module, name = self.home
        shape: type[msgspec.Struct] = getattr(importlib.import_module(module), name)
        return shape

    @property
    def reader(self) -> str:
        """Return the command that reads or prints a file of this kind. Empty: several do."""
        return _READERS.get(self.name, "")

    def __str__(self) -> str:
        """Return the name with its article."""
        return f"{'an' if self.name[0] in 'aeiou' else 'a'} {self.name}"


_READERS = {
    "topology": "sccl topo show",
    "fabric": "sccl train show",
    "algorithm": "sccl show",
    "symmetric-algorithm": "sccl show",
    "schedule": "sccl show",
    "packed-schedule": "sccl show",
    "certificate": "sccl certificate verify",
    "workload": "sccl train show",
    "training-plan": "sccl plot",
    "timeline": "sccl plot",
    "program": "sccl project run",
    "measurement": "sccl topo profile --measurements",
    "sketch": "sccl synth sketch",
}


def _define_kind(name: str, telling: str, home: str = "") -> Kind:
    module, _, shape = home.rpartition(".")
    return Kind(
        name,
        tuple(frozenset(alternative.split()) for alternative in telling.split("|")),
        (f"sccl.{module}", shape) if home else None,
    )


TOPOLOGY = _define_kind("topology", "ranks alpha_us gb_per_s", "core.files.shapes.TopologyWire")
NETWORK = _define_kind("network", "joining", "core.files.shapes.NetworkWire")
FABRIC = _define_kind("fabric", "channels", "training.files.fabric_shapes.FabricWire")
BANDWIDTH = _define_kind(
    "bandwidth", "intervals", "core.files.schedule_shapes.VariableBandwidthWire"
)
MEASUREMENT = _define_kind(
    "measurement", "ranks timings", "topo.profiles.measurement_shapes.MeasurementsWire"
)
SKETCH = _define_kind(
    "sketch", "nnodes intranode_sketch", "synth.sketches.sketch_shapes.SketchWire"
)
COLLECTIVE = _define_kind("collective", "num_chunks pre post", "core.files.shapes.CollectiveWire")
CUSTOM_COLLECTIVE = _define_kind(
    "custom-collective",
    "pre post|ranks allgatherv|ranks alltoallv|ranks gatherv|ranks reducescatterv|ranks scatterv",
    "core.files.shapes.CustomCollectiveWire",
)
GROUPS = _define_kind("groups", "groups", "core.files.shapes.GroupsWire")
ALGORITHM = _define_kind("algorithm", "sends", "core.files.shapes.AlgorithmWire")
INSTANCE = _define_kind(
    "instance", "topology collective steps rounds", "core.files.shapes.InstanceWire"
)
ANSWER = _define_kind("answer", "answer solver", "core.files.shapes.AnswerWire")
SYMMETRY = _define_kind("symmetry", "generators", "core.files.shapes.SymmetryWire")
SYMMETRIC_ALGORITHM = _define_kind(
    "symmetric-algorithm", "sends symmetries", "core.files.shapes.SymmetricAlgorithmWire"
)
SCHEDULE = _define_kind("schedule", "sends tick_ps", "core.files.schedule_shapes.ScheduleWire")
PACKED_SCHEDULE = _define_kind(
    "packed-schedule", "rounds sends chunk_bits", "core.files.schedule_shapes.PackedScheduleWire"
)
CERTIFICATE = _define_kind("certificate", "claims", "core.files.claims.CertificateWire")
FRONTIER = _define_kind("frontier", "points bounds")
WORKLOAD = _define_kind(
    "workload", "roles ops submits", "training.files.workload_shapes.WorkloadWire"
)
TRAINING_PLAN = _define_kind(
    "training-plan",
    "period_ns order workload",
    "training.files.training_plan_shapes.TrainingPlanWire",
)
TIMELINE = _define_kind(
    "timeline", "plan spans", "training.files.training_plan_shapes.TimelineWire"
)
OPTION = _define_kind(
    "option", "options refused ops", "training.files.training_plan_shapes.OfferedOptionsWire"
)
PROGRAM = _define_kind("program", "target collectives", "core.files.programs.ProjectWire")

KINDS = (
    *(TOPOLOGY, NETWORK, COLLECTIVE, CUSTOM_COLLECTIVE, ALGORITHM, INSTANCE, ANSWER, SYMMETRY),
    *(SYMMETRIC_ALGORITHM, SCHEDULE, PACKED_SCHEDULE, CERTIFICATE, FRONTIER, PROGRAM, BANDWIDTH),
    *(SKETCH, MEASUREMENT, FABRIC, WORKLOAD, TRAINING_PLAN),
    *(TIMELINE, OPTION, GROUPS),
)

ALGORITHM_KINDS = frozenset({ALGORITHM, SYMMETRIC_ALGORITHM})
"""Kinds of algorithm files."""

PLAN_KINDS = ALGORITHM_KINDS | {SCHEDULE, PACKED_SCHEDULE}
"""Kinds of plan files, which move data, by steps or by times."""

TRAINING_KINDS = frozenset({TRAINING_PLAN, TIMELINE})
"""Kinds of files of training plans and of their executions."""

VERIFIED_KINDS = PLAN_KINDS | TRAINING_KINDS
"""Kinds that are verified before use, without trusting their claims."""

SHAPE_NAMES = tuple(kind.name for kind in KINDS if kind.home is not None)
"""Names of the kinds with a published shape."""


def published_shapes() -> dict[str, type[msgspec.Struct]]:
    """Return the published shapes, by the ``kind`` in a file."""
    return {kind.name: kind.shape for kind in KINDS if kind.shape is not None}


def detect_kind(fields: Mapping[str, object]) -> Kind | None:
    """Return the stated kind of an object, or the kind with its identifying fields, or None."""
    if "kind" in fields:
        return next((kind for kind in KINDS if kind.name == fields["kind"]), None)
    alike = [
        (len(telling), -place)
        for place, kind in enumerate(KINDS)
        for telling in kind.identifying_fields
        if telling <= fields.keys()
    ]
    return KINDS[-max(alike)[1]] if alike else None


def kind_of_shape(shape: type[msgspec.Struct]) -> Kind:
    """Return the kind of file that has a shape."""
    home = (shape.__module__, shape.__qualname__)
    return next(kind for kind in KINDS if kind.home == home)


def json_schema(shape: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of a file shape, or of a verb's output.

    A text in the annotation of a field, ``Annotated[type, text]``, is its description.
    """
    dialect = "https://json-schema.org/draft/2020-12/schema"
    schema = {"$schema": dialect, **msgspec.json.schema(shape)}
    structs: dict[str, type[msgspec.Struct]] = {}
    _collect_structs(shape, structs)
    for name, struct in structs.items():
        hints = get_type_hints(struct, include_extras=True)
        for field in msgspec.structs.fields(struct):
            for text in getattr(hints[field.name], "__metadata__", ()):
                if isinstance(text, str):
                    described = {"description": text}  # first, as msgspec writes it
                    properties = schema["$defs"][name]["properties"]
                    properties[field.encode_name] = (
                        described | properties[field.encode_name] | described
                    )
    return schema


def _collect_structs(kind: Any, structs: dict[str, type[msgspec.Struct]]) -> None:
    """Collect a struct, and the structs of its fields, by name."""
    parts = get_args(kind)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct) and kind.__name__ not in structs:
        structs[kind.__name__] = kind
        parts = tuple(get_type_hints(kind, include_extras=True).values())
    for part in parts:
        _collect_structs(part, structs)
