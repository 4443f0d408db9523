"""A `DataLoader` that is built anew for every epoch, or every few steps."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterator
from dataclasses import asdict, replace

from trainperf.errors import CannotRewrite
from trainperf.fixes import Fix
from trainperf.fixes.common.repeating import repeats
from trainperf.fixes.common.words import ms, percent, worth
from trainperf.fixes.dataloader._edits import check_call, set_setting
from trainperf.fixes.dataloader._loader import (
    Starts,
    built_each,
    named,
    places,
    restart_s,
    starts_of,
    starts_to_try,
)
from trainperf.model import Equivalence, Evidence, Finding, Loader, Site
from trainperf.rewrite import Script
from trainperf.rewrite.edits import lines_within_strings
from trainperf.source.arguments import argument
from trainperf.source.bodies import function_of
from trainperf.source.loops import assigned_in, starts_over, used_in
from trainperf.source.module import Module
from trainperf.source.mutations import changed_in_calls, changed_in_place
from trainperf.source.scopes import FUNCTIONS, LOOPS, Function, Loop
from trainperf.source.statements import called, names_in, walk

FOR_EPOCHS = """\
loader = DataLoader(dataset, ..., persistent_workers=True)  # once, before the epochs
for epoch in range(epochs):
    for batch in loader:
        train_step(batch)"""

ONCE = "Build the loader before the loop, with `persistent_workers=True` if it has workers."

FOR_STEPS = """\
batches = iter(loader)  # once, not for every step
for step in range(steps):
    try:
        batch = next(batches)
    except StopIteration:
        batches = iter(loader)
        batch = next(batches)
    train_step(batch)"""


class LoaderRebuilt(Fix):
    """Build the `DataLoader` once, before the loop.

    ## Why it is slow
    A new `DataLoader` starts new workers: processes are forked or spawned, take the
    dataset over, and fill their queues, while the model waits. Built within the loop,
    it does so again and again, and `persistent_workers` cannot help.

    ## What changes
    The line moves out of the loop; the same loader is iterated again. With
    `persistent_workers=True` its workers stay. Shuffling draws its numbers in another
    order then.

    ## When not to
    When each epoch really reads another dataset, sampler or batch size: then change the
    sampler (`sampler.set_epoch`), not the loader. No edit is written where anything that it is
    built from changes within the loop, nor for one that is built every few steps.
    """

    framework = "torch"
    category = "input"
    concerns = "epoch end"
    counted = True
    equivalence = Equivalence.NUMERICS
    between_epochs = True

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find a place where loaders are built over and over, and what their starts take."""
        loader = evidence.torch.loader
        each = built_each(loader, evidence.between_epochs)
        if each == "step":
            return self._for_steps(evidence, loader)
        starts = starts_of(evidence, loader) if each else None
        if starts is None:
            return None
        text = f". Each start takes {ms(starts.restart)}, "
        text += f"{percent(starts.restart / starts.seconds)} of an epoch of {starts.steps} steps."
        return self._for_epochs(evidence, starts, text)

    def possible(self, evidence: Evidence) -> Finding | None:
        """Try it where the start of its workers was not timed, or may be a matter of noise."""
        loader = evidence.torch.loader
        if built_each(loader, evidence.between_epochs) != "epoch" or loader.workers == 0:
            return None
        starts = starts_to_try(evidence, loader)
        if starts is None:
            return None
        return self._for_epochs(evidence, starts, f", one for each epoch of {starts.steps} steps.")

    def _for_epochs(self, evidence: Evidence, starts: Starts, text: str) -> Finding:
        loader, loop = evidence.torch.loader, evidence.loop.where
        return self.finding(
            title="A new DataLoader is built for each epoch",
            text=_built(loader) + text,
            bound=starts.bound,
            bound_basis=starts.basis,
            where=places(loader),
            advice=ONCE,
            snippet=FOR_EPOCHS,
            data={
                "epoch": starts.epoch,
                "workers": loader.workers,
                "loop": None if loop is None else asdict(loop),
            },
        )

    def _for_steps(self, evidence: Evidence, loader: Loader) -> Finding | None:
        if not evidence.input_bound:
            return None
        restart = restart_s(evidence, loader)
        bound = evidence.bound_if_input_saves(restart)
        if not worth(evidence, bound):
            return None
        waits = evidence.times.real - evidence.times.resident
        return self.finding(
            title="A new DataLoader is built within the epoch, again and again",
            text=f"{_built(loader)}. Each start takes {ms(restart)}; a step waits {ms(waits)} for "
            "its batch.",
            bound=bound,
            bound_basis="no start of a loader in a step",
            where=places(loader),
            advice="Build the loader once, and keep one iterator over it.",
            snippet=FOR_STEPS,
            rewritable=False,
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Build the loader ahead of the loop that builds it for each epoch."""
        loop = finding.data["loop"]
        where = None if loop is None else Site(**loop)
        build_before_loop(script, finding.where[0], where, finding.data["workers"])


def _built(loader: Loader) -> str:
    workers = f" with {loader.workers} workers" if loader.workers else ""
    return f"{named(loader)} got {loader.built} loaders{workers} while it was watched"


NAMES = ("loader", "train_loader", "training_loader")
"""Names for a loader that has none, the first that the file does not use."""


def build_before_loop(script: Script, site: Site, loop_site: Site | None, workers: int) -> None:
    """Move what builds the loader at `site` ahead of the loop that builds it again and again.

    That is the statement around it, or the one that calls the function it stands in, in the
    file of `loop_site`, where training takes its batches. Workers are then kept from one
    epoch to the next. Raises `CannotRewrite` where the loader may differ from turn to turn.
    """
    check_call(script, site)
    module = script.source(site.file).module
    call = script.call(site)
    if isinstance(argument(call, "generator"), ast.Call):
        raise CannotRewrite("each turn draws with a generator of its own")
    function = module.function(call)
    if module.loops(call):
        _move(script, site, module, call, workers)
        return
    if not isinstance(function, FUNCTIONS):
        raise CannotRewrite("no loop of the file stands around where it is built")
    if not repeats(module, function):
        raise CannotRewrite(f"{function.name}() may build another loader each time")
    files = dict.fromkeys([site.file, *([loop_site.file] if loop_site is not None else [])])
    for file in files:
        there = script.source(file).module
        called = list(calls_in_loops(there, function))
        if len(called) == 1:
            _move(script, replace(site, file=file), there, called[0], 0)
            if workers:
                _keep_workers(script, site)
            return
    raise CannotRewrite(f"no loop that calls {function.name}() once was found")


def _keep_workers(script: Script, site: Site) -> None:
    if "persistent_workers" not in script.call_keywords(site):
        set_setting(script, site, "persistent_workers", "True", without_workers="False")


def calls_in_loops(module: Module, function: Function) -> Iterator[ast.Call]:
    """Yield the calls of a function, by its name, within a loop."""
    for node in module.nodes:
        if isinstance(node, ast.Call) and called(node) == function.name and module.loops(node):
            yield node


def _move(script: Script, near: Site, module: Module, call: ast.Call, workers: int) -> None:
    """Put the statement with `call` ahead of the loop around it."""
    source = script.source(near.file)
    statement = next(each for each in module.around(call) if isinstance(each, ast.stmt))
    loop = module.loops(statement)[0]
    if statement not in loop.body:
        raise CannotRewrite("it is built under a condition, or within another statement")
    _check_same(module, loop, call, statement)
    text = _text(script, near, call if isinstance(statement, LOOPS) else statement)
    if workers and "persistent_workers" not in text:
        text = _with_workers_kept(text)
    place = Site(near.file, loop.lineno, near.function)
    if isinstance(statement, ast.Assign):
        script.insert_before(place, text)
        script.remove_statement(Site(near.file, statement.lineno, near.function))
        return
    if not isinstance(statement, ast.For) or call not in ast.walk(statement.iter):
        raise CannotRewrite("what it is assigned to cannot be seen")
    free = script.free_name(near.file, *NAMES)
    script.insert_before(place, f"{free} = {text}")
    script.replace_call(source.site(call, near), free)


def _check_same(module: Module, loop: Loop, call: ast.Call, statement: ast.stmt) -> None:
    """Raise `CannotRewrite` unless every turn builds the same loader."""
    built: list[ast.expr] = [call]
    targets: set[str] = set()
    if isinstance(statement, ast.Assign):
        built = (
            statement.value.elts if isinstance(statement.value, ast.Tuple) else [statement.value]
        )
        targets = {name for each in statement.targets for name in names_in(each)}
        if not all(_plain(each) for each in statement.targets):
            raise CannotRewrite("what it is assigned to is no plain name")
        if call not in built:
            raise CannotRewrite("what it is assigned to is not the loader itself")
    again = [
        node
        for node in walk(loop.body)
        if isinstance(node, ast.Name) and node.id in targets and not isinstance(node.ctx, ast.Load)
    ]
    if len(again) > len(targets):
        raise CannotRewrite("its name is given to something else in the loop")
    read = {name for each in built for name in names_in(each)}
    changed = changed_in_place(loop.body) | changed_in_calls(module, loop.body)
    changing = (assigned_in(loop) | used_in(loop) | changed) & read
    if changing:
        raise CannotRewrite(f"{min(changing)} changes in the loop, so the loader may as well")
    if starts_over(module, loop):
        raise CannotRewrite("each turn of the loop trains a model of its own")
    data = argument(call, "dataset", 0)
    other = _changer(module, loop, statement, names_in(data) if data is not None else set())
    if other:
        raise CannotRewrite(f"{other} is given the data, and may change them")
    own = [*call.args, *(each.value for each in call.keywords)]
    own += [each for each in built if each is not call]
    if not all(repeats(module, each) for each in own):
        raise CannotRewrite("what it is built from may be another each time")
    attributes = {
        ast.unparse(node)
        for node in walk(loop.body)
        if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load)
    }
    roots = {each.partition(".")[0] for each in attributes}
    set_there = roots & (read - {"self"})
    nodes = [node for each in built for node in ast.walk(each)]
    held = {ast.unparse(node) for node in nodes if isinstance(node, ast.Attribute)} & attributes
    if set_there or held:
        raise CannotRewrite(f"{min(set_there | held)} changes in the loop")


def _changer(module: Module, loop: Loop, statement: ast.stmt, data: set[str]) -> str:
    """A function of unknown doing that a loop gives the data to, beside building the loader."""
    for node in walk(each for each in loop.body if each is not statement):
        if not isinstance(node, ast.Call) or function_of(module, node.func) is not None:
            continue
        given = (*node.args, *(each.value for each in node.keywords))
        handed = {each.id for each in given if isinstance(each, ast.Name)}
        if handed & data and not repeats(module, node):
            return f"{ast.unparse(node.func)}()"
    return ""


def _plain(target: ast.expr) -> bool:
    names = target.elts if isinstance(target, ast.Tuple) else [target]
    return all(isinstance(each, ast.Name) for each in names)


def _text(script: Script, near: Site, node: ast.stmt | ast.expr) -> str:
    """The source of a node without its indentation."""
    source = script.source(near.file)
    text = source.text_of(node).replace("\r\n", "\n")
    if lines_within_strings(text):
        return ast.unparse(node)
    line = source.lines[node.lineno - 1]
    indent = line[: len(line) - len(line.lstrip())]
    return textwrap.dedent(indent + text)


def _with_workers_kept(text: str) -> str:
    """The statement or call with `persistent_workers=True`, edited as a file of its own."""
    from trainperf.rewrite import Script

    alone = Script("/statement", lambda path: f"{text}\n".encode())
    source = alone.source("loader.py")
    for node in ast.walk(source.tree):
        name = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
        if isinstance(node, ast.Call) and name.rpartition(".")[2] == "DataLoader":
            _keep_workers(alone, source.site(node, Site("loader.py", 1)))
            break
    return next(iter(alone.sources().values()), text).rstrip("\n")
