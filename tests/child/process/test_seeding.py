"""A seeded process repeats itself; what its script seeds by itself is the script's."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

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
    assert said(7, loaded, start=START) == said(
        7, loaded, start="import trainperf.child.process.importing\n"
    )


# ------------------------------------------------------------------------ PyTorch

TORCH = """
    import torch
    print(torch.initial_seed(), torch.rand(1).item())
    from torch import nn
    from torch.utils.data import DataLoader, Dataset, random_split

    class Points(Dataset):
        def __len__(self):
            return 24

        def __getitem__(self, index):
            return torch.full((4,), index / 24) + torch.rand(4), torch.rand(1)

    def train(workers):
        model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 1))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        first, second = random_split(Points(), [16, 8])
        for epoch in range(2):
            for x, y in DataLoader(first, batch_size=4, shuffle=True, num_workers=workers):
                loss = nn.functional.mse_loss(model(x), y)
                loss.backward()
                optimizer.step()
                print(f"{loss.item():.9f}")

    train(0)
    train(2)
"""
LOSSES = 8
"""So many lines each `train` prints."""


@pytest.fixture(scope="module")
def drawn() -> dict[str, list[str]]:
    """What PyTorch drew in two processes of one seed, and in one of another."""
    pytest.importorskip("torch")
    seeds = {"one": 7, "same": 7, "other": 8}
    return {name: said(seed, TORCH).split("\n") for name, seed in seeds.items()}


@pytest.mark.script
@pytest.mark.parametrize("begins", [1, 1 + LOSSES], ids=["alone", "workers"])
def test_two_runs_split_shuffle_and_drop_out_alike(drawn, begins):
    one, same, other = (drawn[name][begins : begins + LOSSES] for name in ("one", "same", "other"))
    assert len(set(one)) == LOSSES
    assert one == same
    assert one != other
