"""Facts of a loop, of the process and of CUDA's memory: read from drivers made by hand."""

from types import SimpleNamespace

import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset

from kit.child import Record, Watcher
from kit.exchange import driver_of
from trainperf.child.torch import devices
from trainperf.child.torch import facts as torch_facts
from trainperf.child.torch.built.places import ModelCall
from trainperf.child.torch.loops import TorchLoops


def made_driver(batch=None, loader=None, calls=()):
    loops = TorchLoops(Watcher())
    loops.models.calls = {id(call[0]): call for call in calls}
    loops.updates, loops.process._lenient = 10, True
    driver = driver_of(loops)
    driver.batch, driver.loader, driver.batches_per_step = batch, loader, 4
    driver.recent_batches = lambda: [] if batch is None else [batch]
    driver.epochs_ended, driver.epoch_batches = 2, None
    return driver


def recorded(driver):
    """The last event of each kind, and the facts."""
    torch_facts.record(driver)
    return {event["e"]: event for event in driver.record.events} | driver.facts


class Endless(IterableDataset):
    def __iter__(self):
        while True:
            yield torch.ones(1)


X, Y = torch.zeros(8, 3), torch.zeros(8, dtype=torch.int64)


def test_a_list_of_images_counts_its_images():
    images = [torch.zeros(3, 5, 5), torch.zeros(3, 7, 7), torch.zeros(3, 9, 9), torch.zeros(3, 1)]
    loader = DataLoader(Endless(), batch_size=4)
    assert torch_facts.loop_facts(made_driver((images, [{}] * 4), loader))["batch_size"] == 4


TIME, SAMPLES = 35, 20
TOKENS = torch.zeros(TIME, SAMPLES, dtype=torch.int64)
STATE = torch.zeros(2, SAMPLES, 7)


@pytest.mark.parametrize(
    ("model", "arguments", "samples"),
    [
        # time first: the state says which dimension has the samples, else nobody does
        (torch.nn.LSTM(7, 7), (TOKENS, (STATE, STATE)), SAMPLES),
        (torch.nn.LSTM(7, 7), (torch.zeros(TIME, SAMPLES, 7),), None),
        (torch.nn.TransformerEncoderLayer(8, 2), (torch.zeros(TIME, SAMPLES, 8),), None),
        (torch.nn.TransformerEncoderLayer(8, 2, batch_first=True), (X, Y), 8),
        # tokens alone, and with what is to come
        (torch.nn.Linear(3, 2), (TOKENS,), None),
        (torch.nn.Linear(3, 2), (TOKENS, TOKENS), TIME),
        # tensors that agree in nothing
        (torch.nn.Linear(3, 2), (torch.zeros(5, 3), torch.zeros(6, 2)), None),
        (torch.nn.Linear(3, 2), (X,), 8),
    ],
)
def test_the_samples_are_those_that_the_arguments_agree_on(model, arguments, samples):
    facts = torch_facts.loop_facts(made_driver(calls=[ModelCall(model, arguments, {})]))
    assert facts["batch_size"] == samples


def test_denormal_numbers_are_counted_where_they_are():
    weights = torch.nn.Parameter(torch.tensor([1.0, 1e-40, 0.0, 2.0]))
    optimizer = torch.optim.RMSprop([weights], lr=0.0)
    weights.grad = torch.tensor([1.0, 0.0, 0.0, 1e-39])
    optimizer.step()
    optimizer.state[weights]["square_avg"].fill_(1e-42)
    driver = made_driver()
    driver.loops._optimizers = {0: lambda: optimizer}

    shares = torch_facts.flags(driver)["denormal"]

    assert shares["weights"] == shares["gradients"] == 0.25
    assert shares["optimizer"] == pytest.approx(4 / 5)  # `step` is a number too


def test_odd_tensors_are_no_denormal_numbers_and_hide_none():
    class Sharded(torch.Tensor):
        pass

    tensors = [
        torch.tensor([1.0, 1e-40]),
        torch.full((4,), 1e-6, dtype=torch.float16),  # too small for its own type alone
        torch.ones(4, dtype=torch.complex64),
        torch.ones(4).to(torch.float8_e4m3fn),
        torch.ones(4, device="meta"),
        torch.eye(4).to_sparse(),
        torch.full((4,), 1e-40).as_subclass(Sharded),
        torch.nn.UninitializedParameter(),
    ]
    driver = made_driver()
    optimizer = SimpleNamespace(param_groups=[{"params": tensors}], state={})
    driver.loops._optimizers = {0: lambda: optimizer}

    assert torch_facts.flags(driver)["denormal"] == {"weights": 0.5}


def test_a_part_that_fails_leaves_the_others(monkeypatch):
    driver = made_driver()
    monkeypatch.setattr(torch_facts.models, "models", lambda loops: 1 / 0)
    assert "torch_flags" in recorded(driver)
    [failure] = [text for text in driver.process.failures if "models" in text]
    assert "ZeroDivisionError" in failure


