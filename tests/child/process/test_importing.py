import importlib
import sys

import pytest

from trainperf.child.start import PostImport


@pytest.fixture
def modules(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)

    def write(name, text=""):
        path = tmp_path / (name.replace(".", "/") + ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        importlib.invalidate_caches()

    yield write
    for name in set(sys.modules) - before:
        del sys.modules[name]


@pytest.fixture
def hooked():
    installed = []

    def install(*names, fails=()):
        calls, failures = [], []

        def hook(module, seconds):
            calls.append((module.__name__, seconds >= 0))
            if module.__name__ in fails:
                raise RuntimeError("hook broke")

        finder = PostImport(dict.fromkeys(names, hook), lambda *what: failures.append(what))
        finder.install()
        installed.append(finder)
        return calls, failures

    yield install
    for finder in installed:
        sys.meta_path.remove(finder)


def test_a_hook_that_breaks_is_reported_and_the_import_goes_on(modules, hooked):
    modules("one_d", "value = 4")
    _, failures = hooked("one_d", fails=("one_d",))
    assert importlib.import_module("one_d").value == 4
    ((name, error),) = failures
    assert (name, str(error)) == ("one_d", "hook broke")


def test_a_module_that_fails_to_import_can_be_tried_again(modules, hooked):
    modules("one_e", "raise ValueError('first time')")
    calls, _ = hooked("one_e")
    with pytest.raises(ValueError, match="first time"):
        importlib.import_module("one_e")
    assert calls == []
    modules("one_e", "value = 55555")
    assert importlib.import_module("one_e").value == 55555
    assert calls == [("one_e", True)]
