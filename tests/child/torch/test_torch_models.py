"""Facts of models: the code that builds and calls them stands in files of a user's."""

import gc
import importlib.util
import textwrap
from pathlib import Path
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.utils import checkpoint as checkpointing  # noqa: E402

from trainperf.child.torch.built import models  # noqa: E402
from trainperf.child.torch.built import places as torch_built  # noqa: E402
from trainperf.child.torch.step import dispatch  # noqa: E402


class Events(list):
    def write(self, kind, **facts):
        self.append((kind, facts))


def failed(what, error):
    raise error


def made_loops():
    return SimpleNamespace(
        process=SimpleNamespace(off=False, failed=failed),
        optimizer_sites={},
        built_modules={},
        model_sites={},
        alive=[],
        checkpointed=0,
        checkpoint_sites=[],
        model_calls={},
        optimizers=[],
        shapes={},
        updates=0,
    )


@pytest.fixture
def loops(monkeypatch):
    """Loops whose hooks are set for this test."""
    made = made_loops()
    monkeypatch.setattr(nn.Module, "__init__", nn.Module.__init__)
    torch_built.watch_modules(made, torch.nn.modules.module)
    return made


@pytest.fixture
def users(tmp_path):
    def load(source, name="users_net"):
        path = tmp_path / f"{name}.py"
        head = "import torch\nfrom torch import nn\nimport torch.nn.functional as F\n"
        path.write_text(head + textwrap.dedent(source), encoding="utf-8")
        spec = importlib.util.spec_from_file_location(name, path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return load


def cut(site):
    """The text between the columns and lines of a site."""
    lines = Path(site["file"]).read_text(encoding="utf-8").splitlines()
    picked = lines[site["line"] - 1 : site["end_line"]]
    picked[-1] = picked[-1][: site["end_col"]]
    picked[0] = picked[0][site["col"] :]
    return "\n".join(picked)


def facts_of(loops, model, *args, counts=False, **kwargs):
    return models.model_facts(loops, (model, args, kwargs), set(), counts=counts)


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
def test_the_place_is_the_expression_that_built_the_model(loops, users, line, where):
    made = users(NET + line)
    site = torch_built.module_site(loops, made.model)
    assert cut(site) == (where or "nn.Sequential(nn.Linear(3, 2), nn.ReLU())")


def test_a_factory_of_the_users_gives_the_place_inside_it(loops, users):
    made = users("def build():\n    return nn.Sequential(nn.Linear(3, 2))\n\nmodel = build()\n")
    site = torch_built.module_site(loops, made.model)
    assert (cut(site), site["function"]) == ("nn.Sequential(nn.Linear(3, 2))", "build")


def test_a_factory_of_a_library_gives_the_users_call(loops, users):
    code = compile("def resnet(cls):\n    return cls()\n", "/x/site-packages/zoo/nets.py", "exec")
    zoo = {}
    exec(code, zoo)
    made = users(NET + "def train(resnet):\n    return resnet(Net)\n")
    assert cut(torch_built.module_site(loops, made.train(zoo["resnet"]))) == ("resnet(Net)")


def test_a_constructor_of_another_class_of_the_users_is_the_place(loops, users):
    made = users(
        NET + "class Trainer:\n    def __init__(self):\n        self.net = Net()\n\nt = Trainer()\n"
    )
    site = torch_built.module_site(loops, made.t.net)
    assert (cut(site), site["function"]) == ("Net()", "__init__")


def test_parts_of_a_librarys_module_are_not_noted(loops, users):
    made = users("model = nn.TransformerEncoderLayer(8, 2)")
    assert set(loops.built_modules) == {id(made.model)}


def test_a_module_of_another_class_at_the_same_address_has_no_place(loops, users):
    made = users("model = nn.Linear(1, 1)")
    built, other = loops.built_modules, nn.Identity()
    built[id(other)] = built[id(made.model)]
    assert torch_built.module_site(loops, other) is None


def test_nothing_is_noted_while_trainperf_builds_its_own(loops, users):
    loops.process.off = True
    made = users("model = nn.Linear(1, 1)")
    assert torch_built.module_site(loops, made.model) is None


def test_the_wrapped_constructor_looks_like_the_original(loops):
    wrapper = nn.Module.__init__
    assert wrapper.__qualname__ == wrapper.__wrapped__.__qualname__
    with pytest.raises(TypeError):
        nn.Module(1)


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


@pytest.mark.parametrize(
    ("call", "name"),
    [
        ("net(1)", "net"),
        ("self.net(x, mask=None)", "self.net"),
        ("net.forward(1)", "net"),
        ("nets[0](1)", ""),
        ("build()(1)", ""),
        ("net", ""),
    ],
)
def test_the_name_is_what_the_loop_calls(users, call, name):
    made = users(f"def step():\n    y = {call}\n")
    assert models.name_called(called_at(made, call, "step"), object()) == name


def test_a_name_that_stands_for_something_else_is_none(users):
    made = users(
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


def test_the_call_of_a_model_is_told_with_its_name(users):
    made = users("def step(net, x):\n    return net(x)\n")
    loops, model = made_loops(), nn.Linear(1, 1)
    assert (facts_of(loops, model)["call"], facts_of(loops, model)["name"]) == (None, "")
    site = called_at(made, "net(x)", "step")
    loops.model_sites = {id(model): site}
    facts = facts_of(loops, model)
    assert (facts["call"], facts["name"]) == (site, "net")


def test_a_call_of_unknown_extent_gives_no_name():
    assert models.name_called({"file": "x.py", "line": 1}, object()) == ""
    assert models.name_called(None, object()) == ""


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
        "return (q @ k.transpose(1, 2)) @ v / 2",
        "return F.softmax(F.linear(x, x[0]) / 2, dim=-1)",
        """if x.any():
            return F.scaled_dot_product_attention(q, k, v)
        return F.softmax(q @ k.transpose(1, 2) / 2, -1) @ v""",
    ],
)
def test_other_forwards_are_no_attention(users, body):
    model = users(ATTENTION.format(name="Other", body=body)).Other()
    assert facts_of(made_loops(), model)["attentions"] == []


