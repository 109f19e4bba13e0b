"""Importers of machines: their common contract."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sccl.errors import FormatError, InputError
from sccl.topo import importers
from sccl.topo.importers.common.unused_fields import unused_names
from tests.kit.importers import HINTS, check_importer, refusal


@pytest.mark.parametrize("name", importers.importer_names())
def test_conforms(name: str) -> None:
    check_importer(name)


@pytest.mark.parametrize("name", importers.importer_names())
def test_prefix_of_all_lines_is_left_out(name: str) -> None:
    example = importers.load_importer(name).EXAMPLE.rstrip("\n") + "\n\n"
    if "\n" not in example.strip():
        return
    for prefix, format_name in product(("node01: ", " 0: ", "gpu-a.cluster:"), ("auto", name)):
        text = "".join(f"{prefix}{line}".rstrip() + "\n" for line in example.splitlines())
        importer, found = importers.read_machine(text, HINTS, "f", format_name)
        assert name == importer.NAME
        own = importers.read_machine(example, HINTS, "f", format_name)[1]
        assert found.topology == own.topology
        line = f"every line begins with {prefix!r}, which is left out"
        assert found.understood == (line, *own.understood)


def test_lines_of_several_machines_are_rejected() -> None:
    example = importers.load_importer("nvidia-smi").EXAMPLE.splitlines()
    text = "".join(f"node{i}: {line}\n" for line in example for i in (1, 2))
    with pytest.raises(InputError, match="f: lines begin with names of 2 machines, such as node1"):
        importers.read_machine(text, HINTS, "f")


@pytest.mark.parametrize("name", importers.importer_names())
@given(data=st.data())
def test_any_bytes_are_read_or_refused_in_a_sentence(name: str, data: st.DataObject) -> None:
    importer = importers.load_importer(name)
    characters = st.sampled_from(sorted({*importer.EXAMPLE}))
    texts = st.text(characters, max_size=200) | st.text(max_size=200)
    content = data.draw(st.binary(max_size=300) | texts.map(str.encode))
    try:
        text = importers.decode_text(content, "f")
    except FormatError:
        return
    importer.sniff(text)
    assert "\n" not in refusal(importer, text)


UNKNOWN_FIELDS = {
    "astra-sim": ("topology:", "clocks: 5\ntopology:", "clocks"),
    "infragraph": ("- {name: nvlink}", "- {name: nvlink, lanes: 9}", "devices[].links[].lanes"),
    "msccl-topology": ('"switches"', '"speeds": [[1]], "switches"', "speeds"),
    "taccl": ('"alpha"', '"hops": [1], "alpha"', "hops"),
}


@pytest.mark.parametrize("name", UNKNOWN_FIELDS)
def test_fields_of_unknown_names_are_listed(name: str) -> None:
    importer = importers.load_importer(name)
    old, new, field = UNKNOWN_FIELDS[name]
    assert old in importer.EXAMPLE
    own = importer.read(importer.EXAMPLE, HINTS)
    found = importer.read(importer.EXAMPLE.replace(old, new, 1), HINTS)
    assert not any(line.startswith("not used") for line in own.understood)
    assert found.understood == (*own.understood, f"not used: {field}")
    assert (found.topology, found.assumed) == (own.topology, own.assumed)


@pytest.mark.parametrize("name", ["msccl-topology", "taccl"])
@pytest.mark.parametrize("value", ["1e999", "[" * 10**6 + "]" * 10**6])
def test_fields_of_unknown_names_are_read_or_refused(name: str, value: str) -> None:
    importer = importers.load_importer(name)
    old = UNKNOWN_FIELDS[name][0]
    text = importer.EXAMPLE.replace(old, f'"other": {value}, {old}', 1)
    with pytest.raises(InputError, match=r"^no (JSON|profile|topology)"):
        importer.read(text, HINTS)


def test_names_in_the_summary_are_few_and_quoted() -> None:
    names = ["a", "\x1b[2J\n", "a", *(f"b{i}" for i in range(9))]
    assert unused_names(names) == "a, '\\x1b[2J\\n', b0, b1, b2, b3, b4, b5, 3 more"
    assert unused_names([]) == ""
