"""Warnings of a debug mode that a stand-in for CUDA gives, where the user's code calls it."""

from __future__ import annotations

import warnings
from types import SimpleNamespace

import pytest

from kit.child import FakeProcess
from trainperf.child.torch.step.detail import SyncWarnings

# In no file of the user's, as the functions of PyTorch's own modules.
CUDA = """
import warnings
mode, warned_once = 0, False

def operation():
    if mode == 2:
        raise RuntimeError("called a synchronizing CUDA operation")
    if mode == 1:
        warnings.warn("called a synchronizing CUDA operation (Triggered internally)", stacklevel=2)

def is_initialized():
    return True

def get_sync_debug_mode():
    return mode

def set_sync_debug_mode(wanted):
    global mode, warned_once
    if not warned_once:
        warnings.warn("Synchronization debug mode is a prototype feature", stacklevel=2)
    mode, warned_once = {"default": 0, "warn": 1, "error": 2}.get(wanted, wanted), True
"""
USERS = """
import warnings

def step(cuda):
    cuda.operation()
    for _ in range(2):
        cuda.operation()

def warns(text):
    warnings.warn(text, stacklevel=1)
"""


@pytest.fixture
def cuda():
    names = {"__name__": "torch.cuda"}
    exec(compile(CUDA, "<torch>", "exec"), names)
    module = SimpleNamespace(names=names)
    for name in ("operation", "is_initialized", "get_sync_debug_mode", "set_sync_debug_mode"):
        setattr(module, name, names[name])
    return module


@pytest.fixture
def own(users):
    return users(USERS)


@pytest.fixture
def watch(cuda):
    made = []

    def make(process=None):
        made.append(SyncWarnings(SimpleNamespace(cuda=cuda), process or FakeProcess()))
        made[-1].start()
        return made[-1]

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("default")
        make.said = said
        yield make
        for one in made:
            one.stop()


def lines(syncs):
    return {place.f_lineno: calls for place, calls in syncs.waits.items()}


# ------------------------------------------------------------- what must not change


def test_the_mode_the_filters_and_what_shows_warnings_are_as_before(watch, cuda, own):
    before = warnings.filters, list(warnings.filters), warnings._showwarnmsg, warnings.showwarning
    syncs = watch()
    assert cuda.get_sync_debug_mode() == 1
    own.step(cuda)
    syncs.stop()
    assert cuda.get_sync_debug_mode() == 0
    now = warnings.filters, list(warnings.filters), warnings._showwarnmsg, warnings.showwarning
    assert now == before
    assert watch.said == []


def test_other_warnings_reach_the_program_as_often_as_they_would_have(watch, cuda, own):
    own.warns("mine")
    syncs = watch()
    for _ in range(2):
        own.warns("mine")  # told once already
        own.warns("another")
    own.step(cuda)
    syncs.stop()
    own.warns("another")
    assert [str(one.message) for one in watch.said] == ["mine", "another"]


def test_a_filter_that_makes_errors_of_warnings_meets_no_warning_of_ours(watch, cuda, own):
    warnings.simplefilter("error")
    syncs = watch()
    own.step(cuda)
    with pytest.raises(UserWarning, match="mine"):
        own.warns("mine")
    syncs.step_ended(kept=True)
    assert lines(syncs) == {5: 1, 7: 2}


def test_a_mode_that_the_program_has_set_is_left_alone(watch, cuda, own):
    cuda.names["warned_once"] = True
    for mode in (1, 2):
        cuda.set_sync_debug_mode(mode)
        filters = list(warnings.filters)
        syncs = watch()
        assert list(warnings.filters) == filters
        syncs.stop()
        assert cuda.get_sync_debug_mode() == mode
    with pytest.raises(RuntimeError):
        own.step(cuda)


def test_a_forked_worker_asks_cuda_nothing_and_warns_as_before(watch, cuda, own):
    filters = list(warnings.filters)
    syncs = watch()

    def refuse():
        raise RuntimeError("Cannot re-initialize CUDA in forked subprocess")

    cuda.get_sync_debug_mode = refuse
    syncs.forked()
    syncs.stop()
    assert list(warnings.filters) == filters


# --------------------------------------------------------------------- what is seen


def test_every_operation_that_waits_is_counted_at_the_users_line(watch, cuda, own):
    syncs = watch()
    own.step(cuda)
    syncs.step_ended(kept=True)
    own.step(cuda)
    syncs.step_ended(kept=True)
    assert lines(syncs) == {5: 2, 7: 4}
    assert {place.f_code.co_filename for place in syncs.waits} == {own.__file__}
