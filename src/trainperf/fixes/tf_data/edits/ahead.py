"""Two short functions for the user's file: items made in several threads, or ahead in one."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainperf.rewrite import Script

IN_PARALLEL = '''\
def in_parallel(function, items, calls):
    """Yield what `function` yields for each item, in order; threads work ahead on the next."""
    pool, ahead = {futures}.ThreadPoolExecutor(calls), {collections}.deque()
    try:
        for item in items:
            ahead.append(pool.submit(lambda item: list(function(item)), item))
            if len(ahead) > 2 * calls:
                yield from ahead.popleft().result()
        while ahead:
            yield from ahead.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)
'''

AHEAD_OF = '''\
def ahead_of(items, count=4):
    """Yield the items in order; a thread makes the next ones meanwhile."""
    items, end = iter(items), object()
    pool = {futures}.ThreadPoolExecutor(1)
    ahead = {collections}.deque(pool.submit(next, items, end) for _ in range(count))
    try:
        while (item := ahead.popleft().result()) is not end:
            ahead.append(pool.submit(next, items, end))
            yield item
    finally:
        pool.shutdown(cancel_futures=True)
'''


def put_in(script: Script, file: str, function: str) -> str:
    """Put one of the functions into a file, below its imports, and return its name.

    Raises `CannotRewrite` where the file uses what it imports for something else.
    """
    (definition,) = ast.parse(function.format(futures="futures", collections="collections")).body
    assert isinstance(definition, ast.FunctionDef)
    name = script.free_name(file, definition.name)
    collections = script.module_name(file, "collections")
    futures = script.module_name(file, "concurrent.futures")
    text = function.format(futures=futures, collections=collections)
    script.insert_function(file, text.replace(definition.name, name, 1))
    return name
