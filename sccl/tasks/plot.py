"""Drawing: what was drawn, and where."""

from __future__ import annotations

from typing import Literal

from sccl.core.files.fields import FileText
from sccl.tasks.outputs import Output


class PlotOutput(Output, frozen=True, kw_only=True):
    """Where 'sccl plot' drew what."""

    kind: Literal["plot"] = "plot"
    what: Literal["frontier", "time", "utilisation", "arrival", "topology"]
    file: FileText
