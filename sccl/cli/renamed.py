"""Older names of verbs and options, which work for one release."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

_SKETCH = ("check", "show", "explain", "draw")
_CACHE = {"list": "ls", "show": "show", "export": "export", "clear": "gc"}
_VERBS = {
    "tacos": "synth tacos",
    "teccl": "synth teccl",
    "taccl": "synth taccl",
    "baseline": "synth",
    "sketch": "synth sketch",
    **{f"{old} {word}": "synth sketch" for old in ("sketch", "synth sketch") for word in _SKETCH},
    "bounds": "bound",
    "part": "show",
    "codegen": "project new",
    "run": "project run",
    "bench": "project bench",
    "tune": "project tune",
    "profile": "topo profile",
    "robust": "topo robust",
    "design": "topo design",
    "topo probe": "topo import",
    "topo without": "topo edit",
    "topo with": "topo edit",
    "workload": "train",
    "fabric list": "train show",
    "fabric show": "train show",
    "fabric check": "train show",
    "fabric": "train show",
    "train fabrics": "train show",
    "train fabric-check": "train show",
    "plan": "train plan",
    "compare-plans": "train compare",
    "motif": "train motif",
    "enforce": "train run",
    "optimizer": "train control",
    "verify-certificate": "certificate verify",
    "schema": "doctor schema",
    "topo schema": "doctor schema",
    **{f"store {word}": "doctor cache" for word in _CACHE.values()},
    **{f"doctor cache {word}": "doctor cache" for word in _CACHE},
    "store": "doctor cache",
    "smt2": "solve",
}
"""New names of verbs by their old names."""

_REMOVED = {
    "lab": "is now python -m benchmarks.lab (from a checkout)",
    "train lab": "is now python -m benchmarks.lab (from a checkout)",
    "topo infer": "was removed in version 0.2, without a replacement",
}
"""Ends of the sentences about verbs that were removed, by the words of the verbs."""

_FOLDER = {"--out": "--output"}
_SEARCH = {"--effort": "--budget", "--time-limit": "--timeout"}
_PICTURE = {"-o": "--plot", "--output": "--plot"}
_DELETE = {
    "--older-than-days": "--delete-older-than-days",
    "--unknown": "--delete-unknown",
    "--all": "--delete-all",
}
_RUN = {"--np": "--ranks", "--sizes": "--size"}
_OPTIONS: Mapping[str, Mapping[str, str]] = {
    "pareto": _FOLDER,
    "limits": _FOLDER,
    "limits --time": _FOLDER,
    "compare": _FOLDER,
    "synth tacos": _SEARCH,
    "synth teccl": _SEARCH,
    "synth taccl": _SEARCH,
    "project run": _RUN,
    "project bench": _RUN,
    "project tune": _RUN,
    "topo profile": {"--sizes": "--size"},
    "topo import": {"--chassis": "--nodes"},
    "topo without": {"--link": "--remove-link", "--rank": "--remove-rank"},
    "topo with": {"--link": "--add-link"},
    "topo schema": {"--of": ""},
    "train plan": {"--seconds": "--budget"},
    "train compare": {"--seconds": "--budget"},
    "train control": {"--seconds": "--budget"},
    "sketch draw": _PICTURE,
    "synth sketch draw": _PICTURE,
    "sketch show": {"--json": "--output=-"},
    "synth sketch show": {"--json": "--output=-"},
    "store gc": _DELETE,
    "doctor cache clear": _DELETE,
    "smt2": {"-o": "--smt2", "--output": "--smt2"},
}
"""New options by old options, by verb: its new name, or an old name if its options differ."""


def describe_removed_verb(words: Sequence[str]) -> str | None:
    """Return a sentence about a removed verb with which a command line begins, or None."""
    removed = next((v for n in (1, 2) if (v := " ".join(words[:n])) in _REMOVED), None)
    return f"'sccl {removed}' {_REMOVED[removed]}" if removed else None


def replace_old_names(words: Sequence[str]) -> tuple[list[str], str | None]:
    """Return a command line with current names.

    Args:
        words: The command line after ``sccl``.

    Returns:
        The words, and a note that names the new command. None: nothing changed.
    """
    end = words.index("--") if "--" in words else len(words)
    ours, rest = list(words[:end]), list(words[end:])
    length = next((n for n in (3, 2, 1) if " ".join(ours[:n]) in _VERBS and len(ours) >= n), 0)
    old_verb = " ".join(ours[:length])
    new_verb = _VERBS.get(old_verb, "")
    arguments = ours[length:]
    if ours[:1] == ["limits"] and "--time" in ours:
        old_verb, new_verb = "limits --time", "synth fastest"
        arguments = [word for word in ours[1:] if word != "--time"]
    elif ours[:1] == ["pareto"] and "--limit" in ours:
        old_verb, new_verb = "pareto --limit", "limits"
        arguments = [word for word in ours[1:] if word not in ("--limit", "--no-store")]
    renamed = _OPTIONS.get(old_verb) or _options_of([*new_verb.split(), *arguments])
    arguments, changed = _replace_options(arguments, renamed)
    if old_verb == "smt2" and not changed:
        arguments += ["--smt2", "-"]
    if old_verb == "topo schema" and not arguments:
        arguments = ["topology"]
    if not new_verb and not changed:
        return list(words), None
    before = " ".join(["sccl", old_verb or ours[0], *changed])
    after = " ".join(["sccl", new_verb or ours[0], *filter(None, changed.values())])
    note = f"note: '{before}' is now '{after}'; the old name works until version 0.3"
    return [*new_verb.split(), *arguments, *rest], note


def _options_of(words: Sequence[str]) -> Mapping[str, str]:
    """Return the renamed options of the verb with which a command line in new words begins."""
    return next((_OPTIONS[v] for n in (2, 1) if (v := " ".join(words[:n])) in _OPTIONS), {})


def _replace_options(
    arguments: Sequence[str], renamed: Mapping[str, str]
) -> tuple[list[str], dict[str, str]]:
    """Return arguments with new options, and the options that were replaced."""
    replaced, changed = [], {}
    for word in arguments:
        flag, equals, value = word.partition("=")
        if flag not in renamed:
            replaced.append(word)
            continue
        new = changed[flag] = renamed[flag]
        replaced += [f"{new}{equals}{value}"] if new else [value] if equals else []
    return replaced, changed
