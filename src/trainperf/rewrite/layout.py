"""Edits of whole expressions, assignments and decorators, laid out as the code around is."""

from __future__ import annotations

import ast
import tokenize
from itertools import islice
from keyword import iskeyword

from trainperf.errors import CannotRewrite
from trainperf.rewrite.edits import Edit, Insert, Rank, Replace
from trainperf.source.text import Function, Source, Span

_ATOMS = (
    ast.Call, ast.Name, ast.Attribute, ast.Subscript, ast.List, ast.Dict, ast.Set, ast.ListComp,
    ast.DictComp, ast.SetComp,
)  # fmt: skip

_INNERMOST = ("staticmethod", "classmethod", "property", "setter", "getter", "deleter")
"""Decorators that return no plain function: others go beneath them."""


def append(source: Source, node: ast.expr, text: str) -> list[Edit]:
    """Put `text` (`.method(…)`) after an expression, on its own line in a chain of lines."""
    span = source.span(node)
    if not isinstance(node, _ATOMS):
        return [
            Insert(span[0], "(", Rank.BEFORE_EXPRESSION, span),
            Insert(span[1], f"){text}", Rank.AFTER_EXPRESSION, span),
        ]
    line = _chain_line(source, node)
    if line is None:
        return [Insert(span[1], text, Rank.AFTER_EXPRESSION, span)]
    comment = source.comment_after(span[1])
    return [Insert(span[1], line + text, Rank.AFTER_EXPRESSION, span, past=comment)]


def _chain_line(source: Source, node: ast.expr) -> str | None:
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return None
    dot = next(t for t in source.tokens_before(_name_start(source, node.func)))
    indent = source.indent(dot.start)
    if indent is None:
        return None
    before = source.text[: source.line_start(dot.start)].rstrip("\r\n")
    return (" \\" if before.endswith("\\") else "") + source.newline + indent


def name_span(source: Source, node: ast.Attribute) -> Span:
    """Return where the name of an attribute stands: `b` of `a.b`."""
    end = source.span(node)[1]
    return end - len(node.attr), end


def _name_start(source: Source, node: ast.Attribute) -> int:
    return name_span(source, node)[0]


def wrap(source: Source, node: ast.expr, template: str) -> list[Edit]:
    """Put the two halves of `template` around an expression."""
    before, mark, after = template.partition("{}")
    if not mark or "{}" in after:
        raise CannotRewrite(f"not a template with one {{}}: {template!r}")
    span = source.span(node)
    gap = " " if _run_together(source.text[span[0] - 1 : span[0]], before) else ""
    return [
        Insert(span[0], gap + before, Rank.BEFORE_EXPRESSION, span),
        Insert(span[1], after, Rank.AFTER_EXPRESSION, span),
    ]


def bracketed(source: Source, node: ast.expr) -> Span:
    """Return the extent of an expression with the brackets that only hold it together."""
    start, end = source.span(node)
    before, after = (
        list(islice(source.tokens_before(start), 2)),
        next(source.tokens_from(end), None),
    )
    if not before or after is None or (before[0].string, after.string) != ("(", ")"):
        return start, end
    owner = before[1] if len(before) > 1 else None
    called = owner is not None and (
        owner.string in (")", "]")
        or (owner.type in (tokenize.NAME, tokenize.STRING) and not iskeyword(owner.string))
    )
    return (start, end) if called else (before[0].start, after.end)


def replaced(source: Source, span: Span, text: str) -> Replace:
    """Put an expression in place of another, apart from words it would run into: `return(x)`."""
    first = " " if _run_together(source.text[span[0] - 1 : span[0]], text) else ""
    last = " " if _run_together(text, source.text[span[1] :]) else ""
    return Replace(span, first + text + last)


def _run_together(one: str, other: str) -> bool:
    return all(each.isalnum() or each == "_" for each in (one[-1:], other[:1]))


