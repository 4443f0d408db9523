"""docs/sagemaker.md names what is there."""

from __future__ import annotations

import re
from pathlib import Path

from trainperf.commands.sagemaker import sagemaker

PAGE = (Path(__file__).parents[2] / "docs" / "sagemaker.md").read_text(encoding="utf-8")


def test_every_option_that_the_page_names_is_one():
    own = {name for one in sagemaker.commands["submit"].params for name in one.opts}
    own |= {"--json", "--epochs", "--batch-size"}  # of diagnose, and of a script
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", PAGE))
    assert named
    assert named <= own


def test_every_option_is_on_the_page():
    for option in sagemaker.commands["submit"].params:
        for name in option.opts:
            assert not name.startswith("--") or name in PAGE, name
