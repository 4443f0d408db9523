"""A program under observation cannot tell: each test runs it with and without us."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

import pytest

from kit.processes import events, native, observed, python, script
from trainperf.evidence.events import NoLoop, choose

pytestmark = pytest.mark.usefixtures("nothing_left")


def addresses(text: str) -> str:
    return re.sub(r"at 0x[0-9a-f]+", "at 0x", text)


@pytest.fixture
def same(tmp_path: Path):
    """Run a command both ways; return the recording after comparing output and status."""

    def compare(command: tuple[str, ...], cwd: Path | None = None, env=None, status: int = 0):
        folder = cwd or tmp_path
        alone = native(command, folder, env)
        with_us = observed(command, folder, tmp_path / "run", env)
        assert addresses(with_us.output_tail) == addresses(alone.stdout)
        assert with_us.exit_status == alone.returncode == status
        return with_us

    return compare


LOOK = """
import gc, json, os, signal, sys, threading, warnings

seen = {
    "argv": sys.argv,
    "orig_argv": sys.orig_argv,
    "executable": sys.executable,
    "file": __file__,
    "name": __name__,
    "spec": str(__spec__),
    "package": __package__,
    "globals": sorted(globals()),
    "path": sys.path,
    "path_hooks": [str(hook) for hook in sys.path_hooks if "at 0x" not in str(hook)],
    "flags": str(sys.flags),
    "dont_write_bytecode": sys.dont_write_bytecode,
    "warnoptions": sys.warnoptions,
    "filters": [str(one) for one in warnings.filters],
    "cwd": os.getcwd(),
    "umask": os.umask(0o22),
    "stdin": [sys.stdin.encoding, sys.stdin.isatty()],
    "stdout": [sys.stdout.encoding, sys.stdout.isatty(), sys.stdout.line_buffering],
    "stderr": [sys.stderr.encoding, sys.stderr.isatty()],
    "handlers": [str(signal.getsignal(n)) for n in (1, 2, 3, 10, 12, 13, 15, 17, 18)],
    "blocked": [int(n) for n in signal.pthread_sigmask(signal.SIG_BLOCK, [])],
    "threads": [thread.name for thread in threading.enumerate()],
    "gc": [gc.isenabled(), gc.get_threshold()],
    "trace": [sys.gettrace(), sys.getprofile(), sys.getrecursionlimit()],
    "leader": [os.getpid() == os.getsid(0), os.getpid() == os.getpgid(0)],
}
print(json.dumps(seen, indent=1))
"""


def test_everything_a_script_can_look_at_is_the_same(same, tmp_path):
    script(tmp_path, LOOK)
    same(python("script.py", "--epochs", "3", "--", "-m"))


def test_everything_a_module_can_look_at_is_the_same(same, tmp_path):
    script(tmp_path, LOOK, "package/train.py")
    script(tmp_path, "", "package/__init__.py")
    same(python("-m", "package.train", "--epochs", "3"))


def test_everything_a_folder_can_look_at_is_the_same(same, tmp_path):
    script(tmp_path, LOOK, "folder/__main__.py")
    same(python("folder", "x"))


@pytest.mark.parametrize("flag", ["-O", "-B", "-u", "-X utf8", "-W error", "-P", "-s"])
def test_flags_of_the_interpreter_keep_their_meaning(same, tmp_path, flag):
    script(tmp_path, LOOK)
    same(python(*flag.split(), "script.py"))


def test_the_users_own_pythonpath_stays_in_its_order(same, tmp_path):
    for name in ("first", "second"):
        script(tmp_path, f"NAME = {name!r}", f"{name}/chosen.py")
    script(tmp_path, "import sys, chosen\nprint(chosen.NAME, sys.path)")
    paths = os.pathsep.join(str(tmp_path / name) for name in ("first", "second"))
    same(python("script.py"), env={"PYTHONPATH": paths})


def test_no_module_of_ours_shadows_one_of_the_users(same, tmp_path):
    names = [path.stem for path in Path("src/trainperf/child").glob("*.py")]
    names += ["loop", "keras", "tensorflow", "recorder", "observer", "child", "bootstrap"]
    for name in set(names) - {"__init__"}:
        script(tmp_path, f"print('the own {name}')", f"{name}.py")
    imports = "\n".join(f"import {name}" for name in sorted(set(names) - {"__init__"}))
    script(tmp_path, imports)
    same(python("script.py"))


SHADOWING = ["random", "json", "tempfile", "typing", "statistics", "queue", "signal", "copy", "ast"]
"""Modules that trainperf imports in the process; some of them frameworks need as well."""


@pytest.mark.parametrize("where", ["beside it", "PYTHONPATH", "-m"])
def test_modules_of_the_users_that_are_named_as_standard_ones_are_theirs(same, tmp_path, where):
    folder = tmp_path / "s" if where == "PYTHONPATH" else tmp_path
    for name in SHADOWING:
        script(tmp_path, f"OWN = 'own {name}'", f"{folder.relative_to(tmp_path)}/{name}.py")
    script(tmp_path, "", f"{folder.relative_to(tmp_path)}/string/__init__.py")
    used = [f"import {name}; print({name}.OWN)" for name in SHADOWING]
    script(tmp_path, "\n".join([*used, "import string; print(vars(string).get('digits'))"]))
    command = python("-m", "script") if where == "-m" else python("script.py")
    recording = same(command, env={"PYTHONPATH": str(folder)} if folder != tmp_path else None)
    assert events(recording, "hello")
    assert not events(recording, "failed")


@pytest.mark.parametrize("raised", ["ValueError('broken site')", "ImportError('broken site')"])
def test_an_error_in_the_users_own_sitecustomize_is_as_it_was(same, tmp_path, raised):
    script(tmp_path, f"raise {raised}", "s/sitecustomize.py")
    script(tmp_path, "print('went on')")
    env = {"PYTHONPATH": str(tmp_path / "s")}
    recording = same(python("script.py"), env=env)
    assert "broken site" in recording.output_tail
    assert events(recording, "hello")


@pytest.mark.parametrize("status", [0, 1, 3, 255])
def test_the_exit_status_is_the_scripts(same, tmp_path, status):
    script(tmp_path, f"import sys\nprint('out')\nsys.exit({status})")
    same(python("script.py"), status=status)


def test_a_message_as_exit_status_goes_to_stderr(same, tmp_path):
    script(tmp_path, "import sys\nsys.exit('no data')")
    same(python("script.py"), status=1)


def test_os_exit_skips_what_it_always_skips(same, tmp_path):
    script(tmp_path, "import atexit, os\natexit.register(print, 'never')\nos._exit(7)")
    same(python("script.py"), status=7)


def test_a_signal_is_the_scripts_own(same, tmp_path):
    script(tmp_path, "import os\nprint('out', flush=True)\nos.kill(os.getpid(), 15)")
    same(python("script.py"), status=-signal.SIGTERM)


FAILS = """
def deep(n):
    if n:
        deep(n - 1)
    else:
        try:
            {}["key"]
        except KeyError as error:
            raise ValueError("größer") from error

