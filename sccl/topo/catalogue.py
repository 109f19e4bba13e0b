"""Find topologies by name: a catalogue name, ``generator:arguments``, or a JSON file."""

from __future__ import annotations

from os.path import isfile
from pathlib import Path
from typing import TYPE_CHECKING

from sccl.core.files.disk import data_dir
from sccl.core.files.topologies import load_topology
from sccl.core.topology import Topology
from sccl.errors import FormatError, unknown_name

if TYPE_CHECKING:
    from sccl.topo.expansions import MachineExpansion
    from sccl.topo.generators import Generator


def catalogue_names() -> tuple[str, ...]:
    """Return the names of the machines in ``topologies/``."""
    return tuple(sorted(path.stem for path in data_dir("topologies").glob("*.json")))


def topology_makers() -> tuple[Generator | MachineExpansion, ...]:
    """Return the generators (machines from a formula) and the expansions (from other machines)."""
    from sccl.topo.expansions import expansions  # noqa: PLC0415
    from sccl.topo.generators import generators  # noqa: PLC0415 - files need no generators

    return (*generators(), *expansions())


def resolve_topology(text: str) -> Topology:
    """Return the topology that ``text`` names.

    Args:
        text: Name from :func:`catalogue_names` (``dgx1``), generator with arguments
            (``torus:4x4``), expansion of a machine (``power:2:dgx1``), or path of a ``.json`` file.

    Raises:
        InputError: No topology has this name, or the file is not a topology.
    """
    if text.endswith(".json") and ":" not in text:
        return load_topology(Path(text))
    if ":" in text:
        from sccl.topo.expansions import expand_machine  # noqa: PLC0415
        from sccl.topo.generators import generate_topology  # noqa: PLC0415

        made = expand_machine(text, resolve_topology)
        if made is not None:
            return made
        return load_topology(Path(text)) if text.endswith(".json") else generate_topology(text)
    if text not in catalogue_names() and isfile(text):  # noqa: PTH113 - never raises
        raise FormatError(
            f"{text} is a file, and machine files end in .json: 'sccl topo import {text} -o "
            "my.json' converts the output of tools"
        )
    if text not in catalogue_names():
        names = (*catalogue_names(), *(m.name for m in topology_makers()))
        hint = (
            "'sccl topo list' shows the machines and generators; the path of a file ends in .json"
        )
        if text in names:
            example = next(m.example for m in topology_makers() if m.name == text)
            hint = f"it is a generator, so give its parameters, as in {example!r}"
            names = ()
        raise unknown_name("topology", text, names, hint)
    return load_topology(data_dir("topologies") / f"{text}.json")