@pytest.fixture
def watched(monkeypatch):
    """A driver whose flags are watched, until the test ends."""
    driver = made_driver()
    autograd = torch.autograd
    for owner, name in (
        (autograd.set_detect_anomaly, "__init__"),
        (autograd.detect_anomaly, "__enter__"),
        (autograd.profiler.profile, "_start_trace"),
        (torch, "use_deterministic_algorithms"),
    ):
        monkeypatch.setattr(owner, name, getattr(owner, name))
    torch_facts.watch_flags(driver.loops, torch)
    yield driver
    torch.set_anomaly_enabled(False)
    torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize(
    ("opened", "flag"),
    [
        ("torch.autograd.set_detect_anomaly(True)", "anomaly"),
        ("torch.autograd.detect_anomaly()", "anomaly"),
        ("torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])", "profiler"),
    ],
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_mode_around_a_part_of_each_step_is_on(watched, users, opened, flag):
    users(f"import torch\nwith {opened}:\n    pass\n")
    values = torch_facts.flags(watched)
    assert values[flag] is True
    assert values[f"{flag}_where"]["line"] == 2
    watched.loops.updates += 50
    assert torch_facts.flags(watched)[flag] is False


H100 = SimpleNamespace(
    name="NVIDIA H100", total_memory=80, major=9, minor=0, uuid="0000-11", multi_processor_count=1
)


def test_no_gpu_is_asked_of_a_process_that_has_not_begun_with_cuda(monkeypatch):
    monkeypatch.setattr(
        torch.cuda, "device_count", lambda: pytest.fail("it might start the driver")
    )
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)
    assert torch_facts.gpus_seen() == []


@pytest.mark.parametrize(
    ("first", "second", "used"),
    [
        ({}, 512, [False, True, False]),  # the third has not been opened
        ({"allocated_bytes.all.peak": 512}, 2**30, [False, True, False]),  # a barrier's tensor
        ({"allocated_bytes.all.peak": 2**28}, 2**30, [True, True, False]),
    ],
)
def test_gpus_that_are_seen_and_gpus_that_are_used_are_two_things(monkeypatch, first, second, used):
    held = {0: first, 1: {"allocated_bytes.all.peak": second}}
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda index: H100)
    monkeypatch.setattr(torch._C, "_cuda_hasPrimaryContext", held.__contains__, raising=False)
    monkeypatch.setattr(torch.cuda, "memory_stats", held.__getitem__)
    events = recorded(made_driver([X]))
    seen = events["framework"]["gpus"]
    assert [one["used"] for one in seen] == used
    assert events["framework"]["logical"] == sum(used)
    assert seen[1] == {
        "number": 1,
        "name": "NVIDIA H100",
        "uuid": "0000-11",
        "memory": 80,
        "capability": "9.0",
        "used": True,
    }


NOT_STARTED = (
    "CUDA initialization: Unexpected error from cudaGetDeviceCount(). Error 802: system not yet "
    "initialized (Triggered internally at /pytorch/c10/cuda/CUDAFunctions.cpp:119.)"
)


def test_why_cuda_did_not_start_is_what_python_was_warned_of(monkeypatch):
    told = {"version": 3, ("another", UserWarning, 1): True, (NOT_STARTED, UserWarning, 7): True}
    monkeypatch.setattr(torch.cuda, "__warningregistry__", told, raising=False)
    assert recorded(made_driver([X]))["cuda_failed"] == (
        "Unexpected error from cudaGetDeviceCount(). Error 802: system not yet initialized"
    )


# The GPU memory of a process, on a CUDA that counts as the real one does.


GIB = 2**30
HELD = (0, 3 * GIB)


def test_each_gpu_that_holds_something_is_told_and_no_other_is_opened(monkeypatch):
    opened = []
    cuda = SimpleNamespace(
        is_initialized=lambda: True,
        device_count=lambda: len(HELD),
        memory_reserved=HELD.__getitem__,
        mem_get_info=lambda index: opened.append(index) or (60 * GIB, 80 * GIB),
        get_device_properties=lambda index: SimpleNamespace(uuid="1234-5678"),
        memory_stats=lambda index: {
            "reserved_bytes.all.current": HELD[index],
            "reserved_bytes.all.peak": 2 * HELD[index],
        },
    )
    monkeypatch.setattr(devices, "_cuda", lambda: cuda)
    driver = SimpleNamespace(record=Record())
    devices.record_memory(driver)
    assert driver.record.events == [
        {
            "e": "gpu_memory",
            "index": 1,
            "uuid": "GPU-1234-5678",
            "total": 80 * GIB,
            "free": 60 * GIB,
            "reserved": 3 * GIB,
            "reserved_peak": 6 * GIB,
            "allocated_peak": 0,
            "retries": 0,
        }
    ]
    assert opened == [1]
