"""Samples of the stack: by functions, and by lines, joined with traced operators."""

from __future__ import annotations

import ast
import re
import textwrap
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from trainperf.evidence.events import Observed, read_as, site
from trainperf.model import (
    LEAST_SAMPLES,
    Event,
    FunctionCost,
    Line,
    LineKind,
    LinePart,
    Looks,
    Missing,
    Site,
    StackSamples,
    StepLines,
    Times,
    is_taken,
)
from trainperf.model.evidence import NOT_SAMPLED
from trainperf.model.lines import OF_FRAMEWORKS

LEAST_SHARE = 0.002
"""Share of a step below which a line is counted as elsewhere."""

WAITS = ("synchronize", "item", "cpu", "tolist")
"""Functions of a framework, called on a line, in which the host waits for a device."""

REASONS: tuple[LineKind, ...] = ("input", "compiling", "backward")
"""Why a framework runs what runs, where that is all there is to say of it."""

LOOPS = (ast.For, ast.While, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)

FIT = "keras.src.backend.tensorflow.trainer."

HEADS = ("def ", "async def ", "@")

BESIDE_OPERATORS = re.compile(
    r"^torch\.(serialization|utils|distributed\.checkpoint)\."
    r"|^keras\.src\.(saving|utils)\.|\.(save|load|write|log|print|export|get_config)\w*$"
)
"""Functions of a framework that make no operator: what they take is what other Python takes."""

LEAST_OF_FUNCTION = 0.02
"""Share of the samples below which a function is not told of."""

Place = tuple[str, int]
"""A file and a line of it."""


def seen(observed: Observed) -> StackSamples | None:
    """How many samples of the loop's thread there are, and how many waited for a batch."""
    total = fetching = 0
    for event in observed.of("stacks"):
        if "fetching" in event:
            total += int(event["steps"])
            fetching += int(event["fetching"])
    return StackSamples(total, min(1.0, fetching / total)) if total else None


def functions(observed: Observed) -> tuple[FunctionCost, ...]:
    """The functions found in at least 2 % of the samples, most frequent first.

    The call that holds the loop (`model.fit(…)`) is left out: all of the step is
    beneath it.
    """
    total, groups = 0, defaultdict[tuple[str, str, int, str], Counter[tuple[int, str]]](Counter)
    for event in observed.of("stacks"):
        total += int(event["total"])
        for count in event["counts"]:
            key = (count["thread"], count["file"], count["def"], count["function"])
            at = count["line"] or count["def"]  # the code object may have no line
            groups[key][at, count["into"]] += count["n"]
    where = observed.facts.get("where") or observed.start.get("where") or {}
    found = []
    for (thread, file, _, name), counts in groups.items():
        samples, lines, into = counts.total(), Counter[int](), Counter[str]()
        for (line, called), n in counts.items():
            lines[line] += n
            into[called] += n
        bare = name.rpartition(".")[2]  # samples name a method with its class, places do not
        if thread == "main" and file == where.get("file") and bare == where.get("function"):
            of_loop = range(where["line"], max(where["line"], where.get("end_line") or 0) + 1)
            if sum(n for line, n in lines.items() if line in of_loop) >= 0.5 * samples:
                continue
        if not total or samples < LEAST_OF_FUNCTION * total:
            continue
        cost = FunctionCost(
            name=name,
            file=file,
            line=lines.most_common(1)[0][0],
            share=min(1.0, samples / total),
            thread="main" if thread == "main" else "worker",
            samples=samples,
            calls_into=into.most_common(1)[0][0],
        )
        found.append(cost)
    return tuple(sorted(found, key=lambda cost: -cost.share))


@dataclass
class _Tally:
    """What was counted of one line; `seconds` by kinds, of a step, `traced` as a `Line` has it."""

    function: str = ""
    text: str = ""
    samples: int = 0
    seconds: defaultdict[LineKind, float] = field(default_factory=lambda: defaultdict(float))
    calls: Counter[str] = field(default_factory=Counter)
    callers: Counter[tuple[Site, ...]] = field(default_factory=Counter)
    of_model: int = 0  # samples in which a model or a layer ran, on it or around it
    native_s: float = 0.0  # of "library", code that is not Python
    traced: dict[str, Any] = field(default_factory=dict)

    def line(self, place: Place) -> Line:
        """The line with what was counted of it."""
        kinds = [(kind, seconds) for kind, seconds in self.seconds.items() if seconds > 0]
        kinds.sort(key=lambda item: -item[1])
        of_model = 2 * self.of_model > max(1, self.samples)
        return Line(
            Site(*place, self.function),
            self.text,
            sum(seconds for _, seconds in kinds),
            tuple(LinePart(kind, seconds) for kind, seconds in kinds),
            self.samples,
            next((call for call, _ in self.calls.most_common(1)), ""),
            callers=next((callers for callers, _ in self.callers.most_common(1)), ()),
            **{**self.traced, "in_model": of_model or bool(self.traced.get("in_model"))},
        )


