"""`docs/clients.md` lists every status and every code that the gateway itself refuses with."""

import ast
import re
from collections.abc import Iterator

from tests.pure import pages

TEXT = (pages.ROOT / "docs" / "clients.md").read_text()
# The aggregate scaler and the probes' page are not for clients of the endpoint.
_NOT_FOR_CLIENTS = {"aggregate.py", "status.py"}


def test_every_refusal_is_in_the_table_and_every_row_is_a_refusal() -> None:
    rows = set(re.findall(r"^\| (\d{3}) \| `?([\w-]+)`? \|", TEXT, re.MULTILINE))
    made = set(_refusals())
    assert {int(status) for status, _ in rows} == {status for status, _ in made if status}
    assert {code for _, code in rows if code != "-"} == {code for _, code in made if code}


def _refusals() -> Iterator[tuple[int | None, str | None]]:
    """Statuses and codes that stand in functions which make a refusal."""
    for file in (pages.ROOT / "gateway").glob("*.py"):
        if file.name in _NOT_FOR_CLIENTS:
            continue
        for function in ast.walk(ast.parse(file.read_text())):
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                yield from _in(function)


def _in(
    function: ast.FunctionDef | ast.AsyncFunctionDef,
) -> Iterator[tuple[int | None, str | None]]:
    for call in ast.walk(function):
        if not isinstance(call, ast.Call):
            continue
        name = call.func.attr if isinstance(call.func, ast.Attribute) else ast.unparse(call.func)
        if name not in ("Refusal", "invalid", "_starting"):
            continue
        if name != "_starting":
            yield from ((status, None) for status in _statuses(call.args[0], function))
        named = [word.value for word in call.keywords if word.arg == "code"]
        positional = call.args[1:2] if name == "Refusal" else []
        for value in (*named, *positional, *function.args.kw_defaults):
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                yield None, value.value


def _statuses(
    argument: ast.expr, function: ast.FunctionDef | ast.AsyncFunctionDef
) -> Iterator[int]:
    """The numbers in the argument itself, or in what the function assigned to its name."""
    values = [argument]
    if isinstance(argument, ast.Name):
        values = [
            node.value
            for node in ast.walk(function)
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == argument.id
        ]
    numbers = (node.value for v in values for node in ast.walk(v) if isinstance(node, ast.Constant))
    return (number for number in numbers if isinstance(number, int) and number in range(400, 600))
