"""When a step is bound by its input: only where the input can be what it loses."""

from __future__ import annotations

from dataclasses import replace

from fixes.cases.common.cases import SITE, evidence, machine
from fixes.cases.common.torch_cases import LOADER, torch_evidence
from trainperf.model import Loop, PhaseUse, StackSamples

OWN_LOOP = Loop("iterator", where=SITE, batch_size=32, input_kind="tf.data")


def test_an_input_of_next_to_nothing_is_not_what_an_own_loop_waits_for():
    quick = {"real": 0.0156, "resident": 0.0138, "input": 0.000136}
    assert not evidence(loop=OWN_LOOP, machine=machine(cores=2), **quick).input_bound
    # the same in `fit` is handing over, which no drain of the input shows
    assert evidence(machine=machine(cores=2), **quick).input_bound


def test_an_input_that_keeps_all_cores_busy_may_be_in_the_way_of_the_step():
    times = {"real": 0.1, "resident": 0.06, "input": 0.004}
    assert evidence(loop=OWN_LOOP, machine=machine(cores=32), **times).input_bound
    use = (PhaseUse("input", 10, cpu_cores=1.0),)
    assert not evidence(loop=OWN_LOOP, machine=machine(cores=32), use=use, **times).input_bound


def test_a_loop_that_was_not_seen_at_its_input_does_not_wait_for_it():
    in_turn = {"real": 0.1, "resident": 0.06, "input": 0.03}
    loader = replace(LOADER, workers=0)
    assert torch_evidence(loader=loader, **in_turn).input_bound
    assert torch_evidence(loader=loader, seen=StackSamples(200, 0.35), **in_turn).input_bound
    assert not torch_evidence(loader=loader, seen=StackSamples(200, 0.03), **in_turn).input_bound
    # too few samples to tell
    assert torch_evidence(loader=loader, seen=StackSamples(10, 0.0), **in_turn).input_bound
    # with workers the step may be slow for want of cores, whatever its thread waits for
    workers = replace(LOADER, workers=2)
    assert torch_evidence(loader=workers, seen=StackSamples(200, 0.03), **in_turn).input_bound
