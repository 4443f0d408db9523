"""Text that is laid over a user's file runs in its place, and nowhere else."""

from __future__ import annotations

import os

import pytest

from end_to_end.conftest import UNPATCHED
from kit.processes import events, native, observed, python

pytestmark = pytest.mark.usefixtures("nothing_left")


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
