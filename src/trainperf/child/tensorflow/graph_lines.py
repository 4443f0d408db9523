"""TensorFlow's tracer around a few steps, and the operators it saw, by the lines that created them.

A trace names an operator by its path through the functions that it was inlined from; the graphs
they were traced into know on which stack each operator was made. What a gradient's operator is the
gradient of, and which scope is a layer's, is noted while a function is traced.
"""

from __future__ import annotations

import gc
import json
import os
import re
import weakref
from collections import ChainMap, Counter, defaultdict
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

from ..process import frames
from ..process.process import Attempt
from ..timing.loops import Tracer

if TYPE_CHECKING:
    from ..timing.drivers.driver import Driver

GRADIENT = "gradient_tape/"
"""The scope of what a tape derives; that of the operator it derives follows."""

_OF_A_FUNCTION = re.compile(r".*gradients(?:_\d+)?/(.+?)_grad(?:_\d+)?/")
"""In the gradient of a whole function: the name of the operator that it derives."""

_INLINED = re.compile(r"(?:(?:body|cond|then|else|branch\d*)/)?_\d+/")
"""What stands between a loop's or a branch's operator and those in it."""

_RENAMED = re.compile(r"\w*Optimizer/|-\d+-.*$")
"""What graph optimisers add to an operator's name."""

_HOLDERS = ("PartitionedCall", "While", "If", "Case", "_XlaRun", "IteratorGetNext")
"""How types of operators end whose time is that of others, or of the input."""

PYTHON = ("PyFunc", "PyFuncStateless", "EagerPyFunc")
"""Operators that run Python, which is sampled."""

_WAITS = "IteratorGetNextOp::DoCompute"
"""What waits for the input within a graph."""

MOST_LINES = 200
LONGEST = 160


class Origins:
    """What is noted of graphs while functions are traced."""

    def __init__(self, process: Any) -> None:
        self._process = process
        self.gradients: weakref.WeakKeyDictionary[Any, list[tuple[int, int, str]]]
        self.gradients = weakref.WeakKeyDictionary()
        self.layers: weakref.WeakKeyDictionary[Any, dict[str, tuple[str, Any]]]
        self.layers = weakref.WeakKeyDictionary()

    @contextmanager
    def noting(self) -> Iterator[None]:
        """Note within which operators are made as the gradient of which."""
        from tensorflow.python import pywrap_tfe
        from tensorflow.python.eager import backprop

        original = backprop._gradient_function

        def gradient(name: Any, attributes: Any, count: Any, *given: Any) -> Any:
            graph = _graph()
            began = graph.version
            result = original(name, attributes, count, *given)
            with Attempt(self._process, "what an operator is the gradient of"):
                forward = _derived(name, given[0], given[1])
                if forward is not None and graph.version > began:
                    made = (began, graph.version, forward)
                    self.gradients.setdefault(graph, []).append(made)
            return result

        pywrap_tfe.TFE_Py_RegisterGradientFunction(gradient)
        try:
            yield
        finally:
            pywrap_tfe.TFE_Py_RegisterGradientFunction(original)

    def entered(self, name: str, site: Any) -> None:
        """Keras entered the scope of a layer of that name, which was built at a site."""
        graph = _graph()
        self.layers.setdefault(graph, {})[graph.get_name_scope()] = name, site

    def derived(self, graph: Any) -> dict[int, str]:
        """The names of operators, by the ids of those that a tape made as their gradient."""
        later = graph.get_operations()[-1]._id - graph.version
        return {
            number + later: name
            for began, ended, name in self.gradients.get(graph, ())
            for number in range(began + 1, ended + 1)
        }

    def layer(self, op: Any) -> tuple[str, Any]:
        """The layer whose scope an operator is in, and where that was built.

        A loop's body that TensorFlow wrote anew for its gradient has the names of the first one.
        """
        scopes = ChainMap(self.layers.get(op.graph, {}), *self.layers.values())
        scope = op.name
        while scope:
            scope = scope.rpartition("/")[0]
            if scope in scopes:
                return scopes[scope]
        return "", None


