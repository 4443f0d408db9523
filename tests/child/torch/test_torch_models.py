"""Facts of models: the code that builds and calls them stands in files of a user's."""

import sys
import textwrap
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from kit.child import Watcher, text_at
from trainperf.child.torch.built import models
from trainperf.child.torch.built import places as torch_built
from trainperf.child.torch.loops import TorchLoops


def made_loops():
    return TorchLoops(Watcher())


@pytest.fixture
def loops(monkeypatch):
    """Loops whose hooks are set for this test."""
    made = made_loops()
    monkeypatch.setattr(nn.Module, "__init__", nn.Module.__init__)
    monkeypatch.setattr(torch.optim.Optimizer, "__init__", torch.optim.Optimizer.__init__)
    torch_built.watch_modules(made, torch.nn.modules.module)
    torch_built.watch_optimizers(made, sys.modules["torch.optim.optimizer"])
    return made


HEAD = "import torch\nfrom torch import nn\nimport torch.nn.functional as F\n"


@pytest.fixture
def net(users):
    return lambda source: users(HEAD + textwrap.dedent(source), "users_net")


def facts_of(loops, model, *args, **kwargs):
    return models.model_facts(loops, torch_built.ModelCall(model, args, kwargs), set())


NET = """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(3, 3)

class Base(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.width = width

class Net(Base):
    def __init__(self):
        super().__init__(3)
        self.parts = nn.ModuleList([Block() for _ in range(2)])
"""


@pytest.mark.parametrize(
    ("line", "where"),
    [
        ("model = Net().to('cpu')", "Net()"),
        ("model = [nn.Sequential(nn.Linear(3, 2), nn.ReLU())][0]", None),
        ("model = nn.TransformerEncoderLayer(8, 2)", "nn.TransformerEncoderLayer(8, 2)"),
    ],
)
def test_the_place_is_the_expression_that_built_the_model(loops, net, line, where):
    made = net(NET + line)
    site = torch_built.module_site(loops, made.model)
    assert text_at(site) == (where or "nn.Sequential(nn.Linear(3, 2), nn.ReLU())")


def called_at(made, text, function="<module>"):
    lines = Path(made.__file__).read_text(encoding="utf-8").splitlines()
    number = next(n for n, line in enumerate(lines, 1) if text in line)
    column = lines[number - 1].index(text)
    return {
        "file": made.__file__,
        "line": number,
        "function": function,
        "end_line": number,
        "col": column,
        "end_col": column + len(text),
    }


def test_a_name_that_stands_for_something_else_is_none(net):
    made = net(
        "def train(trainer, net, ask):\n"
        "    if not net: trainer.train(1), net(1)\n"
        "    return ask()\n"
    )
    net = nn.Linear(1, 1)
    trainer = SimpleNamespace(train=net.forward)
    for call, name in (("trainer.train(1)", ""), ("net(1)", "net")):
        site = called_at(made, call, "train")

        def ask(site=site):
            return models.name_called(site, net)

        assert made.train(trainer, net, ask) == name


ATTENTION = """
import math

class {name}(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(8, 24)
        self.soft = nn.Softmax(dim=-1)

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        {body}
"""


@pytest.mark.parametrize(
    "body",
    [
        "return F.scaled_dot_product_attention(q, k, v)",
        "return F.softmax(x @ x.transpose(1, 2), dim=-1)",
        "return F.softmax(F.linear(x, x[0]) / 2, dim=-1)",
        """if x.any():
            return F.scaled_dot_product_attention(q, k, v)
        return F.softmax(q @ k.transpose(1, 2) / 2, -1) @ v""",
    ],
)
def test_other_forwards_are_no_attention(net, body):
    model = net(ATTENTION.format(name="Other", body=body)).Other()
    assert facts_of(made_loops(), model)["attentions"] == []


@pytest.mark.parametrize(
    "body",
    [
        "return F.softmax(q @ k.transpose(-2, -1) / math.sqrt(8), dim=-1) @ v",
        "return self.soft(torch.einsum('bid,bjd->bij', q, k) * 2) @ v",
    ],
)
def test_attention_by_hand_is_told_with_its_forward(net, body):
    model = net(ATTENTION.format(name="Own", body=body)).Own()
    model(torch.zeros(1, 2, 8))  # the case runs
    (site,) = facts_of(made_loops(), nn.Sequential(model, model))["attentions"]
    assert site["function"] == "forward"
    assert site["line"] == type(model).forward.__code__.co_firstlineno


