"""Report the verdicts in the store."""

from __future__ import annotations

from typing import Annotated, Literal

from sccl.core.files.outputs import Output
from sccl.core.files.shapes import AnswerWire, FileText, InstanceWire, NonNegative
from sccl.synth.common.store import VerdictPart


class StoreLsOutput(Output, frozen=True, kw_only=True):
    """The JSON output of 'sccl doctor cache'."""

    kind: Literal["store-ls"] = "store-ls"
    store: FileText
    verdicts: tuple[VerdictPart, ...]


class StoreShowOutput(Output, frozen=True, kw_only=True):
    """The JSON output of 'sccl doctor cache DIGEST'."""

    kind: Literal["store-show"] = "store-show"
    instance: InstanceWire
    answers: Annotated[dict[str, AnswerWire], "By solver."]


class StoreExportOutput(Output, frozen=True, kw_only=True):
    """The JSON output of 'sccl doctor cache DIGEST -o FILE'."""

    kind: Literal["store-export"] = "store-export"
    file: FileText


class StoreGcOutput(Output, frozen=True, kw_only=True):
    """The JSON output of 'sccl doctor cache --delete-all'."""

    kind: Literal["store-gc"] = "store-gc"
    store: FileText
    deleted: NonNegative
