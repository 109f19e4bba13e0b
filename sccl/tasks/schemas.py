"""Publish the JSON Schemas of outputs."""

from __future__ import annotations

from pkgutil import resolve_name
from typing import Literal, cast

from sccl.core.files.outputs import Output
from sccl.core.files.shapes import Part


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
    "frontier": "sccl.core.files.frontier_folders:FrontierOutput",
    "solve": "sccl.tasks.solve:SolveOutput",
    "time-limit": "sccl.tasks.time_limit:TimeLimitOutput",
    "tacos": "sccl.tasks.synthesis:TacosOutput",
    "teccl": "sccl.tasks.synthesis:TecclOutput",
    "taccl": "sccl.tasks.synthesis:TacclOutput",
    "plan": "sccl.training.plan_step:TrainingPlanOutput",
    "compare-plans": "sccl.training.plan_step:ComparePlansOutput",
    "baseline": "sccl.tasks.baseline:BaselineOutput",
    "compare": "sccl.comparison.comparison_output:CompareOutput",
    "bounds": "sccl.tasks.bounds:BoundsOutput",
    "design": "sccl.comparison.network_design:DesignOutput",
    "robust": "sccl.comparison.robustness:RobustOutput",
    "show": "sccl.tasks.show:ShowOutput",
    "part": "sccl.formats.files.partial_schedule:PartOutput",
    "simulate": "sccl.tasks.simulated:SimulateOutput",
    "plot": "sccl.tasks.plot:PlotOutput",
    "explore": "sccl.tasks.explore:ExploreOutput",
    "codegen": "sccl.codegen.projects:CodegenOutput",
    "run": "sccl.runtime.project_timing:RunOutput",
    "bench": "sccl.runtime.project_timing:BenchOutput",
    "tune": "sccl.runtime.project_timing:TuneOutput",
    "enforce": "sccl.torch_backend.jobs.run_job:EnforceOutput",
    "profile": "sccl.runtime.machine_profile:ProfileOutput",
    "lab": "sccl.runtime.lab.lab_fabric:LabOutput",
    "optimizer": "sccl.torch_backend.jobs.controller:OptimizerOutput",
    "check": "sccl.tasks.check:CheckOutput",
    "verify-certificate": "sccl.tasks.certificates:VerifyCertificateOutput",
    "smt2": "sccl.synth.syncoll.smt2_output:Smt2Output",
    "doctor": "sccl.runtime.doctor:DoctorOutput",
    "export": "sccl.tasks.exporting:ExportOutput",
    "import": "sccl.formats.files.import_plan:ImportOutput",
    "topo-import": "sccl.formats.files.machines:TopoImportOutput",
    "topo-infer": "sccl.topo.profiles.pcie:TopoInferOutput",
    "topo-list": "sccl.topo.measures:TopoListOutput",
    "topo-with": "sccl.topo.measures:TopoWithOutput",
    "topo-without": "sccl.topo.measures:TopoWithoutOutput",
    "sketch-check": "sccl.tasks.sketch:SketchCheckOutput",
    "sketch-explain": "sccl.tasks.sketch:SketchExplainOutput",
    "sketch-draw": "sccl.tasks.sketch:SketchDrawOutput",
    "motif": "sccl.training.motif_output:MotifOutput",
    "fabric-list": "sccl.topo.fabrics:FabricListOutput",
    "fabric-check": "sccl.topo.fabrics:FabricCheckOutput",
    "workload-import": "sccl.training.workload_outputs:WorkloadImportOutput",
    "workload-make": "sccl.training.workload_outputs:WorkloadMakeOutput",
    "workload-show": "sccl.training.workload_outputs:WorkloadShowOutput",
    "store-ls": "sccl.synth.common.store_outputs:StoreLsOutput",
    "store-show": "sccl.synth.common.store_outputs:StoreShowOutput",
    "store-export": "sccl.synth.common.store_outputs:StoreExportOutput",
    "store-gc": "sccl.synth.common.store_outputs:StoreGcOutput",
    "schema": "sccl.tasks.schemas:SchemaOutput",
    "error": "sccl.core.files.outputs:ErrorOutput",
}
"""Location of each output class. Loading all of them takes long."""


def output_type(kind: str) -> type[Output]:
    """Return the shape of a kind of output."""
    return cast("type[Output]", resolve_name(OUTPUTS[kind]))