def _graph() -> Any:
    from tensorflow.python.framework import ops

    return ops.get_default_graph()


def _derived(name: str, inputs: Any, outputs: Any) -> str | None:
    """The name of the operator whose gradient is asked for: what is not needed is not given."""
    for tensor in outputs or ():
        if hasattr(tensor, "op"):
            return str(tensor.op.name)
    for tensor in inputs or ():
        if not hasattr(tensor, "op"):
            continue
        for op in tensor.consumers():
            if op.type == name and not op.name.startswith(GRADIENT):
                return str(op.name)
    return None


Where = tuple[str, int, str]
"""A file, a line, and the function that it stands in."""


class Graphs:
    """The graphs of this process by the names of their functions."""

    def __init__(self, origins: Origins) -> None:
        from tensorflow.python.eager.polymorphic_function.atomic_function import AtomicFunction

        found = [value for value in gc.get_objects() if issubclass(type(value), AtomicFunction)]
        self._graphs: dict[str, Any] = {
            value.name.decode(): value._cached_graph for value in found if value._cached_graph
        }
        self._origins = origins
        self._derived: dict[int, dict[int, str]] = {}
        self._calls: dict[str, Where | None] = {}
        self._known: dict[tuple[str, str], tuple[Where | None, str]] = {}

    def made(self, function: str, path: str) -> tuple[Where | None, str]:
        """Where the user made the operator at a path of a function, and in which layer.

        None where it is not found, or no line of theirs made it.
        """
        key = function, path
        if key not in self._known:
            root = self._graphs.get(function)
            op = None if root is None else self._find(root, path)
            self._known[key] = (None, "") if op is None else self._of(op, function)
        return self._known[key]

    def _of(self, op: Any, function: str) -> tuple[Where | None, str]:
        op = self._forward(op)
        if function not in self._calls:  # its first operator is made before any of it runs
            self._calls[function] = _users(self._graphs[function].get_operations()[0])
        layer, built = self._origins.layer(op)
        where = _users(op)
        if where == self._calls[function]:
            where = None if built is None else (built["file"], built["line"], built["function"])
        return where, layer

    def _find(self, graph: Any, path: str) -> Any:
        """The operator that runs under a path, else the one that it was made of."""
        plain = _RENAMED.sub("", path)
        spellings = [path, plain]
        head, slash, name = plain.rpartition("/")
        while "_" in name:  # "ReplaceMulWithSquare_mul" was "mul"
            name = name.partition("_")[2]
            spellings.append(f"{head}{slash}{name}")
        found = [self._walk(graph, spelling) for spelling in spellings]
        ops = [op for op, exact in sorted(found, key=lambda it: not it[1]) if op is not None]
        return next(iter(ops), None)

    def _walk(self, graph: Any, path: str) -> tuple[Any, bool]:
        parts = path.split("/")
        for end in range(len(parts), 0, -1):
            op = _named(graph, "/".join(parts[:end]))
            if op is None:
                continue
            rest = "/".join(parts[end:])
            if not rest:
                return op, True
            for value in op.node_def.attr.values():
                for function in (value.func, *value.list.func):
                    inner = self._graphs.get(function.name)
                    for inlined in (_INLINED.sub("", rest, count=1), rest) if inner else ():
                        found, exact = self._walk(inner, inlined)
                        if exact:
                            return found, True
            return op, False
        return None, False

    def _forward(self, op: Any) -> Any:
        """The operator that one is the gradient of; itself where it is none."""
        if id(op.graph) not in self._derived:
            self._derived[id(op.graph)] = self._origins.derived(op.graph)
        if (name := self._derived[id(op.graph)].get(op._id)) is not None:
            return _named(op.graph, name) or op
        if (found := _OF_A_FUNCTION.match(op.name)) is not None:
            of_graphs = (_named(other, found[1]) for other in self._graphs.values())
            return next(filter(None, of_graphs), op)
        if op.type == "AddN" and op.inputs[0].op.name.startswith(GRADIENT):
            return self._forward(op.inputs[0].op)
        if op.name.startswith(GRADIENT):
            scope = op.name.removeprefix(GRADIENT).rpartition("/")[0]
            return _named(op.graph, scope) or op
        return op


