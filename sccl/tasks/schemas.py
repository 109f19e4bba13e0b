"""Publish the JSON Schemas of outputs."""

from __future__ import annotations

from pkgutil import resolve_name
from typing import Literal, cast

from sccl.core.files.shapes import Part
from sccl.tasks.outputs import Output


class KindPart(Part, frozen=True, kw_only=True):
    """A kind of output or of file."""

    kind: str
    of: Literal["output", "file"]
    about: str


class SchemaOutput(Output, frozen=True, kw_only=True):
    """The JSON output of 'sccl schema'."""

    kind: Literal["schema"] = "schema"
    kinds: tuple[KindPart, ...]


OUTPUTS = {
    "frontier": "sccl.tasks.frontiers:FrontierOutput",
    "solve": "sccl.tasks.solve:SolveOutput",
    "time-limit": "sccl.tasks.time_limit:TimeLimitOutput",
    "tacos": "sccl.tasks.synthesis:TacosOutput",
    "teccl": "sccl.tasks.synthesis:TecclOutput",
    "taccl": "sccl.tasks.synthesis:TacclOutput",
    "plan": "sccl.tasks.planning:TrainingPlanOutput",
    "compare-plans": "sccl.tasks.comparing_plans:ComparePlansOutput",
    "baseline": "sccl.tasks.baseline:BaselineOutput",
    "compare": "sccl.comparison.comparison_output:CompareOutput",
    "bounds": "sccl.tasks.bounds:BoundsOutput",
    "design": "sccl.tasks.design:DesignOutput",
    "robust": "sccl.tasks.robust:RobustOutput",
    "show": "sccl.tasks.show:ShowOutput",
    "part": "sccl.tasks.part:PartOutput",
    "simulate": "sccl.tasks.simulated:SimulateOutput",
    "plot": "sccl.tasks.plot:PlotOutput",
    "explore": "sccl.tasks.explore:ExploreOutput",
    "codegen": "sccl.tasks.codegen:CodegenOutput",
    "run": "sccl.tasks.run:RunOutput",
    "bench": "sccl.tasks.run:BenchOutput",
    "tune": "sccl.tasks.run:TuneOutput",
    "enforce": "sccl.tasks.enforce:EnforceOutput",
    "profile": "sccl.tasks.profile:ProfileOutput",
    "lab": "sccl.tasks.lab:LabOutput",
    "optimizer": "sccl.tasks.optimizer:OptimizerOutput",
    "check": "sccl.tasks.check:CheckOutput",
    "verify-certificate": "sccl.tasks.certificates:VerifyCertificateOutput",
    "smt2": "sccl.tasks.smt2:Smt2Output",
    "doctor": "sccl.tasks.doctor:DoctorOutput",
    "export": "sccl.tasks.exporting:ExportOutput",
    "import": "sccl.tasks.bringing:ImportOutput",
    "topo-import": "sccl.tasks.importing:TopoImportOutput",
    "topo-infer": "sccl.tasks.infer:TopoInferOutput",
    "topo-list": "sccl.tasks.topo:TopoListOutput",
    "topo-with": "sccl.tasks.topo:TopoWithOutput",
    "topo-without": "sccl.tasks.topo:TopoWithoutOutput",
    "sketch-check": "sccl.tasks.sketch:SketchCheckOutput",
    "sketch-explain": "sccl.tasks.sketch:SketchExplainOutput",
    "sketch-draw": "sccl.tasks.sketch:SketchDrawOutput",
    "motif": "sccl.tasks.motif:MotifOutput",
    "fabric-list": "sccl.tasks.fabric:FabricListOutput",
    "fabric-check": "sccl.tasks.fabric:FabricCheckOutput",
    "workload-import": "sccl.tasks.workload:WorkloadImportOutput",
    "workload-make": "sccl.tasks.workload:WorkloadMakeOutput",
    "workload-show": "sccl.tasks.workload:WorkloadShowOutput",
    "store-ls": "sccl.tasks.store:StoreLsOutput",
    "store-show": "sccl.tasks.store:StoreShowOutput",
    "store-export": "sccl.tasks.store:StoreExportOutput",
    "store-gc": "sccl.tasks.store:StoreGcOutput",
    "schema": "sccl.tasks.schemas:SchemaOutput",
    "error": "sccl.tasks.outputs:ErrorOutput",
}
"""Location of each output class. Loading all of them takes long."""


def output_type(kind: str) -> type[Output]:
    """Return the shape of a kind of output."""
    return cast("type[Output]", resolve_name(OUTPUTS[kind]))
