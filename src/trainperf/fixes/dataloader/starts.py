"""What starting an input takes: workers for each epoch, one opened or built over and over."""

from __future__ import annotations

import ast
import textwrap

from trainperf.errors import CannotRewrite, NotMeasured
from trainperf.fixes import Fix
from trainperf.fixes.cause import UNTRIED, Cause, Saving
from trainperf.fixes.common.words import at, if_measured, ms, percent
from trainperf.fixes.dataloader._loader import DATA_LOADER, named, places, seen_in_run
from trainperf.fixes.rows import SetArgument
from trainperf.model import (
    BetweenEpochs,
    Epoch,
    Equivalence,
    Evidence,
    Finding,
    Loader,
    Missing,
    Site,
)
from trainperf.model.words import count
from trainperf.rewrite import Script
from trainperf.source.arguments import argument
from trainperf.source.effects import changed_names, effects, filled, repeats
from trainperf.source.iterations import stored
from trainperf.source.module import Module, inside
from trainperf.source.scopes import Loop
from trainperf.source.statements import called, names_in

LONG_EPOCH_S = 60.0
"""Seconds of an epoch above which a start that was not timed is hardly worth a trial: workers
mostly start in a second or two."""

BUILT_EPOCHS = 3
"""Epochs seen, from which as many loaders of one place are one for each epoch; fewer may
be one each for training, validation and test."""

PLAIN = ast.Name | ast.Tuple | ast.Store
"""Of what a loader may be assigned to: names."""

KEEP_WORKERS = SetArgument(
    "persistent_workers", "True", DATA_LOADER, needs="num_workers", without="False"
)


def _starts(evidence: Evidence) -> tuple[str, Saving, Epoch] | None:
    """What starting the loader takes: the steps of an epoch in words, what is saved, the epoch.

    None where no start was timed and an epoch is so long that one hardly matters. Raises
    `NotMeasured`.
    """
    loader, pause, real = evidence.torch.loader, evidence.between_epochs, evidence.times.real
    steps = (pause.epoch_steps if pause else None) or evidence.loop.epoch_steps or loader.batches
    if not steps:
        raise NotMeasured("how many steps an epoch has is not known")
    start = pause.restart_s if pause else None
    between = pause.seconds if pause is not None and pause.sure else 0.0
    whole = steps * real + max(start or 0.0, between)
    epoch = Epoch(steps, whole, max(0.0, whole - steps * real - (start or 0.0)))
    if start is None:
        short = whole <= LONG_EPOCH_S
        return (f"{steps} steps", Saving(UNTRIED, of="all"), epoch) if short else None
    goes = min(start + _ends(evidence), 0.99 * whole)
    said = f"{steps} steps, of whose {ms(whole)} start and end of the loader take {ms(goes)}"
    basis = "start and end of the loader against the length of an epoch"
    ratio = whole / (whole - goes)
    return f"{said} ({percent(goes / whole)})", Saving(basis, ratio=ratio, of="all"), epoch


def _ends(evidence: Evidence) -> float:
    """Seconds of an epoch in which an iterator of a loader is dropped, and its workers ended."""
    outside = evidence.outside_
    if isinstance(outside, Missing) or outside.turn != "epoch":
        return 0.0
    return sum(spent.seconds for spent in outside.spent if spent.name in ("__iter__", "__del__"))


def _built_each_epoch(loader: Loader, pause: BetweenEpochs | None) -> bool:
    """Say whether so many epochs were seen that as many loaders are one for each."""
    return pause is not None and loader.built >= pause.epochs_seen >= BUILT_EPOCHS


class TorchPersistentWorkers(Fix):
    """Keep the worker processes from one epoch to the next.

    Why slow: Without `persistent_workers` the loader ends its workers after each epoch and starts
    new ones for the next. They copy or unpickle the dataset, import what they need and fill their
    queues, while the model waits. With short epochs this adds up.
    Changes: `persistent_workers=True` keeps them. From the second epoch on the loader draws one
    random number less, so shuffling and dropout take another order than before.
    When not:
    - When the dataset is changed between epochs (`dataset.epoch = 3`): workers that stay keep
      their old copy.
    - When memory is short: the workers keep theirs during validation, too.
    """

    concerns = "epoch end"
    equivalence = Equivalence.NUMERICS
    between_epochs = True
    edit = KEEP_WORKERS

    def look(self, evidence: Evidence) -> Cause | None:
        """Find workers that end with each epoch of several, of one loader."""
        loader = evidence.torch.loader
        if loader.workers == 0 or loader.persistent_workers or evidence.loop.epochs == 1:
            return None
        starts = _starts(evidence)
        if starts is None or _built_each_epoch(loader, evidence.between_epochs):
            return None
        epoch_said, saves, epoch = starts
        how = f" ({loader.start_method})" if loader.start_method else ""
        return Cause(
            title="The workers are started anew for every epoch",
            text=f"{named(loader)} is read by {count(loader.workers, 'worker')}{how}, started anew "
            f"for every epoch of {epoch_said}.",
            saves=saves,
            where=places(loader),
            advice="Give the loader `persistent_workers=True`.",
            snippet=f"loader = DataLoader(dataset, ..., num_workers={loader.workers}, "
            "persistent_workers=True)",
            data=seen_in_run(evidence),
            slices=epoch,
        )


