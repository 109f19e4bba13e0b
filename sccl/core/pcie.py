"""Measurements that show how PCIe joins GPUs, CPUs and a NIC, and their result.

TACCL (NSDI 2023), section 4.2: a virtual machine may hide its PCIe switches, but GPUs that share
one still get less bandwidth at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sccl.core.measurements import check_figures
from sccl.errors import ParameterError

MAX_GPUS = 64
_MAX_PCIE_US, _MAX_GB_PER_S = 1e9, 1e6


@dataclass(frozen=True, slots=True)
class PairedCopies:
    """Copies of two GPUs to the CPU at once.

    Attributes:
        gpus: the two, ascending.
        gb_per_s: bandwidth of each of the two, 10^9 bytes per second, by repetition.
    """

    gpus: tuple[int, int]
    gb_per_s: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class PcieMeasurements:
    """Answers of a machine to the questions of section 4.2. All figures are by repetition.

    Attributes:
        loopback_us: of each CPU, how long a loopback between it and the NIC takes.
        pairs: of every two GPUs.
        beside_nic: of each GPU, its bandwidth to the CPU, 10^9 bytes per second, while the CPU that
            is nearest to the NIC does a loopback with it.
        alone: of each GPU, its bandwidth to the CPU while nothing else is sent; may be empty.
    """

    name: str
    loopback_us: tuple[tuple[float, ...], ...]
    pairs: tuple[PairedCopies, ...]
    beside_nic: tuple[tuple[float, ...], ...]
    alone: tuple[tuple[float, ...], ...] = ()
    source: str = ""

    def __post_init__(self) -> None:
        if not self.name.strip():
            raise ParameterError("the measurements have no name: give them one")
        if not self.loopback_us:
            raise ParameterError("loopback_us is empty, expected a row for each CPU")
        if not 2 <= self.gpus <= MAX_GPUS:
            raise ParameterError(
                f"beside_nic has {self.gpus} rows, expected one for each GPU: 2 to {MAX_GPUS}"
            )
        if self.alone and len(self.alone) != self.gpus:
            raise ParameterError(
                f"alone has {len(self.alone)} rows, expected one for each of {self.gpus} GPUs, or "
                "none at all"
            )
        for cpu, us in enumerate(self.loopback_us):
            check_figures(us, f"loopback_us of CPU {cpu}", _MAX_PCIE_US)
        for name, figures in self.copies():
            check_figures(figures, f"bandwidth of {name}", _MAX_GB_PER_S)
        self._check_pairs()

    def _check_pairs(self) -> None:
        seen = set()
        for pair in self.pairs:
            a, b = pair.gpus
            if not 0 <= a < b < self.gpus:
                raise ParameterError(
                    f"pairs has GPUs {a} and {b}, expected two of 0 to {self.gpus - 1} in "
                    "ascending order, one for each row of beside_nic"
                )
            if pair.gpus in seen:
                raise ParameterError(f"pairs has GPUs {a} and {b} twice: put all into one row")
            seen.add(pair.gpus)
        missing = [(a, b) for b in range(self.gpus) for a in range(b) if (a, b) not in seen]
        if missing:
            a, b = min(missing)
            raise ParameterError(
                f"pairs lacks GPUs {a} and {b}: expected a measurement of every pair of "
                f"{self.gpus} GPUs"
            )

    @property
    def gpus(self) -> int:
        """Return how many GPUs there are."""
        return len(self.beside_nic)

    def copies(self) -> Iterator[tuple[str, tuple[float, ...]]]:
        """Yield every bandwidth to a CPU with its name in messages."""
        for pair in self.pairs:
            yield paired_copies_name(pair.gpus), pair.gb_per_s
        for gpu, figures in enumerate(self.beside_nic):
            yield nic_copy_name(gpu), figures
        for gpu, figures in enumerate(self.alone):
            yield f"GPU {gpu} alone", figures


def paired_copies_name(gpus: tuple[int, int]) -> str:
    """Return the name in messages of copies of two GPUs at once."""
    return f"GPUs {gpus[0]} and {gpus[1]} at once"


def nic_copy_name(gpu: int) -> str:
    """Return the name in messages of a GPU's copy during the loopback of a NIC."""
    return f"GPU {gpu} at the same time as the NIC"


@dataclass(frozen=True, slots=True)
class PcieHierarchy:
    """The GPUs that share PCIe switches, and the place of the NIC.

    Attributes:
        near_cpu: the CPU that is nearest to the NIC.
        switches: the GPUs that share a PCIe switch, a partition of all; ascending.
        nic_switch: the switch that the NIC is on, by index. None: none of them.
    """

    near_cpu: int
    switches: tuple[tuple[int, ...], ...]
    nic_switch: int | None

    @property
    def near_gpus(self) -> tuple[int, ...]:
        """Return the GPUs that share a switch with the NIC."""
        return () if self.nic_switch is None else self.switches[self.nic_switch]
