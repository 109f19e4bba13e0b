"""Help on one screen: titled sections, first sentences, and ``--help-all`` for the rest."""

from __future__ import annotations

import copy
import re
from collections.abc import Collection, Iterable
from typing import Any

import typer
from typer.core import TyperCommand

from sccl.cli.verbs import Verb

_PANELS = {
    "Problem": "collective topo root counts groups routed size chunks steps rounds fabric "
    "taccl_topology",
    "Settings": "",
    "Output": "output out_dir directory plot certify_dir json smt2 log save help_all help",
}
"""Titles of panels and the options in them, in the order of the help. ``Settings`` has the rest."""

ENVIRONMENT = (
    *("store", "no_store", "trust_store", "cluster", "trust_cluster"),
    *("tls_ca", "tls_cert", "tls_key"),
)
"""Options that are set once for a site, by ``SCCL_`` variables. They are not in the help."""

_RARE = (
    *("alike", "alpha_us", "bandwidth", "bitwise", "blocks_per_link", "buffers", "by", "combine"),
    *("costs", "counts", "deadline", "epoch", "epochs", "force", "gb_per_s", "gpu", "groups"),
    *("host_time", "improve", "item_bytes", "keep_sketch", "max_misfit", "max_motifs"),
    *("measurements", "memory", "multiplier", "name", "network", "nodes", "options_only", "order"),
    *("bucket_mb", "microbatches", "overlap_next", "prefetch", "sequence_parallel"),
    *("paths", "priorities", "record", "restarts", "root", "routed", "select", "step", "stepping"),
    *("switch", "switch_degree", "symmetry", "taccl_topology", "take", "together", "tools"),
    *("transport", "tuner", "what", "alpha", "from_us", "merge", "mpi", "repeat", "save", "search"),
    *("seed", "until_us"),
)
"""Options that only ``--help-all`` lists."""

_RARE_OF = {
    "bound": ("timeout",),
    "limits": ("solver",),
    "synth taccl": ("steps", "timeout"),
    "synth tacos": ("timeout",),
    "synth teccl": ("solver", "timeout"),
    "topo robust": ("jobs", "solver", "timeout"),
    "train control": ("log",),
}
"""Further such options of some verbs."""

_RARE_PANEL = "Options of"
"""Start of the titles of panels that only ``--help-all`` shows."""

_SHOW_ALL = "sccl.help_all"
_WIDE = 26
"""Characters up to which the choices of an option are listed as its type."""


class VerbCommand(TyperCommand):
    """A verb whose ``--help`` fits on one screen and whose ``--help-all`` is complete."""

    examples: tuple[str, ...] = ()
    rare: tuple[str, ...] = _RARE

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help: all of it, or the first sentences of common options."""
        shown = self if ctx.meta.get(_SHOW_ALL) else _essentials(self)
        TyperCommand.format_help(shown, ctx, formatter)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments and options, a section for each panel."""
        parameters: Any = self.get_params(ctx)
        rows = ((p.rich_help_panel or "Arguments", _help_row(p, ctx)) for p in parameters)
        write_sections(formatter, ((title, row) for title, row in rows if row is not None))

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write the examples, one a line."""
        del ctx
        with formatter.section("Examples" if len(self.examples) > 1 else "Example"):
            formatter.write("".join(f"  {example}\n" for example in self.examples))

    def get_help_option(self, ctx: Any) -> Any:
        """Return the option ``--help``, in the panel of its kind."""
        option: Any = super().get_help_option(ctx)
        if option is not None:
            option.rich_help_panel = _panel_of("help")
        return option


def _help_row(parameter: Any, ctx: Any) -> tuple[str, str] | None:
    """Return the names and the help of a parameter, without Click's brackets. None: hidden."""
    row: tuple[str, str] | None = parameter.get_help_record(ctx)
    if row is None:
        return None
    name, text = row
    default = getattr(parameter, "show_default", None)
    if isinstance(default, str):
        text = text.replace(f"[default: ({default})", f"[default: {default}")
    return name.replace(" range>", ">"), text


