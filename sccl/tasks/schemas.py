"""The published shapes of what verbs print."""

from __future__ import annotations

from typing import Literal

import msgspec

from sccl.core.files.fields import Part
from sccl.tasks.answers import BoundsOutput, FrontierOutput
from sccl.tasks.certificates import VerifyCertificateOutput
from sccl.tasks.check import CheckOutput
from sccl.tasks.codegen import CodegenOutput
from sccl.tasks.doctor import DoctorOutput
from sccl.tasks.explore import ExploreOutput
from sccl.tasks.outputs import ErrorOutput, Output
from sccl.tasks.plot import PlotOutput
from sccl.tasks.run import BenchOutput, RunOutput, TuneOutput
from sccl.tasks.show import ShowOutput
from sccl.tasks.smt2 import Smt2Output
from sccl.tasks.solve import SolveOutput
from sccl.tasks.store import StoreExportOutput, StoreGcOutput, StoreLsOutput, StoreShowOutput
from sccl.tasks.topo import TopoListOutput, TopoWithoutOutput, TopoWithOutput


class KindPart(Part, frozen=True, kw_only=True):
    """A kind of output or of file."""

    kind: str
    of: Literal["output", "file"]
    about: str


class SchemaOutput(Output, frozen=True, kw_only=True):
    """What 'sccl schema' lists; of one kind it prints the JSON Schema itself."""

    kind: Literal["schema"] = "schema"
    kinds: tuple[KindPart, ...]


_ALL: tuple[type[msgspec.Struct], ...] = (
    *(FrontierOutput, SolveOutput, BoundsOutput),
    *(ShowOutput, PlotOutput, ExploreOutput),
    *(CodegenOutput, RunOutput, BenchOutput, TuneOutput),
    *(CheckOutput, VerifyCertificateOutput, Smt2Output),
    *(DoctorOutput, TopoListOutput, TopoWithOutput, TopoWithoutOutput),
    *(StoreLsOutput, StoreShowOutput, StoreExportOutput, StoreGcOutput),
    *(SchemaOutput, ErrorOutput),
)


def _kind(output: type[msgspec.Struct]) -> str:
    kinds = {field.name: field.default for field in msgspec.structs.fields(output)}
    return str(kinds["kind"])


OUTPUTS: dict[str, type[msgspec.Struct]] = {_kind(output): output for output in _ALL}
"""The shape of each kind of output."""