deep(3)
"""


def test_a_traceback_is_the_very_same(same, tmp_path):
    script(tmp_path, FAILS)
    same(python("script.py"), status=1)


def test_a_traceback_of_a_module_that_fails_to_import_is_the_very_same(same, tmp_path):
    script(tmp_path, "import json\nimport broken", "script.py")
    script(tmp_path, "import not_there_at_all", "broken.py")
    same(python("script.py"), status=1)


def test_a_traceback_through_an_import_we_hook_is_the_very_same(same, tmp_path):
    script(tmp_path, "raise ImportError('libcudart.so.12: cannot open')", "tensorflow/__init__.py")
    script(tmp_path, "import tensorflow as tf")
    same(python("script.py"), status=1)


def test_a_missing_framework_is_missing_in_the_same_words(same, tmp_path):
    script(
        tmp_path,
        """
        import sys
        sys.path[:] = [entry for entry in sys.path if "site-packages" not in entry]
        import importlib.util
        print(importlib.util.find_spec("tensorflow"))
        try:
            import tensorflow
        except ImportError as error:
            print(type(error), error, error.name, error.path)
        import tensorflow.keras
        """,
    )
    same(python("script.py"), status=1)


def test_chained_and_grouped_tracebacks_are_the_very_same(same, tmp_path):
    script(
        tmp_path,
        """
        def one():
            raise OSError("first")
        errors = []
        for function in (one, lambda: 1 / 0):
            try:
                function()
            except Exception as error:
                errors.append(error)
        raise ExceptionGroup("both", errors)
        """,
    )
    same(python("script.py"), status=1)


def test_the_users_own_excepthook_is_called(same, tmp_path):
    script(
        tmp_path,
        """
        import sys, traceback
        def hook(kind, error, trace):
            print("own hook", kind.__name__, len(traceback.extract_tb(trace)))
        sys.excepthook = hook
        raise RuntimeError("x")
        """,
    )
    same(python("script.py"), status=1)


def test_atexit_functions_run_in_their_order(same, tmp_path):
    script(
        tmp_path,
        """
        import atexit, threading, time
        for number in range(3):
            atexit.register(print, "exit", number)
        threading.Thread(target=lambda: (time.sleep(0.1), print("thread"))).start()
        print("end")
        """,
    )
    same(python("script.py"))


def test_classes_of_main_pickle_as_they_did(same, tmp_path):
    script(
        tmp_path,
        """
        import pickle
        class Batch:
            pass
        def collate(x):
            return x
        text = pickle.dumps([Batch(), collate], protocol=0)
        print(text)
        print(pickle.loads(text)[1](5))
        """,
    )
    same(python("script.py"))


@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
def test_multiprocessing_children_start_and_end_as_they_did(same, tmp_path, method):
    script(
        tmp_path,
        f"""
        import multiprocessing, os, sys
        class Sample:
            def __init__(self, n):
                self.n = n
        def work(sample):
            return sample.n, sys.argv, __name__.strip("_mp"), [p for p in sys.path if "boot" in p]
        if __name__ == "__main__":
            context = multiprocessing.get_context({method!r})
            with context.Pool(2) as pool:
                print(pool.map(work, [Sample(n) for n in range(4)]))
            child = context.Process(target=sys.exit, args=(9,))
            child.start()
            child.join()
            print(child.exitcode)
        """,
    )
    recording = same(python("script.py"))
    assert len(recording.events) >= 1


def test_a_forked_child_writes_nothing_into_its_parents_record(same, tmp_path):
    script(
        tmp_path,
        """
        import os, sys
        pid = os.fork()
        if pid == 0:
            print("child", flush=True)
            os._exit(4)
        print("parent", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        """,
    )
    recording = same(python("script.py"))
    (leader,) = recording.events
    assert [event["e"] for event in recording.events[leader]] == ["hello", "exit"]


def test_another_folder_and_relative_paths_work_as_they_did(same, tmp_path):
    script(
        tmp_path,
        """
        import os, sys
        os.makedirs("elsewhere", exist_ok=True)
        os.chdir("elsewhere")
        print(os.getcwd(), os.listdir(), __file__, sys.path[0])
        """,
    )
    recording = same(python("script.py"))
    assert [event["e"] for event in events(recording, "exit")] == ["exit"]


def test_a_script_may_close_its_output(same, tmp_path):
    script(
        tmp_path,
        """
        import sys
        print("said", flush=True)
        sys.stdout.close()
        sys.stderr.close()
        """,
    )
    same(python("script.py"))


def test_a_script_may_close_every_file_descriptor_and_open_its_own(same, tmp_path):
    script(
        tmp_path,
        """
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
        """,
    )
    same(python("script.py"))
    assert {path.read_text() for path in tmp_path.glob("own-*.txt")} == {"x"}


def test_input_is_at_its_end(same, tmp_path):
    script(tmp_path, "import sys\nprint(repr(sys.stdin.read()))\nprint(input('more? '))")
    same(python("script.py"), status=1)


def test_bytes_and_long_output_come_through(same, tmp_path):
    script(
        tmp_path,
        """
        import os, sys
        os.write(1, b"raw\\n")
        print("ü" * 50, file=sys.stderr)
        for number in range(100):
            print(number, end=" ")
        """,
    )
    same(python("script.py"))


def test_warnings_are_printed_for_the_same_lines(same, tmp_path):
    script(tmp_path, "import warnings\nwarnings.warn('careful')\nwarnings.warn('twice')")
    same(python("-W", "always", "script.py"))


def test_nothing_is_written_beside_the_script(tmp_path):
    work = tmp_path / "work"
    script(work, "print('hello')")
    observed(python("script.py"), work, tmp_path / "run")
    assert [path.name for path in work.iterdir()] == ["script.py"]


def test_a_subprocess_of_another_program_is_left_alone(same, tmp_path):
    script(
        tmp_path,
        """
        import subprocess
        print(subprocess.run(["sh", "-c", "echo shell; exit 3"], capture_output=True))
        """,
    )
    same(python("script.py"))


def test_a_shell_script_may_start_the_training(same, tmp_path):
    script(tmp_path, "import sys\nprint(sys.argv)", "train.py")
    script(tmp_path, 'echo start\n"$PYTHON" train.py "$@"\necho end $?', "start.sh")
    recording = same(("sh", "start.sh", "a b"), env={"PYTHON": python()[0]})
    assert len(events(recording, "hello")) == 1


@pytest.mark.parametrize("flag", ["-I", "-E", "-S"])
def test_an_interpreter_that_ignores_us_runs_and_is_noticed(same, tmp_path, flag):
    script(tmp_path, "import sys\nprint(sys.argv, sys.flags)\nsys.exit(4)")
    recording = same(python(flag, "script.py"), status=4)
    assert recording.events == {}
    with pytest.raises(NoLoop) as caught:
        choose(recording)
    assert "-I" in caught.value.hint


def test_the_import_system_finds_what_it_found(same, tmp_path):
    script(tmp_path, "x = 1", "keras/__init__.py")
    script(tmp_path, "y = 2", "keras/src/__init__.py")
    script(tmp_path, "name = 'tensorflow stand-in'", "tensorflow.py")
    script(
        tmp_path,
        """
        import importlib, importlib.util, inspect, pkgutil
        import keras, tensorflow
        print(keras.__spec__, keras.__loader__.__class__, keras.__file__)
        print(tensorflow.__spec__.loader.__class__, inspect.getsource(tensorflow))
        print(importlib.util.find_spec("tensorflow").origin)
        print(importlib.reload(tensorflow).name)
        print(pkgutil.get_data("keras", "src/__init__.py"))
        print(importlib.util.find_spec("keras.src.trainers"))
        print([m.name for m in pkgutil.iter_modules(keras.__path__)])
        """,
    )
    same(python("script.py"))


def test_a_framework_without_a_version_is_no_harm(same, tmp_path):
    script(tmp_path, "print('not the real one')", "tensorflow.py")
    script(tmp_path, "import tensorflow\nprint(vars(tensorflow).keys())")
    same(python("script.py"))


def test_lazy_loading_of_a_hooked_module_works(same, tmp_path):
    script(tmp_path, "print('loaded')\nvalue = 3", "tensorflow.py")
    script(
        tmp_path,
        """
        import importlib.util, sys
        spec = importlib.util.find_spec("tensorflow")
        spec.loader = importlib.util.LazyLoader(spec.loader)
        module = importlib.util.module_from_spec(spec)
        sys.modules["tensorflow"] = module
        spec.loader.exec_module(module)
        print("not yet")
        print(module.value)
        """,
    )
    same(python("script.py"))
