"""What a step is bound by, by its times: one row for each answer, the first that holds is given."""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable

from trainperf.errors import NotMeasured
from trainperf.fixes import by_id, concern
from trainperf.fixes.common.words import SMALLEST_GAIN, at, ms, percent, times
from trainperf.model import (
    INPUT_BOUND_BELOW,
    WORTH_NAMING,
    AllReduce,
    Evidence,
    Exchange,
    Function,
    Loader,
    Measure,
    Parallel,
    Probe,
    Site,
    Stage,
    Straggler,
    known,
)
from trainperf.model.words import ranks, size
from trainperf.verdict import torch
from trainperf.verdict.answer import MATTERS, SIDES, Answer, Case

NOISY = 0.25
"""Noise of a step beyond which what its times say is probable: gains of half as much again hide."""

MOSTLY_LOST = 0.5
"""Below this utilisation a step is bound by what it loses, or by nothing that is known."""

VARYING = 8.0
"""An exchange that takes so many times its all-reduces alone, which are short against a
step, is mostly waiting for whichever rank is late (sharing cores with training, all-reduces
took two to three times what they take alone)."""

MOST = 0.5
"""The share of the waiting that storage, or a straggler's input, must take to be its cause."""

ALIKE = 0.9
"""Bounds that differ by less than the noise of a step are as good as equal."""


def by_times(case: Case) -> Answer | None:
    """What the step is bound by; None where its times do not tell."""
    evidence, used = case.evidence, case.evidence.known_utilization
    if used is None:
        return sync_bound(case) or _without_resident(case)
    mostly_used, filled = used >= MOSTLY_LOST, used >= INPUT_BOUND_BELOW
    # resident batches trace nothing anew
    traced = evidence.torch_ is not None or 1 - used > MATTERS
    rows: tuple[tuple[bool, Callable[[Case], Answer | None]], ...] = (
        (True, sync_bound),
        (evidence.input_bound, _input),
        (traced, compiling),
        (mostly_used, _eager),
        (mostly_used, _host),
        (mostly_used, compiling),
        (mostly_used, torch.outside),
        (True, _held_back),
        (filled, _model),
    )
    answers = (judge(case) for holds, judge in rows if holds)
    return next((answer for answer in answers if answer is not None), None)


def _without_resident(case: Case) -> Answer | None:
    evidence, first = case.evidence, case.first
    if torch.dearest(evidence):
        return compiling(case) or torch.outside(case) or _model(case)
    if first is None:
        return None
    text = f"{first.title}. Each step takes {ms(evidence.times.real)}"
    return Answer(first.category, text, names=first.id)


# ------------------------------------------------------------------ exchange and stragglers


def sync_bound(case: Case) -> Answer | None:
    """The step is bound by exchanging gradients, or by waiting for a rank that is late.

    None where neither takes more than a tenth of it, beyond the noise, or where more of
    it is lost to the input of all ranks.
    """
    evidence = case.evidence
    job, step = evidence.parallel_, evidence.times.real
    if job is None:
        return None
    resident, cost = known(evidence.times.resident_), job.exchange_cost
    lost = step - resident.seconds if resident is not None and evidence.input_bound else 0.0
    sure = cost is not None and cost.low and cost.seconds > MATTERS * step
    exchange_s = cost.seconds if cost is not None and sure else 0.0
    stragglers = (straggler for straggler in job.stragglers if straggler.share > MATTERS)
    late = max(stragglers, key=lambda straggler: straggler.behind_s, default=None)
    if late is not None:
        own = MOST * lost if late.phase == "input" else lost
        if late.behind_s >= max(exchange_s, own):
            return Answer("sync", _waiting(job, late))
    if job.exchange is not None and exchange_s and exchange_s >= lost:
        return Answer("sync", _exchanging(job, job.exchange, exchange_s, step))
    return None


def hidden_share(evidence: Evidence) -> float:
    """The share of a step that the exchange takes at most, where the noise hides how much.

    0 where it was told apart, or where it is no more than a tenth.
    """
    job, real = evidence.parallel_, known(evidence.times.real_)
    cost = None if job is None else job.exchange_cost
    if cost is None or real is None or cost.low is None or cost.low > 0 or cost.high is None:
        return 0.0
    share = min(1.0, cost.high / real.seconds) if real.seconds > 0 else 0.0
    return share if share > MATTERS else 0.0


