"""Files of the user's, made and run, as places in them are looked at."""

import importlib.util
import textwrap

import pytest

from trainperf.child.process import frames, turns


@pytest.fixture
def module(tmp_path):
    """Make a file of some source, run it with our modules in it, and return it."""

    def load(source, name="users_own"):
        path = tmp_path / f"{name}.py"
        path.write_text(textwrap.dedent(source), encoding="utf-8")
        spec = importlib.util.spec_from_file_location(name, path)
        made = importlib.util.module_from_spec(spec)
        made.frames, made.turns = frames, turns
        spec.loader.exec_module(made)
        return made

    return load