def _named(graph: Any, name: str) -> Any:
    try:
        return graph.get_operation_by_name(name)
    except (KeyError, ValueError):
        return None


def _users(op: Any) -> Where | None:
    """The innermost line of the user's on the stack that an operator was made on."""
    for frame in reversed(list(op.traceback)):
        if frames.is_users(frame.filename):
            return os.path.abspath(frame.filename), int(frame.lineno), str(frame.name)
    return None


def lines_of(trace: Any, mark: str, graphs: Graphs) -> dict[str, Any] | None:
    """The steps of a trace that bear a `mark`, by the lines that made their operators.

    Seconds are those of a step. None where no graph ran whose operators are known.
    """
    events = sorted(trace.trace_events, key=lambda event: event.timestamp_ps)
    steps = [event for event in events if event.name.startswith(mark)]
    runs = _runs(events, steps)
    types: defaultdict[Where, Counter[str]] = defaultdict(Counter)  # ps of a line, by operator
    layers: defaultdict[Where, Counter[str]] = defaultdict(Counter)
    operators: Counter[Where] = Counter()
    whole = python = waits = 0
    for event, name in _operators(events):
        function = next((f for began, ended, f in runs if began <= event.timestamp_ps < ended), "")
        path, _, kind = name.rpartition(":")
        if not function:
            continue
        if not name:
            waits += event.duration_ps
        elif kind in PYTHON:
            python += event.duration_ps
        elif not kind.endswith(_HOLDERS):
            whole += event.duration_ps
            where, layer = graphs.made(function, path)
            if where is not None:
                operators[where] += 1
                types[where][kind] += event.duration_ps
                layers[where][layer] += event.duration_ps
    count = len(steps)
    if not count or not operators:
        return None

    def seconds(ps: int) -> float:
        return ps / 1e12 / count

    dearest = sorted(types, key=lambda where: -types[where].total())[:MOST_LINES]
    running = sum(ended - began for began, ended, _ in runs)
    return {
        "steps": count,
        "step_s": seconds(sum(event.duration_ps for event in steps)),
        "running_s": seconds(max(0, running - python)),
        "input_s": seconds(waits),
        "all_seconds": seconds(whole),
        "lines": [
            {
                "where": dict(zip(("file", "line", "function"), where, strict=True)),
                "text": "".join(frames.lines_of(where[0])[where[1] - 1 : where[1]]).strip()[
                    :LONGEST
                ],
                "seconds": seconds(types[where].total()),
                "operators": operators[where] / count,
                "name": types[where].most_common(1)[0][0],
                "layer": layers[where].most_common(1)[0][0],
                "elements": None,
            }
            for where in dearest
        ],
    }


def _runs(events: list[Any], steps: list[Any]) -> list[tuple[int, int, str]]:
    """When functions ran in steps, each with its name."""
    within = [(step.timestamp_ps, step.timestamp_ps + step.duration_ps) for step in steps]
    return [
        (event.timestamp_ps, event.timestamp_ps + event.duration_ps, event.args["eager_op"])
        for event in events
        if event.name == "EagerExecute"
        and event.args["is_func"] == "1"
        and any(began <= event.timestamp_ps < ended for began, ended in within)
    ]