def _exchanging(job: Parallel, exchange: Exchange, seconds: float, step: float) -> str:
    many = f"{job.expected} ranks" if job.expected > 1 else f"{exchange.replicas} replicas"
    if 1 < job.expected < exchange.replicas:
        many = f"{exchange.replicas} replicas in {many}"
    how = ", ".join(filter(None, (exchange.method, exchange.backend)))
    alone, unknown = exchange.all_reduce, job.unmeasured
    text = f"Sync-bound: {percent(seconds / step)} of each step passes in "
    if isinstance(alone, AllReduce) and not unknown:
        short = alone.seconds < MATTERS / 2 * step
        if short and exchange.seconds > VARYING * alone.seconds:
            return (
                f"{text}waiting of {many} for one another: what each takes varies from step to "
                f"step, while the exchange itself ({how}) takes {ms(alone.seconds)} alone"
            )
    text += f"the exchange of gradients between {many} ({how})"
    if unknown:
        text += f", or in waiting for {ranks(unknown)} that left no step"
    return f"{text}; each sends {size(exchange.bytes)} a step" if exchange.bytes else text


def _waiting(job: Parallel, late: Straggler) -> str:
    text = (
        f"Sync-bound: {percent(min(1.0, late.share))} of each step passes in waiting for rank "
        f"{late.rank}"
    )
    others = [straggler for straggler in job.stragglers if straggler.rank != late.rank]
    if more := sum(straggler.share > MATTERS for straggler in others):
        text += f" (and {more} more)"
    own = {
        rank.rank: rank.local.seconds for rank in job.processes if isinstance(rank.local, Measure)
    }
    if late.rank in own:
        usual = "that of the median rank"
        if len(job.processes) == 2 and not others:  # the quicker one
            (quicker,) = {rank.rank for rank in job.processes} - {late.rank}
            usual = f"that of rank {quicker}"
        median = ms(statistics.median_low(own.values()))
        text += f", whose own step takes {ms(own[late.rank])}, {usual} {median}"
    cause = late.cause or ("its input" if late.phase == "input" else "")
    return f"{text}: {cause}" if cause else text


# ------------------------------------------------------------------------------------ input


def _input(case: Case) -> Answer:
    """The step waits for its input: for files or objects, where a finding says so of most of it.

    A loop that makes its own batches may do other things as well, of which the first finding tells.
    """
    evidence, clock, first = case.evidence, case.evidence.times, case.first
    if evidence.loop.kind == "call" and first is not None and first.category == "host":
        text = f"Host-bound: {first.title}; each step takes {ms(clock.real)}"
        return Answer("host", text, case.gain, names=first.id)
    real, waiting = clock.real, clock.real - clock.resident
    verb = "goes into" if evidence.loop.kind == "call" else "waits for"
    most = "at most " if clock.loss_noise > NOISY else ""
    text = (
        f"-bound: the step could run {most}{times(real / clock.resident)} as fast if data were free"
    )
    lost = f"{percent(waiting / real)} of each step"
    storage = (finding.waits for finding in case.findings if finding.category == "storage")
    waits = max(filter(None, storage), key=lambda waits: waits.seconds, default=None)
    if waits is not None and (seconds := min(waits.most_s, waiting)) >= MOST * waiting:
        most = "up to " if waits.most_s > min(waits.seconds, waiting) else ""
        data = f"data, {most}{ms(seconds)} of its {ms(real)} for {waits.what}"
        return Answer("storage", f"Storage{text}; {lost} {verb} {data}")
    # The input alone is drained, opened once: of one that each step opens anew that says nothing.
    alone = known(clock.input_) if evidence.loop.opened_each is None else None
    if alone is None or alone.seconds >= 0.5 * waiting:
        rest = 0.0 if alone is None else (waiting - alone.seconds) / real
        more, told = "", evidence.parallel_ is not None or evidence.tracing_s >= WORTH_NAMING * real
        if rest >= WORTH_NAMING:  # as in the bar, the input is to blame for what it takes alone
            lost = f"{percent(waiting / real - rest)} of each step"
            more = "" if told else f"; {percent(rest)} is not explained"
        return Answer("input", f"Input{text}; {lost} {verb} {input_culprit(evidence)}{more}")
    crowded = "goes into handing batches over and sharing cores with the input, which alone makes"
    return Answer("input", f"Input{text}; {lost} {crowded} one in {ms(alone.seconds)}")


