"""Settings of a loader are read without changing the program."""

import subprocess
import sys

import pytest

pytest.importorskip("torch")


def test_asking_for_the_start_method_does_not_decide_it():
    program = """
import multiprocessing, torch.utils.data
from trainperf.child.torch.loader.settings import start_method
start_method(torch.utils.data.DataLoader([1]))
print(multiprocessing.get_start_method(allow_none=True))
"""
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert said.stdout.strip() == "None", said.stderr
