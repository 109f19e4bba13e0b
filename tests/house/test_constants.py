"""Numeric constants of the synthesizers: each has a reason, and their number does not grow."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterator
from pathlib import Path

SYNTH = Path(__file__).parents[2] / "sccl" / "synth"
FILES = sorted(SYNTH.rglob("*.py"))

MAX_CONSTANTS = 147
"""Tuning constants that the synthesizers may have. Share one in ``sccl/synth/limits.py``, or delete
another one, before you add one."""

NOT_TUNED = {
    "baselines/bine.py": {"_ODD_BITS"},
    "baselines/c_cube.py": {"PARENTS"},
    "baselines/nccl.py": {"TREE_SHARE"},
    "baselines/pat.py": {"SLOT_BYTES", "SLOTS"},
    "common/candidates.py": {"DEFAULT_K"},
    "common/settings.py": {"DEFAULT_TIMEOUT_S"},
    "common/step_limits.py": {"MAX_STEPS"},
    "common/store.py": {"SCHEMA_VERSION"},
    "network/variable_bandwidth.py": {"MAX_US", "_FULL_BANDWIDTH"},
    "packing/by_steps/round_steps.py": {"_SEED"},
    "sketches/sketch.py": {"MAX_NODES", "MAX_CHUNKUP", "MAX_SHARES", "MAX_SIZE_BYTES"},
    "taccl/parallel_schedule.py": {"_ARRIVAL", "_CHECK"},
    "taccl/planner.py": {"DEFAULT_UNITS"},
    "tacos/expanded_network.py": {"BUSY", "IDLE", "READY", "BLOCKED", "HEADS_PER_KIND"},
    "tacos/matching_uniform.py": {"UNSATISFIED", "ROUND", "LOG_LENGTH"},
    "tacos/tail_rematching.py": {"NOT_HELD", "MAX_LINKS"},
}
"""Numbers of formats, memory layouts, NCCL, and papers, defaults of options, and a seed.

Every other module-level number in ``sccl/synth`` is a tuning constant. Each name of a tuple that is
unpacked is one, and so is a series of numbers.
"""


def is_number(value: ast.expr) -> bool:
    match value:
        case ast.Constant(value=number):
            return isinstance(number, int | float) and not isinstance(number, bool)
        case ast.UnaryOp(operand=operand):
            return is_number(operand)
        case ast.BinOp(left=left, right=right):
            return is_number(left) and is_number(right)
        case ast.Call(func=ast.Name(id="Fraction" | "float" | "int"), args=args):
            return all(map(is_number, args))
    return False


def is_numeric(value: ast.expr) -> bool:
    """Return whether a value is a number or a tuple with one."""
    return is_number(value) or (isinstance(value, ast.Tuple) and any(map(is_numeric, value.elts)))


def assignments(source: str) -> Iterator[tuple[ast.stmt, ast.expr, ast.expr, ast.stmt | None]]:
    """Yield each module-level assignment of numbers: its target, value, and next statement."""
    body = ast.parse(source).body
    for statement, following in zip(body, [*body[1:], None], strict=True):
        match statement:
            case ast.Assign(targets=[target], value=value) if is_numeric(value):
                yield statement, target, value, following
            case ast.AnnAssign(target=target, value=ast.expr() as value) if is_numeric(value):
                yield statement, target, value, following


def constants(source: str) -> Iterator[str]:
    """Yield the names of module-level numbers."""
    for _, target, value, _ in assignments(source):
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            pairs = zip(target.elts, value.elts, strict=True)
            yield from (ast.unparse(name) for name, part in pairs if is_numeric(part))
        else:
            yield ast.unparse(target)


def comment_lines(source: str) -> set[int]:
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return {token.start[0] for token in tokens if token.type == tokenize.COMMENT}


def constants_without_reason(source: str) -> Iterator[str]:
    numbers = list(assignments(source))
    comments = comment_lines(source) if numbers else set()
    for statement, target, _, following in numbers:
        match following:
            case ast.Expr(value=ast.Constant(value=str())):
                continue
        lines = range(statement.lineno - 1, (statement.end_lineno or statement.lineno) + 1)
        if not comments & {*lines}:
            yield ast.unparse(target)


def test_numeric_constants_have_a_reason_and_do_not_become_more() -> None:
    names = {}
    for path in FILES:
        source = path.read_text(encoding="utf-8")
        assert list(constants_without_reason(source)) == [], path
        names[str(path.relative_to(SYNTH))] = set(constants(source))
    for file, exempt in NOT_TUNED.items():
        assert exempt <= names[file], f"{file}: {exempt - names[file]} no longer exists"
    tuned = [
        f"{file}: {name}"
        for file, each in names.items()
        for name in sorted(each - NOT_TUNED.get(file, set()))
    ]
    assert len(tuned) <= MAX_CONSTANTS, tuned


def test_constant_without_reason_is_found() -> None:
    source = (
        'A = 3\nB = 4\n"""Reason."""\nC = 5  # reason\n# reason\nD = (6, -7)\nE = Fraction(1, 2)\n'
    )
    assert list(constants_without_reason(source)) == ["A", "E"]


def test_names_of_tuples_are_counted() -> None:
    source = "A, B = 3, Fraction(1, 2)\nC = (1, 2)\nD: int = 4\nE, F = 'text', 5\nG = len('text')\n"
    assert list(constants(source)) == ["A", "B", "C", "D", "F"]
