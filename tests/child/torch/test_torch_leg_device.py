"""A leg asks for its turn where PyTorch itself is about to start CUDA."""

import os
import subprocess
import sys
import time

import pytest

from trainperf.child.timing.legs import words as leg_words
from trainperf.model import Leg, Run
from trainperf.run.spawn import BOOTSTRAP, prepare

pytestmark = pytest.mark.script

FIRST_TENSOR = """
import torch
try:
    torch.zeros(1, device="cuda")
except (AssertionError, RuntimeError):  # no CUDA here: it was asked for all the same
    pass
print("started", flush=True)
import torch._dynamo
print(len(torch._dynamo.callback.callback_handler.start_callbacks))
"""


def test_a_tensor_on_a_gpu_waits_for_the_legs_turn(tmp_path):
    words = leg_words.Words(str(tmp_path), create=True)
    run = Run((sys.executable,), str(tmp_path), "train.py", leg=Leg(6))
    env = {
        **os.environ, "PYTHONPATH": str(BOOTSTRAP), "TRAINPERF_RUN": prepare(run, tmp_path),
        "CUDA_VISIBLE_DEVICES": "",
    }  # fmt: skip
    process = subprocess.Popen(
        (sys.executable, "-c", FIRST_TENSOR), env=env, stdout=subprocess.PIPE, text=True
    )
    try:
        while not words[leg_words.DEVICE]:
            assert process.poll() is None
            time.sleep(0.02)
        assert process.poll() is None
        words[leg_words.GO] = 1
        told, _ = process.communicate(timeout=120)
    finally:
        process.kill()
        process.wait()
        words.close()
    assert told.split() == ["started", "1"]
