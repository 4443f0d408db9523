"""Errors of frameworks in one line; the texts are TensorFlow 2.21's."""

import pytest

from trainperf.child.process.process import in_words

XLA = """Graph execution error:

Detected at node PyFunc defined at (most recent call last):
<stack traces unavailable>
Detected unsupported operations when trying to compile graph __inference_one_step_on_data_664[] on \
XLA_CPU_JIT: PyFunc (No registered 'PyFunc' OpKernel for XLA_CPU_JIT devices compatible with node \
{{node PyFunc}}){{node PyFunc}}
The op is created at:
File "train.py", line 7, in <module>
\t [[StatefulPartitionedCall]] [Op:__inference_multi_step_on_iterator_693]"""

TRACED = """in user code:

    File "train.py", line 26, in k  *
        if y>0: z=1

    ValueError: 'z' must also be initialized in the else branch
"""


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (RuntimeError("plain"), "RuntimeError: plain"),
        (RuntimeError(), "RuntimeError: "),
        (ValueError(XLA), "XLA cannot compile PyFunc here"),
        (ValueError(TRACED), "ValueError: 'z' must also be initialized in the else branch"),
    ],
)
def test_the_first_line_that_tells_something_stands_for_all(error, words):
    assert in_words(error) == words
