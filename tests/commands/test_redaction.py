"""Reports quote no secrets of a command and its output."""

import json
from dataclasses import replace

import pytest

from reporters.samples import INPUT_BOUND
from trainperf.commands.redaction import REDACTED, of_diagnosis, of_recording, text, words
from trainperf.model import Ending, Recording, Run

KEY = "sk-proj-abcdefghijklmnop1234"
HF = "hf_" + "a1B2" * 8
AWS = "AKIAIOSFODNN7EXAMPLE"


@pytest.mark.parametrize(
    ("command", "left"),
    [
        (["train.py", "--api-key", "0123456789abcdef"], ["train.py", "--api-key", REDACTED]),
        (["train.py", "--wandb_api_key=0123456789abcdef"], [f"--wandb_api_key={REDACTED}"]),
        (["env", "WANDB_API_KEY=0123456789abcdef", "python"], [f"WANDB_API_KEY={REDACTED}"]),
        (["train.py", "--password", "correcthorse"], ["--password", REDACTED]),
        (["train.py", "--token", HF, "--lr", "1e-3"], [REDACTED, "--lr", "1e-3"]),
        (["train.py", KEY], [REDACTED]),
        (["train.py", "--db", "postgres://me:pw@host/db"], [f"postgres://{REDACTED}@host/db"]),
    ],
)
def test_secrets_of_a_command_are_replaced(command, left):
    made = list(words(command))
    assert [one for one in made if one in left] == left


@pytest.mark.parametrize(
    "command",
    [
        ["train.py", "--pad-token", "0", "--eos_token", "</s>", "--max-tokens", "4096"],
        ["train.py", "--tokenizer", "bert-base-uncased1", "--sort-key", "len", "--key-dim", "64"],
        ["train.py", "--token", "--lr", "1e-3"],
        ["train.py", "data=imagenet", "optimizer.lr=0.0003", "http://host:8080/a"],
        ["torchrun", "--rdzv-endpoint=localhost:29500", "train.py"],
    ],
)
def test_settings_stay_as_they_are(command):
    assert list(words(command)) == command


@pytest.mark.parametrize(
    ("quoted", "left"),
    [
        (f"using key {AWS}!", f"using key {REDACTED}!"),
        ('{"secret": "hunter2", "epochs": 3}', f'{{"secret": "{REDACTED}", "epochs": 3}}'),
        ("AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG", f"AWS_SECRET_ACCESS_KEY={REDACTED}"),
        ("loss=0.1234 key=loss token=</s>", "loss=0.1234 key=loss token=</s>"),
        ("KeyError: 'epoch_12'", "KeyError: 'epoch_12'"),
    ],
)
def test_secrets_in_what_was_printed_are_replaced(quoted, left):
    assert text(quoted) == left


def test_no_file_of_a_diagnosis_holds_them():
    made = of_diagnosis(
        replace(
            INPUT_BOUND,
            command=("python", "train.py", "--token", HF),
            output_tail=f"login with {KEY}\n",
        )
    )
    assert HF not in json.dumps(made.command)
    assert KEY not in made.output_tail
    assert made.command[:3] == ("python", "train.py", "--token")


def test_no_record_of_a_process_holds_them():
    run = Run(("python", "train.py", "--token", HF), "/w", "train.py")
    said = ({"e": "hello", "t": 1.0, "argv": list(run.command)}, {"e": "done", "t": 2.0})
    made = of_recording(Recording(run, Ending.MEASURED, 0, 0.0, 1.0, {7: said}, output_tail=KEY))
    assert HF not in repr(made)
    assert KEY not in repr(made)
    assert made.events[7][1] == said[1]
