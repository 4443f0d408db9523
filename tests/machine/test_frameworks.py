from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from trainperf.machine.doctor.frameworks import Build, installed_builds

Fake = Callable[[str, str], Path]

TORCH = """
    import sys
    from types import SimpleNamespace as N
    print("noise on stdout")
    print("noise on stderr", file=sys.stderr)
    __version__ = "9.9"
    version = N(cuda="12.8", hip=None)
    _C = N(_cuda_getArchFlags=lambda: "sm_80 sm_90 compute_90")
    backends = N(cudnn=N(version=lambda: 90800))
    cuda = N(is_available=lambda: True, device_count=lambda: 2,
             get_device_name=lambda i: f"GPU {i}")
"""


def torch_build(timeout: float = 60) -> Build:
    (build,) = [build for build in installed_builds(timeout) if build.name == "PyTorch"]
    return build


@pytest.fixture(autouse=True)
def only_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """TensorFlow takes seconds to ask: it has a test of its own."""
    from trainperf.machine.doctor import frameworks

    monkeypatch.delitem(frameworks._FRAMEWORKS, "TensorFlow")


def test_a_framework_says_what_it_was_built_for(fake_module: Fake) -> None:
    fake_module("torch", TORCH)
    build = torch_build()
    assert (build.version, build.cuda, build.cudnn) == ("9.9", "12.8", "9.8.0")
    assert build.built_with_gpu
    assert build.capabilities == ("sm_80", "sm_90", "compute_90")
    assert build.gpus == ("GPU 0", "GPU 1")
    assert "noise on stderr" in build.messages


def test_a_framework_that_cannot_be_imported_says_why(fake_module: Fake) -> None:
    fake_module("torch", "raise ImportError('libsomething.so is missing')")
    assert torch_build().failure == "ImportError: libsomething.so is missing"


def test_a_framework_that_hangs_is_given_up(fake_module: Fake) -> None:
    fake_module("torch", "import time; time.sleep(600)")
    assert "took longer than 0.5 s" in torch_build(timeout=0.5).failure


def test_a_file_of_the_user_in_the_current_directory_is_not_the_framework(
    fake_module: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_module("torch", TORCH)
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "torch.py").write_text("raise SystemExit('the wrong one')")
    monkeypatch.chdir(tmp_path / "here")
    assert torch_build().version == "9.9"
