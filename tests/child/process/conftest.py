"""Files of the user's, made and run, as places in them are looked at."""

import pytest

from trainperf.child.process import frames, turns


@pytest.fixture
def module(users):
    """Make a file of some source, run it with our modules in it, and return it."""

    return lambda source: users(source, frames=frames, turns=turns)
