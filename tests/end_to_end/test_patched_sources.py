"""A program that runs patched sources cannot tell them from its own.

Each test runs the patched text natively, as if it stood in the user's file, then puts
the user's text back and runs that under observation with the patched bytes laid over it.
"""

from __future__ import annotations

import cProfile
import inspect
import os
import re
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from kit.processes import events, native, observed, python

pytestmark = pytest.mark.usefixtures("nothing_left")

TAG = sys.implementation.cache_tag
UNPATCHED = b"raise SystemExit('the text of the file ran')\n"


def addresses(text: str) -> str:
    return re.sub(r"at 0x[0-9a-f]+", "at 0x", text)


def caches(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*.pyc")}


@pytest.fixture
def work(tmp_path, monkeypatch):
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.fixture
def same(tmp_path, work):
    """Run `patched` (file name → text) natively and laid over other files; compare."""

    def compare(command, patched, others=(), cwd=None, status=0, before=UNPATCHED):
        patched = {name: as_bytes(text) for name, text in patched.items()}
        for name, text in (*dict(others).items(), *patched.items()):
            path = work / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(as_bytes(text))
            path.chmod(0o755)
        alone = native(command, cwd or work)
        compiled = caches(work)
        for name in compiled:
            (work / name).unlink()
        for name in patched:
            (work / name).write_bytes(before)
        stamps = {name: os.stat(work / name) for name in patched}
        sources = {str(work / name): text for name, text in patched.items()}
        with_us = observed(command, cwd or work, tmp_path / "run", sources=sources)
        output = (tmp_path / "run" / "output.log").read_text()
        assert addresses(output) == addresses(alone.stdout)
        assert with_us.exit_status == alone.returncode == status
        for name, stamp in stamps.items():
            assert (work / name).read_bytes() == before
            assert os.stat(work / name).st_mtime_ns == stamp.st_mtime_ns
        assert caches(work) == compiled - {
            str(Path(name).parent / "__pycache__" / f"{Path(name).stem}.{TAG}.pyc")
            for name in patched
        }
        assert {event["file"] for event in events(with_us, "patched")} == set(sources)
        return with_us

    return compare


def as_bytes(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else dedent(text).encode()


LOOK = """
import gc, inspect, json, os, pickle, signal, sys, threading, traceback, warnings

class Batch:
    def size(self):
        return 3

def caller():
    try:
        return str(sys._getframe(2))
    except ValueError as error:
        return str(error)

main = sys.modules[__name__]
seen = {
    "names": list(globals()),
    "argv": sys.argv,
    "orig_argv": sys.orig_argv,
    "path": sys.path,
    "meta_path": len([finder for finder in sys.meta_path if "PostImport" not in str(finder)]),
    "path_hooks": [str(hook) for hook in sys.path_hooks],
    "importers": {
        path: str(importer)
        for path, importer in sys.path_importer_cache.items()
        if "trainperf" not in path and os.path.basename(os.getcwd()) in path
    },
    "runpy": "runpy" in sys.modules,
    "file": __file__,
    "cached": __cached__,
    "name": __name__,
    "spec": str(__spec__),
    "package": __package__,
    "doc": __doc__,
    "loader": [str(type(__loader__)), {k: str(v) for k, v in vars(__loader__).items()}],
    "source": __loader__.get_source(__loader__.name),
    "builtins": str(__builtins__),
    "annotations": list(globals().get("__annotations__", ["none"])),
    "main": [str(type(main)), main.__dict__ is globals(), "__main__" in sys.modules],
    "pickled": pickle.dumps([Batch(), caller], 0).decode(),
    "unpickled": pickle.loads(pickle.dumps(Batch())).size(),
    "class source": inspect.getsource(Batch),
    "module source": inspect.getsource(main),
    "file of source": inspect.getsourcefile(Batch),
    "code": [caller.__code__.co_filename, caller.__code__.co_firstlineno],
    "caller": caller(),
    "stack": [
        (one.filename, one.lineno, one.code_context) for one in inspect.stack()
    ],
    "frames": traceback.format_stack(),
    "flags": str(sys.flags),
    "trace": [sys.gettrace(), sys.getprofile(), sys.getrecursionlimit()],
    "gc": [gc.isenabled(), gc.get_threshold()],
    "threads": [thread.name for thread in threading.enumerate()],
    "handlers": [str(signal.getsignal(n)) for n in (1, 2, 3, 10, 12, 13, 15, 17, 18)],
}
print(json.dumps(seen, indent=1))
warnings.warn("careful")
warnings.warn("the caller's", stacklevel=2)
"""


@pytest.mark.parametrize("flags", ["", "-O", "-u", "-P", "-B", "-X utf8", "-W always"])
def test_a_script_sees_nothing_else(same, flags):
    same(python(*flags.split(), "train.py", "--epochs", "3"), {"train.py": LOOK})


def test_a_script_named_by_its_full_path_sees_nothing_else(same, work, tmp_path):
    same(python(str(work / "train.py")), {"train.py": LOOK}, cwd=tmp_path)


def test_a_script_named_from_elsewhere_sees_nothing_else(same, work):
    (work / "elsewhere").mkdir()
    same(python("../elsewhere/.././train.py"), {"train.py": LOOK}, cwd=work / "elsewhere")


def test_a_script_reached_by_a_link_sees_nothing_else(same, work):
    (work / "code").mkdir()
    (work / "run.py").symlink_to("code/train.py")
    same(python("run.py"), {"code/train.py": LOOK})


def test_an_executable_script_sees_nothing_else(same):
    first = f"#!{sys.executable}\n"
    same(("./train",), {"train": first + LOOK}, before=first.encode() + UNPATCHED)


def test_a_module_sees_nothing_else(same):
    same(
        python("-m", "package.train", "--epochs", "3"),
        {"package/train.py": LOOK, "package/__init__.py": "import package.other"},
        {"package/other.py": ""},
    )


def test_an_imported_module_sees_nothing_else(same):
    same(python("train.py"), {"looked.py": LOOK}, {"train.py": "import looked"})


@pytest.mark.parametrize("name", ["größe", "ein ordner", "模型"])
def test_paths_of_any_letters_work(same, name):
    same(python(f"{name}/{name}.py"), {f"{name}/{name}.py": LOOK})


TEXT = "# {cookie}\nprint(len('grün'), 'grün')\nimport sys, inspect, linecache\n"
TEXT += "print(ascii(linecache.getline(__file__, 2)))\nraise ValueError('weiß')  # ßßß"


@pytest.mark.parametrize(
    "text",
    [
        TEXT.format(cookie="").encode(),
        TEXT.format(cookie="").encode("utf-8-sig"),
        TEXT.format(cookie="-*- coding: latin-1 -*-").encode("latin-1"),
        TEXT.format(cookie="vim: set fileencoding=cp1252 :").encode("cp1252"),
        TEXT.format(cookie="").replace("\n", "\r\n").encode(),
        b"#!/usr/bin/env python\n" + TEXT.format(cookie="coding: latin-1").encode("latin-1"),
        TEXT.format(cookie="x\x0c y").encode() + b"\n\n",
    ],
    ids=["utf-8", "bom", "latin-1", "cp1252", "crlf", "second line", "form feed"],
)
@pytest.mark.parametrize("importing", [False, True])
def test_encodings_and_ends_of_lines_keep_their_meaning(same, text, importing):
    if importing:
        same(python("train.py"), {"module.py": text}, {"train.py": "import module"}, status=1)
    else:
        same(python("train.py"), {"train.py": text}, status=1)


def test_modules_packages_and_namespaces_are_patched(same):
    same(
        python("train.py"),
        {
            "package/__init__.py": "from .inner import deep\nfrom . import side\nprint(__path__)",
            "package/inner/deep.py": "from ..side import VALUE\nprint('deep', VALUE, __package__)",
            "space/part/model.py": "print(__spec__, __file__, __cached__)",
            "train.py": """
                import package, space.part.model, plain
                print(space.__path__, plain.VALUE)
                import importlib, sys
                print(importlib.reload(package.inner.deep))
            """,
        },
        {"package/inner/__init__.py": "", "package/side.py": "VALUE = 3", "plain.py": "VALUE = 4"},
    )


def test_a_module_that_was_compiled_before_is_patched(same, work):
    (work / "module.py").write_bytes(b"print('compiled before')\n")
    assert native(python("-c", "import module"), work).stdout == "compiled before\n"
    (compiled,) = (work / "__pycache__").iterdir()
    kept, stamp = compiled.read_bytes(), os.stat(work / "module.py")
    recording = observed(
        python("-c", "import module"),
        work,
        work.parent / "run",
        sources={str(work / "module.py"): b"print('patched before')\n"},
    )
    assert recording.output_tail == "patched before\n"
    assert compiled.read_bytes() == kept
    assert os.stat(work / "module.py").st_mtime_ns == stamp.st_mtime_ns
    assert native(python("-c", "import module"), work).stdout == "compiled before\n"


def test_every_way_of_running_a_file_runs_the_patched_text(same):
    same(
        python("start.py"),
        {
            "train.py": """
                import sys
                print(__name__, __file__, __spec__, sys.argv, sys.path[0], __package__)
                print(sorted(globals()))
                VALUE = 3
            """
        },
        {
            "start.py": """
            import importlib.util, os, runpy, sys
            import train
            importlib.reload(train)
            print(runpy.run_path("train.py")["VALUE"])
            print(runpy.run_path(os.path.abspath("train.py"), run_name="__main__")["VALUE"])
            print(runpy.run_module("train", run_name="__main__", alter_sys=True)["VALUE"])
            spec = importlib.util.spec_from_file_location("by_file", "train.py")
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            print(module.VALUE, module.__loader__)
            """
        },
    )


@pytest.mark.skipif(
    "open_code" not in inspect.getsource(cProfile),
    reason="early releases of Python 3.11 read what they profile as any other file",
)
def test_a_profiler_that_runs_the_script_runs_the_patched_text(same):
    same(
        python("-m", "cProfile", "-o", "/dev/null", "train.py", "x"),
        {"train.py": "import sys\nprint(sys.argv, __file__)"},
    )


@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
@pytest.mark.parametrize("command", [("train.py",), ("-m", "package.train")])
def test_children_of_multiprocessing_run_the_patched_text(same, method, command):
    same(
        python(*command),
        {
            "train.py" if command == ("train.py",) else "package/train.py": f"""
            import multiprocessing, sys
            from helper import work
            class Sample:
                def __init__(self, n):
                    self.n = n
            def own(sample):
                return sample.n, __name__.strip("_mp"), __file__, sys.argv, str(__spec__)
            if __name__ == "__main__":
                with multiprocessing.get_context({method!r}).Pool(2) as pool:
                    print(pool.map(work, range(3)))
                    print(pool.map(own, [Sample(n) for n in range(3)]))
            """,
            "helper.py": "def work(n):\n    return n + 1, __file__",
        },
    )


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_children_of_a_folder_run_the_patched_text(same, method):
    same(
        python("folder"),
        {
            "folder/__main__.py": f"""
            import multiprocessing
            from helper import work
            with multiprocessing.get_context({method!r}).Pool(2) as pool:
                print(pool.map(work, range(3)))
            """,
            "folder/helper.py": "def work(n):\n    return n + 1, __file__",
        },
    )


def test_scripts_that_a_launcher_starts_run_the_patched_text(same):
    recording = same(
        python("launch.py"),
        {"train.py": LOOK},
        {
            "launch.py": """
            import os, subprocess, sys
            for rank in range(2):
                subprocess.run(
                    [sys.executable, "-u", "train.py", "--rank", str(rank)],
                    env={**os.environ, "RANK": str(rank)},
                )
            """
        },
    )
    assert len(events(recording, "patched")) == 2


FAILS = """
import os
def deep(n):
    if n:
        deep(n - 1)
    else:
        try:
            {}["key"] + {}["key"]
        except KeyError as error:
            raise ValueError("größer") from error

long_name = 3
"""


@pytest.mark.parametrize(
    "last",
    [
        "deep(3)",
        "deep(600)",
        "(lambda: long_nam)()",
        "long_name.reel",
        "raise ExceptionGroup('both', [OSError('x'), ValueError('y')])",
        "error = ValueError('x'); error.add_note('a note'); raise error",
        "import traceback\ntry: deep(1)\nexcept ValueError: traceback.print_exc(); os._exit(1)",
        "import logging\ntry: deep(1)\nexcept ValueError: logging.exception('x'); os._exit(1)",
        "exec('def f():')",
        "import not_there",
        "raise StopIteration(3)",
        "raise AttributeError",
        "import sys; sys.exit('no data')",
        "import sys; sys.tracebacklimit = 1; deep(3)",
    ],
)
@pytest.mark.parametrize("importing", [False, True])
def test_tracebacks_show_the_patched_lines(same, last, importing):
    text = FAILS + last
    if importing:
        same(python("train.py"), {"module.py": text}, {"train.py": "import module"}, status=1)
    else:
        same(python("train.py"), {"train.py": text}, status=1)


def test_tracebacks_of_threads_show_the_patched_lines(same):
    same(
        python("train.py"),
        {
            "train.py": """
            import threading
            def work():
                return [] + 3  # the line
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
            """
        },
    )


def test_an_interrupted_script_ends_as_it_did(same):
    same(
        python("train.py"),
        {"train.py": "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nprint('never')"},
        status=-2,
    )


@pytest.mark.parametrize("status", [0, 3, 255])
def test_the_exit_status_is_the_scripts(same, status):
    same(python("train.py"), {"train.py": f"print('x')\nraise SystemExit({status})"}, status=status)


def test_what_runs_after_the_script_finds_what_it_found(same):
    same(
        python("train.py"),
        {
            "train.py": """
            import atexit, threading, time
            atexit.register(lambda: print("file" , "__file__" in globals(), __name__))
            def late():
                time.sleep(0.2)
                print("thread", "__file__" in globals())
            threading.Thread(target=late).start()
            """
        },
    )


def test_a_script_that_reads_its_own_file_reads_the_users_text(tmp_path, work):
    (work / "train.py").write_bytes(UNPATCHED)
    recording = observed(
        python("train.py"),
        work,
        tmp_path / "run",
        sources={
            str(work / "train.py"): b"from pathlib import Path\nprint(Path(__file__).read_text())"
        },
    )
    assert recording.output_tail == UNPATCHED.decode() + "\n"


def test_a_file_that_never_ran_is_not_said_to_have_run(tmp_path, work):
    (work / "train.py").write_bytes(b"print('x')")
    (work / "other.py").write_bytes(b"print('y')")
    sources = {str(work / "other.py"): b"print('z')"}
    recording = observed(python("train.py"), work, tmp_path / "run", sources=sources)
    assert recording.output_tail == "x\n"
    assert events(recording, "patched") == []


def test_a_hooked_module_of_the_users_is_patched_as_well(same):
    same(
        python("train.py"),
        {"tensorflow.py": "name = 'the own one'\nprint(__spec__, __loader__)"},
        {
            "train.py": """
            import importlib, inspect, tensorflow
            print(tensorflow.name, inspect.getsource(tensorflow))
            importlib.reload(tensorflow)
            """
        },
    )


AUTOGRAPH = """
import tensorflow as tf

@tf.function
def bounded(x):
    total = tf.constant(0.0)
    for value in x:
        if value > 1.0:
            total += value
        else:
            total -= 1.0
    return total

class Model(tf.Module):
    @tf.function
    def __call__(self, x):
        if tf.reduce_sum(x) > 0:
            y = bounded(x)
        else:
            y = tf.zeros([])
        return y

model = Model()
print(float(model(tf.constant([0.5, 2.0, 3.0]))), float(model(tf.constant([-1.0]))))

@tf.function
def wrong(x):
    if tf.reduce_sum(x) > 0:
        x = tf.reshape(x, [7])
    return x
try:
    wrong(tf.constant([1.0]))
except Exception as error:
    print(str(error).splitlines()[:1], "reshape(x, [7])" in str(error))
"""


@pytest.mark.script
@pytest.mark.parametrize("importing", [False, True])
def test_autograph_converts_the_patched_lines(tmp_path, work, importing):
    name = "model.py" if importing else "train.py"
    original = AUTOGRAPH.replace("total += value", "total += 100.0 * value")
    (work / "train.py").write_text("import model")
    (work / name).write_text(original)
    patched = "import math\n\nimport os\n" + AUTOGRAPH
    recording = observed(
        python("train.py"),
        work,
        tmp_path / "run",
        {"TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONDONTWRITEBYTECODE": "1"},
        sources={str(work / name): patched.encode()},
    )
    assert "4.0 0.0" in recording.output_tail
    assert "True" in recording.output_tail.splitlines()[-1]
    assert recording.exit_status == 0