# ------------------------------------------------------------------------------------- host


def _eager(case: Case) -> Answer | None:
    """The step is the user's own and runs op by op."""
    step = case.evidence.step_function
    own = step is not None and not step.compiled
    if not own and not any(model.run_eagerly for model in case.evidence.models):
        return None
    text = "Host-bound: the step runs eagerly, one operation at a time from Python"
    probe = case.evidence.probes.get("compiled")
    if not isinstance(probe, Probe):
        return Answer("host", text, gain="; what compiling gives was not probed")
    if probe.low < 1 + SMALLEST_GAIN:
        return None
    return Answer("host", f"{text}; compiled, it ran {times(probe.ratio)} as fast in a probe")


def _host(case: Case) -> Answer | None:
    evidence = case.evidence
    try:
        host, real = evidence.times.host, evidence.times.real
    except NotMeasured:
        return None
    # Where the machine was slower while resident steps ran, so was the host's part of them.
    share = host / max(real, evidence.times.resident, host)
    if share < MATTERS or (1 - evidence.utilization > share and not evidence.waiting_is_real):
        return None  # more of it may be waiting, of which less than half is sure
    keras = evidence.framework.keras is not None
    culprit = "callbacks, logging and Keras's own Python" if keras else "callbacks and logging"
    dear = next((cost for cost in evidence.callbacks if cost.batch_s > 0.5 * host), None)
    if dear is not None:
        culprit = f"the callback `{dear.name}`" + (f", {at(dear.where)}" if dear.where else "")
    text = (
        f"Host-bound: {percent(share)} of each step is spent outside the model's step, "
        f"mostly in {culprit}"
    )
    return Answer("host", text)


def compiling(case: Case) -> Answer | None:
    """Tracing or compiling again takes a tenth of the steps or more; None where it does not."""
    evidence = case.evidence
    taken = evidence.tracing_s / evidence.times.real
    if taken < MATTERS:
        return None
    share, traced = percent(min(1.0, taken)), evidence.retracing
    if evidence.torch_ is not None and (again := evidence.torch_.compiling.recompiling):
        text = f"compiling: `{again.function}` is compiled again and again, which takes {share}"
        return Answer("host", f"Held up by {text} of each step")
    if traced is None:
        return None
    text = (
        f"tracing: `{traced.function}` was traced {traced.count} times again in {traced.steps} "
        f"steps; traces and the first runs of new graphs take {share}"
    )
    return Answer("host", f"Held up by {text} of a step")


# -------------------------------------------------------------------- the machine, the model


def _held_back(case: Case) -> Answer | None:
    """The machine, as it is set up, is what a step loses most to.

    Of a step that waits it is that where the kernel's or the driver's own counts show it.
    """
    first, used = case.first, case.evidence.utilization
    if first is None or first.category != "environment" or first.bound is None:
        return None
    fix = by_id().get(first.id)
    if used < INPUT_BOUND_BELOW and not (fix is not None and fix.counted):
        return None
    # A quota is the cause where threads that are too many for it promise the same.
    quota = next((finding for finding in case.findings if concern(finding) == "quota"), None)
    if quota is not None and quota.bound is not None and quota.bound >= ALIKE * first.bound:
        first = quota
    gain = Case(case.evidence, (first,)).gain
    text = f"{first.title}: each step takes {ms(case.evidence.times.real)}"
    return Answer("environment", text, gain=gain, names=first.id)


def _model(case: Case) -> Answer | None:
    """The step is the model's own; None where its parts alone tell, and more of getting batches."""
    evidence, used = case.evidence, case.evidence.known_utilization
    takes, parts = f"each step takes {ms(evidence.times.real)}", torch.dearest(evidence)
    if used is None:
        own = torch.own_share(evidence)
        if torch.shares(evidence).get("input", 0.0) > own:
            return None
        much = "nearly all" if own > 1 - MATTERS else percent(own)
        text = f"{takes}, {much} of it the model's own work ({parts})"
        return Answer("model", f"Model-bound: {text}", case.gain)
    text = f"the data is there in time (utilisation {percent(used)}); {takes}"
    if parts:
        text += f" ({parts})"
    if hidden := hidden_share(evidence):
        text += f", of which the exchange of gradients may be up to {percent(hidden)}"
    return Answer("model", f"Model-bound: {text}", case.gain)


