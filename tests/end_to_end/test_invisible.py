"""A program cannot tell that it is observed, nor that its text is laid over another file's."""

from __future__ import annotations

import cProfile
import inspect
import os
import signal
import sys
from pathlib import Path

import pytest

from kit.processes import events, observed, python, script
from trainperf.evidence.events import NoLoop, choose

pytestmark = pytest.mark.usefixtures("nothing_left")

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
    "executable": sys.executable,
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
    "dont_write_bytecode": sys.dont_write_bytecode,
    "warnoptions": sys.warnoptions,
    "filters": [str(one) for one in warnings.filters],
    "cwd": os.getcwd(),
    "umask": os.umask(0o22),
    "stdin": [sys.stdin.encoding, sys.stdin.isatty()],
    "stdout": [sys.stdout.encoding, sys.stdout.isatty(), sys.stdout.line_buffering],
    "stderr": [sys.stderr.encoding, sys.stderr.isatty()],
    "trace": [sys.gettrace(), sys.getprofile(), sys.getrecursionlimit()],
    "gc": [gc.isenabled(), gc.get_threshold()],
    "threads": [thread.name for thread in threading.enumerate()],
    "handlers": [str(signal.getsignal(n)) for n in (1, 2, 3, 10, 12, 13, 15, 17, 18)],
    "blocked": [int(n) for n in signal.pthread_sigmask(signal.SIG_BLOCK, [])],
    "leader": [os.getpid() == os.getsid(0), os.getpid() == os.getpgid(0)],
}
print(json.dumps(seen, indent=1))
warnings.warn("careful")
warnings.warn("the caller's", stacklevel=2)
"""


@pytest.mark.parametrize("flags", ["", "-O", "-u", "-P", "-s", "-B", "-X utf8", "-W always"])
def test_a_script_sees_nothing_else(same, flags):
    words = (*flags.split(), "train.py", "--epochs", "3", "--", "-m")
    same(python(*words), {"train.py": LOOK})


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
    before = f"{first}raise SystemExit('the text of the file ran')\n".encode()
    same(("./train",), {"train": first + LOOK}, before=before)


def test_a_module_sees_nothing_else(same):
    same(
        python("-m", "package.train", "--epochs", "3"),
        {"package/train.py": LOOK, "package/__init__.py": "import package.other"},
        {"package/other.py": ""},
    )


def test_a_folder_sees_nothing_else(same):
    same(python("folder", "x"), {"folder/__main__.py": LOOK})


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
    ends(same, text, importing)


def ends(same, text: str | bytes, importing: bool) -> None:
    """Compare how a text ends that fails, as the script or in a module of it."""
    if importing:
        same(python("train.py"), {"module.py": text}, {"train.py": "import module"}, status=1)
    else:
        same(python("train.py"), {"train.py": text}, status=1)


# ------------------------------------------------------------------------------ imports


def test_modules_packages_and_namespaces_are_as_they_were(same):
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


def test_every_way_of_running_a_file_runs_its_text(same):
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
def test_a_profiler_that_runs_the_script_runs_its_text(same):
    same(
        python("-m", "cProfile", "-o", "/dev/null", "train.py", "x"),
        {"train.py": "import sys\nprint(sys.argv, __file__)"},
    )


def test_the_users_own_pythonpath_stays_in_its_order(same, work):
    paths = os.pathsep.join(str(work / name) for name in ("first", "second"))
    same(
        python("train.py"),
        {"train.py": "import sys, chosen\nprint(chosen.NAME, sys.path)"},
        {f"{name}/chosen.py": f"NAME = {name!r}" for name in ("first", "second")},
        env={"PYTHONPATH": paths},
    )


def test_no_module_of_ours_shadows_one_of_the_users(same):
    names = {path.stem for path in Path("src/trainperf/child").glob("*.py")} - {"__init__"}
    names |= {"loop", "keras", "tensorflow", "recorder", "observer", "child", "bootstrap"}
    imports = "\n".join(f"import {name}" for name in sorted(names))
    own = {f"{name}.py": f"print('the own {name}')" for name in names}
    same(python("train.py"), {"train.py": imports}, own)


SHADOWING = ["random", "json", "tempfile", "typing", "statistics", "queue", "signal", "copy", "ast"]
"""Modules that trainperf imports in the process; some of them frameworks need as well."""


@pytest.mark.parametrize("where", ["beside it", "PYTHONPATH", "-m"])
def test_modules_of_the_users_that_are_named_as_standard_ones_are_theirs(same, work, where):
    folder = "s/" if where == "PYTHONPATH" else ""
    own = {f"{folder}{name}.py": f"OWN = 'own {name}'" for name in SHADOWING}
    used = [f"import {name}; print({name}.OWN)" for name in SHADOWING]
    recording = same(
        python("-m", "train") if where == "-m" else python("train.py"),
        {"train.py": "\n".join([*used, "import string; print(vars(string).get('digits'))"])},
        {**own, f"{folder}string/__init__.py": ""},
        env={"PYTHONPATH": str(work / "s")} if folder else None,
    )
    assert events(recording, "hello")
    assert not events(recording, "failed")


@pytest.mark.parametrize("raised", ["ValueError('broken site')", "ImportError('broken site')"])
def test_an_error_in_the_users_own_sitecustomize_is_as_it_was(same, work, raised):
    recording = same(
        python("train.py"),
        {"train.py": "print('went on')"},
        {"s/sitecustomize.py": f"raise {raised}"},
        env={"PYTHONPATH": str(work / "s")},
    )
    assert "broken site" in recording.output_tail
    assert events(recording, "hello")


def test_the_import_system_finds_what_it_found(same):
    same(
        python("train.py"),
        {"tensorflow.py": "name = 'the own one'\nprint(__spec__, __loader__)"},
        {
            "keras/__init__.py": "x = 1",
            "keras/src/__init__.py": "y = 2",
            "train.py": """
                import importlib, importlib.util, inspect, pkgutil
                import keras, tensorflow
                print(keras.__spec__, keras.__loader__.__class__, keras.__file__)
                print(tensorflow.__spec__.loader.__class__, inspect.getsource(tensorflow))
                print(importlib.util.find_spec("tensorflow").origin, vars(tensorflow).keys())
                print(importlib.reload(tensorflow).name)
                print(pkgutil.get_data("keras", "src/__init__.py"))
                print(importlib.util.find_spec("keras.src.trainers"))
                print([m.name for m in pkgutil.iter_modules(keras.__path__)])
            """,
        },
    )


def test_a_missing_framework_is_missing_in_the_same_words(same):
    text = """
        import sys
        sys.path[:] = [entry for entry in sys.path if "site-packages" not in entry]
        import importlib.util
        print(importlib.util.find_spec("tensorflow"))
        try:
            import tensorflow
        except ImportError as error:
            print(type(error), error, error.name, error.path)
        import tensorflow.keras
    """
    same(python("train.py"), {"train.py": text}, status=1)


def test_lazy_loading_of_a_hooked_module_works(same):
    text = """
        import importlib.util, sys
        spec = importlib.util.find_spec("tensorflow")
        spec.loader = importlib.util.LazyLoader(spec.loader)
        module = importlib.util.module_from_spec(spec)
        sys.modules["tensorflow"] = module
        spec.loader.exec_module(module)
        print("not yet")
        print(module.value)
    """
    own = {"tensorflow.py": "print('loaded')\nvalue = 3"}
    same(python("train.py"), {"train.py": text}, own)


# ------------------------------------------------------------------------- other processes


@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
@pytest.mark.parametrize("command", [("train.py",), ("-m", "package.train"), ("folder",)])
def test_children_of_multiprocessing_start_and_end_as_they_did(same, method, command):
    file = {"train.py": "train.py", "-m": "package/train.py", "folder": "folder/__main__.py"}
    text = f"""
        import multiprocessing, sys
        from helper import work
        class Sample:
            def __init__(self, n):
                self.n = n
        def own(sample):
            boot = [path for path in sys.path if "boot" in path]
            return sample.n, __name__.strip("_mp"), __file__, sys.argv, str(__spec__), boot
        if __name__ == "__main__":
            context = multiprocessing.get_context({method!r})
            with context.Pool(2) as pool:
                print(pool.map(work, range(3)))
                if "folder" not in __file__:
                    print(pool.map(own, [Sample(n) for n in range(3)]))
            child = context.Process(target=sys.exit, args=(9,))
            child.start()
            child.join()
            print(child.exitcode)
    """
    helper = "folder/helper.py" if command == ("folder",) else "helper.py"
    laid = {file[command[0]]: text, helper: "def work(n):\n    return n + 1, __file__"}
    same(python(*command), laid)


def test_scripts_that_a_launcher_starts_are_as_they_were(same):
    launch = """
        import os, subprocess, sys
        for rank in range(2):
            subprocess.run(
                [sys.executable, "-u", "train.py", "--rank", str(rank)],
                env={**os.environ, "RANK": str(rank)},
            )
        print(subprocess.run(["sh", "-c", "echo shell; exit 3"], capture_output=True))
    """
    recording = same(python("launch.py"), {"train.py": LOOK}, {"launch.py": launch})
    assert len(events(recording, "patched")) == 2


def test_a_shell_script_may_start_the_training(same):
    shell = 'echo start\n"$PYTHON" train.py "$@"\necho end $?'
    text = "import sys\nprint(sys.argv)"
    env = {"PYTHON": sys.executable}
    recording = same(("sh", "start.sh", "a b"), {"train.py": text}, {"start.sh": shell}, env=env)
    assert len(events(recording, "hello")) == 1


def test_a_forked_child_writes_nothing_into_its_parents_record(same):
    text = """
        import os, sys
        pid = os.fork()
        if pid == 0:
            print("child", flush=True)
            os._exit(4)
        print("parent", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    """
    recording = same(python("train.py"), {}, {"train.py": text})
    (leader,) = recording.events
    assert [event["e"] for event in recording.events[leader]] == ["hello", "exit"]


# -------------------------------------------------------------------------------- ends


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

def hook(kind, error, trace):
    import traceback
    print("own hook", kind.__name__, len(traceback.extract_tb(trace)))

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
        "import sys; sys.excepthook = hook; deep(3)",
        "print(repr(os.sys.stdin.read()), input('more? '))",
    ],
)
@pytest.mark.parametrize("importing", [False, True])
def test_tracebacks_show_the_lines_that_ran(same, last, importing):
    ends(same, FAILS + last, importing)


def test_a_traceback_through_an_import_we_hook_is_the_very_same(same):
    failing = {"tensorflow/__init__.py": "raise ImportError('libcudart.so.12: cannot open')"}
    same(python("train.py"), failing, {"train.py": "import tensorflow as tf"}, status=1)


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("print('x')", 0),
        ("print('x')\nraise SystemExit(3)", 3),
        ("raise SystemExit(255)", 255),
        ("import atexit, os\natexit.register(print, 'never')\nos._exit(7)", 7),
        ("import os\nprint('out', flush=True)\nos.kill(os.getpid(), 15)", -signal.SIGTERM),
        ("import os\nos.kill(os.getpid(), 2)\nprint('never')", -signal.SIGINT),
    ],
)
def test_the_exit_status_is_the_scripts(same, text, status):
    same(python("train.py"), {"train.py": text}, status=status)


THREADS = """
import atexit, threading, time
for number in range(3):
    atexit.register(lambda number=number: print(number, "__file__" in globals(), __name__))
def late():
    time.sleep(0.2)
    print("thread", "__file__" in globals())
    return [] + 3  # the line
threading.Thread(target=late).start()
print("end")
"""
MOVES = """
import os, sys
os.makedirs("elsewhere", exist_ok=True)
os.chdir("elsewhere")
print(os.getcwd(), os.listdir(), __file__, sys.path[0])
"""
WRITES = """
import os, sys
os.write(1, b"raw\\n")
print("ü" * 50, file=sys.stderr)
for number in range(100):
    print(number, end=" ")
sys.stdout.close()
sys.stderr.close()
"""
CLOSES = """
import atexit, os, sys, time
os.closerange(3, 4096)
files = [open(f"own-{n}.txt", "w+") for n in range(40)]
time.sleep(0.3)
pid = os.fork()
if pid == 0:
    os._exit(0)
os.waitpid(pid, 0)
@atexit.register
def look():
    print([os.path.getsize(f"own-{n}.txt") for n in range(40)])
    print([os.write(file.fileno(), b"x") for file in files])
"""


@pytest.mark.parametrize("text", [THREADS, MOVES, WRITES, CLOSES])
def test_what_a_script_does_with_its_process_comes_to_the_same(same, text):
    recording = same(python("train.py"), {"train.py": text})
    assert len(events(recording, "exit")) == 1


def test_nothing_is_written_beside_the_script(tmp_path, work):
    script(work, "print('hello')")
    observed(python("script.py"), work, tmp_path / "run")
    assert [path.name for path in work.iterdir()] == ["script.py"]


@pytest.mark.parametrize("flag", ["-I", "-E", "-S"])
def test_an_interpreter_that_ignores_us_runs_and_is_noticed(same, flag):
    text = "import sys\nprint(sys.argv, sys.flags)\nsys.exit(4)"
    recording = same(python(flag, "train.py"), {}, {"train.py": text}, status=4)
    assert recording.events == {}
    with pytest.raises(NoLoop) as caught:
        choose(recording)
    assert "-I" in caught.value.hint
