"""Facts of a loop, of the process and of CUDA's memory: read from drivers made by hand."""

import ctypes
import dataclasses
import gc
import importlib.util
import sys
import warnings
from collections import UserDict, namedtuple
from types import SimpleNamespace

import msgspec
import pytest

torch = pytest.importorskip("torch")

from torch.utils.data import (  # noqa: E402
    BatchSampler,
    DataLoader,
    IterableDataset,
    SequentialSampler,
    TensorDataset,
)

from trainperf.child.torch import facts as torch_facts  # noqa: E402
from trainperf.child.torch.built import flags, gpus  # noqa: E402
from trainperf.model import TorchModel, TorchOptimizer  # noqa: E402


def made_driver(batch=None, loader=None, calls=(), recent=()):
    events, facts, failures = [], {}, []
    process = SimpleNamespace(
        off=False,
        fact=facts.__setitem__,
        failed=lambda what, error: failures.append((what, error)),
    )
    loops = SimpleNamespace(
        process=process,
        flag_sites={},
        optimizer_sites={},
        built_modules={},
        model_sites={},
        alive=[],
        checkpointed=0,
        checkpoint_sites=[],
        trainers=[],
        saves=(0, None),
        sharded=None,
        data_parallels=[],
        exchange_recorded=None,
        ddps=None,
        sums=None,
        shards=None,
        model_calls={id(call[0]): call for call in calls},
        optimizers=[],
        shapes={},
        step_sites={},
        zero_grad_sites={},
        set_to_none={},
        updates=10,
    )
    return SimpleNamespace(
        loops=loops,
        process=process,
        record=SimpleNamespace(write=lambda kind, **values: events.append((kind, values))),
        batch=batch,
        loader=loader,
        recent_batches=lambda: [*recent, *([] if batch is None else [batch])],
        epochs_ended=2,
        epoch_batches=None,
        batches_per_step=4,
        events=events,
        failures=failures,
    )


@pytest.mark.parametrize("before", [1, 3])
def test_the_odd_batch_that_ends_an_epoch_is_not_taken_for_the_usual_one(before):
    driver = made_driver(torch.ones(8, 4), recent=[torch.ones(16, 4)] * before)
    facts = torch_facts.loop_facts(driver)
    assert facts["batch_size"] == 16
    assert facts["batch_bytes"] == 16 * 4 * 4


class Endless(IterableDataset):
    def __iter__(self):
        while True:
            yield torch.ones(1)


@dataclasses.dataclass
class Sample:
    name: str
    pixels: torch.Tensor


Pair = namedtuple("Pair", "x y")
X, Y = torch.zeros(8, 3), torch.zeros(8, dtype=torch.int64)


@pytest.mark.parametrize(
    "batch",
    [
        [X, Y],
        (Y, X),
        {"input_ids": Y, "labels": X},
        [{"scale": torch.tensor(1.0), "x": X, "y": Y}],
        Sample("a", X),
        Pair(X, Y),
        UserDict({"x": X}),
        X,
    ],
)
def test_a_batch_is_as_large_as_its_first_tensor_says(batch):
    assert torch_facts.loop_facts(made_driver(batch))["batch_size"] == 8


def test_facts_of_a_loader_are_in_batches():
    gc.collect()  # modules of other tests are not what trains here
    loader = DataLoader(TensorDataset(torch.zeros(20, 3), torch.zeros(20).long()), batch_size=8)
    facts = torch_facts.loop_facts(made_driver(next(iter(loader)), loader))
    assert facts == {
        "batches_per_step": 4,
        "updates_per_step": 1,
        "epochs_ended": 2,
        "input_kind": "DataLoader",
        "replicas": 1,
        "strategy": "",
        "batch_size": 8,
        "batch_bytes": 8 * 3 * 4 + 8 * 8,
        "batch_parts": ["float32", "int64"],
        "batch_dtypes": ["float32", "int64"],
        "epoch_steps": 3,
    }


def test_a_loader_without_a_length_has_no_steps_of_an_epoch():
    facts = torch_facts.loop_facts(made_driver([X], DataLoader(Endless())))
    assert facts["epoch_steps"] is None


def test_a_list_of_images_counts_its_images():
    images = [torch.zeros(3, 5, 5), torch.zeros(3, 7, 7), torch.zeros(3, 9, 9), torch.zeros(3, 1)]
    loader = DataLoader(Endless(), batch_size=4)
    assert torch_facts.loop_facts(made_driver((images, [{}] * 4), loader))["batch_size"] == 4


