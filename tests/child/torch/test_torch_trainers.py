"""The objects that hold a training's settings: where they were made, and from what."""

from __future__ import annotations

import os
import sys
from types import ModuleType, SimpleNamespace

import pytest

from kit.child import FakeProcess
from trainperf.child.torch import trainers

LIBRARY = """
import dataclasses
import enum
import sys


class Optim(str, enum.Enum):
    ADAMW = "adamw_torch"


@dataclasses.dataclass
class TrainingArguments:
    output_dir: str = None
    bf16: bool = False
    optim: str = "adamw_torch"
    hub_token: str = None
    report: list = None

    def __post_init__(self):
        self.optim = Optim(self.optim)


class Parser:
    def __init__(self, cls):
        self.cls = cls

    def parse_args_into_dataclasses(self, args=None):
        args = sys.argv[1:] if args is None else args
        return self.cls(output_dir="out", bf16="--bf16" in args)

    def parse_json_file(self, json_file):
        return self.parse_dict({"bf16": True})

    def parse_dict(self, values):
        return self.cls(**values)


class Trainer:
    def __init__(self, *, precision=None, callbacks=None):
        self.fit_loop = FitLoop(self)

    def fit(self, step):
        return self.fit_loop.run(step)


class LightningCLI:
    def __init__(self, args=None):
        self.trainer = self.instantiate_trainer()

    def instantiate_trainer(self):
        return Trainer(precision="32")


class FitLoop:
    def __init__(self, trainer):
        self.trainer = trainer

    def run(self, step):
        return step()


class Accelerator:
    def __init__(self, device_placement=True, split_batches=False, mixed_precision=None):
        self._models = []

    def prepare(self, model):
        self._models.append(model)


class OfTransformers:
    def __init__(self, args):
        self.args = args
        self.accelerator = Accelerator()

    def train(self, step):
        return self._inner_training_loop(step)

    def _inner_training_loop(self, step):
        return step()
"""
NAMES = {
    "transformers": ["bf16", "optim", "report", "torch_compile"],
    "lightning": ["precision"],
    "accelerate": ["mixed_precision"],
}
HERE = __file__.rpartition("/")[2]


@pytest.fixture
def library():
    """Classes as those of the libraries, in a file that is no user's."""
    module = ModuleType("library")
    sys.modules["library"] = module
    exec(compile(LIBRARY, "/usr/lib/python3/site-packages/library.py", "exec"), vars(module))
    yield module
    del sys.modules["library"]


@pytest.fixture
def loops(library):
    made = SimpleNamespace(process=FakeProcess({"leg": None, "trainers": NAMES}), trainers=[])
    for name in (
        "transformers.training_args",
        "accelerate.accelerator",
        "lightning.pytorch.trainer.trainer",
    ):
        library.__name__ = name
        trainers.watch(made, library)
    return made


def recorded(loops):
    """The event that is recorded by a step that is under way here."""
    record = loops.process.record
    before = len(record.events)
    trainers.record(SimpleNamespace(loops=loops, record=record))
    return record.events[before] if len(record.events) > before else None


def test_one_that_a_library_makes_for_itself_is_not_the_users(loops, library):
    arguments = library.TrainingArguments("out")
    trainer = library.OfTransformers(arguments)
    trainer.accelerator.prepare("model")
    assert [one.fields["made"] for one in loops.trainers] == ["call", "elsewhere"]
    event = trainer.train(lambda: recorded(loops))
    assert event["cls"] == "TrainingArguments"
    assert recorded(loops) is None  # beside the trainer there is no loop of its own


def test_arguments_of_the_command_are_known_from_others(loops, library, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["train.py", "--epochs", "3"])
    parser = library.Parser(library.TrainingArguments)
    arguments = parser.parse_args_into_dataclasses()
    event = library.OfTransformers(arguments).train(lambda: recorded(loops))
    assert (event["made"], event["source"]) == ("command", "--")
    assert event["where"]["file"].endswith(HERE)
    arguments = parser.parse_args_into_dataclasses(["--of", "mine"])
    event = library.OfTransformers(arguments).train(lambda: recorded(loops))
    assert event["made"] == "elsewhere"


def test_a_file_of_arguments_is_named(loops, library, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["train.py", "conf.json"])
    arguments = library.Parser(library.TrainingArguments).parse_json_file("conf.json")
    event = library.OfTransformers(arguments).train(lambda: recorded(loops))
    assert (event["made"], event["source"]) == ("file", os.path.abspath("conf.json"))
    arguments = library.Parser(library.TrainingArguments).parse_json_file("other.json")
    event = library.OfTransformers(arguments).train(lambda: recorded(loops))
    assert event["made"] == "elsewhere"  # no word of the command is to be another


def test_lightnings_own_command_line_takes_options(loops, library, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["train.py", "fit"])
    event = library.LightningCLI().trainer.fit(lambda: recorded(loops))
    assert (event["made"], event["source"]) == ("command", "--trainer.")
    event = library.LightningCLI(args=["fit", "--x=1"]).trainer.fit(lambda: recorded(loops))
    assert event["made"] == "elsewhere"
