"""When a step is bound by its input: only where the input can be what it loses."""

from __future__ import annotations

from kit.evidence import SITE, evidence, machine
from trainperf.model import Loop

OWN_LOOP = Loop("iterator", where=SITE, batch_size=32, input_kind="tf.data")


def test_an_input_of_next_to_nothing_is_not_what_an_own_loop_waits_for():
    quick = {"real": 0.0156, "resident": 0.0138, "input": 0.000136}
    assert not evidence(loop=OWN_LOOP, machine=machine(cores=2), **quick).input_bound
    # the same in `fit` is handing over, which no drain of the input shows
    assert evidence(machine=machine(cores=2), **quick).input_bound