@pytest.mark.parametrize(
    "body",
    [
        "return F.softmax(q @ k.transpose(-2, -1) / math.sqrt(8), dim=-1) @ v",
        "return torch.bmm((torch.bmm(q, k.mT) * 0.3).softmax(-1), v)",
        "return self.soft(torch.einsum('bid,bjd->bij', q, k) * 2) @ v",
    ],
)
def test_attention_by_hand_is_told_with_its_forward(users, body):
    model = users(ATTENTION.format(name="Own", body=body)).Own()
    model(torch.zeros(1, 2, 8))  # the case runs
    (site,) = facts_of(made_loops(), nn.Sequential(model, model))["attentions"]
    assert site["function"] == "forward"
    assert site["line"] == type(model).forward.__code__.co_firstlineno


@pytest.mark.parametrize("name", ["attend", "scaled_dot_product_attention"])
def test_the_function_that_a_forward_attends_with_is_told(users, name):
    body = f"""return {name}(q, k, v)

def {name}(q, k, v):
    return torch.matmul((q @ k.mT).div(2).softmax(-1), v)"""
    module = users(ATTENTION.format(name="Own", body=body))
    model = module.Own()
    model(torch.zeros(1, 2, 8))
    (site,) = facts_of(made_loops(), model)["attentions"]
    assert site["function"] == name
    assert site["line"] == getattr(module, name).__code__.co_firstlineno


def test_each_function_that_attends_is_told_once(users):
    text = ATTENTION + ATTENTION.replace("{name}", "Two").replace("{body}", "{body} + 1")
    body = "return F.softmax(q @ k.mT / 2, dim=-1) @ v"
    module = users(text.format(name="One", body=body))
    found = facts_of(made_loops(), nn.Sequential(module.One(), module.Two(), module.One()))
    assert len(found["attentions"]) == 2


