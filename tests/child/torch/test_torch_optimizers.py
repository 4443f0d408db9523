"""Facts of optimizers, and the time that fused kernels would take."""

import importlib.util
from types import SimpleNamespace

import pytest
import torch

from trainperf.child.torch.built import optimizers as part
from trainperf.child.torch.built import places as built


def made_loops():
    def failed(what, error):
        raise error

    return SimpleNamespace(
        process=SimpleNamespace(off=False, failed=failed),
        optimizer_sites={},
        optimizers_built=0,
        optimizers=[],
        step_sites={},
        zero_grad_sites={},
        set_to_none={},
    )


@pytest.fixture
def loops(monkeypatch):
    made = made_loops()
    base = torch.optim.Optimizer
    monkeypatch.setattr(base, "__init__", base.__init__)
    import sys

    built.watch_optimizers(made, sys.modules["torch.optim.optimizer"])
    return made


def weights(count=2, **options):
    return [torch.nn.Parameter(torch.ones(3, **options)) for _ in range(count)]


class Own(torch.optim.AdamW):
    pass


@pytest.mark.parametrize(
    "optimizer",
    [
        torch.optim.RMSprop(weights()),
        torch.optim.LBFGS(weights()),
        Own(weights()),
        torch.optim.Adam(weights(), differentiable=True),
        torch.optim.Adam(weights(device="meta")),
        torch.optim.Adam(weights(dtype=torch.complex64)),
    ],
)
def test_fused_kernels_are_not_offered_where_they_are_refused(optimizer):
    assert part.can_fuse(optimizer) is False


def test_sparse_gradients_are_refused():
    table = torch.nn.Embedding(4, 2, sparse=True)
    optimizer = torch.optim.SGD(table.parameters())
    assert part.can_fuse(optimizer)
    table(torch.tensor([1])).sum().backward()
    assert not part.can_fuse(optimizer)


def test_the_place_is_the_users_call_of_the_constructor(loops, tmp_path):
    path = tmp_path / "users_optimizer.py"
    path.write_text(
        "import torch\n"
        "class Mine(torch.optim.SGD):\n"
        "    def __init__(self, model):\n"
        "        super().__init__(model.parameters(), lr=0.1)\n"
        "def make(model):\n"
        "    return [torch.optim.AdamW(model.parameters()), Mine(model)]\n"
        "found = make(torch.nn.Linear(1, 1))\n"
    )
    spec = importlib.util.spec_from_file_location("users_optimizer", path)
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    line = path.read_text().splitlines()[5]
    texts = []
    for optimizer in made.found:
        site = built.optimizer_site(loops, optimizer)
        assert (site["line"], site["function"]) == (6, "make")
        texts.append(line[site["col"] : site["end_col"]])
    assert texts == ["torch.optim.AdamW(model.parameters())", "Mine(model)"]
    assert loops.optimizers_built == 2


def test_the_learning_rate_is_told_where_there_is_one():
    one, other = weights(), weights()
    plain = torch.optim.SGD(one, lr=0.1)
    facts = part.optimizer_facts(made_loops(), plain)
    assert (facts["learning_rate"], facts["scheduled"]) == (0.1, False)
    torch.optim.lr_scheduler.StepLR(plain, 10)
    assert part.optimizer_facts(made_loops(), plain)["scheduled"]
    groups = torch.optim.SGD([{"params": one, "lr": 0.1}, {"params": other, "lr": 0.2}], lr=0.3)
    assert part.optimizer_facts(made_loops(), groups)["learning_rate"] is None
    tensor = torch.optim.Adam(weights(), lr=torch.tensor(0.1), foreach=False)
    assert part.optimizer_facts(made_loops(), tensor)["learning_rate"] is None