def _operators(events: list[Any]) -> Iterator[tuple[Any, str]]:
    """Operators with their full names, none of tf.data's own; waits for it have no name."""
    captured = {
        event.args["id"]
        for event in events
        if event.name.startswith("InstantiatedCapturedFunction::Run")
    }
    inputs: dict[int, int] = {}  # by thread: until when it works for tf.data
    for event in events:
        thread, at = event.resource_id, event.timestamp_ps
        if event.name == "ExecutorState::Process" and event.args["id"] in captured:
            inputs[thread] = at + event.duration_ps
        elif event.name == _WAITS:
            yield event, ""
        elif at >= inputs.get(thread, 0) and (name := event.args.get("long_name", "")):
            yield event, name


# TensorFlow's tracer around a few steps of the loop.

OPTIONS = {"host_tracer_level": 2, "python_tracer_level": 0, "device_tracer_level": 1}
"""Those of `tf.profiler.experimental.start`; calls of Python would be most of the trace."""
STEP = "train"
"""The name of a step's mark; its number follows."""


class TensorFlowTracer(Tracer):
    """The profiler session behind `tf.profiler.experimental`, with marks around each step."""

    late = True

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._session: Any = None
        self._traced = b""
        self._called: list[Any] | None = None
        self.short = _tells(driver)

    def refusal(self, asked: bool) -> str:
        """Why it cannot be used now: there can be one session in a process."""
        from tensorflow.python.profiler import profiler_v2

        return "" if profiler_v2._profiler is None else "the script's own profiler is on"

    def start(self) -> None:
        """Begin to trace. Raises `AlreadyExistsError` where another session is under way."""
        from tensorflow.python.profiler.internal import _pywrap_profiler

        session: Any = _pywrap_profiler.ProfilerSession()
        session.start("", OPTIONS)
        self._session = session
        self._driver.loops.called = []

    def step(self, number: int) -> AbstractContextManager[Any]:
        from tensorflow.python.profiler import trace

        mark: AbstractContextManager[Any] = trace.Trace(f"{STEP} {number}", step_num=number, _r=1)
        return mark

    def stop(self) -> None:
        self._driver.sync()
        self._traced = self._session.stop()
        self._called, self._driver.loops.called = self._driver.loops.called, None

    def read(self) -> None:
        """Record what operators of compiled graphs take, and from which lines those were called."""
        driver = self._driver
        found = lines_of(self._trace(), STEP, Graphs(driver.loops.origins))
        if found is not None:
            fit = driver.loops.fit_call if driver.kind == "fit" else None
            called = self._called or ([] if fit is None else [fit[0]])
            driver.record.write("graph_lines", called=called, **found)

    def save(self, file: str) -> str:
        with open(file, "w", encoding="utf-8") as out:
            json.dump({"traceEvents": list(_events(self._trace()))}, out)
        return ""

    def _trace(self) -> Any:
        from tensorflow.tsl.profiler.protobuf import trace_events_pb2

        return trace_events_pb2.Trace.FromString(self._traced)


def _tells(driver: Driver) -> bool:
    """Whether a trace tells the lines of operators.

    Not of a GPU, whose kernels bear no names of operators, nor of what XLA compiles.
    """
    model = getattr(driver, "model", None)
    compiled = [getattr(step, "_jit_compile", None) for step in driver.loops.marked.values()]
    if model is not None and not model.run_eagerly:
        compiled.append(getattr(model, "jit_compile", None))
    return not all(compiled) and not driver.device.asynchronous


def _events(trace: Any) -> Iterator[dict[str, Any]]:
    """The events of a trace: a device is a process, a resource of it a thread; µs."""
    for device in trace.devices.values():
        of = {"ph": "M", "pid": device.device_id}
        yield {**of, "name": "process_name", "args": {"name": device.name}}
        for resource in device.resources.values():
            of["tid"] = resource.resource_id
            yield {**of, "name": "thread_name", "args": {"name": resource.name}}
    for event in trace.trace_events:
        yield {
            "ph": "X",
            "name": event.name,
            "pid": event.device_id,
            "tid": event.resource_id,
            "ts": event.timestamp_ps / 1e6,
            "dur": event.duration_ps / 1e6,
            "args": dict(event.args),
        }