def write_sections(formatter: Any, rows: Iterable[tuple[str, tuple[str, str]]]) -> None:
    """Write a titled list for each panel.

    Args:
        formatter: Click's formatter of help.
        rows: The title of a panel, and a name with its description.
    """
    panels: dict[str, list[tuple[str, str]]] = {}
    for title, row in rows:
        panels.setdefault(title, []).append(row)
    for title, entries in panels.items():
        with formatter.section(title):
            formatter.write_dl(entries)


def arrange_help(command: VerbCommand, verb: Verb) -> None:
    """Put a verb's options into panels, and add its examples and ``--help-all``."""
    command.help = re.sub(r"(?<!\n)\n(?!\n)", " ", (command.help or "").strip())
    command.examples, command.rare = verb.examples, _RARE + _RARE_OF.get(verb.name, ())
    parameters: list[Any] = command.params
    for parameter in parameters:
        name = str(parameter.name)
        if parameter.param_type_name == "argument":
            continue
        if name in ENVIRONMENT and not parameter.required:  # the store of a job is required
            parameter.hidden, parameter.envvar = True, f"SCCL_{name.upper()}"
        parameter.rich_help_panel = parameter.rich_help_panel or _panel_of(name)
    titles = list(_PANELS)
    parameters.sort(key=lambda parameter: _panel_rank(parameter, titles))
    if _is_shortened(command):
        parameters.append(_help_all_option())


def _panel_of(name: str) -> str:
    return next((title for title, names in _PANELS.items() if name in names.split()), "Settings")


def _panel_rank(parameter: Any, titles: list[str]) -> int:
    if parameter.param_type_name == "argument":
        return -1
    title = parameter.rich_help_panel
    return titles.index(title) if title in titles else titles.index("Settings")


def _is_shortened(command: VerbCommand) -> bool:
    """Return whether ``--help`` is shorter than ``--help-all``."""
    short = _essentials(command)
    pairs: Any = zip(command.params, short.params, strict=True)
    return command.help != short.help or any(
        (full.help, full.hidden) != (part.help, part.hidden) for full, part in pairs
    )


def _help_all_option() -> Any:
    def show(ctx: Any, _: Any, is_requested: bool) -> None:
        if is_requested and not ctx.resilient_parsing:
            ctx.meta[_SHOW_ALL] = True
            typer.echo(ctx.get_help(), color=ctx.color)
            ctx.exit()

    return typer.core.TyperOption(
        param_decls=["--help-all"],
        is_flag=True,
        expose_value=False,
        is_eager=True,
        callback=show,
        help="Show all options and details, and exit.",
        rich_help_panel=_panel_of("help_all"),
    )


def _essentials(command: VerbCommand) -> VerbCommand:
    """Return a copy of a verb with the first sentences of its help and of its common options."""
    short = copy.copy(command)
    short.help = (command.help or "").split("\n\n")[0]
    short.params = [_shorten(parameter, command.rare) for parameter in command.params]
    return short


def _shorten(parameter: Any, rare: Collection[str]) -> Any:
    short = copy.copy(parameter)
    short.help = _first_sentence(parameter.help or "")
    if parameter.param_type_name == "argument":
        return short
    if isinstance(parameter.show_default, str):
        short.show_default = _first_sentence(parameter.show_default).rstrip(".")
    choices = getattr(parameter.type, "choices", ())
    if len("|".join(map(str, choices))) > _WIDE:
        short.metavar = str(parameter.name).upper()
    is_rare = parameter.name in rare or str(parameter.rich_help_panel).startswith(_RARE_PANEL)
    short.hidden = parameter.hidden or (is_rare and not parameter.required)
    return short


def _first_sentence(text: str) -> str:
    sentence = re.split(r"(?<=[^.])\. |; | \((?:see|more)", text)[0]
    return sentence if sentence.endswith(("...", ".")) else f"{sentence}."