class TorchLoaderRebuilt(Fix):
    """Build the `DataLoader` once, before the loop.

    Why slow: A new `DataLoader` starts new workers, which take the dataset over and fill their
    queues while the model waits. Built within the loop, it does so again and again, whatever
    `persistent_workers` says.
    Changes: The line moves out of the loop; the same loader is iterated again. With
    `persistent_workers=True` its workers stay. Shuffling draws its numbers in another order then.
    When not: When each epoch really reads another dataset, sampler or batch size: then change the
    sampler (`sampler.set_epoch`), not the loader. No edit is written where anything that it is
    built from changes within the loop.
    """

    concerns = "epoch end"
    counted = True
    equivalence = Equivalence.NUMERICS
    between_epochs = True

    def look(self, evidence: Evidence) -> Cause | None:
        """Find a place where a loader is built for each epoch, and what its starts take."""
        loader, pause = evidence.torch.loader, evidence.between_epochs
        started = loader.workers or (pause and pause.restart_s)
        if not _built_each_epoch(loader, pause) or not started:
            return None
        starts = _starts(evidence)
        if starts is None:
            return None
        epoch_said, saves, epoch = starts
        workers = f" with {count(loader.workers, 'worker')}" if loader.workers else ""
        return Cause(
            title="A new DataLoader is built for each epoch",
            text=f"{named(loader)} got {loader.built} loaders{workers} while it was watched, one "
            f"for each epoch of {epoch_said}.",
            saves=saves,
            where=places(loader),
            advice="Build the loader before the loop, with `persistent_workers=True` if it has "
            "workers.",
            data={"workers": loader.workers},
            slices=epoch,
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Move the statement that builds the loader ahead of the loop that does so each time.

        Workers are then kept from one epoch to the next. Raises `CannotRewrite` where the loader
        may differ from turn to turn.
        """
        site = finding.where[0]
        DATA_LOADER.check(script, site)
        module, call = script.source(site.file).module, script.call(site)
        statement = next(node for node in module.around(call) if isinstance(node, ast.stmt))
        loop = next(iter(module.loops(statement)), None)
        if loop is None or statement not in loop.body:
            raise CannotRewrite("it is not built in each turn of a loop of its function")
        _check_same(module, loop, call, statement)
        text = _text(script, site, statement if isinstance(statement, ast.Assign) else call)
        if finding.data["workers"]:
            text = _with_workers_kept(text, finding)
        place = Site(site.file, loop.lineno, site.function)
        if isinstance(statement, ast.Assign):
            script.insert_before(place, text)
            script.remove_statement(Site(site.file, statement.lineno, site.function))
            return
        if not isinstance(statement, ast.For) or call not in ast.walk(statement.iter):
            raise CannotRewrite("what it is assigned to cannot be seen")
        free = script.free_name(site.file, "loader", "train_loader", "training_loader")
        script.insert_before(place, f"{free} = {text}")
        script.replace_call(site, free)


def _check_same(module: Module, loop: Loop, call: ast.Call, statement: ast.stmt) -> None:
    """Raise `CannotRewrite` unless every turn builds the same loader.

    A trial would not tell: the numbers of shuffling come in another order anyhow.
    """
    value = statement.value if isinstance(statement, ast.Assign) else call
    built = value.elts if isinstance(value, ast.Tuple) else [value]
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    parts = [part for target in targets for part in ast.walk(target)]
    if call not in built or not all(isinstance(part, PLAIN) for part in parts):
        raise CannotRewrite("what it is assigned to is not the loader itself, by a plain name")
    names = {part.id for part in parts if isinstance(part, ast.Name)}
    others = [node for node in loop.body if node is not statement]
    if names & stored(others):
        raise CannotRewrite("its name is given to something else in the loop")
    done = list(effects(module, loop.body))
    asked = (node.value for node in inside(loop) if isinstance(node, ast.Expr))
    methods = (call.func for call in asked if isinstance(call, ast.Call))
    owners = (method.value for method in methods if isinstance(method, ast.Attribute))
    changed = changed_names(module, [loop]) | {
        owner.id for owner in owners if isinstance(owner, ast.Name)
    }
    for effect in done:
        if effect.kind in ("sets", "fills"):
            node = effect.node
            changed |= set(map(_whole, filled(node) if isinstance(node, ast.Call) else [node]))
    if changing := changed & {ast.unparse(part) for node in built for part in ast.walk(node)}:
        raise CannotRewrite(f"{min(changing)} changes in the loop, so the loader may as well")
    data = argument(call, "dataset", 0)
    for effect in done:
        doubt = effect.kind in ("unknown", "draws") and not effect.within
        handed = {value.id for value in effect.given if isinstance(value, ast.Name)}
        if doubt and effect.node is not call and data is not None and handed & names_in(data):
            raise CannotRewrite(f"{effect.text} is given the data, and may change them")
    if isinstance(argument(call, "generator"), ast.Call):
        raise CannotRewrite("each turn draws with a generator of its own")
    own = [*call.args, *(keyword.value for keyword in call.keywords)]
    own += [node for node in built if node is not call]
    if not all(repeats(module, node) for node in own):
        raise CannotRewrite("what it is built from may be another each time")


def _whole(part: ast.AST) -> str:
    """What an element is of: `self.w` of `self.w[0]`."""
    while isinstance(part, ast.Subscript):
        part = part.value
    return ast.unparse(part)


def _text(script: Script, near: Site, node: ast.stmt | ast.expr) -> str:
    """The source of a node without its indentation."""
    source = script.source(near.file)
    text = source.text_of(node).replace("\r\n", "\n")
    line = source.lines[node.lineno - 1]
    indent = line[: len(line) - len(line.lstrip())]
    return textwrap.dedent(indent + text)


def _with_workers_kept(text: str, finding: Finding) -> str:
    """The statement or call with `persistent_workers=True`, edited as a file of its own."""
    alone = Script("/statement", lambda path: f"{text}\n".encode())
    source = alone.source("loader.py")
    calls = (node for node in ast.walk(source.tree) if isinstance(node, ast.Call))
    for call in (call for call in calls if called(call) == "DataLoader"):  # None by another name
        site = source.site(call, Site("loader.py", 1))
        if "persistent_workers" not in alone.call_keywords(site):
            KEEP_WORKERS.set(alone, site, finding)
    return next(iter(alone.sources().values()), text).rstrip("\n")


class InputReopened(Fix):
    """Open the input once, and take one batch after another from it.

    Why slow: `iter(loader)` starts the input from its beginning: worker processes are forked or
    spawned, shuffling draws a new order, buffers are filled again. `next` takes one batch of what
    they prepare, and the rest is thrown away with the workers.
    Changes: The loop takes batches pass after pass over the data. Each sample then comes once in a
    pass; before, each batch was drawn from all of the data anew.
    When not: When each batch has to be drawn from all of the data: give the loader a
    `RandomSampler(replacement=True)` and open it once.
    """

    framework = "any"
    equivalence = Equivalence.SEMANTICS
    usual = 2.0

    def look(self, evidence: Evidence) -> Cause | None:
        """Find a loop that opens its input for each step."""
        where, times = evidence.loop.opened_each, evidence.times
        if where is None:
            return None
        takes = if_measured(
            lambda: (
                f" With its batch at hand a step takes {ms(times.resident)} in place of "
                f"{ms(times.real)}: {percent(1 - times.resident / times.real)} of it is opening, "
                "the first batch and closing."
            )
        )
        return Cause(
            title="The input is opened anew for each batch",
            text=f"{at(where)} opens it, takes one batch and closes it, in each step.{takes}",
            saves=Saving(
                "a step with its batch at hand", lambda: times.real - times.resident, of="all"
            ),
            where=(where,),
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Take `next` of one endless iterator that is made ahead of the loop."""
        site = finding.where[0]
        taking = script.call(site)
        opening = taking.args[0] if called(taking) == "next" and taking.args else None
        if not (isinstance(opening, ast.Call) and called(opening) == "iter" and opening.args):
            raise CannotRewrite("it is not opened by `next(iter(…))`")
        loops = script.source(site.file).module.loops(opening)
        source = ast.unparse(opening.args[0])
        if not loops or not isinstance(opening.args[0], ast.Name | ast.Attribute):
            raise CannotRewrite("no loop of the same function opens it by its name")
        if source in stored([loops[0]]):
            raise CannotRewrite(f"{source} may be another one in each turn")
        batches = script.free_name(site.file, "batches", "batches_of_training")
        endless = script.free_name(site.file, "endless", "pass_after_pass")
        script.replace_call(script.site_of(site, opening), batches)
        head = Site(site.file, loops[0].lineno, site.function)
        script.insert_before(head, f"{batches} = {endless}({source})")
        script.insert_function(
            site.file, f"def {endless}(loader):\n    while True:\n        yield from loader\n"
        )
