from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from kit.processes import LONG_S
from trainperf.child.tensorflow import matmul as tf_matmul
from trainperf.child.timing.probing import matmul
from trainperf.child.torch.built import matmul as torch_matmul

GIB = 1024**3


class Driver:
    """A driver as far as the measurements need one, and what they recorded."""

    def __init__(self, *models: Any, **more: Any) -> None:
        self.world = None
        self.batch = None
        self.loops = SimpleNamespace(autocast="", models=models)
        self.model = None
        self.facts: dict[str, Any] = {}
        self.missing: list[str] = []
        self.process = SimpleNamespace(fact=self.facts.__setitem__)
        self.record = SimpleNamespace(
            write=lambda kind, **said: self.missing.append(said["reason"])
        )
        vars(self).update(more)


@pytest.fixture
def torch_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """PyTorch whose one CUDA device is the CPU, with as much free memory as `free` says."""

    import torch

    state = SimpleNamespace(free=GIB, capturing=False)
    cpu = torch.device("cpu")
    cuda = SimpleNamespace(
        is_current_stream_capturing=lambda: state.capturing,
        mem_get_info=lambda index: (state.free, 2 * GIB),
        memory_reserved=lambda index: 0,
        memory_allocated=lambda index: 0,
        get_device_capability=lambda index: (8, 6),
        synchronize=lambda device: None,
    )

    class Fake:
        device = staticmethod(lambda kind, index: cpu)

        def __getattr__(self, name: str) -> Any:
            return getattr(torch, name)

    fake: Any = Fake()
    fake.cuda = cuda
    monkeypatch.setitem(sys.modules, "torch", fake)
    monkeypatch.setattr(torch_matmul.models, "devices", lambda driver: [0])
    monkeypatch.setattr(
        torch_matmul.models,
        "models",
        lambda loops: [(model, (), {}) for model in loops.models],
    )
    monkeypatch.setattr(matmul, "SIZES", (128, 64))
    monkeypatch.setattr(matmul, "BUDGET_S", LONG_S)  # a neighbour may use up the real one
    return state


def test_a_product_in_pytorch_gives_its_rate_and_leaves_the_random_numbers_alone(torch_on_a_gpu):
    import torch

    model = torch.nn.Linear(8, 8)
    before = torch.get_rng_state()
    driver = Driver(model)
    torch_matmul.record(driver)
    found = driver.facts["matmul"]
    assert found["dtype"] == "float32"
    assert found["flops_s"] > 0
    assert found["size"] in (128, 64)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.is_grad_enabled()


def test_a_gpu_without_room_or_with_a_graph_in_the_making_is_left_alone(torch_on_a_gpu):
    torch_on_a_gpu.free = 1000
    driver = Driver()
    torch_matmul.record(driver)
    assert driver.facts == {}
    assert driver.missing == ["too little GPU memory or time was left"]
    torch_on_a_gpu.free, torch_on_a_gpu.capturing = GIB, True
    torch_matmul.record(driver)
    assert driver.facts == {}
    assert driver.missing[1] == "a CUDA graph is being captured"


def tensorflow(gpus: int = 1, **more: Any) -> SimpleNamespace:
    """TensorFlow as far as it is asked before anything is computed."""
    device = SimpleNamespace(name="/device:GPU:0")
    experimental = SimpleNamespace(
        get_memory_info=lambda name: {"current": 10, "peak": 30} if name == "GPU:0" else {},
        tensor_float_32_execution_enabled=lambda: True,
        get_device_details=lambda gpu: {"compute_capability": (8, 6)},
    )
    config = SimpleNamespace(
        list_logical_devices=lambda kind: [device] * gpus,
        list_physical_devices=lambda kind: [device] * gpus,
        experimental=experimental,
    )
    return SimpleNamespace(config=config, executing_eagerly=lambda: True, **more)


def test_tensorflow_gives_only_memory_that_the_run_had_in_use_before() -> None:
    tf = tensorflow()
    assert tf_matmul._free(tf, "/device:GPU:0") == 20
    assert tf_matmul._named(tf, "float32", "/device:GPU:0") == "tf32"
    assert tf_matmul._named(tf, "float16", "/device:GPU:0") == "float16"
