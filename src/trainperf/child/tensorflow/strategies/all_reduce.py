"""The exchange by itself: how gradients go, and all-reduces of their sizes, timed alone.

All-reduces run through the user's own strategy, in a function that does nothing else.
The ranks of a job make the same calls, as many of them, whatever their clocks say.
"""

from __future__ import annotations

import socket
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

from ...process.process import Attempt
from .exchange import Tensor, size_of
from .facts import Built, described, operations, replicas, spread, worker_hosts
from .scopes import Strategies

if TYPE_CHECKING:
    from ...timing.drivers.driver import Driver


WARM_UP = 2
TIMED = 7
TIMED_LARGE = 3
LARGE = 64 * 1024**2
"""From so many bytes on, fewer all-reduces are timed."""
SIZES = 4
"""The sizes that make up most of the gradients are timed one by one as well."""
LEAST = 2
SHARE = 0.3
"""A process by itself gives so much of the time that is left to this, if two turns do."""
LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1", "[::1]")

_COPIED = 32 * 1024**2
"""Bytes; more than a processor's caches, so that they come from memory."""
_SENT = 64 * 1024**2
_CHUNK = 1024**2
_TIMEOUT_S = 5.0


def record(driver: Driver) -> None:
    """Record how gradients are exchanged, and what is known of the strategy by now."""
    strategies = driver.loops.strategies
    built = training(driver, strategies)
    if built is None:
        return
    seen: dict[str, Any] = {}
    with Attempt(driver.process, "spreading of the dataset"):
        seen = spread(driver.dataset())
    strategies.write(strategy=built.strategy, **seen)
    reductions = strategies.exchange.reductions()
    if replicas(built.strategy) < 2 or not reductions:
        return
    sizes = [one.bytes for one in reductions]
    driver.record.write(
        "exchange",
        method=described(built)["cls"],
        backend=operations(built.strategy.extended),
        replicas=replicas(built.strategy),
        bytes=None if None in sizes else sum(size or 0 for size in sizes),
        buckets=[] if None in sizes else [pack for one in reductions for pack in one.packs],
    )


def training(driver: Driver, strategies: Strategies) -> Built | None:
    """The strategy of the loop's iterator or model; else the one that was built last."""
    iterator = getattr(driver, "_source", None)
    used = getattr(iterator, "_strategy", None)
    model = getattr(driver, "model", None)
    if used is None and model is not None:
        used = getattr(model, "distribute_strategy", None)
    return strategies.main(used)


def all_reduce(driver: Driver, deadline: float) -> None:
    """Time all-reduces of the gradients' sizes through the user's strategy."""
    strategies = driver.loops.strategies
    built = training(driver, strategies)
    if built is None or replicas(built.strategy) < 2:
        return
    reductions = strategies.exchange.reductions()
    tensors = [tensor for one in reductions for tensor in one.tensors]
    reason = ""
    if any(size_of(tensor) is None for tensor in tensors):
        reason = "the sizes of the gradients are not known before a step runs (sparse ones)"
    elif not tensors:
        reason = "no exchange of gradients between replicas was seen"
    elif driver.world is not None and not driver.world.meet("all_reduce"):
        reason = "not all ranks came to it"
    if reason:
        driver.record.write("missing", what="all_reduce", reason=reason)
        return
    until = None
    if driver.world is None:
        until = time.monotonic() + SHARE * (deadline - time.monotonic())
    total = _timed(built.strategy, tensors, until)
    calls = []
    for tensor in _largest(tensors):
        if until is not None and time.monotonic() > until:
            break
        if (seconds := _timed(built.strategy, [tensor], until)) is not None:
            calls.append([_bytes(tensor), seconds])
    if total is None:
        reason = "an all-reduce of the gradients takes no longer than calling an empty function"
        driver.record.write("missing", what="all_reduce", reason=reason)
        return
    driver.record.write(
        "all_reduce",
        calls=calls,
        devices=replicas(built.strategy),
        seconds=total,
        bytes=sum(_bytes(tensor) for tensor in tensors),
    )


def link(driver: Driver, deadline: float) -> None:
    """Record what connects the replicas, where this process can measure it.

    Between logical devices of the CPU that is memory, and over gRPC on one host the
    loopback. Links between GPUs and hosts are not measured here.
    """
    built = training(driver, driver.loops.strategies)
    if built is None or replicas(built.strategy) < 2:
        return
    extended = built.strategy.extended
    if any("CPU" not in str(device).upper() for device in extended.worker_devices):
        return
    hosts = worker_hosts(extended)
    source = "measured in this run"
    if len(hosts) < 2:
        speed = copy_bytes_s()
        driver.record.write("link", kind="shared memory", bytes_s=speed, source=source)
    elif set(hosts) <= set(LOCAL_HOSTS) or len(set(hosts)) == 1:
        if driver.world is not None:
            driver.world.meet("link")
        speed = loopback_bytes_s()
        driver.record.write("link", kind="loopback", bytes_s=speed, source=source)
    else:
        driver.record.write("link", kind="network", bytes_s=None, source="the cluster's hosts")