Tallies = defaultdict[Place, _Tally]


def lines(observed: Observed, times: Times) -> StepLines | Missing:
    """Put a step's seconds on lines; `Missing` where stacks were not sampled, or too seldom.

    Each sample of a step counts for the innermost line of the user's. What it does not tell is
    whose operators a backward derives, and whose a compiled graph runs: where those were traced
    their time goes to the lines that made them, in the traced proportions.
    """
    real, sampled = times.real_, list(observed.of("stacks"))
    if isinstance(real, Missing):
        return real
    total = sum(int(event.get("whole", 0)) for event in sampled)
    total_s = sum(float(event.get("whole_s", 0.0)) for event in sampled)
    if not total_s:
        return NOT_SAMPLED
    if total < LEAST_SAMPLES:
        return Missing(f"the stacks of its steps were sampled {total} times, which tells no shares")
    own, beside = Tallies(_Tally), Tallies(_Tally)
    for event in sampled:
        for stack in event.get("stacks", ()):
            if stack["path"]:
                _count(own if stack["thread"] == "main" else beside, stack, real.seconds / total_s)
    traced = list(observed.of("torch_lines"))
    for event in traced:
        _with_operators(own, event)
    if observed.framework == "torch" and not traced:
        for tally in own.values():  # what code is not Python was not seen: most is a tensor's
            tally.seconds["operators"] += tally.native_s
            tally.seconds["library"] -= tally.native_s
    graphs = list(observed.of("graph_lines"))
    fed = {_place(call) for event in graphs if event["input_s"] for call in event["called"]}
    _waiting_within(own, beside, fed, times)
    for event in graphs:
        _with_graphs(own, event, times)
    _leave_heads(own)
    for event in sampled:
        for source in event.get("sources", ()):
            _in_loops(own, source)
    found = [tally.line(place) for place, tally in own.items()]
    found = [line for line in found if line.parts and line.weight >= LEAST_SHARE * real.seconds]
    return StepLines(
        real.seconds,
        _dearest_first(found),
        max(0.0, real.seconds - sum(line.seconds for line in found)),
        total,
        _dearest_first(tally.line(place) for place, tally in beside.items()),
    )


def _waiting_within(own: Tallies, beside: Tallies, fed: set[Place], times: Times) -> None:
    """Tell what a compiled step that takes its input itself waits for it from its operators.

    That is what a real step takes longer than a resident one, as far as it was not seen elsewhere.
    Where Python makes the input on other threads meanwhile, it goes to the lines that do. `fed`
    are calls that were traced, and took batches within; `fit` takes them as well.
    """
    if isinstance(times.real_, Missing) or isinstance(times.resident_, Missing):
        return
    waits = times.real - times.resident
    if waits < 2 * times.loss_noise * times.real:
        return
    waits -= sum(tally.seconds["input"] + tally.seconds["compiling"] for tally in own.values())
    calls = [
        tally
        for place, tally in own.items()
        if place in fed or any(call.startswith(FIT) for call in tally.calls)
    ]
    step = max(calls, key=lambda tally: tally.seconds["operators"], default=None)
    if step is None or waits <= 0:
        return
    moved = min(waits, step.seconds["operators"])
    step.seconds["operators"] -= moved
    making = sum(maker.seconds["input"] for maker in beside.values())
    if not making:
        step.seconds["input"] += moved
        return
    for place, maker in beside.items():
        if maker.seconds["input"]:
            tally = own[place]
            tally.function, tally.text = maker.function, maker.text
            tally.calls.update(maker.calls)
            tally.seconds["input"] += moved * maker.seconds["input"] / making


def _leave_heads(tallies: Tallies) -> None:
    """Count a function's head for its dearest line: a thread that enters waits there for others."""
    heads = [place for place, tally in tallies.items() if tally.text.startswith(HEADS)]
    for head in heads:
        function = (head[0], tallies[head].function)
        within = [
            tally
            for place, tally in tallies.items()
            if place not in heads and (place[0], tally.function) == function
        ]
        if within:
            left = tallies.pop(head)
            tally = max(within, key=lambda tally: sum(tally.seconds.values()))
            tally.samples += left.samples
            for kind, seconds in left.seconds.items():
                tally.seconds[kind] += seconds


def _in_loops(tallies: Tallies, source: dict[str, Any]) -> None:
    """Find for each line of a function's source the innermost loop that it stands in."""
    first = source["def"]
    try:
        tree = ast.parse(textwrap.dedent(source["text"]))
    except (SyntaxError, ValueError):
        return
    spans = [
        (node.lineno + first - 1, (node.end_lineno or 0) + first - 1)
        for node in ast.walk(tree)
        if isinstance(node, LOOPS)
    ]
    for (file, number), tally in tallies.items():
        around = [head for head, end in spans if head <= number <= end]
        if around and (file, tally.function) == (source["file"], source["function"]):
            line = source["text"].splitlines()[max(around) - first]
            loop = Site(file, max(around), tally.function)
            tally.traced |= {"loop": loop, "loop_text": line.strip().rstrip(":")}


