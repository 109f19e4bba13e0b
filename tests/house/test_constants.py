"""Each numeric constant of the synthesizers has a reason beside it: a comment or a docstring."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

SYNTH = Path(__file__).parents[2] / "sccl" / "synth"
FILES = sorted(SYNTH.rglob("*.py"))


def is_numeric(value: ast.expr) -> bool:
    match value:
        case ast.Constant(value=number):
            return isinstance(number, int | float) and not isinstance(number, bool)
        case ast.UnaryOp(operand=operand):
            return is_numeric(operand)
        case ast.BinOp(left=left, right=right):
            return is_numeric(left) and is_numeric(right)
        case ast.Tuple(elts=parts):
            return any(map(is_numeric, parts))
        case ast.Call(func=ast.Name(id="Fraction"), args=args):
            return all(map(is_numeric, args))
    return False


def comment_lines(source: str) -> set[int]:
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return {token.start[0] for token in tokens if token.type == tokenize.COMMENT}


def constants_without_reason(source: str) -> Iterator[str]:
    comments = comment_lines(source)
    body = ast.parse(source).body
    for statement, following in zip(body, [*body[1:], None], strict=True):
        match statement:
            case ast.Assign(targets=targets, value=value):
                pass
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                targets = [target]
            case _:
                continue
        match following:
            case ast.Expr(value=ast.Constant(value=str())):
                continue
        lines = range(statement.lineno - 1, (statement.end_lineno or statement.lineno) + 1)
        if is_numeric(value) and not comments & {*lines}:
            yield ", ".join(map(ast.unparse, targets))


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(SYNTH)))
def test_numeric_constants_have_a_reason(file: Path) -> None:
    assert list(constants_without_reason(file.read_text(encoding="utf-8"))) == []


def test_constant_without_reason_is_found() -> None:
    source = (
        'A = 3\nB = 4\n"""Reason."""\nC = 5  # reason\n# reason\nD = (6, -7)\nE = Fraction(1, 2)\n'
    )
    assert list(constants_without_reason(source)) == ["A", "E"]
