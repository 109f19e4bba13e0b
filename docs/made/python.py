"""Reference of ``import sccl``, generated from its signatures and docstrings."""

from __future__ import annotations

import ast
import importlib
import inspect
import textwrap
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import sccl
from docs.made import docstrings
from sccl.api.shared import FrontierBase

_TAKEN = {
    "sccl.api.given": ("Machine", "CollectiveLike", "Ranks"),
    "sccl.api.questions": ("Store",),
    "sccl.api.synthesis": ("Size",),
    "sccl.tasks.synthesis": ("BandwidthLike",),
    "sccl.api.simulation": ("PlanLike",),
    "sccl.api.progress": ("Progress",),
    "sccl.api.machine": ("Rank", "LinkLike"),
}
_PARTS: dict[str, tuple[str, ...]] = {
    "Questions": (
        *("topology", "collective", "bounds", "solve", "pareto", "limits", "load", "Answer"),
        *("tacos", "teccl", "taccl", "baseline", "simulate", "compare", "plan", "workload"),
        "make_workload",
    ),
    "Results": (
        *("Frontier", "LimitFrontier", "SavedFrontier", "Point"),
        *("Algorithm", "Schedule", "Simulation", "Comparison", "Topology", "Chart"),
        *("TrainingPlan", "Workload"),
    ),
    "Certificates": ("check_certificate", "Certificate"),
    "Errors": ("ScclError", "InputError"),
}
_WIDTH = 88


def text() -> str:
    """Return a section for each part of the Python API."""
    missing = set(sccl.__all__) - {name for names in _PARTS.values() for name in names}
    assert not missing, f"the reference has no place for {sorted(missing)}"
    blocks: list[str] = []
    for title, names in _PARTS.items():
        blocks.append(f"## {title}")
        if title == "Results":
            blocks += _class(FrontierBase, "Every frontier")
        for name in names:
            value = getattr(sccl, name)
            blocks += _class(value, name) if inspect.isclass(value) else _function(value, name)
        blocks += _taken() if title == "Questions" else ()
    return "\n\n".join(blocks)


def _function(function: Callable[..., Any], name: str, level: int = 3) -> Iterator[str]:
    inner = inspect.unwrap(function)
    yield f"{'#' * level} {name}"
    yield f"```text\n{_signature(inner, name.rsplit('.', 1)[-1])}\n```"
    yield docstrings.markdown(inspect.getdoc(inner) or "")


def _class(kind: type, name: str) -> Iterator[str]:
    """Yield a class and its members, in the order of its source."""
    yield f"### {name}"
    yield docstrings.markdown(inspect.getdoc(kind) or "")
    prefix = "" if kind is FrontierBase else f"{name}."
    if issubclass(kind, FrontierBase) and kind is not FrontierBase:
        yield "And all that [every frontier](#every-frontier) has."
    bases = [
        base
        for base in reversed(kind.__mro__)
        if base is kind or not issubclass(FrontierBase, base)
    ]
    members = {word: member for base in bases for word, member in vars(base).items()}
    public = {word: member for word, member in members.items() if not word.startswith("_")}
    properties = {word: value for word, value in public.items() if isinstance(value, property)}
    if properties:
        yield "**Properties**"
        yield "\n".join(_property(word, value) for word, value in properties.items())
    for word, member in public.items():
        if inspect.isfunction(member) or isinstance(member, classmethod):
            yield from _function(getattr(kind, word), f"{prefix}{word}", level=4)


def _property(name: str, attribute: property) -> str:
    """Return the line of a property: its name, its type, and the summary of its docstring."""
    kind = inspect.get_annotations(attribute.fget)["return"] if attribute.fget else ""
    summary = (inspect.getdoc(attribute) or "").partition("\n\nRaises:")[0].removeprefix("Return ")
    return f"- `{name}: {kind}`: {docstrings.line(summary)}"


def _signature(function: Callable[..., Any], name: str) -> str:
    """Return a function's signature, on several lines if it is long."""
    signature = inspect.signature(function)
    parameters, keywords = [], False  # whether the following parameters are keyword-only
    for parameter in signature.parameters.values():
        if parameter.name in {"self", "cls"}:
            continue
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and not keywords:
            keywords = True
            parameters.append("*")
        keywords |= parameter.kind is inspect.Parameter.VAR_POSITIONAL
        parameters.append(_parameter(parameter))
    result = signature.return_annotation
    line = f"{name}({', '.join(parameters)}) -> {result}"
    if len(line) <= _WIDTH:
        return line
    return "\n".join(
        [f"{name}(", *(f"    {parameter}," for parameter in parameters), f") -> {result}"]
    )


def _parameter(parameter: inspect.Parameter) -> str:
    stars = "*" if parameter.kind is inspect.Parameter.VAR_POSITIONAL else ""
    default = "" if parameter.default is inspect.Parameter.empty else f" = {parameter.default!r}"
    return f"{stars}{parameter.name}: {parameter.annotation}{default}"


def _taken() -> Iterator[str]:
    """Yield the argument types of functions, from the texts under the types."""
    yield "### Argument types"
    for module, names in _TAKEN.items():
        body = ast.parse(inspect.getsource(importlib.import_module(module))).body
        for statement, following in pairwise(body):
            if isinstance(statement, ast.Assign) and isinstance(
                target := statement.targets[0], ast.Name
            ):
                if target.id not in names or not isinstance(following, ast.Expr):
                    continue
                description = textwrap.dedent(str(ast.literal_eval(following.value)))
                kind = f"```text\n{target.id} = {ast.unparse(statement.value)}\n```"
                yield f"{kind}\n\n{docstrings.markdown(description)}"
