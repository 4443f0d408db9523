"""A seeded process repeats itself; what its script seeds by itself is the script's."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

START = """
from types import SimpleNamespace
from trainperf.child import seeding
def failed(what, error): raise SystemExit(f"{what}: {error}")
seeding.install(SEED, SimpleNamespace(failed=failed))
"""


def said(seed: int, source: str, start: str = START) -> str:
    text = start.replace("SEED", str(seed)) + textwrap.dedent(source)
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


PYTHON = "import random; print(random.random(), random.randint(0, 10**9))"
NUMPY = """
    import numpy as np
    print(np.random.rand(), np.random.default_rng().random(), np.random.default_rng().random(),
          np.random.RandomState().rand(), np.random.Generator(np.random.PCG64()).random())
"""


@pytest.mark.parametrize("source", [PYTHON, NUMPY])
def test_two_processes_draw_the_same_numbers_from_one_seed(source: str) -> None:
    assert said(7, source) == said(7, source)
    assert said(7, source) != said(8, source)


def test_generators_made_without_a_seed_differ_from_each_other() -> None:
    drawn = said(7, NUMPY).split()
    assert len(set(drawn)) == len(drawn)


def test_what_was_imported_before_is_seeded_too() -> None:
    before = "import random, numpy.random\n" + START
    assert said(7, NUMPY, before) == said(7, NUMPY, before)
    assert said(7, PYTHON, before) == said(7, PYTHON, before)


def test_a_seed_of_the_script_wins() -> None:
    own = """
        import random, numpy as np
        random.seed(1); np.random.seed(1)
        print(random.random(), np.random.rand(), np.random.default_rng(1).random())
    """
    assert said(7, own) == said(8, own) == said(0, own, start="")


def test_nothing_is_imported_for_it() -> None:
    loaded = "import sys; print([n for n in ('random', 'numpy', 'tensorflow') if n in sys.modules])"
    assert said(7, loaded, start=START) == said(
        7, loaded, start="import trainperf.child.observer\n"
    )