def test_without_a_loader_the_batch_is_what_the_model_was_called_with():
    driver = made_driver(calls=[(torch.nn.Linear(3, 1), ("text", X), {"target": Y})])
    facts = torch_facts.loop_facts(driver)
    assert (facts["batch_size"], facts["input_kind"]) == (8, "arrays in the loop")
    assert facts["batch_dtypes"] == ["float32", "int64"]
    assert "epoch_steps" not in facts


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
    facts = torch_facts.loop_facts(made_driver(calls=[(model, arguments, {})]))
    assert facts["batch_size"] == samples


def test_a_loader_says_which_dimension_has_the_samples():
    loader = DataLoader(TensorDataset(torch.zeros(60, 3)), batch_size=SAMPLES)
    facts = torch_facts.loop_facts(made_driver((TOKENS, TOKENS), loader))
    assert facts["batch_size"] == SAMPLES


def test_sequences_beside_their_labels_may_have_their_time_first():
    loader = DataLoader(TensorDataset(torch.zeros(60, 3)), batch_size=SAMPLES)
    driver = made_driver((TOKENS, torch.zeros(SAMPLES)), loader)
    assert torch_facts.loop_facts(driver)["batch_size"] == SAMPLES


def test_a_batch_sampler_says_how_many_samples_it_takes():
    sampler = BatchSampler(SequentialSampler(range(60)), SAMPLES, drop_last=False)
    loader = DataLoader(TensorDataset(torch.zeros(60, 3)), batch_sampler=sampler)
    assert torch_facts.loop_facts(made_driver((TOKENS,), loader))["batch_size"] == SAMPLES


def test_where_no_batch_was_seen_nothing_is_said_of_it():
    facts = torch_facts.loop_facts(made_driver())
    assert not {"batch_size", "batch_bytes", "batch_dtypes", "epoch_steps"} & facts.keys()


@pytest.fixture
def recorded():
    model = torch.nn.Sequential(torch.nn.Linear(3, 2))
    driver = made_driver([X.double(), Y], calls=[(model, (X,), {})])
    driver.loops.optimizers = [torch.optim.AdamW(model.parameters())]
    driver.loops.trainers = []
    torch_facts.record(driver)
    assert driver.failures == []
    return dict(driver.events)


def test_what_is_recorded_fits_the_values_it_becomes(recorded):
    model = msgspec.convert(recorded["torch_model"], TorchModel, strict=False)
    assert (model.cls, model.trained, model.graph_calls) == ("Sequential", True, None)
    optimizer = msgspec.convert(recorded["torch_optimizer"], TorchOptimizer, strict=False)
    assert (optimizer.cls, optimizer.can_fuse) == ("AdamW", True)


def test_the_device_is_the_cpu_where_nothing_is_on_a_gpu(recorded):
    framework = recorded["framework"]
    assert framework["name"] == "torch"
    assert framework["version"] == torch.__version__
    assert (framework["gpus"], framework["logical"], framework["legacy"]) == ([], 1, False)
    assert framework["cuda"] is (torch.version.cuda is not None)
    assert "torch_memory" not in recorded


def test_the_flags_are_those_of_the_process(recorded):
    values = recorded["torch_flags"]["values"]
    assert values["float64_batch"] is True
    assert values["threads"] == torch.get_num_threads()
    assert values["matmul_precision"] == torch.get_float32_matmul_precision()
    assert not values["anomaly"] | values["deterministic"] | values["profiler"]
    assert not {name for name in values if name.endswith("_where")}
    assert isinstance(values["bf16_cpu"], bool)


def test_a_flag_that_cannot_be_read_is_left_out(monkeypatch):
    def refuse():
        raise RuntimeError("mixed settings")

    monkeypatch.setattr(torch, "get_float32_matmul_precision", refuse)
    values = flags.flags(made_driver())
    assert "matmul_precision" not in values
    assert "float64_batch" not in values
    assert "threads" in values


@pytest.mark.parametrize(
    ("variable", "value", "flag", "read"),
    [
        ("CUDA_LAUNCH_BLOCKING", "0", "launch_blocking", False),
        ("CUDA_LAUNCH_BLOCKING", "1", "launch_blocking", True),
        ("OMP_NUM_THREADS", "3,2", "omp_num_threads", 3),
        ("OMP_NUM_THREADS", "", "omp_num_threads", None),
        ("PYTORCH_CUDA_ALLOC_CONF", "backend:native", "alloc_conf", "backend:native"),
    ],
)
def test_flags_of_the_environment(monkeypatch, variable, value, flag, read):
    monkeypatch.delenv("PYTORCH_ALLOC_CONF", raising=False)
    monkeypatch.setenv(variable, value)
    assert flags.flags(made_driver())[flag] == read


