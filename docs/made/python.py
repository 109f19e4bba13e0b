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
    "sccl.api.times": ("Size",),
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
    found: list[str] = []
    for title, names in _PARTS.items():
        found.append(f"## {title}")
        if title == "Results":
            found += _class(FrontierBase, "Every frontier")
        for name in names:
            value = getattr(sccl, name)
            found += _class(value, name) if inspect.isclass(value) else _function(value, name)
        found += _taken() if title == "Questions" else ()
    return "\n\n".join(found)


def _function(function: Callable[..., Any], name: str, level: int = 3) -> Iterator[str]:
    own = inspect.unwrap(function)
    yield f"{'#' * level} {name}"
    yield f"```text\n{_signature(own, name.rsplit('.', 1)[-1])}\n```"
    yield docstrings.markdown(inspect.getdoc(own) or "")


def _class(kind: type, name: str) -> Iterator[str]:
    """Yield a class and its members, in the order of its source."""
    yield f"### {name}"
    yield docstrings.markdown(inspect.getdoc(kind) or "")
    prefix = "" if kind is FrontierBase else f"{name}."
    if issubclass(kind, FrontierBase) and kind is not FrontierBase:
        yield "And all that [every frontier](#every-frontier) has."
    own = [
        one for one in reversed(kind.__mro__) if one is kind or not issubclass(FrontierBase, one)
    ]
    members = {word: member for one in own for word, member in vars(one).items()}
    public = {word: member for word, member in members.items() if not word.startswith("_")}
    properties = {word: one for word, one in public.items() if isinstance(one, property)}
    if properties:
        yield "**Properties**"
        yield "\n".join(_property(word, one) for word, one in properties.items())
    for word, member in public.items():
        if inspect.isfunction(member) or isinstance(member, classmethod):
            yield from _function(getattr(kind, word), f"{prefix}{word}", level=4)


def _property(name: str, found: property) -> str:
    """Return the line of a property: its name, its type, and the summary of its docstring."""
    kind = inspect.get_annotations(found.fget)["return"] if found.fget else ""
    said = (inspect.getdoc(found) or "").partition("\n\nRaises:")[0].removeprefix("Return ")
    return f"- `{name}: {kind}`: {docstrings.line(said)}"


def _signature(function: Callable[..., Any], name: str) -> str:
    """Return a function's signature, on several lines if it is long."""
    signature = inspect.signature(function)
    parameters, keywords = [], False  # whether the following parameters are keyword-only
    for one in signature.parameters.values():
        if one.name in {"self", "cls"}:
            continue
        if one.kind is inspect.Parameter.KEYWORD_ONLY and not keywords:
            keywords = True
            parameters.append("*")
        keywords |= one.kind is inspect.Parameter.VAR_POSITIONAL
        parameters.append(_parameter(one))
    result = signature.return_annotation
    line = f"{name}({', '.join(parameters)}) -> {result}"
    if len(line) <= _WIDTH:
        return line
    return "\n".join([f"{name}(", *(f"    {one}," for one in parameters), f") -> {result}"])


def _parameter(one: inspect.Parameter) -> str:
    stars = "*" if one.kind is inspect.Parameter.VAR_POSITIONAL else ""
    default = "" if one.default is inspect.Parameter.empty else f" = {one.default!r}"
    return f"{stars}{one.name}: {one.annotation}{default}"


def _taken() -> Iterator[str]:
    """Yield the argument types of functions, from the texts under the types."""
    yield "### What they take"
    for module, names in _TAKEN.items():
        body = ast.parse(inspect.getsource(importlib.import_module(module))).body
        for one, after in pairwise(body):
            if isinstance(one, ast.Assign) and isinstance(target := one.targets[0], ast.Name):
                if target.id not in names or not isinstance(after, ast.Expr):
                    continue
                said = textwrap.dedent(str(ast.literal_eval(after.value)))
                kind = f"```text\n{target.id} = {ast.unparse(one.value)}\n```"
                yield f"{kind}\n\n{docstrings.markdown(said)}"
