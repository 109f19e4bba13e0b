"""Parameters of models and of how they are trained, as options: families take those they have."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Annotated, Any

import typer

from sccl.cli import options
from sccl.core.dtypes import ITEM_BYTES
from sccl.training.models import RECOMPUTE, parse_widths

_MODEL = "Options of transformers"
_EXPERTS = "Options of experts (moe)"
_TABLES = "Options of recommendation models (dlrm)"
_NETS = "Options of convolutional nets"
_SPREAD = "Options for the division of work"
_SPEED = "Options of speed"

OptionalInt = int | None
OptionalFloat = float | None
OptionalBool = bool | None
OptionalText = str | None


@dataclass(frozen=True)
class ModelParameters:
    """The parameters of a workload. None: from the preset, or the default."""

    layers: Annotated[
        OptionalInt, typer.Option(help="Number of layers of all stages.", rich_help_panel=_MODEL)
    ] = None
    hidden: Annotated[OptionalInt, typer.Option(help="Width, h.", rich_help_panel=_MODEL)] = None
    heads: Annotated[
        OptionalInt, typer.Option(help="Number of attention heads.", rich_help_panel=_MODEL)
    ] = None
    kv_heads: Annotated[
        OptionalInt,
        typer.Option(
            help="Number of key/value heads of grouped-query attention.",
            show_default="the number of heads",
            rich_help_panel=_MODEL,
        ),
    ] = None
    mlp_width: Annotated[
        OptionalInt,
        typer.Option(
            help="Width of the perceptron and of experts.",
            show_default="4 * hidden",
            rich_help_panel=_MODEL,
        ),
    ] = None
    gated_mlp: Annotated[
        OptionalBool,
        typer.Option(
            "--gated-mlp/--no-gated-mlp",
            help="A third matrix in each perceptron and expert, for its gate (SwiGLU, GeGLU).",
            show_default="no",
            rich_help_panel=_MODEL,
        ),
    ] = None
    sequence: Annotated[
        OptionalInt, typer.Option(help="Tokens, s.", show_default="2048", rich_help_panel=_MODEL)
    ] = None
    vocabulary: Annotated[
        OptionalInt,
        typer.Option(
            help="Vocabulary size, V, with an embedding and an output matrix; 0: neither.",
            show_default="0",
            rich_help_panel=_MODEL,
        ),
    ] = None
    tied_embeddings: Annotated[
        OptionalBool,
        typer.Option(
            "--tied-embeddings/--no-tied-embeddings",
            help="One matrix for the embedding and behind the layers, with a single stage.",
            show_default="no",
            rich_help_panel=_MODEL,
        ),
    ] = None
    recompute: Annotated[
        OptionalText,
        typer.Option(
            help=f"Recomputation in the backward pass: {', '.join(RECOMPUTE)} (attention, or "
            "whole layers).",
            show_default="none",
            rich_help_panel=_MODEL,
            autocompletion=options.complete_words(RECOMPUTE, "recomputation"),
        ),
    ] = None
    split_backward: Annotated[
        OptionalBool,
        typer.Option(
            "--split-backward/--no-split-backward",
            help="Compute weight gradients while input gradients are sent.",
            show_default="no",
            rich_help_panel=_MODEL,
        ),
    ] = None
    experts: Annotated[
        OptionalInt, typer.Option(help="Number of experts of a layer, E.", rich_help_panel=_EXPERTS)
    ] = None
    top_k: Annotated[
        OptionalInt,
        typer.Option(
            help="Number of experts per token.", show_default="2", rich_help_panel=_EXPERTS
        ),
    ] = None
    capacity: Annotated[
        OptionalFloat,
        typer.Option(
            help="Expert capacity factor.",
            show_default="1",
            rich_help_panel=_EXPERTS,
        ),
    ] = None
    ep: Annotated[
        OptionalInt,
        typer.Option(
            help="Number of ranks that share the experts of a layer.",
            show_default="1",
            rich_help_panel=_EXPERTS,
        ),
    ] = None
    moe_every: Annotated[
        OptionalInt,
        typer.Option(
            help="Interval of layers with experts.", show_default="2", rich_help_panel=_EXPERTS
        ),
    ] = None
    tables: Annotated[
        OptionalInt, typer.Option(help="Number of tables of all ranks.", rich_help_panel=_TABLES)
    ] = None
    dimension: Annotated[
        OptionalInt, typer.Option(help="Number of elements of a row.", rich_help_panel=_TABLES)
    ] = None
    pooling: Annotated[
        OptionalInt,
        typer.Option(help="Number of rows per table and sample.", rich_help_panel=_TABLES),
    ] = None
    bottom: Annotated[
        OptionalText,
        typer.Option(
            help="Widths of the bottom perceptron, as in 512x3/64.",
            rich_help_panel=_TABLES,
        ),
    ] = None
    top: Annotated[
        OptionalText,
        typer.Option(help="Widths of the top perceptron.", rich_help_panel=_TABLES),
    ] = None
    interaction_mflops: Annotated[
        OptionalFloat,
        typer.Option(
            help="Forward operations per sample between the perceptrons, in 10^6.",
            show_default="0",
            rich_help_panel=_TABLES,
        ),
    ] = None
    data_prefetch: Annotated[
        OptionalBool,
        typer.Option(
            "--data-prefetch/--no-data-prefetch",
            help="Exchange the next batch while this one is trained on.",
            show_default="yes",
            rich_help_panel=_TABLES,
        ),
    ] = None
    depths: Annotated[
        OptionalText,
        typer.Option(help="Number of blocks of each stage, as in 2/6/14x2.", rich_help_panel=_NETS),
    ] = None
    widths: Annotated[
        OptionalText, typer.Option(help="Number of channels of each stage.", rich_help_panel=_NETS)
    ] = None
    group_width: Annotated[
        OptionalInt,
        typer.Option(
            help="Number of channels of a group.", show_default="8", rich_help_panel=_NETS
        ),
    ] = None
    expansion: Annotated[
        OptionalInt,
        typer.Option(help="Expansion factor of a block.", show_default="4", rich_help_panel=_NETS),
    ] = None
    picture: Annotated[
        OptionalInt,
        typer.Option(help="Height and width in pixels.", show_default="224", rich_help_panel=_NETS),
    ] = None
    classes: Annotated[
        OptionalInt,
        typer.Option(help="Number of classes.", show_default="1000", rich_help_panel=_NETS),
    ] = None
    ranks: Annotated[
        OptionalInt,
        typer.Option(
            help="Number of ranks of the job.",
            show_default="tp * pp * dp; required for a dlrm",
            rich_help_panel=_SPREAD,
        ),
    ] = None
    batch: Annotated[
        OptionalInt,
        typer.Option(
            help="Sequences of a microbatch, or samples or pictures of a rank.",
            show_default="1; 64 pictures; required for a dlrm",
            rich_help_panel=_SPREAD,
        ),
    ] = None
    microbatches: Annotated[
        OptionalInt,
        typer.Option(
            help="Number of microbatches of an iteration.",
            show_default="1",
            rich_help_panel=_SPREAD,
        ),
    ] = None
    tp: Annotated[
        OptionalInt,
        typer.Option(
            help="Size of a tensor-parallel group, t.",
            show_default="1",
            rich_help_panel=_SPREAD,
        ),
    ] = None
    pp: Annotated[
        OptionalInt,
        typer.Option(help="Number of pipeline stages.", show_default="1", rich_help_panel=_SPREAD),
    ] = None
    dp: Annotated[
        OptionalInt,
        typer.Option(
            help="Number of data-parallel replicas, d.",
            show_default="1, or the remainder of --ranks",
            rich_help_panel=_SPREAD,
        ),
    ] = None
    zero: Annotated[
        OptionalInt,
        typer.Option(
            help="ZeRO stage: 0 nothing, 1 optimizer states, 2 also gradients, 3 also "
            "parameters are sharded.",
            show_default="0",
            rich_help_panel=_SPREAD,
        ),
    ] = None
    sequence_parallel: Annotated[
        OptionalBool,
        typer.Option(
            "--sequence-parallel/--no-sequence-parallel",
            help="Use reducescatter and allgather instead of allreduces in tensor groups.",
            show_default="no",
            rich_help_panel=_SPREAD,
        ),
    ] = None
    bucket_mb: Annotated[
        OptionalFloat,
        typer.Option(
            help="Size of a gradient bucket in 10^6 bytes.",
            show_default="25",
            rich_help_panel=_SPREAD,
        ),
    ] = None
    prefetch: Annotated[
        OptionalInt,
        typer.Option(
            help="Number of layers of which parameters are gathered in advance (zero 3).",
            show_default="2",
            rich_help_panel=_SPREAD,
        ),
    ] = None
    overlap_next: Annotated[
        OptionalBool,
        typer.Option(
            "--overlap-next/--no-overlap-next",
            help="Let the next iteration wait for gradients or parameters layer by layer.",
            show_default="no",
            rich_help_panel=_SPREAD,
        ),
    ] = None
    dtype: Annotated[
        OptionalText,
        typer.Option(
            help="Type of parameters, gradients, and activations.",
            show_default="bfloat16; float32 of a dlrm or a net",
            rich_help_panel=_SPEED,
            autocompletion=options.complete_words(ITEM_BYTES, "a type of elements"),
        ),
    ] = None
    tflops: Annotated[
        OptionalFloat,
        typer.Option(
            help="Peak of a rank in 10^12 operations per second.",
            show_default="125; 15 of a dlrm or a net",
            rich_help_panel=_SPEED,
        ),
    ] = None
    efficiency: Annotated[
        OptionalFloat,
        typer.Option(
            help="Share of the peak that computation reaches.",
            show_default="0.5",
            rich_help_panel=_SPEED,
        ),
    ] = None
    memory_gb_per_s: Annotated[
        OptionalFloat,
        typer.Option(
            help="Memory bandwidth of a rank in 10^9 bytes/s.",
            show_default="900",
            rich_help_panel=_SPEED,
        ),
    ] = None

    def set_values(self) -> dict[str, Any]:
        """Return the given parameters by name.

        Raises:
            ParameterError: the widths are invalid.
        """
        values: dict[str, Any] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None:
                listed = field.name in ("bottom", "top", "depths", "widths")
                values[field.name] = parse_widths(value, field.name) if listed else value
        return values
