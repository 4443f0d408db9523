"""A seeded process repeats itself; what its script seeds by itself is the script's."""

from __future__ import annotations

import subprocess
import sys
import textwrap

START = """
from types import SimpleNamespace
from trainperf.child.start import seed_all
def failed(what, error): raise SystemExit(f"{what}: {error}")
seed_all(SEED, SimpleNamespace(failed=failed))
"""


def said(seed: int, source: str, start: str = START) -> str:
    text = start.replace("SEED", str(seed)) + textwrap.dedent(source)
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


NUMPY = """
    import random
    import numpy as np
    print(random.random(), np.random.rand(), np.random.default_rng().random(),
          np.random.default_rng().random(),
          np.random.RandomState().rand(), np.random.Generator(np.random.PCG64()).random())
"""


def test_generators_made_without_a_seed_differ_from_each_other_and_come_again() -> None:
    drawn = said(7, NUMPY).split()
    assert len(set(drawn)) == len(drawn)
    assert said(7, NUMPY).split() == drawn
    assert not set(said(8, NUMPY).split()) & set(drawn)


def test_a_seed_of_the_script_wins() -> None:
    own = """
        import random, numpy as np
        random.seed(1); np.random.seed(1)
        print(random.random(), np.random.rand(), np.random.default_rng(1).random())
    """
    assert said(7, own) == said(8, own) == said(0, own, start="")


def test_nothing_is_imported_for_it() -> None:
    loaded = "import sys; print({'random', 'numpy', 'tensorflow', 'torch'} & sys.modules.keys())"
    assert said(7, loaded, start=START) == said(7, loaded, start="import trainperf.child.start\n")