def _dearest_first(found: Iterable[Line]) -> tuple[Line, ...]:
    return tuple(sorted(found, key=lambda line: -line.seconds))


def _place(where: dict[str, Any]) -> Place:
    return where["file"], int(where["line"])


def _count(tallies: Tallies, stack: dict[str, Any], second: float) -> None:
    """Count a stack for its innermost line; `second` are those of a step for each sampled one."""
    *callers, innermost = stack["path"]
    tally, counted = tallies[_place(innermost)], int(stack["n"])
    within, into, seconds = stack["within"], stack["into"], stack["s"] * second
    tally.function, tally.text = innermost["function"], stack["text"]
    tally.samples += counted
    tally.of_model += counted if within == "model" else 0
    kind: LineKind = "library" if into or stack["native"] else "python"
    if within in REASONS:
        kind = within
    elif into.startswith(OF_FRAMEWORKS) and not BESIDE_OPERATORS.search(into):
        kind = "waiting" if into.rpartition(".")[2] in WAITS else "operators"
    tally.seconds[kind] += seconds
    if kind == "library" and not into:
        tally.native_s += seconds
    tally.callers[tuple(Site(*_place(caller), caller["function"]) for caller in callers)] += counted
    if call := stack["call"] or into:
        tally.calls[call] += counted


def _with_operators(tallies: Tallies, event: Event) -> None:
    """Join what a line's own operators take, and what their backward takes.

    Native code that ran on a line with operators of the framework was theirs. The time of the
    backward goes from the lines it was sampled on to those that own it.
    """
    for line in event["lines"]:
        tally = _made_at(tallies, line)
        tally.traced |= {name: line[name] for name in ("operators", "elements")}
        tally.traced |= {"loop": site(line["loop"]), "looks": _looks(line["looks"])}
        if event["all_device_s"]:
            tally.traced["device_s"] = line["device_s"] + line["backward_s"]
        tally.calls.setdefault(line["name"], 0)
        tally.seconds["operators"] += tally.seconds.pop("library", 0.0)
    owners = _owners(tallies, event, "backward_s", event["all_backward_s"])
    whole = sum(tally.seconds["backward"] for tally in tallies.values())
    owned = sum(share for _, share in owners)
    for tally in tallies.values():
        tally.seconds["backward"] *= 1 - owned
    for tally, share in owners:
        tally.seconds["backward"] += whole * share


def _looks(seen: dict[str, Any]) -> Looks | None:
    """What the operators of a line were given, None where nothing of it is worth a word."""
    zeros, rows = seen.get("zeros") or {}, seen.get("rows") or {}
    looks = read_as(
        Looks,
        {name: seen.get(name) for name in ("same", "unfused")}
        | {"zeros": zeros.get("share"), "shape": zeros.get("shape")}
        | {"rows_used": rows.get("used"), "rows": rows.get("of")}
        | {name: rows.get(name) for name in ("width", "sparse")},
    )
    return None if looks == Looks() else looks


def _with_graphs(own: Tallies, event: Event, times: Times) -> None:
    """Put what runs in compiled graphs on the lines that made their operators.

    It was sampled where the graphs are called, together with what the framework does to call them.
    """
    callers = [own[place] for place in map(_place, event["called"]) if place in own]
    sampled = sum(tally.seconds["operators"] for tally in callers)
    if not sampled or event["step_s"] <= event["input_s"]:
        return
    busy = (event["running_s"] - event["input_s"]) / (event["step_s"] - event["input_s"])
    resident = times.resident if is_taken(times.resident_) else times.real
    running = min(sampled, max(0.0, busy) * min(times.real, resident))
    owners = _owners(own, event, "seconds", event["all_seconds"])
    moved = running * sum(share for _, share in owners)
    for tally in callers:
        tally.seconds["operators"] *= 1 - moved / sampled
    for tally, share in owners:
        tally.seconds["graph"] += share * running
    for line in event["lines"]:
        tally = own[_place(line["where"])]
        tally.traced |= {"operators": line["operators"], "in_model": line["layer"]}


def _owners(tallies: Tallies, event: Event, name: str, whole: float) -> list[tuple[_Tally, float]]:
    """The lines that made what was traced, each with its share of the time that it took."""
    made = [line for line in event["lines"] if whole and line.get(name)]
    return [(_made_at(tallies, line), line[name] / whole) for line in made]


def _made_at(tallies: Tallies, traced: dict[str, Any]) -> _Tally:
    """The tally of a line that was traced and perhaps not sampled."""
    tally = tallies[_place(traced["where"])]
    tally.function = tally.function or traced["where"]["function"]
    tally.text = tally.text or traced["text"]
    return tally