def test_the_models_of_libraries_are_not_searched_for_attention():
    assert facts_of(made_loops(), nn.MultiheadAttention(8, 2))["attentions"] == []


def test_recurrent_layers_whose_weights_lie_apart_are_told_by_their_forward(users):
    module = users(
        """
from torch import nn

class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(4, 4)

    def forward(self, x):
        return self.lstm(x)[0]
"""
    )
    model = nn.Sequential(module.Tagger(), nn.LSTM(4, 4))
    (site,) = models._scattered(model)
    assert (site["function"], site["line"]) == ("forward", site["end_line"])
    one = torch.zeros(9)
    assert models._apart([one, torch.zeros(3)])
    assert not models._apart([one[:3], one[3:], None])
    assert facts_of(made_loops(), model)["scattered"] == [], "there is no cuDNN"


def test_states_of_random_generators_are_no_weights():
    """Keras's `Dropout` on PyTorch holds one as a parameter: the model computes in float32."""
    model = nn.Sequential(nn.Linear(4, 4))
    model.seed = nn.Parameter(torch.zeros(2, dtype=torch.int64), requires_grad=False)
    assert facts_of(made_loops(), model)["dtypes"] == ["float32"]
    model.quantised = nn.Parameter(torch.zeros(64, dtype=torch.int8), requires_grad=False)
    assert facts_of(made_loops(), model)["dtypes"] == ["float32", "int8"]


def test_facts_of_a_model_count_its_parts():
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 4, 3).half())
    loops = made_loops()
    loops.shapes[id(model)] = 3
    facts = facts_of(loops, model, torch.zeros(2, 3, 8, 8))
    assert facts["modules"] == {"Conv2d": 2, "ReLU": 1}
    assert facts["dtypes"] == ["float16", "float32"]
    assert facts["parameters"] == sum(one.numel() for one in model.parameters())
    assert (facts["cls"], facts["image_input"], facts["shapes"]) == ("Sequential", True, 3)
    assert (facts["channels_last"], facts["compiled"], facts["checkpointing"]) == (
        False,
        False,
        False,
    )


def test_channels_last_is_told_by_weights_that_can_tell():
    inside = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Conv2d(4, 4, 1))
    assert facts_of(made_loops(), inside)["channels_last"] is False
    last = inside.to(memory_format=torch.channels_last)
    assert facts_of(made_loops(), last)["channels_last"] is True
    assert facts_of(made_loops(), nn.Conv2d(4, 4, 1))["channels_last"] is None
    assert facts_of(made_loops(), nn.Linear(1, 1))["channels_last"] is None


def test_a_compiled_model_is_told_by_any_way_to_compile_it():
    plain, whole, method, forward = (nn.Sequential(nn.Linear(2, 2)) for _ in range(4))
    method[0].compile()
    forward.forward = torch.compile(forward.forward)
    loops = made_loops()
    assert not facts_of(loops, plain)["compiled"]
    for model in (torch.compile(whole), method, forward):
        facts = facts_of(loops, model, torch.ones(1, 2), counts=True)
        assert (facts["compiled"], facts["cls"], facts["graph_calls"]) == (True, "Sequential", None)


def test_models_with_no_parameters_are_left_out_and_the_trained_come_first():
    loops = made_loops()
    teacher, student, loss = nn.Linear(9, 9), nn.Linear(2, 2), nn.MSELoss()
    for model in (teacher, student, loss):
        loops.model_calls[id(model)] = (model, (), {})
    loops.optimizers = [torch.optim.SGD(student.parameters(), lr=0.1)]
    record, driver = Events(), SimpleNamespace(loops=loops)
    driver.record = record
    models.record(driver)
    assert [(facts["parameters"], facts["trained"]) for _, facts in record] == [
        (6, True),
        (90, False),
    ]
    assert {kind for kind, _ in record} == {"torch_model"}


