"""Words that ranks leave for each other are read by those of the same start only."""

from trainperf.child.job import ranks
from trainperf.child.job.ranks import StoreBoard


class Store:
    """As PyTorch's: it outlives the processes."""

    def __init__(self):
        self.held = {}

    def set(self, name, value):
        self.held[name] = value.encode()

    def check(self, names):
        return all(name in self.held for name in names)

    def get(self, name):
        return self.held[name]


def test_a_store_that_outlives_its_ranks_keeps_the_starts_apart():
    store = Store()
    StoreBoard(store, "0").put("loop-1-fit-asked", "now")
    assert StoreBoard(store, "1").get("loop-1-fit-asked") is None


def test_ranks_that_were_started_again_do_not_hear_the_first_ones(tmp_path, monkeypatch):
    settings = {"folder": str(tmp_path), "board": None}
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "0")
    ranks.board(settings).put("loop-1-iterator-asked", "")
    assert ranks.board(settings).get("loop-1-iterator-asked") == ""
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    assert ranks.board(settings).get("loop-1-iterator-asked") is None