def test_a_part_that_fails_leaves_the_others(monkeypatch):
    driver = made_driver()
    monkeypatch.setattr(torch_facts.models, "models", lambda loops: 1 / 0)
    torch_facts.record(driver)
    assert ("facts about models", ZeroDivisionError) in {
        (what, type(error)) for what, error in driver.failures
    }
    assert "torch_flags" in dict(driver.events)


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
    flags.watch_flags(driver.loops, torch)
    yield driver
    torch.set_anomaly_enabled(False)
    torch.use_deterministic_algorithms(False)


def run(tmp_path, source):
    path = tmp_path / "users_flags.py"
    path.write_text("import torch\n" + source, encoding="utf-8")
    spec = importlib.util.spec_from_file_location("users_flags", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return path


@pytest.mark.parametrize(
    ("source", "flag"),
    [
        ("torch.autograd.set_detect_anomaly(True)", "anomaly"),
        ("torch.autograd.set_detect_anomaly(mode=True)", "anomaly"),
        (
            "def seed(sure):\n    torch.use_deterministic_algorithms(sure)\nseed(True)",
            "deterministic",
        ),
    ],
)
def test_a_debug_mode_is_told_with_the_call_that_set_it(watched, tmp_path, source, flag):
    path = run(tmp_path, source)
    values = flags.flags(watched)
    where = values[f"{flag}_where"]
    assert values[flag] is True
    assert where["file"] == str(path)
    line = path.read_text().splitlines()[where["line"] - 1]
    assert line[where["col"] : where["end_col"]].startswith("torch.")


@pytest.mark.parametrize(
    "source",
    [
        "torch.autograd.set_detect_anomaly(False)",
        "torch.autograd.set_detect_anomaly(True)\ntorch.autograd.set_detect_anomaly(False)",
        "torch.use_deterministic_algorithms(False)",
    ],
)
def test_a_debug_mode_that_is_off_is_not_told(watched, tmp_path, source):
    run(tmp_path, source)
    values = flags.flags(watched)
    assert not values["anomaly"]
    assert not {name for name in values if name.endswith("_where")}


@pytest.mark.parametrize(
    ("opened", "flag"),
    [
        ("torch.autograd.set_detect_anomaly(True)", "anomaly"),
        ("torch.autograd.detect_anomaly()", "anomaly"),
        ("torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])", "profiler"),
    ],
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_mode_around_a_part_of_each_step_is_on(watched, tmp_path, opened, flag):
    run(tmp_path, f"with {opened}:\n    pass\n")
    values = flags.flags(watched)
    assert values[flag] is True
    assert values[f"{flag}_where"]["line"] == 2
    watched.loops.updates += 50
    assert flags.flags(watched)[flag] is False


def test_memory_is_what_the_allocator_counted(monkeypatch):
    stats = {
        "allocated_bytes.all.peak": 7,
        "reserved_bytes.all.peak": 9,
        "num_alloc_retries": 0,
        "num_ooms": 1,
    }
    monkeypatch.setattr(torch.cuda, "memory_stats", lambda device: stats)
    monkeypatch.setattr(
        torch.cuda, "get_device_properties", lambda device: SimpleNamespace(total_memory=80)
    )
    assert torch_facts.memory(0) == {
        "allocated_peak": 7,
        "reserved_peak": 9,
        "total": 80,
        "retries": 0,
        "ooms": 1,
    }


H100 = SimpleNamespace(
    name="NVIDIA H100", total_memory=80, major=9, minor=0, uuid="0000-11", multi_processor_count=1
)


@pytest.fixture
def three_gpus(monkeypatch):
    """CUDA with three devices; which hold tensors, and how much others held at their peak."""
    held = {}
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda index: H100)
    monkeypatch.setattr(
        torch._C, "_cuda_hasPrimaryContext", lambda index: index in held, raising=False
    )
    monkeypatch.setattr(
        torch.cuda, "memory_stats", lambda index: {"allocated_bytes.all.peak": held[index]}
    )

    def on(index):
        return SimpleNamespace(device=SimpleNamespace(type="cuda", index=index))

    def place(*indices, **holding):
        leaves = [on(index) for index in indices]
        monkeypatch.setattr(torch_facts.torch_batches, "leaves", lambda batch: leaves)
        held.update({int(name[1:]): size for name, size in holding.items()})

    return place


def test_no_gpu_is_asked_of_a_process_that_has_not_begun_with_cuda(monkeypatch):
    monkeypatch.setattr(
        torch.cuda, "device_count", lambda: pytest.fail("it might start the driver")
    )
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)
    assert gpus.seen(made_driver([X])) == []


