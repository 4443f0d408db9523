"""A model is asked whether it gives the same without the padding of its batch."""

from __future__ import annotations

from typing import Any

import torch

from trainperf.child.torch.facts import masks_padding

ROWS = torch.zeros(8, 40, dtype=torch.long)
for row, length in enumerate([5, 7, 3, 14, 20, 2, 9, 31]):
    ROWS[row, :length] = torch.arange(1, length + 1)


class Reads(torch.nn.Module):
    """An embedding and a recurrent layer, whose last state goes through the padding."""

    def __init__(self, masks: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed = torch.nn.Embedding(50, 8)
        self.gru = torch.nn.GRU(8, 8, batch_first=True)
        self.drop = torch.nn.Dropout(0.5)
        self.masks = masks

    def forward(self, rows: Any) -> Any:
        states, last = self.gru(self.embed(rows))
        given = (rows != 0).unsqueeze(-1)
        return self.drop((states * given).sum(dim=1) if self.masks else last[-1])


def test_a_model_with_a_mask_gives_the_same() -> None:
    assert masks_padding(Reads(masks=True), (ROWS,), {}) is True
    assert masks_padding(Reads(masks=True), (), {"rows": ROWS}) is True


def test_a_model_that_reads_its_padding_gives_something_else() -> None:
    assert masks_padding(Reads(masks=False), (ROWS,), {}) is False


def test_nothing_can_be_told_without_padded_sequences() -> None:
    model = Reads(masks=True)
    assert masks_padding(model, (torch.arange(320).view(8, 40) % 49,), {}) is None
    assert masks_padding(model, (ROWS[:, :4],), {}) is None


def test_asking_leaves_the_model_and_the_random_stream_as_they_are() -> None:
    model = Reads(masks=True)
    model.drop.eval()
    modes = [one.training for one in model.modules()]
    state = torch.get_rng_state()
    masks_padding(model, (ROWS,), {})

    assert [one.training for one in model.modules()] == modes
    assert torch.equal(torch.get_rng_state(), state)
    assert all(one.grad is None for one in model.parameters())