def own_code(case: Case) -> Answer | None:
    """A function of the user's, if the first finding is what it takes of a step."""
    first = case.first
    if first is None or first.own is None:
        return None
    text = (
        f"{SIDES[first.category]}: {percent(first.own.share)} of each step passes in "
        f"{first.own.name}, {at(first.where[0])}, which {first.own.does}"
    )
    return Answer(first.category, text)


PYTHON_SOURCES = ("from_generator", "generator", "PyDataset")
KERAS_BATCHING = ("NumPy arrays", "tensors")

LOADER_STAGES = {
    "sampler": "the sampler",
    "collate": "the samples to be put together into a batch",
}
"""The words for why a `DataLoader` is late, by the stage that takes longest."""


def input_culprit(evidence: Evidence) -> str:
    """The work that the input pipeline spends its time on, with its place."""
    timed = [
        (seconds, stage)
        for stage in known(evidence.stages_) or ()
        if (seconds := known(stage.seconds_per_step_)) is not None
    ]
    stage = max(timed, key=lambda pair: pair[0])[1] if timed else None
    loop = evidence.loop
    if loop.opened_each is not None:
        return f"its input to be opened anew for each batch, {at(loop.opened_each)}"
    if evidence.torch_ is not None and (loop.kind != "fit" or loop.input_kind == "DataLoader"):
        loaders = (loader for loader in evidence.torch_.loaders if loader.role == "training")
        return _of_loader(next(loaders, None), stage)
    if stage is None and loop.pydataset_item is not None:
        return f"`__getitem__` of the `PyDataset`, {at(loop.pydataset_item)}"
    if (named := _function(stage)) is not None:
        return f"`{named.name}`, {_head(named)}"
    head = loop.where and (loop.where.file, loop.where.line)
    own_thread = loop.kind in ("call", "update")
    feeds = (
        cost
        for cost in evidence.functions
        if ((cost.file, cost.line) != head if own_thread else cost.thread == "worker")
    )
    of_python = stage is None or stage.python or stage.op in PYTHON_SOURCES
    if of_python and (cost := next(feeds, None)) is not None:
        return f"`{cost.name}`, {at(Site(cost.file, cost.line))}"
    if stage is None:
        return "its data"
    if stage.op in KERAS_BATCHING:
        return f"Keras's batching of {stage.op}" + (f", {at(stage.where)}" if stage.where else "")
    return f"the `{stage.op}` at {at(stage.where)}" if stage.where else f"`{stage.op}`"


def _of_loader(loader: Loader | None, stage: Stage | None) -> str:
    """The cause of a `DataLoader`'s late batches: the user's own code where it is."""
    making, dataset, site = "", "", None if stage is None else stage.where
    if loader is not None:
        dataset, site = loader.dataset, site or loader.where
        processes = f"process{'es' if loader.workers > 1 else ''}"
        making = f", in {loader.workers} worker {processes}"
        if not loader.workers:
            making = ", with `num_workers=0`"
    where = f" (the `DataLoader` at {at(site)})" if site else ""
    if (named := _function(stage)) is not None:
        item = stage is not None and stage.op == "dataset item"
        return f"`{_of(dataset if item else '', named.name)}`, {_head(named)}{making}"
    if stage is not None and stage.op in LOADER_STAGES:
        return LOADER_STAGES[stage.op] + where
    if loader is not None and loader.item is not None:
        name = _of(dataset, loader.item.function or "__getitem__")
        return f"`{name}`, {at(loader.item)}{making}"
    return f"{f'the items of `{dataset}`' if dataset else 'its data'}{where}{making}"


def _function(stage: Stage | None) -> Function | None:
    """The user's function that a stage applies; None for one without a name."""
    found = None if stage is None else stage.function
    return None if found is None or found.name == "<lambda>" else found


def _of(dataset: str, name: str) -> str:
    """A method with its class: "Images.__getitem__"."""
    return f"{dataset}.{name}" if dataset and "." not in name and "__" in name else name


def _head(function: Function) -> str:
    if not function.line:
        return os.path.basename(function.file)
    return at(Site(function.file, function.line))
