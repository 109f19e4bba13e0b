"""Options that several verbs share, groups of options, and completion of their values in shells."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, is_dataclass
from enum import StrEnum
from functools import wraps
from glob import escape
from inspect import Parameter
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, cast, get_args, get_origin, get_type_hints

import msgspec
import typer

from sccl.api.option_fields import OptionField, option_fields
from sccl.core.files.disk import check_can_write
from sccl.errors import ParameterError

Plans = Annotated[
    list[Path],
    typer.Argument(
        metavar="FILE",
        help="Algorithm and schedule files, folders of them, or patterns such as 'found/*.json'.",
        show_default=False,
    ),
]
Chunks = Annotated[int, "C, number of chunks of each rank (the paper's count)."]
Steps = Annotated[int, "S, number of steps."]
Rounds = Annotated[int, "R, number of rounds of all steps."]
MaxSteps = Annotated[
    int | None, "Largest S.", "3 above the latency bound; for allreduce, 3 above that of each half"
]
BySketch = Annotated[
    Path | None,
    "Communication sketch that restricts the links ('sccl doctor schema sketch', or one of "
    "TACCL's).",
]
SketchedChunks = Annotated[
    int | None, "Chunks per part that a rank sends or receives.", "the sketch's, else 1"
]
Size = Annotated[
    str | None, "Buffer of a rank: 64KiB (binary), 62.5MB (decimal), or bytes.", "the sketch's"
]
Seed = Annotated[
    int, typer.Option(min=0, help="Seed; the same seed and budget give the same schedule.")
]
Budget = Annotated[
    float,
    typer.Option(min=0, help="Budget of the search; 1 takes some seconds."),
]
Deadline = Annotated[float | None, "Seconds after which the best schedule so far is returned."]
Timeout = Annotated[float | None, "Seconds per query. After a timeout the candidate stays open."]
SweepTimeout = Annotated[
    float | None, "Seconds per query. After a timeout the candidate stays open.", "60"
]
_FIXED_BUDGET = "none: a fixed budget of deterministic work"
LimitTimeout = Annotated[float | None, "Seconds for each S.", _FIXED_BUDGET]
SizeTimeout = Annotated[float | None, "Seconds for each size.", _FIXED_BUDGET]
AlphaUs = Annotated[float | None, "Latency of a step in microseconds.", "the machine's"]
GbPerS = Annotated[float | None, "Bandwidth of a lane in 10^9 bytes/s.", "the machine's"]
Json = Annotated[bool, "Print JSON on stdout, for scripts."]
Output = Annotated[Path | None, typer.Option("-o", "--output", help="File for the result.")]

T = TypeVar("T")

Completer = Callable[[str], list[tuple[str, str]]]
"""Function from the start of a word to its completions, each with a line of help."""


def check_writable(path: Path | None) -> Path | None:
    """Return ``path`` after checking that a file can be written there.

    Raises:
        InputError: Its folder does not exist, or it is a folder itself.
    """
    if path is not None:
        check_can_write(path)
    return path


def reject_options(values: Mapping[str, object], why: str) -> None:
    """Reject options that do not go with another one.

    Args:
        values: Option values by name. None: not given.
        why: The conflict, as the rest of a sentence that begins with the first option.

    Raises:
        ParameterError: An option was given.
    """
    flags = [f"--{name}" for name, value in values.items() if value is not None]
    if flags:
        raise ParameterError(f"{flags[0]} {why}: leave one of the two out")


# --- groups of options ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DerivedOptions:
    """Options that a verb takes together, as ``Annotated[dict[str, Any], DerivedOptions(...)]``."""

    parameters: tuple[Parameter, ...]

    @classmethod
    def of(cls, options: type, *names: str) -> DerivedOptions:
        """Return the options that the fields of a class describe.

        Args:
            names: Names of some options, whose range the command line checks. Empty: all, whose
                ranges are checked when they are converted to the class.
        """
        fields = option_fields(options)
        if not names:
            return cls(tuple(map(option_parameter, fields)))
        named = (field for field in fields if field.name in names)
        return cls(tuple(option_parameter(field, min=field.minimum) for field in named))


def option_parameter(option: OptionField, **more: Any) -> Parameter:
    """Return the parameter for an option. A list is a text, and a structure the path of its file.

    Args:
        more: Further arguments of Typer's option.
    """
    kind, default = option.type, option.default
    if get_origin(kind) is Literal:
        kind = cast("Any", StrEnum)("Choice", {word: word for word in option.choices})
        default = None if default is None else kind(default)
    elif option.choices:
        more["autocompletion"] = complete_words(option.choices, option.name)
    elif get_origin(kind) is tuple:
        kind, default = str, None if default is None else ",".join(map(str, default))
    elif issubclass(kind, msgspec.Struct):
        kind = Path
    hint = kind | None if option.is_optional else kind
    names = _flag_names(option.name, kind, default)
    text = typer.Option(*names, help=option.help, show_default=option.default_help or True, **more)
    return Parameter(
        option.name, Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[hint, text]
    )


def flatten_options(verb: Callable[..., T]) -> Callable[..., T]:
    """Return a verb that takes each option of its groups as a parameter, which Typer can read.

    A group is a class whose fields are options, with Typer's help or that of
    :mod:`sccl.api.option_fields`, or it is :class:`DerivedOptions`, without those that the verb
    declares itself.
    """
    parameters: list[Parameter] = []
    groups: list[tuple[str, Callable[..., Any], list[str]]] = []
    declared = _parameters(verb)
    names = {parameter.name for parameter in declared}
    for parameter in declared:
        kind: Any = parameter.annotation
        make: Callable[..., Any] = dict
        group = get_args(kind)[1] if get_origin(kind) is Annotated else None
        if is_dataclass(kind) or (isinstance(kind, type) and issubclass(kind, msgspec.Struct)):
            make = cast("Callable[..., Any]", kind)
            members = _group_parameters(kind)
        elif isinstance(group, DerivedOptions):
            members = tuple(option for option in group.parameters if option.name not in names)
        else:
            parameters.append(parameter)
            continue
        parameters += members
        groups.append((parameter.name, make, [member.name for member in members]))

    @wraps(verb)
    def call(**values: Any) -> T:
        """Call the verb with the values of its groups."""
        group_values = {
            name: make(**{member: values.pop(member) for member in members})
            for name, make, members in groups
        }
        return verb(**group_values, **values)

    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return call


def _group_parameters(group: Any) -> tuple[Parameter, ...]:
    """Return the options of a class, with Typer's help or that of its fields."""
    if group.__module__.startswith("sccl.cli."):
        return tuple(_parameters(group))
    return tuple(option_parameter(field, min=field.minimum) for field in option_fields(group))


