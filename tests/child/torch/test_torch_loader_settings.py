"""Settings of a loader are read without changing the program."""

import subprocess
import sys
from types import SimpleNamespace

from trainperf.child.torch.loader import settings


def test_asking_for_the_start_method_does_not_decide_it():
    program = """
import multiprocessing, torch.utils.data
from trainperf.child.torch.loader.settings import start_method
start_method(torch.utils.data.DataLoader([1]))
print(multiprocessing.get_start_method(allow_none=True))
"""
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert said.stdout.strip() == "None", said.stderr


def test_a_collator_of_transformers_is_named():
    pads = type("DataCollatorWithPadding", (), {"__module__": settings.COLLATORS})
    masks = type("DataCollatorForLanguageModeling", (pads,), {"mlm": True})
    around = type("RemoveColumnsCollator", (), {"data_collator": pads()})
    made = (pads(), around(), masks(), print, None)
    named = [settings.collator(SimpleNamespace(collate_fn=one)) for one in made]
    assert named == ["DataCollatorWithPadding"] * 2 + [""] * 3
    assert settings.collator(None) == ""
