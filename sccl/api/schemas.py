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
    """The JSON output of 'sccl doctor schema'."""

    kind: Literal["schema"] = "schema"
    kinds: tuple[KindPart, ...]


OUTPUTS = {
    "frontier": "sccl.core.files.frontier_folders:FrontierOutput",
    "solve": "sccl.view.text.solve_output:SolveOutput",
    "time-limit": "sccl.synth.packing.by_time.time_limits:TimeLimitOutput",
    "tacos": "sccl.synth.tacos.output:TacosOutput",
    "teccl": "sccl.synth.teccl.output:TecclOutput",
    "taccl": "sccl.synth.taccl.output:TacclOutput",
    "plan": "sccl.training.plan_step:TrainingPlanOutput",
    "compare-plans": "sccl.training.plan_step:ComparePlansOutput",
    "baseline": "sccl.synth.baselines.pattern.placement:BaselineOutput",
    "compare": "sccl.comparison.comparison_output:CompareOutput",
    "bounds": "sccl.view.text.problem_bounds:BoundsOutput",
    "design": "sccl.comparison.network_design:DesignOutput",
    "robust": "sccl.comparison.robustness:RobustOutput",
    "show": "sccl.view.text.shown_plans:ShowOutput",
    "part": "sccl.formats.files.partial_schedule:PartOutput",
    "simulate": "sccl.comparison.simulation_output:SimulateOutput",
    "plot": "sccl.view.charts.chart_sources:PlotOutput",
    "explore": "sccl.view.explorer.explorer_plans:ExploreOutput",
    "codegen": "sccl.codegen.projects:CodegenOutput",
    "run": "sccl.runtime.project_timing:RunOutput",
    "bench": "sccl.runtime.project_timing:BenchOutput",
    "tune": "sccl.runtime.project_timing:TuneOutput",
    "enforce": "sccl.torch_backend.jobs.run_job:EnforceOutput",
    "profile": "sccl.runtime.machine_profile:ProfileOutput",
    "optimizer": "sccl.torch_backend.jobs.controller:OptimizerOutput",
    "check": "sccl.api.check:CheckOutput",
    "verify-certificate": "sccl.prove.check.certificate_output:VerifyCertificateOutput",
    "smt2": "sccl.synth.syncoll.smt2_output:Smt2Output",
    "doctor": "sccl.runtime.doctor:DoctorOutput",
    "export": "sccl.formats.files.export_plans:ExportOutput",
    "import": "sccl.formats.files.import_plan:ImportOutput",
    "topo-import": "sccl.formats.files.machines:TopoImportOutput",
    "topo-list": "sccl.topo.measures:TopoListOutput",
    "topo-with": "sccl.topo.measures:TopoWithOutput",
    "topo-without": "sccl.topo.measures:TopoWithoutOutput",
    "sketch-explain": "sccl.synth.taccl.sketch_output:SketchOutput",
    "motif": "sccl.training.motif_output:MotifOutput",
    "fabric-list": "sccl.training.fabric_names:FabricListOutput",
    "workload-import": "sccl.training.workload_outputs:WorkloadImportOutput",
    "workload-make": "sccl.training.workload_outputs:WorkloadMakeOutput",
    "workload-show": "sccl.training.workload_outputs:WorkloadShowOutput",
    "store-ls": "sccl.synth.common.store_outputs:StoreLsOutput",
    "store-show": "sccl.synth.common.store_outputs:StoreShowOutput",
    "store-export": "sccl.synth.common.store_outputs:StoreExportOutput",
    "store-gc": "sccl.synth.common.store_outputs:StoreGcOutput",
    "schema": "sccl.api.schemas:SchemaOutput",
    "error": "sccl.core.files.outputs:ErrorOutput",
}
"""Location of each output class. Loading all of them takes long."""


def output_type(kind: str) -> type[Output]:
    """Return the shape of a kind of output."""
    return cast("type[Output]", resolve_name(OUTPUTS[kind]))
