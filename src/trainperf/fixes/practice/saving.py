"""Checkpoints for which the training stands still."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterable

from trainperf.errors import CannotRewrite
from trainperf.fixes import Fix
from trainperf.fixes.cause import Cause, Saving
from trainperf.fixes.common.words import at, ms, percent
from trainperf.fixes.practice.evaluation_between import SELDOM, evaluate_seldom
from trainperf.model import Epoch, Equivalence, Evidence, Finding, Site
from trainperf.rewrite import Script
from trainperf.source.module import Module
from trainperf.source.statements import Function, last_name

LEAST_SHARE = 0.05
"""Share of the time that saving must take to be told of; our choice."""

MOVES = ("os.replace", "os.rename", ".rename(", "shutil.", "symlink", ".replace(")
"""What reads or moves a file that must be whole by then."""

OPEN = ("open", "BytesIO", "NamedTemporaryFile", "TemporaryFile")
"""What makes a file, or a buffer, that is closed or read after what is saved to it."""


class TorchSaveBeside(Fix):
    """Write checkpoints less often, or in a thread beside the training.

    Why slow: `torch.save`, or `torch.distributed.checkpoint.save`, packs and writes all weights
    and moments while the training waits.
    Changes: Both ways are tried. Every fifth checkpoint is written; or the state is copied in
    memory, and a thread writes the copy (of shards, by hand, `async_save`): a file is whole a
    moment later, and a crash may lose the last one. The training is the same.
    When not:
    - Where memory has no room for another copy of the state.
    - Where the file is read or copied right after.
    """

    equivalence = Equivalence.SEMANTICS
    framework = "torch"
    concerns = "outside"
    counted = True
    usual = 1.5

    def look(self, evidence: Evidence) -> Cause | None:
        """Find checkpoints that take a part of what the script repeats."""
        turn = evidence.outside
        saves = [spent for spent in turn.spent if spent.what == "saving"]
        seconds = sum(spent.seconds for spent in saves)
        if not saves:
            return None
        where = tuple(spent.where for spent in saves if spent.where is not None)
        place = f" ({at(where[0])})" if where else ""
        often = "step" if turn.steps == 1 else f"{turn.steps:,} steps"
        # nothing else stands in a pause: what comes with saving goes as well
        saved = turn.seconds - turn.training_s if turn.turn == "pause" else seconds
        return Cause(
            title=f"Saving takes {percent(seconds / turn.seconds)} of the time",
            text=f"Checkpoints{place} take {ms(seconds)} in every {often}, beside the "
            f"{ms(turn.training_s)} that the training takes meanwhile.",
            saves=Saving(
                "all that comes with saving",
                ratio=turn.seconds / max(turn.seconds - saved, 1e-9),
                of="all",
            ),
            where=where,
            sure=seconds >= LEAST_SHARE * turn.seconds,
            data={"way": "seldom", "variants": [{"way": "seldom"}, {"way": "beside"}]},
            # turns as written, so many that an edited one saves
            slices="none"
            if turn.turn == "epoch"
            else Epoch(SELDOM * turn.steps, SELDOM * turn.seconds, written=True),
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Save in every fifth turn that saved; or have a thread write a copy, where "beside"."""
        way = evaluate_seldom if finding.data.get("way") == "seldom" else _write_beside
        for site in finding.where:
            way(script, site)


def _write_beside(script: Script, site: Site) -> None:
    source = script.source(site.file)
    call, (statement, block), module = source.call(site), source.statement(site), source.module
    alone = isinstance(statement, ast.Expr) and statement.value is call
    if module.name(call.func) != "torch.save" or len(call.args) != 2 or call.keywords or not alone:
        raise CannotRewrite("it is not saved by `torch.save(state, path)` alone")
    if _opened(module, call.args[1]):
        raise CannotRewrite("the file is opened and closed around it")
    move = None  # what puts the file that was saved in its place
    match block[block.index(statement) + 1 :][:1]:
        case [ast.Expr(value=ast.Call(args=[given, _]) as following)]:
            puts = last_name(following.func) in ("replace", "rename")
            if puts and ast.unparse(given) == ast.unparse(call.args[1]):
                move = following
    _check_unread(module, call, source.text, "" if move is None else ast.unparse(move))
    nodes = (call.func, *call.args)
    save, state, path = (script.expression(script.site_of(site, node)) for node in nodes)
    beside = script.free_name(site.file, "save_beside", "save_in_thread")
    copy = script.module_name(site.file, "copy", site)
    futures = script.module_name(site.file, "concurrent.futures", site)
    lines, handed, taken = [f"        {save}(state, path)"], [state, path], "state, path"
    if move is not None:
        lines.append(f"        {ast.unparse(move.func)}(path, final)")
        handed.append(script.expression(script.site_of(site, move.args[1])))
        taken += ", final"
        script.remove_statement(script.site_of(site, move))
    script.replace_call(site, f"{beside}({', '.join(handed)})")
    head = f"def {beside}({taken}, writer={futures}.ThreadPoolExecutor(1), pending=[]):"
    body = f"""
    def write(state):
{chr(10).join(lines)}

    if pending:
        pending.pop().result()  # one at a time
    pending.append(writer.submit(write, {copy}.deepcopy(state)))
    pending[0].add_done_callback({futures}.Future.result)  # tells of a failure
"""
    script.insert_function(site.file, f"{head}{body}")


def _check_unread(module: Module, call: ast.Call, text: str, moved: str = "") -> None:
    """Refuse where what `call` saves is read, or moved but by `moved`, maybe before it is whole."""
    if word := next((word for word in MOVES if text.count(word) > moved.count(word)), ""):
        raise CannotRewrite(f"{word.strip('.(')} may need the file as soon as it is saved")
    if _loaded_after(module, call):
        raise CannotRewrite("it is loaded after the training, maybe before it is whole")


def _opened(module: Module, path: ast.expr) -> bool:
    """Whether what is saved to is no path but a file, or a buffer, as far as its name tells."""
    made = [path, *(binding.value for binding in module.bindings(path) or ())]
    return any(isinstance(value, ast.Call) and last_name(value.func) in OPEN for value in made)


def _loaded_after(module: Module, call: ast.Call) -> bool:
    """Whether a checkpoint is loaded once one was saved, here or by functions that are called.

    What stands in a loop with what saves comes after it in the next turn.
    """
    saves = _with_callers(module, [call])
    loads = _with_callers(module, module.calls("torch.load")) - saves
    first = {
        module.function(node): min(loop.lineno for loop in (node, *module.loops(node)))
        for node in sorted(saves, key=lambda node: -node.lineno)
    }
    return any(node.lineno >= first.get(module.function(node), math.inf) for node in loads)


def _with_callers(module: Module, calls: Iterable[ast.Call]) -> set[ast.Call]:
    """Some calls, and those of the file's functions that make them."""
    found = set(calls)
    while True:
        functions = {module.function(node) for node in found}
        names = {node.name for node in functions if isinstance(node, Function)}
        more = {
            node
            for node in module.nodes
            if isinstance(node, ast.Call) and last_name(node.func) in names
        }
        if more <= found:
            return found
        found |= more
