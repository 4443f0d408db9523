"""The shield's hooks stand before others of a module, and keep none of them away."""

from __future__ import annotations

from types import ModuleType

import pytest

from kit.child import FakeProcess
from trainperf.child.shield import redirected
from trainperf.child.shield.rows import MODULES, OTHERS
from trainperf.child.start import add_shield

NAME = "torch.serialization"


def test_a_hook_that_follows_runs_where_nothing_can_be_redirected(monkeypatch):
    ran = []
    hooks = {NAME: lambda module, seconds: ran.append(module.__name__)}
    add_shield(FakeProcess(), hooks)

    def refuses(process):
        raise OSError("no folder for temporary files")

    monkeypatch.setattr("trainperf.child.shield.redirected.Writing", refuses)
    with pytest.raises(OSError, match="no folder"):  # `PostImport` records it
        hooks[NAME](ModuleType(NAME), 0.0)
    assert ran == [NAME]
    assert set(hooks) == set(MODULES)
    assert all(callable(getattr(redirected, name)) for name in OTHERS.values())
