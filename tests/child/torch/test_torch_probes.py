"""Probes of a PyTorch step: each is recorded or says why not, and nothing stays changed."""

import time
from types import SimpleNamespace

import pytest
import torch

from kit.child import FakeProcess, Record
from trainperf.child.timing import probing
from trainperf.child.timing.device import HostClock
from trainperf.child.torch.built.places import ModelCall, Models
from trainperf.child.torch.probes import passes, probes


class Images(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 4, 3)
        self.head = torch.nn.Linear(4, 2)
        self.formats = set()

    def forward(self, x):
        last = torch.channels_last
        inputs, weights = (each.is_contiguous(memory_format=last) for each in (x, self.conv.weight))
        self.formats.add((inputs, weights))
        return self.head(self.conv(x).relu().mean((2, 3)))


@pytest.fixture(autouse=True)
def short(monkeypatch):
    """Few blocks, on one thread: with more, a busy machine holds tiny kernels up for long."""
    monkeypatch.setattr(probing, "PROBE_S", 0.02)
    monkeypatch.setattr(probing, "BLOCKS", 2)
    monkeypatch.setattr(passes, "SLOWER", 1000)
    monkeypatch.setattr(probing, "SIDES", (64,))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def probed(
    model=None, *args, optimizers=(), batch_size=None, seconds=300.0, clock=time,
    settings=None,
    **kwargs,
):  # fmt: skip
    """Run the probes; the events by the name of the probe."""
    calls = {} if model is None else {id(model): ModelCall(model, args, kwargs)}
    loops = SimpleNamespace(models=Models(calls=calls), optimizers=optimizers)
    loader = SimpleNamespace(batch_size=batch_size)
    driver = SimpleNamespace(
        kind="iterator",
        loops=loops,
        dataset=lambda: loader,
        record=Record(),
        sync=lambda: None,
        device=HostClock(clock.monotonic),
        clock=clock.monotonic,
        process=FakeProcess(settings or {}),
        world=None,
    )
    probes.record(driver, clock.monotonic() + seconds)
    return {
        event.get("name") or event["what"].removeprefix("probe "): event
        for event in driver.record.events
    }


def reason(events, name):
    assert events[name]["e"] == "missing", events[name]
    return events[name]["reason"]


def mlp():
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))


def test_the_weights_the_settings_and_the_learning_rates_stay_as_they_were():
    model = mlp()
    optimizers = [
        torch.optim.SGD(model[0].parameters(), lr=0.5, momentum=0.9, weight_decay=0.1),
        torch.optim.AdamW(model[2].parameters(), lr=torch.tensor(0.25)),
    ]
    before = [each.detach().clone() for each in model.parameters()]
    precision = torch.get_float32_matmul_precision()
    events = probed(model, torch.ones(3, 4), optimizers=optimizers)
    assert events["double_batch"]["detail"]["updates"] == 2
    assert all(map(torch.equal, before, model.parameters()))
    assert [float(one.param_groups[0]["lr"]) for one in optimizers] == [0.5, 0.25]
    assert torch.get_float32_matmul_precision() == precision
    assert not torch.is_autocast_enabled("cpu")


def test_optimizers_that_step_within_the_backward_do_not_step_in_a_probe():
    model = mlp()
    before = [each.detach().clone() for each in model.parameters()]
    for each in model.parameters():
        optimizer = torch.optim.SGD([each], lr=0.5)
        each.register_post_accumulate_grad_hook(lambda _, optimizer=optimizer: optimizer.step())
    passes.Pass(model, (torch.ones(3, 4),), {})()
    assert all(map(torch.equal, before, model.parameters()))
    model(torch.ones(3, 4)).sum().backward()
    assert not any(map(torch.equal, before, model.parameters()))


def test_a_graph_that_the_loop_keeps_is_there_after_a_probe():
    class Centred(torch.nn.Linear):
        mean = torch.zeros(4, requires_grad=True).exp()  # of earlier steps

        def forward(self, x):
            return super().forward(x) - self.mean

    model = Centred(4, 4)
    passes.Pass(model, (torch.ones(3, 4),), {}, keeps=True)()
    model.mean.sum().backward()  # as the loop's next step does