def test_where_no_call_was_seen_the_models_alive_are_told():
    gc.collect()
    loops = made_loops()
    model = nn.ModuleDict({"body": nn.Sequential(nn.Linear(2, 2)), "head": nn.Linear(2, 1)})
    other = nn.Linear(2, 2)
    loops.optimizers = [torch.optim.SGD(model.parameters(), lr=0.1)]
    found = [one for one, _, _ in models.models(loops)]
    assert found == [model]
    assert other not in found


def test_a_parallel_model_names_its_strategy_and_the_model_inside():
    loops = made_loops()
    inner = nn.Linear(2, 2)
    model = nn.DataParallel(inner)
    loops.model_calls[id(model)] = (model, (), {})
    assert models.strategy(loops) == "DataParallel"
    assert facts_of(loops, model)["cls"] == "Linear"
    loops.model_calls = {id(inner): (inner, (), {})}
    assert models.strategy(loops) == ""


class Remembers(nn.Module):
    """Leaves behind all that a forward can."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(4)
        self.drop = nn.Dropout(0.5)
        self.register_buffer("other", torch.zeros(1))
        self.seed = nn.Parameter(torch.tensor([1]), requires_grad=False)
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        self.other = self.other + 1
        self.seed += 1
        return self.drop(self.norm(x.view(-1, 4))) + 1


def test_the_forward_that_counts_leaves_nothing_behind():
    model, x = Remembers(), torch.rand(8, 4)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    state = torch.get_rng_state()
    calls = dispatch.forward_calls(model, (x,), {})
    assert calls >= 4
    assert model.calls == 0
    assert torch.equal(torch.get_rng_state(), state)
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name]), name


def test_views_are_no_kernels_and_every_other_operator_is():
    class Plain(nn.Module):
        def forward(self, x):
            return (x.view(-1).t() + 1) * 2

    assert dispatch.forward_calls(Plain(), (torch.ones(4),), {}) == 2


def test_a_forward_that_cannot_run_again_is_not_counted():
    class NeedsGradients(nn.Module):
        def forward(self, x):
            return torch.autograd.grad(x.sum(), x)

    asked = torch.ones(2, requires_grad=True)
    assert dispatch.forward_calls(NeedsGradients(), (asked,), {}) is None


def test_a_forward_that_takes_too_long_is_left(monkeypatch):
    class Long(nn.Module):
        def forward(self, x):
            for _ in range(100):
                try:
                    x = x + 1
                except Exception:
                    continue
            return x

    assert dispatch.forward_calls(Long(), (torch.ones(1),), {}) == 100
    monkeypatch.setattr(dispatch, "MOST_CALLS", 50)
    assert dispatch.forward_calls(Long(), (torch.ones(1),), {}) is None


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpointing_is_seen_by_what_it_calls(monkeypatch, reentrant):
    loops = made_loops()
    part = checkpointing
    for name in ("_checkpoint_without_reentrant_generator", "check_backward_validity"):
        monkeypatch.setattr(part, name, getattr(part, name))
    known = part.checkpoint
    torch_built.watch_checkpointing(loops, part)
    model = nn.Linear(2, 2)
    assert not facts_of(loops, model)["checkpointing"]
    x = torch.ones(1, 2, requires_grad=True)
    part.checkpoint(model, x, use_reentrant=reentrant).sum().backward()
    assert torch_built.checkpoints(loops) == 1
    part.checkpoint(model, x, use_reentrant=reentrant).sum().backward()
    assert facts_of(loops, model)["checkpointing"]
    one, other = facts_of(loops, model)["checkpoints"]
    assert (other["line"] - one["line"], one["col"]) == (2, 4)
    assert part.checkpoint is known


def test_a_librarys_model_says_itself_that_it_checkpoints():
    model = nn.Linear(2, 2)
    model.gradient_checkpointing = True
    assert facts_of(made_loops(), nn.Sequential(model))["checkpointing"]