def test_gpus_that_are_seen_and_gpus_that_are_used_are_two_things(three_gpus):
    three_gpus(1, None)
    driver = made_driver([X])
    torch_facts.record(driver)
    events = dict(driver.events)
    seen = events["framework"]["gpus"]
    assert [one["used"] for one in seen] == [True, True, False]
    assert events["framework"]["logical"] == 2
    assert seen[1] == {
        "number": 1,
        "name": "NVIDIA H100",
        "uuid": "0000-11",
        "memory": 80,
        "capability": "9.0",
        "used": True,
    }


@pytest.mark.parametrize(("peak", "used"), [(4096, [0]), (1 << 20, [0, 2])])
def test_a_gpu_that_held_tensors_is_used_though_nothing_lies_there_now(three_gpus, peak, used):
    three_gpus(0, g0=1 << 30, g2=peak)
    assert gpus.used(made_driver([X])) == used


def test_a_process_that_began_with_cuda_and_trains_on_the_cpu_uses_none(three_gpus):
    three_gpus(g0=512)
    driver = made_driver([X])
    torch_facts.record(driver)
    events = dict(driver.events)
    assert [one["used"] for one in events["framework"]["gpus"]] == [False] * 3
    assert events["framework"]["logical"] == 1
    assert "torch_memory" not in events


def test_the_versions_of_amds_gpus_are_no_compute_capability(three_gpus, monkeypatch):
    three_gpus(0)
    monkeypatch.setattr(torch.version, "hip", "6.2", raising=False)
    assert {one["capability"] for one in gpus.seen(made_driver([X]))} == {None}


def test_a_device_that_is_gone_leaves_the_other_facts(three_gpus, monkeypatch):
    three_gpus(0)

    def gone(index):
        raise RuntimeError("CUDA error: unspecified launch failure")

    monkeypatch.setattr(torch.cuda, "get_device_properties", gone)
    driver = made_driver([X])
    torch_facts.record(driver)
    events = dict(driver.events)
    assert "torch_flags" in events
    assert [(one["number"], one["used"]) for one in events["framework"]["gpus"]] == [(0, True)]
    assert "facts about the GPUs" in [what for what, _ in driver.failures]


def test_keras_is_told_only_where_it_runs_on_pytorch(monkeypatch):
    def keras(backend):
        config = SimpleNamespace(backend=lambda: backend)
        return SimpleNamespace(backend=config, __version__="3.9")

    for backend, version in (("torch", "3.9"), ("tensorflow", None)):
        monkeypatch.setitem(sys.modules, "keras", keras(backend))
        driver = made_driver()
        torch_facts.record(driver)
        assert dict(driver.events)["framework"]["keras"] == version


NOT_STARTED = (
    "CUDA initialization: Unexpected error from cudaGetDeviceCount(). Error 802: system not yet "
    "initialized (Triggered internally at /pytorch/c10/cuda/CUDAFunctions.cpp:119.)"
)


def test_nothing_is_told_of_a_cuda_that_nobody_asked_for(monkeypatch):
    monkeypatch.setattr(torch.cuda, "__warningregistry__", {"version": 3}, raising=False)
    assert gpus.failure() is None
    monkeypatch.delattr(torch.cuda, "__warningregistry__")
    assert gpus.failure() is None


def test_why_cuda_did_not_start_is_what_python_was_warned_of(monkeypatch):
    told = {"version": 3, ("another", UserWarning, 1): True, (NOT_STARTED, UserWarning, 7): True}
    monkeypatch.setattr(torch.cuda, "__warningregistry__", told, raising=False)
    driver = made_driver([X])
    facts = {}
    driver.process.fact = facts.__setitem__
    torch_facts.record(driver)
    assert facts["cuda_failed"] == (
        "Unexpected error from cudaGetDeviceCount(). Error 802: system not yet initialized"
    )


def test_python_keeps_a_warning_in_the_module_that_called_what_warned(monkeypatch):
    monkeypatch.setattr(torch.cuda, "__warningregistry__", {}, raising=False)
    code = compile("PyErr_WarnEx(UserWarning, text, 1)", torch.cuda.__file__, "exec")
    warn = ctypes.pythonapi.PyErr_WarnEx  # as PyTorch does at the end of a call
    warn.argtypes = [ctypes.py_object, ctypes.c_char_p, ctypes.c_ssize_t]
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        monkeypatch.setattr(warnings, "showwarning", lambda *shown: None)
        monkeypatch.setitem(vars(torch.cuda), "PyErr_WarnEx", warn)
        monkeypatch.setitem(vars(torch.cuda), "text", NOT_STARTED.encode())
        exec(code, vars(torch.cuda))
    assert gpus.failure() is not None