def test_a_model_whose_pass_cannot_be_repeated_is_named_with_its_error():
    class Once(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(4, 4)

        def forward(self, x):
            raise RuntimeError("the queue is empty")

    model = Once()
    events = probed(model, torch.ones(3, 4), optimizers=[torch.optim.AdamW(model.parameters())])
    assert "the queue is empty" in reason(events, "autocast")
    assert "the queue is empty" in reason(events, "double_batch")
    assert events["fused"]["e"] == "probe"


def test_channels_last_is_tried_and_the_model_is_left_in_its_own_format():
    model = Images()
    weight, storage = model.conv.weight, model.conv.weight.data_ptr()
    events = probed(model, torch.randn(2, 3, 8, 8))
    assert events["channels_last"]["e"] == "probe"
    assert model.formats == {(False, False), (True, True)}
    assert model.conv.weight is weight
    assert weight.data_ptr() == storage
    assert weight.is_contiguous()


def test_fused_works_on_equal_copies_with_the_hyper_parameters_of_each_group():
    model = mlp()
    groups = [
        {"params": list(model[0].parameters()), "weight_decay": 0.0, "initial_lr": 0.3},
        {"params": list(model[2].parameters()), "betas": (0.8, 0.9)},
    ]
    optimizer = torch.optim.AdamW(groups, lr=0.125, weight_decay=0.5)
    base, fused = probes._pair(optimizer)
    for group, plain, faster in zip(
        optimizer.param_groups, base.param_groups, fused.param_groups, strict=True
    ):
        for name in ("lr", "betas", "weight_decay", "amsgrad"):
            assert group[name] == plain[name] == faster[name]
        assert not plain["fused"]
        assert faster["fused"]
        for triple in zip(group["params"], plain["params"], faster["params"], strict=True):
            assert len({each.data_ptr() for each in triple}) == 3
            assert torch.equal(triple[0], triple[1])
            assert torch.equal(triple[1], triple[2])
            assert torch.equal(triple[1].grad, triple[2].grad)
    base.step()
    fused.step()
    first, second = base.param_groups[0]["params"][0], fused.param_groups[0]["params"][0]
    torch.testing.assert_close(first, second)
    assert not torch.equal(first, model[0].weight)


@pytest.mark.filterwarnings("ignore:CUDA is not available")
def test_tf32_is_tried_on_a_gpu_and_the_precision_put_back(monkeypatch):
    seen = set()

    class Watching(torch.nn.Linear):
        def forward(self, x):
            seen.add(torch.get_float32_matmul_precision())
            return super().forward(x)

    monkeypatch.setattr(passes.Pass, "device", "cuda")
    monkeypatch.setattr(probes, "_capability", lambda: (8, 0))
    events = probed(Watching(4, 4), torch.ones(3, 4))
    assert events["matmul_precision"]["e"] == "probe"
    assert seen == {"highest", "high"}
    assert torch.get_float32_matmul_precision() == "highest"


class Held:
    """A container that is none of Python's, as those of graphs are."""

    def __init__(self, **tensors):
        self.tensors = tensors

    def keys(self):
        return self.tensors.keys()

    def __getitem__(self, name):
        return self.tensors[name]


def test_no_larger_batch_is_told_of_where_the_samples_stayed_as_they_were():
    class Reading(torch.nn.Linear):
        def forward(self, batch):
            return super().forward(batch["x"])

    events = probed(Reading(4, 4), Held(x=torch.ones(3, 4)))
    assert "container" in reason(events, "double_batch")


def test_the_pass_is_timed_without_anomaly_detection_and_the_mode_put_back():
    seen = set()

    class Watching(torch.nn.Linear):
        def forward(self, x):
            seen.add(torch.is_anomaly_enabled())
            return super().forward(x)

    assert "anomaly" not in probed(Watching(4, 4), torch.ones(3, 4))
    with torch.autograd.set_detect_anomaly(True, check_nan=False):
        events = probed(Watching(4, 4), torch.ones(3, 4))
        assert torch.is_anomaly_enabled()
        assert not torch.is_anomaly_check_nan_enabled()
    assert events["anomaly"]["e"] == "probe", events["anomaly"]
    assert seen == {False, True}


@pytest.mark.parametrize(
    ("model", "shape", "flops"),
    [
        (mlp(), (16, 4), 2 * 16 * (2 * 4 * 8 + 3 * 8 * 2)),  # no gradient of the input
        (torch.nn.Conv2d(3, 4, 3), (2, 3, 10, 10), 2 * 2 * (2 * 64 * 4 * 27)),
    ],
)
def test_the_rate_of_a_model_is_told_beside_that_of_one_large_product(model, shape, flops):
    event = probed(model, torch.randn(shape))["matmul_rate"]
    assert (event["detail"]["flops"], event["detail"]["product_flops"]) == (flops, 2 * 64**3)
    assert event["detail"]["dtype"] == "float32"


def test_a_model_whose_products_are_not_all_counted_has_no_rate():
    lstm = torch.nn.LSTM(4, 8, batch_first=True)
    assert "mkldnn_rnn_layer" in reason(probed(lstm, torch.randn(2, 5, 4)), "matmul_rate")
    embedded = probed(torch.nn.Embedding(4, 2), torch.tensor([1, 2]))
    assert reason(embedded, "matmul_rate") == "the model multiplies no matrices"
