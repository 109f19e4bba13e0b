"""Generate workloads of data-parallel convolutional networks of residual blocks.

A block of width w expands its input to e w channels (1x1 convolution), applies a 3x3 convolution in
groups of g channels, and reduces the channels to w (1x1). With input width w', it has w' e w +
9 e w g + e w w parameters. Each parameter takes 2 operations per pixel of an image.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from sccl.errors import ParameterError
from sccl.training.models.parallelism import (
    ParallelJob,
    RankLayout,
    check_integers,
    check_size_limit,
    source_text,
)
from sccl.training.models.pipeline_stages import BlockCompute, ModelBlock, generate_stages
from sccl.training.types.workload import Workload

_STEM = 32
"""Width of the first convolution. Like each stage, it halves the height and width of pictures."""


@dataclass(frozen=True, kw_only=True)
class ConvolutionalJob(ParallelJob):
    """A convolutional net, and its training."""

    dtype: str = "float32"
    tflops: float = 15.0
    depths: Annotated[tuple[int, ...], "Number of blocks of each stage, as in 2/6/14x2."]
    widths: Annotated[
        tuple[int, ...], "Number of channels of each stage, whose first block halves the picture."
    ]
    group_width: Annotated[int, "Number of channels of a group."] = 8
    expansion: Annotated[int, "Expansion factor of a block."] = 4
    picture: Annotated[int, "Height and width in pixels."] = 224
    batch: Annotated[int, "Pictures of a rank."] = 64
    classes: Annotated[int, "Number of classes."] = 1000

    def __post_init__(self) -> None:
        super().__post_init__()
        check_integers(1, group_width=self.group_width, expansion=self.expansion, batch=self.batch)
        check_integers(1, picture=self.picture, classes=self.classes)
        if not self.depths or len(self.depths) != len(self.widths):
            raise ParameterError(
                f"depths has {len(self.depths)} stages and widths {len(self.widths)}, expected "
                "the same number, at least 1"
            )
        check_integers(1, depths=min(self.depths), widths=min(self.widths))
        check_integers(1, depths=max(self.depths), widths=max(self.widths))
        check_size_limit(sum(self.depths), "blocks,")
        for name in ("tp", "pp", "microbatches"):
            if getattr(self, name) != 1:
                raise ParameterError(
                    f"{name} is {getattr(self, name)}, expected 1 for a convolutional network"
                )


def generate_convolutional(
    job: ConvolutionalJob, name: str = "convolutional", about: str = ""
) -> Workload:
    """Return the workload of one training iteration of a convolutional network.

    Args:
        job: Parameters.
        name: Name of the workload.
        about: Source of the parameters.

    Raises:
        InputError: There are no collectives, or too many.
    """
    named = name, source_text("a convolutional net", job, about)
    return generate_stages(job, RankLayout(1, job.dp), [list(_model_blocks(job))], 0, named)


def _model_blocks(job: ConvolutionalJob) -> Iterator[ModelBlock]:
    side = -(-job.picture // 2)
    yield _conv_block(job, "stem", 27 * _STEM, side)
    before = _STEM
    for stage, (depth, width) in enumerate(zip(job.depths, job.widths, strict=True)):
        side = -(-side // 2)
        inner = job.expansion * width
        for number in range(depth):
            parameters = (before + 9 * job.group_width + width) * inner
            yield _conv_block(job, f"stage-{stage}-block-{number}", parameters, side)
            before = width
    yield _conv_block(job, "classifier", before * job.classes, 1)


def _conv_block(job: ConvolutionalJob, name: str, parameters: int, side: int) -> ModelBlock:
    us = job.compute_us(2 * job.batch * parameters * side**2)
    return ModelBlock(
        name, (BlockCompute("", us),), (BlockCompute("", 2 * us),), parameters=parameters
    )