def numbered(source: Source, iterated: ast.expr, name: str) -> list[Edit]:
    """Count the turns of the `for` loop over an expression: `for name, x in enumerate(…)`."""
    loops = [
        node
        for node in ast.walk(source.tree)
        if isinstance(node, ast.For) and node.iter is iterated
    ]
    if len(loops) != 1:
        raise CannotRewrite("no `for` loop goes over what stands there")
    target = loops[0].target
    start, end = source.span(target)
    bare = isinstance(target, ast.Tuple) and not source.text[start:end].startswith("(")
    opened, closed = ("(", ")") if bare else ("", "")
    return [
        Insert(start, f"{name}, {opened}", Rank.BEFORE_EXPRESSION, (start, end)),
        Insert(end, closed, Rank.AFTER_EXPRESSION, (start, end)),
        *wrap(source, iterated, "enumerate({})"),
    ]


def move_call(source: Source, outer: ast.expr, first: ast.expr) -> list[Edit]:
    """Move the last call of a chain, with the lines it stands on, ahead of an earlier one."""
    if not (_is_method_call(outer) and _is_method_call(first)):
        raise CannotRewrite("no two method calls in a chain stand here")
    start, end = last_call(source, outer)
    before = source.span(first.func.value)  # type: ignore[attr-defined]
    text = source.text[start:end]
    if not source.text[before[1] :].lstrip(" \t\r\n\\").startswith("."):
        raise CannotRewrite("what the chain starts with stands in brackets")
    return [Replace((start, end), ""), Insert(before[1], text, Rank.AFTER_EXPRESSION, before)]


def drop_call(source: Source, outer: ast.expr) -> tuple[str, list[Edit]]:
    """Take the last call out of a chain, with the lines it stands on; return its `.name(…)`."""
    if not _is_method_call(outer):
        raise CannotRewrite("no method is called here")
    start, end = last_call(source, outer)
    return source.text[start:end].lstrip(" \t\r\n\\"), [Replace((start, end), "")]


def last_call(source: Source, outer: ast.expr) -> Span:
    """Where the last call of a chain stands, with the lines it stands on.

    A comment ahead of it stays where it is.
    """
    start, end = source.span(outer.func.value)[1], source.span(outer)[1]  # type: ignore[attr-defined]
    dot = source.text.rindex(".", start, _name_start(source, outer.func))  # type: ignore[attr-defined]
    ahead = source.text[start:dot]
    code = (line.partition("#")[0] for line in ahead.splitlines())
    if any(each.strip(" \t\\") for each in code):
        raise CannotRewrite("a bracket stands within the call to be moved")
    if "#" not in ahead:
        return start, end
    lines = ahead[: ahead.rindex("\n")].removesuffix("\r")
    return (start + len(lines) if source.ends_line(end) else dot), end


def _is_method_call(node: object) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)


def decorator(source: Source, function: Function, text: str) -> list[Edit]:
    """Put `@text` above a function: outermost, but beneath `staticmethod` and its like.

    Nothing where it is decorated so already, whatever its arguments. Raises
    `CannotRewrite` if it is and other arguments are wanted.
    """
    if "\n" in text:
        raise CannotRewrite(f"not a decorator: {text!r}")
    wanted = ast.parse(text, mode="eval").body
    index = 0
    for position, node in enumerate(function.decorator_list):
        if _callee(node) == _callee(wanted):
            if isinstance(wanted, ast.Call) and ast.dump(node) != ast.dump(wanted):
                raise CannotRewrite(f"{function.name} is decorated with {source.text_of(node)}")
            return []
        if _callee(node).rpartition(".")[2] in _INNERMOST:
            index = position + 1
    heads = [node.lineno for node in function.decorator_list] + [function.lineno]
    place = source.line_start(source.offset(heads[index], 0))
    if index and place < source.next_line(source.span(function.decorator_list[index - 1])[1]):
        raise CannotRewrite(f"the decorators of {function.name} share a line")
    indent = source.indent(source.span(function)[0])
    text = f"{indent}@{text}{source.newline}"
    return [Insert(place, text, Rank.DECORATOR, (place, place))]


def decorated(function: Function, name: str) -> ast.expr:
    """Return the decorator `name` of a function; raises `CannotRewrite` if it has none."""
    found = [node for node in function.decorator_list if _callee(node) == name]
    if len(found) != 1:
        raise CannotRewrite(f"{function.name} is not decorated with @{name}")
    return found[0]


def _callee(node: ast.expr) -> str:
    return ast.unparse(node.func if isinstance(node, ast.Call) else node)
