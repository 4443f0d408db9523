"""The name of the model of a PyTorch step."""

from __future__ import annotations

import pytest

from rewriting import script_of
from trainperf.errors import CannotRewrite
from trainperf.fixes.torch_step._source import model_target


@pytest.mark.parametrize(
    "text",
    [
        "train(▸Net()◂)\n",
        "model = other = ▸Net()◂\n",
        "model, loss = ▸Net()◂, Loss()\n",
        "models[0] = ▸Net()◂\n",
        "model = wrap(▸Net()◂)\n",
        "model = ▸Net()◂.weights()\n",
        "model = ▸Net()◂ if new else load()\n",
        "build().model = ▸Net()◂\n",
        "model += ▸Net()◂\n",
    ],
)
def test_a_model_without_a_plain_name_of_its_own_is_left_alone(text: str) -> None:
    script, (site,) = script_of(text)
    with pytest.raises(CannotRewrite):
        model_target(script, site)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("model = ▸Net()◂\n", "model"),
        ("model: nn.Module = ▸nn.Sequential(\n    a,\n    b,\n)◂\n", "model"),
        ("self.net = ▸Net()◂.to(device).train()\n", "self.net"),
        ("def build():\n    net = (\n        ▸Net()◂\n        .cuda()\n    )\n", "net"),
    ],
)
def test_a_model_is_called_what_it_is_assigned_to(text: str, name: str) -> None:
    script, (site,) = script_of(text)

    assert model_target(script, site) == name
