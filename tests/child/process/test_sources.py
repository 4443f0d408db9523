"""Which bytes run: in this process, with everything put back afterwards."""

import importlib
import importlib.util
import inspect
import io
import linecache
import os
import runpy
import sys
import threading
from importlib.machinery import SourceFileLoader

import pytest

from trainperf.child.process.sources import Overlay, install


@pytest.fixture
def laid_over(tmp_path, monkeypatch):
    """Install an overlay of file names to texts; what it wraps is unwrapped at the end."""
    for owner, name in (
        (SourceFileLoader, "get_data"),
        (SourceFileLoader, "path_stats"),
        (io, "open_code"),
        (linecache, "updatecache"),
        (sys, "excepthook"),
        (threading, "excepthook"),
    ):
        monkeypatch.setattr(owner, name, getattr(owner, name))
    monkeypatch.setattr(sys, "argv", ["pytest"])
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    before, ran = set(sys.modules), []

    def lay(**texts):
        overlay = {}
        for number, (name, text) in enumerate(texts.items()):
            kept = tmp_path / f"kept-{number}"
            kept.write_bytes(text)
            overlay[str(tmp_path / f"{name}.py")] = str(kept)
        install(overlay, ran.append)
        importlib.invalidate_caches()
        return ran

    yield lay
    for name in set(sys.modules) - before:
        del sys.modules[name]
    linecache.clearcache()


@pytest.fixture
def overlay(tmp_path, monkeypatch):
    monkeypatch.setattr(linecache, "updatecache", linecache.updatecache)
    (tmp_path / "code").mkdir()
    path = tmp_path / "code" / "train.py"
    path.write_text("original")
    (tmp_path / "kept").write_text("patched")
    return Overlay({str(path): str(tmp_path / "kept")}, lambda path: None)


def test_nothing_is_wrapped_where_nothing_is_patched():
    before = (SourceFileLoader.get_data, io.open_code, sys.excepthook, list(sys.path_hooks))
    install({})
    assert before == (SourceFileLoader.get_data, io.open_code, sys.excepthook, sys.path_hooks)


@pytest.mark.parametrize(
    "disturb",
    [
        lambda module: linecache.checkcache(),
        lambda module: linecache.clearcache(),
        lambda module: linecache.updatecache(module.__file__, vars(module)),
        lambda module: linecache.lazycache(module.__file__, vars(module)),
    ],
    ids=["check", "clear", "update", "lazy"],
)
def test_patched_lines_are_seen_whatever_happens_to_the_cache(laid_over, tmp_path, disturb):
    (tmp_path / "over_c.py").write_text("value = 1\n")
    laid_over(over_c=b"import os\ndef f():\n    return 'patched'")
    module = importlib.import_module("over_c")
    for _ in range(2):
        assert inspect.getsource(module.f) == "def f():\n    return 'patched'\n"
        disturb(module)
        linecache.checkcache()


def test_bytes_that_cannot_be_read_fail_rather_than_run_the_users(laid_over, tmp_path):
    (tmp_path / "over_d.py").write_text("value = 1\n")
    laid_over(over_d=b"value = 2")
    (tmp_path / "kept-0").unlink()
    with pytest.raises(FileNotFoundError):
        importlib.import_module("over_d")
    with pytest.raises(FileNotFoundError):
        runpy.run_path(str(tmp_path / "over_d.py"))


def test_io_open_is_pythons_own_but_while_a_traceback_is_printed(laid_over, tmp_path, capsys):
    (tmp_path / "over_g.py").write_text("x = 1\n")
    laid_over(over_g=b"\n\ndef f():\n    1 / 0  # patched\n")
    module = importlib.import_module("over_g")
    try:
        module.f()
    except ZeroDivisionError as error:
        sys.excepthook(type(error), error, error.__traceback__)
    assert "    1 / 0  # patched" in capsys.readouterr().err
    assert io.open is open


def test_a_file_opened_as_code_has_the_patched_bytes(laid_over, tmp_path):
    path = tmp_path / "over_h.py"
    path.write_text("x = 1\n")
    laid_over(over_h=b"x = 2")
    with io.open_code(str(path)) as file:
        assert (type(file), file.read()) == (io.BufferedReader, b"x = 2")
    assert path.read_text() == "x = 1\n"
    with io.open_code(os.path.realpath(__file__)) as file:
        assert b"test_a_file_opened_as_code" in file.read()