def _parameters(function: Callable[..., Any]) -> list[Parameter]:
    """Return the parameters of a verb or a group of options, with Typer's options in their hints.

    Hints are ``Annotated[type, help, default_help, completer]``, the last two optional.
    """
    hints = get_type_hints(function, include_extras=True)
    return [
        parameter.replace(
            annotation=_typer_hint(hints[name], parameter), kind=Parameter.KEYWORD_ONLY
        )
        for name, parameter in inspect.signature(function).parameters.items()
    ]


def _typer_hint(hint: Any, parameter: Parameter) -> Any:
    notes = getattr(hint, "__metadata__", ())
    texts = [note for note in notes if isinstance(note, str)]
    if not texts:
        return hint
    names = _flag_names(parameter.name, hint.__origin__, parameter.default)
    option = typer.Option(
        *names,
        help=texts[0],
        show_default=texts[1] if len(texts) > 1 else True,
        autocompletion=next(filter(callable, notes), None),
    )
    return Annotated[hint.__origin__, option]


def _flag_names(name: str, kind: Any, default: object) -> tuple[str, ...]:
    """Return the name of a flag, which has no opposite. Other options get theirs from Typer."""
    return ("--" + name.replace("_", "-"),) if kind is bool and default is False else ()


# --- completion in shells ------------------------------------------------------------------------


def complete_words(names: Iterable[str], description: str) -> Completer:
    """Return a completer that offers ``names``, each described as ``description``."""
    choices = tuple(names)
    return lambda incomplete: _filter_by_prefix(
        ((name, description) for name in choices), incomplete
    )


def complete_topology(incomplete: str) -> list[tuple[str, str]]:
    """Return the machines, an example of each generator, and files that may be machines.

    Shells whose words end at a colon (bash) complete the whole example, colon included.
    """
    from sccl.topo import catalogue_names, topology_makers  # noqa: PLC0415 - only shells ask

    machines = [(name, "a machine of the catalogue") for name in catalogue_names()]
    examples = [(g.example, g.description) for g in topology_makers()]
    return _filter_by_prefix([*machines, *examples, *_matching_files(incomplete)], incomplete)


def complete_collective(incomplete: str) -> list[tuple[str, str]]:
    """Return the names of collectives."""
    from sccl import collectives  # noqa: PLC0415 - only shells ask

    return complete_words(collectives.collective_names(), "a collective")(incomplete)


def complete_file(incomplete: str) -> list[tuple[str, str]]:
    """Return folders and JSON files."""
    return _filter_by_prefix(_matching_files(incomplete), incomplete)


def _matching_files(incomplete: str) -> list[tuple[str, str]]:
    """Return folders and JSON files, because shells add no files to completed words."""
    typed = incomplete.rpartition("/")[2]
    folder = incomplete.removesuffix(typed)
    matches = sorted(Path(folder).glob(f"{escape(typed)}*"))
    return [
        (f"{folder}{path.name}{'/' if path.is_dir() else ''}", "a file")
        for path in matches
        if (path.is_dir() or path.suffix == ".json") and not path.name.startswith(".")
    ]


def _filter_by_prefix(offers: Iterable[tuple[str, str]], incomplete: str) -> list[tuple[str, str]]:
    return [offer for offer in offers if offer[0].startswith(incomplete)]
