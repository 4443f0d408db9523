"""Settings of a loader are read without changing the program."""

from multiprocessing import context, get_start_method

from torch.utils.data import DataLoader

from trainperf.child.torch.loader import settings


def test_asking_for_the_start_method_does_not_decide_it(monkeypatch):
    monkeypatch.setattr(context._default_context, "_actual_context", None)
    told = settings.start_method(DataLoader([1]))
    assert get_start_method(allow_none=True) is None
    assert told == get_start_method()
