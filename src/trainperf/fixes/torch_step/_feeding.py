"""Statements that make only what a log is given: they go where the log goes."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Sequence

from trainperf.fixes.common.repeating import RANDOM
from trainperf.source.statements import called, last_name, root, walk

Block = Sequence[ast.stmt]
MAKES = (ast.Assign, ast.AnnAssign, ast.For)


def fed_from(
    statement: ast.stmt, block: Block, owner: Block, changes: Callable[[Block], str]
) -> ast.stmt:
    """Return the first of those right before a statement that nothing but it needs, else itself.

    `block` holds it, `owner` is the body of the function around; `changes` says what statements
    change that outlives them. What calls the model, or may draw random numbers, stays.
    """
    last = next(index for index, each in enumerate(block) if each is statement)
    first = last
    for index in range(last - 1, -1, -1):
        if not isinstance(block[index], MAKES) or not all(map(_only_reads, walk([block[index]]))):
            break
        together = block[index : last + 1]
        if _is_closed(together, owner) and not changes(together):
            first = index
    return block[first]


def _only_reads(node: ast.AST) -> bool:
    """Whether it is no call but a method's, a library's or a builtin function's."""
    if isinstance(node, ast.Name | ast.Attribute) and RANDOM.search(last_name(node)):
        return False
    if not isinstance(node, ast.Call):
        return True
    if isinstance(node.func, ast.Name):
        return hasattr(builtins, called(node)) and called(node) not in ("next", "input", "exec")
    return root(node.func) not in ("self", "")


def _is_closed(together: Block, owner: Block) -> bool:
    """Whether what statements assign is spoken of nowhere else in their function."""
    names = [node for node in walk(together) if isinstance(node, ast.Name)]
    made = {node.id for node in names if isinstance(node.ctx, ast.Store)}
    inside = {id(node) for node in names}
    everywhere = (node for node in walk(owner) if isinstance(node, ast.Name))
    return all(id(node) in inside for node in everywhere if node.id in made)
