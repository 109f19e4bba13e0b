"""Define presets of jobs: those of SYNDICATE (NSDI 2023), as far as published, and larger ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from sccl.errors import unknown_name


@dataclass(frozen=True, slots=True)
class Preset:
    """A named set of parameters of a job.

    Attributes:
        name: Name of the preset.
        family: Family of models.
        parameters: Parameters by name.
        about: Sources and assumptions.
    """

    name: str
    family: str
    parameters: Mapping[str, object]
    about: str


_TESTBED = (
    "Testbed: nodes of 8 V100, 120 TFLOPS in 32 bits, 1000 in 16 bits and 7.2 TB/s a node (Table "
    "1). Assumed: {efficiency} of the peak is reached"
)
_MLP = 0.7
_MLP_PEAK = {"efficiency": _MLP, "tflops": 15.0}


class _Table2(NamedTuple):
    """A model of SYNDICATE's Table 2.

    Attributes:
        batch: Samples per GPU.
        mflops: Forward operations per sample, in 10^6.
        dimension: Elements of a row.
        pooling: Rows per table and sample.
        layers: Number of layers of both perceptrons, and their mean width.
        tables: Number of tables (assumed).
        bottom: Number of layers of the bottom perceptron, and their width (assumed).
        top: Number of layers of the top perceptron, and their width (assumed).
        zero: ZeRO stage.
    """

    batch: int
    mflops: float
    dimension: int
    pooling: int
    layers: tuple[int, int]
    tables: int
    bottom: tuple[int, int]
    top: tuple[int, int]
    zero: int = 0


_TABLE_2 = {
    "A1": _Table2(512, 89, 68, 27, (26, 914), 256, (9, 2157), (17, 256)),
    "A2": _Table2(1024, 638, 93, 15, (20, 3375), 1024, (13, 4917), (7, 512)),
    "A3": _Table2(512, 784, 231, 17, (26, 3210), 1024, (16, 4896), (10, 512)),
    "A4": _Table2(4096, 60, 72, 49, (43, 682), 1024, (19, 1220), (24, 256), zero=3),
}


def _dlrm_preset(name: str, row: _Table2) -> Preset:
    (count, width), (count_top, width_top) = row.bottom, row.top
    layers, mean = row.layers
    products = 2 * (count * width**2 + count_top * width_top**2) / 1e6
    sharding = ", its perceptrons under FSDP" if row.zero else ""
    magnitude = "100s" if row.tables < 1000 else "1000s"
    about = (
        f"SYNDICATE's model {name}{sharding} (Table 2: batch {row.batch}, rows of "
        f"{row.dimension}, pooling {row.pooling}, {layers} layers of mean width {mean}, "
        f"{row.mflops:g} MFLOPs per sample). {_TESTBED.format(efficiency=_MLP)}; batch per GPU, "
        f"on 128 GPUs; MFLOPs of the forward pass; {row.tables} tables ('about "
        f"{magnitude}'); the bottom perceptron has {count} layers of width "
        f"{width}, the top one {count_top} of width {width_top}, which gives this mean and "
        f"{products:.1f} MFLOPs; the rest combines rows and dense features; rows are sent in 32 "
        "bits"
    )
    parameters = {
        "ranks": 128,
        "batch": row.batch,
        "tables": row.tables,
        "dimension": row.dimension,
        "pooling": row.pooling,
        "bottom": (width,) * (count + 1),
        "top": (width_top,) * (count_top + 1),
        "interaction_mflops": round(row.mflops - products, 3),
        "zero": row.zero,
        **_MLP_PEAK,
    }
    return Preset(name, "dlrm", parameters, about)


_XLM_R_XL = Preset(
    "A5",
    "transformer",
    {
        "layers": 36,
        "hidden": 2560,
        "heads": 32,
        "sequence": 512,
        "vocabulary": 250_880,
        "batch": 8,
        "dp": 128,
        "zero": 3,
        "recompute": "full",
        "dtype": "float16",
        "tflops": 125.0,
        "efficiency": 0.4,
    },
    "SYNDICATE's model A5, XLM-R-XL: 36 layers of width 2560 with 32 heads, 250880 words, as its "
    f"configuration was published. {_TESTBED.format(efficiency=0.4)}; 8 sequences of 512 tokens "
    "per GPU, 128 GPUs, 16 bits; under FSDP (ZeRO-3): the paper calls it model parallel and "
    "describes its allgathers and reducescatters; layers are recomputed in the backward pass",
)

_REGNETZ = Preset(
    "A6",
    "convolutional",
    {
        "depths": (2, 6, 14, 6),
        "widths": (48, 104, 240, 528),
        "group_width": 8,
        "expansion": 4,
        "picture": 224,
        "batch": 64,
        "dp": 128,
        "dtype": "float32",
        "tflops": 15.0,
        "efficiency": 0.4,
    },
    "SYNDICATE's model A6, RegNetZ in the size 4 GF (28 blocks, w0 48, wa 14.5, wm 2.226, groups "
    f"of 8, inner width 4 times), widths rounded to 8. {_TESTBED.format(efficiency=0.4)}; 64 "
    "pictures per GPU, 128 GPUs; data parallel, with gradients in buckets of 25 MB; without "
    "squeeze and excitation",
)

_MOE = {
    "hidden": 4096,
    "heads": 32,
    "sequence": 2048,
    "batch": 1,
    "zero": 3,
    "prefetch": 2,
    "moe_every": 2,
    "top_k": 2,
    "capacity": 1.0,
    "dtype": "bfloat16",
    "efficiency": 1.0,
    "memory_gb_per_s": 2039.0,
}
_MOE_ABOUT = (
    "a model of sccl for comparing searches: teraflops are sustained (156 is half the peak of an "
    "A100); memory bandwidth of an A100 with 80 GB"
)

_PRESET_LIST = (
    *(_dlrm_preset(name, row) for name, row in _TABLE_2.items()),
    _XLM_R_XL,
    _REGNETZ,
    *(
        Preset(
            f"moe-{tflops}",
            "moe",
            {**_MOE, "layers": 40, "dp": 32, "experts": 32, "ep": 32, "tflops": float(tflops)},
            f"200 collectives on 32 GPUs, {_MOE_ABOUT}",
        )
        for tflops in (156, 600, 1500)
    ),
    Preset(
        "moe-512",
        "moe",
        {
            **_MOE,
            "hidden": 2048,
            "heads": 16,
            "batch": 4,
            "layers": 96,
            "dp": 512,
            "experts": 64,
            "ep": 64,
            "microbatches": 2,
            "tflops": 600.0,
        },
        f"1248 collectives on 512 GPUs, {_MOE_ABOUT}",
    ),
)
PRESETS = {preset.name: preset for preset in _PRESET_LIST}


def find_preset(name: str) -> Preset:
    """Return the preset of a name.

    Raises:
        UnknownNameError: There is no such preset.
    """
    if name not in PRESETS:
        raise unknown_name("preset", name, PRESETS, f"the presets are {', '.join(PRESETS)}")
    return PRESETS[name]