def test_states_of_random_generators_are_no_weights():
    """Keras's `Dropout` on PyTorch holds one as a parameter: the model computes in float32."""
    model = nn.Sequential(nn.Linear(4, 4))
    model.seed = nn.Parameter(torch.zeros(2, dtype=torch.int64), requires_grad=False)
    assert facts_of(made_loops(), model)["dtypes"] == ["float32"]
    model.quantised = nn.Parameter(torch.zeros(64, dtype=torch.int8), requires_grad=False)
    assert facts_of(made_loops(), model)["dtypes"] == ["float32", "int8"]


LIBRARY = """
class Config:
    def __init__(self, attention, shown=False):
        self._attn_implementation, self.output_attentions = attention, shown

class Model(nn.Module):
    _supports_sdpa = True

    def __init__(self, config):
        super().__init__()
        self.config = config
        self.line = nn.Linear(1, 1)

eager = nn.Sequential(Model(Config("eager")))
others = nn.Sequential(Model(Config("sdpa")), Model(Config("eager", shown=True)))
"""


def test_a_model_that_need_not_write_its_attention_out_is_told_with_its_place(loops, net):
    made = net(LIBRARY)
    assert text_at(facts_of(loops, made.eager)["eager"]) == 'Model(Config("eager"))'
    assert facts_of(loops, made.others)["eager"] is None


# Lists of modules of one class are found where each could be compiled by itself.


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.inside = nn.ModuleList(Cell() for _ in range(4))

    def forward(self, x):
        return x


class Cell(nn.Module):
    def forward(self, x):
        return x


def listed(cls, count):
    return nn.ModuleList(cls() for _ in range(count))


def test_too_few_mixed_and_pytorchs_own_are_none():
    assert models.blocks_of_model(nn.Sequential(*(nn.ReLU() for _ in range(8)))) == []
    assert models.blocks_of_model(nn.ModuleList(nn.Linear(2, 2) for _ in range(8))) == []
    assert models.blocks_of_model(listed(Cell, 3)) == []
    assert models.blocks_of_model(nn.Sequential(Cell(), Cell(), nn.ReLU(), Cell(), Cell())) == []
    layer = nn.TransformerEncoderLayer(4, 1, 4)
    assert models.blocks_of_model(nn.TransformerEncoder(layer, 6, enable_nested_tensor=False)) == []


def test_the_outermost_lists_are_named_as_source_reaches_them():
    model = nn.Module()
    model.transformer = nn.ModuleDict({"h": listed(Block, 5), "odd name": listed(Cell, 6)})
    model.parts = nn.Sequential(nn.ReLU(), nn.Sequential(*listed(Cell, 7)))
    assert models.blocks_of_model(model) == [
        {"path": ".parts[1]", "cls": "Cell", "count": 7},
        {"path": ".transformer.h", "cls": "Block", "count": 5},
    ]
    assert eval("model.transformer.h") is model.transformer["h"]
    assert eval("model.parts[1]") is model.parts[1]


# Facts of optimizers, and the time that fused kernels would take.


def weights(count=2, **options):
    return [torch.nn.Parameter(torch.ones(3, **options)) for _ in range(count)]


@pytest.mark.parametrize(
    "optimizer",
    [
        torch.optim.RMSprop(weights()),
        torch.optim.LBFGS(weights()),
        torch.optim.Adam(weights(device="meta")),
        torch.optim.Adam(weights(dtype=torch.complex64)),
    ],
)
def test_fused_kernels_are_not_offered_where_they_are_refused(optimizer):
    assert models.can_fuse(optimizer) is False


def test_the_place_is_the_users_call_of_the_constructor(loops, users):
    made = users("""
        import torch
        class Mine(torch.optim.SGD):
            def __init__(self, model):
                super().__init__(model.parameters(), lr=0.1)
        def make(model):
            return [torch.optim.AdamW(model.parameters()), Mine(model)]
        found = make(torch.nn.Linear(1, 1))
    """)
    sites = [loops.optimizer_calls[id(optimizer)].where for optimizer in made.found]
    assert [site["function"] for site in sites] == ["make", "make"]
    assert [*map(text_at, sites)] == ["torch.optim.AdamW(model.parameters())", "Mine(model)"]
    assert loops.optimizers_built == 2
