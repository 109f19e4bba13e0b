"""``sccl topo import``: vendors' tools that are scripts, tools that fail, and none at all."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sccl.core.topology import Topology
from sccl.errors import ToolError
from sccl.runtime.machine_probe import GpuListing, amd_gpus, nvidia_gpus, rocm_gpus
from sccl.runtime.tool_checks import command_output
from sccl.topo import resolve_topology
from sccl.topo.importers import nvidia_smi, rocm_smi
from tests.kit.commands import sccl
from tests.kit.matrices import Shown
from tests.kit.paths import ROOT
from tests.kit.processes import PATIENCE_S
from tests.kit.scripts import script, scripted_tool

NVLINKS = Shown(8, {(a, b): "NV18" for b in range(8) for a in range(b)}, 2, "\t", "").text()
B200 = "".join(f"00000000:{i + 10:02X}:00.0, NVIDIA B200\n" for i in range(8))
ROCM = """
============================ ROCm System Management Interface ============================
GPU[0]\t\t: PCI Bus: 0000:C1:00.0
GPU[1]\t\t: PCI Bus: 0000:C6:00.0
GPU[2]\t\t: PCI Bus: 0000:09:00.0
GPU[0]\t\t: Card Series: \t\tAMD Instinct MI100
GPU[1]\t\t: Card Series: \t\tAMD Instinct MI100
GPU[2]\t\t: Card Series: \t\tAMD Instinct MI100
"""
ASIC = "GPU: 0\n    ASIC:\n        MARKET_NAME: AMD Instinct MI300X\n        VENDOR_ID: 0x1002\n"


def probed(tools: Path, *words: str) -> Topology:
    """Return the machine that is found, as its file has it."""
    code, _, said = sccl("topo", "import", "--tools", tools, "-o", tools / "m.json", *words)
    assert code == 0, said
    return resolve_topology(str(tools / "m.json"))


def test_gpus_are_those_that_the_tool_names(tmp_path: Path) -> None:
    told = {"topo": NVLINKS, "--query-gpu=pci.bus_id,name": B200}
    machine = probed(scripted_tool(tmp_path / "bin", "nvidia-smi", told), "--name", "mine")
    assert machine.name == "mine"
    assert {link.gb_per_s for link in machine.links} == {50.0}
    assert machine.pci_bus_ids == tuple(f"0000:{i + 10:02x}:00.0" for i in range(8))
    assert machine.lanes() == resolve_topology("dgx-h100").lanes()


def test_same_machine_is_found_and_imported(tmp_path: Path) -> None:
    tools = scripted_tool(tmp_path / "bin", "nvidia-smi", {"topo": NVLINKS})
    machine = probed(tools, "--name", "nvidia-smi-0", "--alpha-us", "2")
    file = str(tools / "nvidia-smi-0.txt")
    code, _, _ = sccl("topo", "import", file, "-o", tmp_path / "i.json", "--alpha-us", "2")
    assert code == 0
    assert resolve_topology(str(tmp_path / "i.json")) == machine


def test_probe_reports_its_commands(tmp_path: Path) -> None:
    tools = scripted_tool(tmp_path, "nvidia-smi", {"topo": NVLINKS})
    code, text, _ = sccl("topo", "import", "--tools", tools, "--json")
    found = json.loads(text)
    assert (code, found["kind"], found["format"]) == (0, "topo-import", "nvidia-smi")
    assert found["understood"][0] == f"asked: nvidia-smi topo -m of {tools / 'nvidia-smi'}"
    assert found["file"] is None


def test_kind_that_does_not_fit_is_no_obstacle(tmp_path: Path) -> None:
    """A virtual machine may rename its GPUs, so only the user can name another kind."""
    told = {"topo": NVLINKS, "--query-gpu=pci.bus_id,name": B200.replace("B200", "L40")}
    tools = scripted_tool(tmp_path, "nvidia-smi", told)
    assert {link.gb_per_s for link in probed(tools).links} == {25.0}
    code, _, said = sccl("topo", "import", "--tools", tools, "--gpu", "l40")
    assert code == 2
    assert "GPU0 and GPU1 are joined by 18 NVLinks" in said


def test_tools_of_amd_are_asked_where_they_are(tmp_path: Path) -> None:
    told = {"--showtopo": rocm_smi.EXAMPLE, "--showbus": ROCM}
    machine = probed(scripted_tool(tmp_path / "rocm", "rocm-smi", told))
    assert machine.pci_bus_ids == ("0000:c1:00.0", "0000:c6:00.0", "0000:09:00.0")
    assert {link.gb_per_s for link in machine.links if set(link.edge) == {0, 1}} == {46.0}
    told = {"topology": rocm_smi.EXAMPLE, "static": ASIC}
    machine = probed(scripted_tool(tmp_path / "amd", "amd-smi", told))
    assert {link.gb_per_s for link in machine.links if set(link.edge) == {0, 1}} == {64.0}


def test_tool_that_fails_leaves_the_turn_to_the_next(tmp_path: Path) -> None:
    scripted_tool(tmp_path, "nvidia-smi", {})
    scripted_tool(tmp_path, "rocm-smi", {"--showtopo": rocm_smi.EXAMPLE})
    assert probed(tmp_path).ranks == 3
    (tmp_path / "rocm-smi").unlink()
    code, _, said = sccl("topo", "import", "--tools", tmp_path)
    assert code == 4
    assert "nvidia-smi topo -m ended with exit code 9, it printed: it has no driver" in said


def test_without_a_tool_it_is_said_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    asked = ((), "on the PATH"), (("--tools", str(tmp_path)), f"in {tmp_path}")
    for words, where in asked:
        code, out, said = sccl("topo", "import", "-o", tmp_path / "m.json", *words)
        assert (code, out) == (4, "")
        flat = " ".join(said.split())
        assert f"none of nvidia-smi, rocm-smi, amd-smi is {where}: on the machine itself" in flat
    assert list(tmp_path.iterdir()) == []


def test_tool_output_without_matrix_is_rejected(tmp_path: Path) -> None:
    tools = scripted_tool(tmp_path, "nvidia-smi", {"topo": "No devices were found\n"})
    code, _, said = sccl("topo", "import", "--tools", tools, "-o", tmp_path / "m.json")
    assert code == 2
    assert "nvidia-smi topo -m: no row of a GPU has the X of its own column" in " ".join(
        said.split()
    )
    assert not (tmp_path / "m.json").exists()


def test_tool_that_hangs_is_ended(tmp_path: Path) -> None:
    hangs = script(tmp_path / "hangs", "exec tail -f /dev/null")
    with pytest.raises(ToolError, match="hangs: no answer within 0 s"):
        command_output([str(hangs)], seconds=0)
    with pytest.raises(ToolError, match="gone does not start"):
        command_output([str(tmp_path / "gone")])


def test_interrupt_ends_the_tool_too(tmp_path: Path) -> None:
    """The tool interrupts its parent and hangs. Its pipe closes when it has ended, too."""
    script(tmp_path / "nvidia-smi", "kill -INT $PPID; exec tail -f /dev/null")
    done = subprocess.run(
        [sys.executable, "-m", "sccl", "topo", "import", "--tools", str(tmp_path)],
        capture_output=True, text=True, check=False, timeout=PATIENCE_S, cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted\n")


def test_answers_of_tools_are_read_by_number() -> None:
    assert nvidia_gpus(B200 + "\nFailed to initialize NVML\n").names == ("NVIDIA B200",) * 8
    assert rocm_gpus(
        "GPU[10] : PCI Bus: 0000:0B:00.0\nGPU[2] : PCI Bus: 0000:0A:00.0"
    ) == GpuListing(("0000:0A:00.0", "0000:0B:00.0"), ())
    assert amd_gpus(ASIC).names == ("AMD Instinct MI300X",)
    for read in (nvidia_gpus, rocm_gpus, amd_gpus):
        assert read(nvidia_smi.EXAMPLE) == GpuListing((), ())
