"""Probes of a PyTorch step: each is recorded or says why not, and nothing stays changed."""

import dataclasses
import time
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

from fakes import FakeProcess, Record  # noqa: E402
from trainperf.child.timing.device.clock import HostClock  # noqa: E402
from trainperf.child.timing.probing import alternating  # noqa: E402
from trainperf.child.torch.probes import forward_backward, passes, probes, updates  # noqa: E402
from trainperf.child.torch.probes import probing as torch_probing  # noqa: E402

PROBING = (
    alternating,
    passes,
    forward_backward,
    updates,
    probes,
    torch_probing,
)


class Dictionary(torch.nn.Module):
    """Takes a keyword and returns a dictionary, as many language models do."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)

    def forward(self, *, inputs, scale=1.0):
        hidden = self.layer(inputs)
        return {"hidden": hidden, "scores": (hidden * scale,), "best": hidden.argmax(-1)}


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


class NoReducedPrecision(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)

    def forward(self, x):
        if torch.is_autocast_enabled("cpu"):
            raise TypeError("no kernel for bfloat16")
        return self.layer(x)


@pytest.fixture(autouse=True)
def short(monkeypatch):
    """Few blocks, on one thread: with more, a busy machine holds tiny kernels up for long."""
    monkeypatch.setattr(alternating, "PROBE_S", 0.02)
    monkeypatch.setattr(alternating, "BLOCKS", 2)
    monkeypatch.setattr(torch_probing, "SLOWER", 1000)
    monkeypatch.setattr(forward_backward, "COMPILE_S", 1000.0)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


class Own:
    """Seconds on a core and asleep: neighbours that take the cores make nothing slower.

    In the place of `time` in what probes.
    """

    def __init__(self):
        self.slept = 0.0

    def monotonic(self):
        return time.thread_time() + self.slept

    def sleep(self, seconds):
        self.slept += seconds


@pytest.fixture
def own(monkeypatch):
    clock = Own()
    for module in PROBING:
        monkeypatch.setattr(module, "time", clock)
    return clock


def probed(
    model=None, *args, optimizers=(), batch_size=None, seconds=300.0, autocast="", clock=time,
    settings=None,
    **kwargs,
):  # fmt: skip
    """Run the probes; the events by the name of the probe."""
    calls = {} if model is None else {id(model): (model, args, kwargs)}
    loops = SimpleNamespace(model_calls=calls, optimizers=optimizers, autocast=autocast)
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


def test_without_a_training_forward_every_probe_says_so():
    events = probed()
    assert set(events) == set(probes.PROBES)
    for name in set(events) - {"fused", "foreach"}:
        assert "no training forward" in reason(events, name)
    assert "no optimizer" in reason(events, "fused")


def test_each_probe_is_recorded_once_or_missing_with_a_reason_unless_nothing_could_change():
    model = mlp()
    events = probed(model, torch.ones(3, 4), optimizers=[torch.optim.AdamW(model.parameters())])
    assert list(events) == [name for name in probes.PROBES if name in events]
    assert not {"channels_last", "foreach", "matmul_precision"} & set(events)
    reasons = {name: event.get("reason") for name, event in events.items()}
    recorded = {name for name, event in events.items() if event["e"] == "probe"}
    assert recorded == {"autocast", "fused", "double_batch"}, reasons
    for name in recorded:
        event = events[name]
        assert len(event["base"]) == len(event["candidate"]) >= 2
        assert all(each > 0 for each in event["base"] + event["candidate"] + [event["one_off"]])
    assert events["autocast"]["detail"] == {"dtype": "bfloat16", "model": "Sequential"}
    assert events["fused"]["detail"] == {"optimizer": "AdamW", "tensors": 4}
    assert events["double_batch"]["detail"]["batch_size"] == 3


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


def test_a_model_with_keywords_that_returns_a_dictionary_is_probed():
    events = probed(Dictionary(), inputs=torch.ones(3, 4), scale=2.0)
    assert events["autocast"]["e"] == events["double_batch"]["e"] == "probe"


def test_a_model_that_fails_under_autocast_costs_that_probe_alone():
    events = probed(NoReducedPrecision(), torch.ones(3, 4))
    assert reason(events, "autocast") == "TypeError: no kernel for bfloat16"
    assert events["double_batch"]["e"] == "probe"


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


def test_out_of_memory_is_a_reason_and_the_probes_after_it_run(monkeypatch):
    error = getattr(torch, "OutOfMemoryError", torch.cuda.OutOfMemoryError)

    def doubled(tensor):
        raise error("CUDA out of memory. Tried to allocate 2 GiB")

    model = mlp()
    monkeypatch.setitem(probes.PROBES, "autocast", lambda probing: doubled(None))
    events = probed(model, torch.ones(3, 4))
    assert "out of memory" in reason(events, "autocast")
    assert events["double_batch"]["e"] == "probe"


def test_autocast_is_not_probed_where_it_is_on_or_the_model_is_not_float32():
    model = mlp()
    assert "autocast" not in probed(model, torch.ones(3, 4), autocast="bfloat16")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert "autocast" not in probed(model, torch.ones(3, 4))
    half = mlp().to(torch.bfloat16)
    events = probed(half, torch.ones(3, 4, dtype=torch.bfloat16))
    assert "autocast" not in events


def test_the_other_probes_run_under_the_autocast_of_the_loop():
    seen = set()

    class Watching(torch.nn.Linear):
        def forward(self, x):
            seen.add(torch.is_autocast_enabled("cpu"))
            return super().forward(x)

    events = probed(Watching(4, 4), torch.ones(3, 4), autocast="torch.bfloat16")
    assert events["double_batch"]["e"] == "probe"
    assert seen == {True}


def test_channels_last_is_tried_and_the_model_is_left_in_its_own_format():
    model = Images()
    weight, storage = model.conv.weight, model.conv.weight.data_ptr()
    events = probed(model, torch.randn(2, 3, 8, 8))
    assert events["channels_last"]["e"] == "probe"
    assert model.formats == {(False, False), (True, True)}
    assert model.conv.weight is weight
    assert weight.data_ptr() == storage
    assert weight.is_contiguous()


def test_channels_last_gives_the_format_back_when_the_pass_fails():
    class Refusing(Images):
        def forward(self, x):
            if not x.is_contiguous():
                raise RuntimeError("view size is not compatible")
            return super().forward(x)

    model = Refusing()
    events = probed(model, torch.randn(2, 3, 8, 8))
    assert "view size" in reason(events, "channels_last")
    assert model.conv.weight.is_contiguous()


def test_a_model_in_channels_last_is_not_probed_for_it():
    model = Images().to(memory_format=torch.channels_last)
    events = probed(model, torch.randn(2, 3, 8, 8))
    assert "channels_last" not in events
    assert not model.conv.weight.is_contiguous()


def test_channels_last_needs_an_image():
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3))
    assert "channels_last" not in probed(model, torch.randn(3, 8, 8))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda p: torch.optim.Adadelta(p), "no fused="),
        (lambda p: torch.optim.LBFGS(p), "no fused="),
        (lambda p: type("Own", (torch.optim.SGD,), {"__module__": "mine"})(p), "no optimizer"),
    ],
)
def test_fused_is_not_offered_where_the_optimizer_cannot(make, words):
    model = mlp()
    optimizer = make(model.parameters())
    events = probed(model, torch.ones(3, 4), optimizers=[optimizer])
    assert words in reason(events, "fused")


def test_an_optimizer_that_is_fused_needs_no_probe():
    model = mlp()
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    assert "fused" not in probed(model, torch.ones(3, 4), optimizers=[optimizer])


def test_fused_works_on_equal_copies_with_the_hyper_parameters_of_each_group():
    model = mlp()
    groups = [
        {"params": list(model[0].parameters()), "weight_decay": 0.0, "initial_lr": 0.3},
        {"params": list(model[2].parameters()), "betas": (0.8, 0.9)},
    ]
    optimizer = torch.optim.AdamW(groups, lr=0.125, weight_decay=0.5)
    base, fused = updates._fused_pair(optimizer)
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


def test_the_largest_optimizer_is_probed():
    small, large = torch.nn.Linear(2, 2), torch.nn.Linear(64, 64)
    optimizers = [torch.optim.AdamW(large.parameters()), torch.optim.SGD(small.parameters())]
    assert probed(optimizers=optimizers)["fused"]["detail"]["optimizer"] == "AdamW"


def test_sparse_gradients_are_not_fused():
    model = torch.nn.EmbeddingBag(10, 4, sparse=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    events = probed(model, torch.zeros(3, 2, dtype=torch.long), optimizers=[optimizer])
    assert reason(events, "fused") == "gradients are sparse"


@pytest.mark.parametrize(
    ("group", "expected"),
    [
        ({"foreach": False, "fused": None}, True),
        ({"foreach": None, "fused": False}, True),
        ({"foreach": True, "fused": False}, False),
        ({"foreach": None, "fused": None}, False),
    ],
)
def test_an_update_goes_tensor_by_tensor_where_foreach_or_the_choice_was_turned_off(
    group, expected
):
    assert updates._one_by_one(group) is expected


def test_the_batch_is_doubled_in_all_arguments():
    sizes = set()

    class Pair(torch.nn.Linear):
        def forward(self, x, *, others):
            sizes.add((x.shape[0], others["y"].shape[0]))
            return super().forward(x + others["y"])

    events = probed(Pair(4, 4), torch.ones(3, 4), others={"y": torch.ones(3, 4)})
    assert events["double_batch"]["e"] == "probe"
    assert sizes == {(3, 3), (6, 6)}


def test_the_batch_is_not_doubled_where_the_samples_cannot_be_told():
    class Mask(torch.nn.Linear):
        def forward(self, x, mask):
            return super().forward(x) * mask.sum()

    events = probed(Mask(4, 4), torch.ones(3, 4), torch.ones(4, 4))
    assert "no first dimension" in reason(events, "double_batch")
    events = probed(torch.nn.LSTM(4, 4), torch.ones(7, 3, 4), batch_size=3)
    assert "batch_first" in reason(events, "double_batch")
    events = probed(torch.nn.LSTM(4, 4, batch_first=True), torch.ones(3, 7, 4))
    assert events["double_batch"]["e"] == "probe"


def test_arguments_from_another_model_are_taken_out_of_its_graph():
    generated = torch.nn.Linear(4, 4)(torch.ones(3, 4))
    generated.sum().backward()  # the graph is gone
    events = probed(mlp(), generated * 2)
    assert events["autocast"]["e"] == "probe"


def test_a_model_whose_outputs_carry_no_gradient_is_left_alone():
    class Frozen(torch.nn.Linear):
        def forward(self, x):
            return super().forward(x).detach()

    assert "no tensor that carries" in reason(probed(Frozen(4, 4), torch.ones(3, 4)), "autocast")


def test_the_largest_model_that_is_not_frozen_is_probed():
    models = [torch.nn.Linear(4, 4), torch.nn.Bilinear(4, 4, 4), torch.nn.Identity()]
    models.append(torch.nn.Linear(4, 400).requires_grad_(False))
    calls = {id(one): (one, (torch.ones(3, 4),) * (1 + (one is models[1])), {}) for one in models}
    loops = SimpleNamespace(model_calls=calls, optimizers=[])
    probing = torch_probing.Probing(
        SimpleNamespace(loops=loops, sync=lambda: None, world=None), time.monotonic() + 9
    )
    assert probing.training_pass().name == "Bilinear"


def test_a_compiled_model_is_left_alone():
    model = mlp()
    model._compiled_call_impl = lambda x: x
    assert "compiled" in reason(probed(model, torch.ones(3, 4)), "autocast")


def test_a_model_of_ranks_that_cannot_agree_is_left_alone(monkeypatch):
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 2)
    assert "cannot agree" in reason(probed(mlp(), torch.ones(3, 4)), "autocast")


def test_compiling_is_left_to_the_trial_where_one_follows_or_time_is_short(monkeypatch):
    monkeypatch.setenv("CXX", "true")
    events = probed(mlp(), torch.ones(3, 4), settings={"trials": True})
    assert "a trial does it" in reason(events, "compile")
    events = probed(mlp(), torch.ones(3, 4))
    assert "compiling takes up to a minute: too little time" in reason(events, "compile")
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert "no C++ compiler" in reason(probed(mlp(), torch.ones(3, 4)), "compile")


def test_without_time_no_probe_begins():
    events = probed(mlp(), torch.ones(3, 4), seconds=-1.0)
    assert {event["reason"] for event in events.values()} == {"too little time was left"}


def test_a_probe_without_time_names_the_budget_that_would_do():
    asked = {"began": time.monotonic() - 100.0, "budget_s": 180.0, "trials": True}
    events = probed(mlp(), torch.ones(3, 4), seconds=-1.0, settings=asked)
    reasons = {event["reason"] for event in events.values()}
    assert reasons == {"too little time was left; --budget 5min would do"}


def test_a_slow_pass_is_told_with_what_it_takes(own):
    class Slow(torch.nn.Linear):
        def forward(self, x):
            own.sleep(5.0)
            return super().forward(x)

    events = probed(Slow(4, 4), torch.ones(3, 4), seconds=40.0, clock=own)
    assert "a forward and backward takes" in reason(events, "autocast")


def test_a_variation_that_is_far_slower_is_given_up(own, monkeypatch):
    class SlowInHalf(torch.nn.Linear):
        def forward(self, x):
            own.sleep(0.3 * torch.is_autocast_enabled("cpu"))
            return super().forward(x)

    monkeypatch.setattr(torch_probing, "PROBE_S", 0.1)
    monkeypatch.setattr(torch_probing, "SLOWER", 2)
    events = probed(SlowInHalf(4, 4), torch.ones(3, 4), clock=own)
    assert "given up" in reason(events, "autocast")


def test_a_slow_first_call_is_no_reason_to_give_up(own, monkeypatch):
    calls = []

    class SlowAtFirst(torch.nn.Linear):
        def forward(self, x):
            if torch.is_autocast_enabled("cpu"):
                own.sleep(0 if calls else 9.0)
                calls.append(x)
            return super().forward(x)

    monkeypatch.setattr(torch_probing, "PROBE_S", 0.3)
    monkeypatch.setattr(torch_probing, "SLOWER", 4)
    events = probed(SlowAtFirst(64, 64), torch.ones(64, 64), clock=own)
    assert events["autocast"]["one_off"] >= 9.0


@pytest.mark.filterwarnings("ignore:CUDA is not available")
def test_tf32_is_tried_on_a_gpu_and_the_precision_put_back(monkeypatch):
    seen = set()

    class Watching(torch.nn.Linear):
        def forward(self, x):
            seen.add(torch.get_float32_matmul_precision())
            return super().forward(x)

    monkeypatch.setattr(passes.Pass, "device", "cuda")
    monkeypatch.setattr(forward_backward, "_capability", lambda device: (8, 0))
    events = probed(Watching(4, 4), torch.ones(3, 4))
    assert events["matmul_precision"]["e"] == "probe"
    assert seen == {"highest", "high"}
    assert torch.get_float32_matmul_precision() == "highest"


@pytest.mark.filterwarnings("ignore:CUDA is not available")
def test_cudnn_is_let_choose_on_a_gpu_and_the_flag_put_back(monkeypatch):
    seen = set()

    class Watching(torch.nn.Conv1d):
        def forward(self, x):
            seen.add(torch.backends.cudnn.benchmark)
            return super().forward(x)

    monkeypatch.setattr(passes.Pass, "device", "cuda")
    monkeypatch.setattr(forward_backward, "_capability", lambda device: (7, 0))
    events = probed(Watching(4, 4, 1), torch.ones(3, 4, 8))
    assert events["cudnn_benchmark"]["e"] == "probe"
    assert seen == {False, True}
    assert torch.backends.cudnn.benchmark is False


def test_an_old_gpu_gets_float16(monkeypatch):
    asked = []

    class Called(passes.Pass):
        def __call__(self, arguments=None, autocast=None, module=None):
            asked.append(autocast)

    monkeypatch.setattr("trainperf.child.torch.probes.probing.Pass", Called)
    monkeypatch.setattr(Called, "device", "cuda")
    monkeypatch.setattr(forward_backward, "_capability", lambda device: (7, 5))
    events = probed(mlp(), torch.ones(3, 4))
    assert events["autocast"]["detail"]["dtype"] == "float16"
    assert set(asked) == {None, torch.float16}
    assert "matmul_precision" not in events


def test_tensors_are_changed_in_every_container_and_the_containers_are_new():
    @dataclasses.dataclass(frozen=True)
    class Batch:
        x: object
        name: str

    batch = Batch({"a": [torch.ones(2)], "b": (torch.ones(2), 3)}, "first")
    changed = passes.mapped(batch, lambda tensor: tensor * 2)
    assert changed.name == "first"
    assert changed.x["b"][1] == 3
    assert float(changed.x["a"][0][0]) == float(changed.x["b"][0][0]) == 2.0
    assert float(batch.x["a"][0][0]) == 1.0
