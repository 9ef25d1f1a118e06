"""The faults: one operator, number, condition, result or call of a source text changed."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

COMPARISONS = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
}
ARITHMETIC = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "/"),
    ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "/"),
    ast.Mod: ("%", "*"),
    ast.Pow: ("**", "*"),
    ast.BitAnd: ("&", "|"),
    ast.BitOr: ("|", "&"),
}
SWAPPED = {
    "min": "max",
    "max": "min",
    "minimum": "maximum",
    "maximum": "minimum",
    "argmin": "argmax",
    "argmax": "argmin",
    "any": "all",
    "all": "any",
}
ORDERED = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
NUMBERS = {bool: "True, False", int: "whole number raised by 1", float: "real number doubled"}
LEFT_ALONE = (ast.Raise, ast.Assert, ast.Import, ast.ImportFrom, ast.Global, ast.Nonlocal)


@dataclass(frozen=True)
class Mutant:
    """A changed text: the lines of the statement changed, and how its first changed line reads."""

    file: str
    number: int
    first: int  # lines that a test must reach to see the change
    last: int
    line: int
    before: str
    after: str
    text: str
    at_import: bool  # executed when the module is imported, not when a test runs
    kind: str  # of change, such as "and, or"


def mutants(file: str, text: str) -> list[Mutant]:
    """Return every fault that can be put into a source text, in the order of the text."""
    raw = text.encode()
    starts = [0]
    for row in raw.splitlines(keepends=True):
        starts.append(starts[-1] + len(row))

    def at(line: int, column: int) -> int:
        return starts[line - 1] + column

    found = []
    for statement, in_function in _statements(ast.parse(text).body, False):
        first, last = _reach(statement)
        for begin, end, new, kind in _changes(statement, raw, at):
            changed = raw[:begin] + new.encode() + raw[end:]
            line = raw.count(b"\n", 0, begin) + 1
            extent = raw.count(b"\n", begin, end) + 1
            before = b" ".join(part.strip() for part in raw.splitlines()[line - 1 :][:extent])
            rows = changed.splitlines()[line - 1 :][: new.count("\n") + 1]
            after = b" ".join(part.strip() for part in rows)
            found.append(
                (begin, first, last, line, before.decode(), after.decode(), changed.decode(),
                 not in_function, kind)
            )  # fmt: skip
    found.sort(key=lambda item: (item[0], item[5]))
    return [Mutant(file, number, *item[1:]) for number, item in enumerate(found)]


def _statements(body: list[ast.stmt], inside: bool) -> Iterator[tuple[ast.stmt, bool]]:
    """Yield the statements with something to run, and whether they stand in a function."""
    for statement in body:
        if isinstance(statement, LEFT_ALONE) or _is_docstring(statement) or _is_typing(statement):
            continue
        function = isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef)
        yield statement, inside
        for field in ("body", "orelse", "finalbody"):
            yield from _statements(getattr(statement, field, []), inside or function)
        for part in [*getattr(statement, "handlers", []), *getattr(statement, "cases", [])]:
            yield from _statements(part.body, inside)


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _is_typing(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def _reach(statement: ast.stmt) -> tuple[int, int]:
    """Return the lines of a statement without those of the statements inside it."""
    body = getattr(statement, "body", None)
    last = body[0].lineno - 1 if body else statement.end_lineno or statement.lineno
    return statement.lineno, max(statement.lineno, last)


def _changes(statement, raw, at):  # type: ignore[no-untyped-def]
    """Yield (first byte, byte after the last, new text, kind) of the changes to one statement."""

    def span(node: ast.AST) -> tuple[int, int]:
        return at(node.lineno, node.col_offset), at(node.end_lineno, node.end_col_offset)

    def source(node: ast.AST) -> str:
        begin, end = span(node)
        return raw[begin:end].decode()

    def operator(left: ast.AST, right: ast.AST, old: str, new: str, kind: str):  # type: ignore[no-untyped-def]
        begin, end = span(left)[1], span(right)[0]
        where = raw[begin:end].find(old.encode())
        yield begin + where, begin + where + len(old), new, kind

    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        yield *span(statement), "pass", "call left out"
    if isinstance(statement, ast.Return) and statement.value is not None:
        plain = isinstance(statement.value, ast.Constant)
        if not plain:
            yield *span(statement.value), "None", "result left out"
    if isinstance(statement, ast.Break):
        yield *span(statement), "continue", "break, continue"
    if isinstance(statement, ast.Continue):
        yield *span(statement), "break", "break, continue"
    if isinstance(statement, ast.AugAssign) and type(statement.op) in ARITHMETIC:
        old, new = ARITHMETIC[type(statement.op)]
        yield from operator(statement.target, statement.value, old + "=", new + "=", "arithmetic")
    if isinstance(statement, ast.If):
        yield *span(statement.test), f"not ({source(statement.test)})", "condition negated"
    for node in _expressions(statement):
        if isinstance(node, ast.Compare):
            lefts = [node.left, *node.comparators[:-1]]
            for left, op, right in zip(lefts, node.ops, node.comparators, strict=True):
                kind = "< and <=, > and >=" if type(op) in ORDERED else "other comparison"
                yield from operator(left, right, *COMPARISONS[type(op)], kind)
        elif isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC:
            yield from operator(node.left, node.right, *ARITHMETIC[type(node.op)], "arithmetic")
        elif isinstance(node, ast.BoolOp):
            old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
            for left, right in zip(node.values, node.values[1:], strict=False):
                yield from operator(left, right, old, new, "and, or")
        elif isinstance(node, ast.IfExp):
            yield *span(node.test), f"not ({source(node.test)})", "condition negated"
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
            yield *span(node), f"({source(node.operand)})", "sign or not left out"
        elif isinstance(node, ast.Constant):
            new = _constant(node.value)
            if new is not None:
                yield *span(node), new, NUMBERS[type(node.value)]
        elif isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else None
            name = node.func.id if isinstance(node.func, ast.Name) else name
            if name in SWAPPED:
                end = span(node.func)[1]
                yield end - len(name), end, SWAPPED[name], "smallest, largest; any, all"


def _constant(value: object) -> str | None:
    if isinstance(value, bool):
        return str(not value)
    if isinstance(value, int):
        return str(value + 1)
    if isinstance(value, float):
        return repr(value + 1.0) if value == 0 else repr(value * 2)
    return None


def _expressions(statement: ast.stmt) -> Iterator[ast.AST]:
    """Yield the expressions of a statement, without annotations and the statements inside it."""
    waiting: list[ast.AST] = []
    for field, value in ast.iter_fields(statement):
        if field in ("annotation", "returns", "decorator_list", "bases", "keywords"):
            continue
        parts = value if isinstance(value, list) else [value]
        waiting += [part for part in parts if isinstance(part, ast.AST)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.stmt | ast.ExceptHandler | ast.match_case | ast.JoinedStr):
            continue
        if isinstance(node, ast.arg):
            continue
        yield node
        waiting += list(ast.iter_child_nodes(node))