# ------------------------------------------------------------------------- the timing


def _bytes(tensor: Tensor) -> int:
    size = size_of(tensor)
    assert size is not None  # was asked before
    return size


def _largest(tensors: list[Tensor]) -> list[Tensor]:
    """One tensor of each of the few sizes that make up most of the bytes."""
    counts = Counter(tensors)
    ranked = sorted(counts, key=lambda tensor: -_bytes(tensor) * counts[tensor])
    return ranked[:SIZES]


def _timed(strategy: Any, tensors: list[Tensor], until: float | None) -> float | None:
    """Seconds of an all-reduce of these tensors at once, less what calling alone takes.

    The shortest of a few: what else the machine does only adds. None where that cannot
    be told from the call. `until` bounds the time, None where all ranks must do the same.
    """
    total = sum(_bytes(tensor) for tensor in tensors)
    with strategy.scope():
        values = _values(tensors)
    calls = [_function(strategy, tensors, values, exchanges) for exchanges in (True, False)]
    shortest = [float("inf"), float("inf")]
    for turn in range(WARM_UP + (TIMED if total < LARGE else TIMED_LARGE)):
        if until is not None and turn >= WARM_UP + LEAST and time.monotonic() > until:
            break
        for index, call in enumerate(calls):
            began = time.monotonic()
            call()
            if turn >= WARM_UP:
                shortest[index] = min(shortest[index], time.monotonic() - began)
    seconds = shortest[0] - shortest[1]
    return seconds if seconds > 0 else None


def _values(tensors: list[Tensor]) -> list[Any]:
    """A variable for each tensor; those of one shape share one, to spare memory."""
    import tensorflow as tf

    made = {
        tensor: tf.Variable(tf.zeros(tensor[0], tensor[1]), trainable=False)
        for tensor in dict.fromkeys(tensors)
    }
    return [made[tensor] for tensor in tensors]


def _given(tensor: Tensor, value: Any) -> Any:
    """The value that a replica gives: on its device, and not copied. Sparse: as many first rows."""
    import tensorflow as tf

    value = tf.identity(value)
    shape, _, numbers = tensor
    if not numbers:
        return value
    rows = tf.range(shape[0], dtype=numbers)
    return tf.IndexedSlices(value, rows, tf.shape(value, out_type=numbers))


def _function(strategy: Any, tensors: list[Tensor], values: list[Any], exchanges: bool) -> Any:
    """A call that sums `values` over the replicas and waits; or does all but that.

    Its result is made of all sums, or TensorFlow would leave some out.
    """
    import tensorflow as tf

    def replica() -> Any:
        given = [_given(tensor, value) for tensor, value in zip(tensors, values, strict=True)]
        if exchanges:
            context = tf.distribute.get_replica_context()
            given = context.all_reduce(tf.distribute.ReduceOp.SUM, given)
        dense = [one.values if isinstance(one, tf.IndexedSlices) else one for one in given]
        first = [tf.reshape(one, [-1])[:1] for one in dense]
        return tf.add_n([tf.cast(one, tf.float32) for one in first])

    run = tf.function(lambda: strategy.run(replica), autograph=False)

    def call() -> None:
        for result in strategy.experimental_local_results(run()):
            result.numpy()

    return call


def copy_bytes_s() -> float:
    """Bytes per second at which one thread copies memory, the best of three passes."""
    source = bytearray(_COPIED)
    target = bytearray(_COPIED)
    best = 0.0
    for _ in range(4):  # the first touches the pages
        began = time.monotonic()
        target[:] = source
        best = max(best, _COPIED / max(time.monotonic() - began, 1e-9))
    return best


def loopback_bytes_s() -> float:
    """Bytes per second of one TCP connection over 127.0.0.1; raises OSError without one."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(_TIMEOUT_S)
        sender = threading.Thread(target=_send, args=(server.getsockname(),), daemon=True)
        sender.start()
        connection, _ = server.accept()
        with connection:
            connection.settimeout(_TIMEOUT_S)
            into = bytearray(_CHUNK)
            got, began = 0, time.monotonic()
            while read := connection.recv_into(into):
                got += read
            took = time.monotonic() - began
        sender.join(_TIMEOUT_S)
    if got < _SENT:
        raise OSError("the connection over the loopback broke")
    return got / max(took, 1e-9)


def _send(address: tuple[str, int]) -> None:
    block = bytes(_CHUNK)
    try:
        with socket.create_connection(address, _TIMEOUT_S) as connection:
            for _ in range(_SENT // _CHUNK):
                connection.sendall(block)
    except OSError:
        return  # the receiver says so
