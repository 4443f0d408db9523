"""LSTM and GRU layers that miss the cuDNN kernel."""

from __future__ import annotations

from typing import Any

from trainperf.fixes import Fix
from trainperf.fixes.common.step import step_may_matter
from trainperf.fixes.common.words import at
from trainperf.model import Equivalence, Evidence, Finding, LayerFacts

CUDNN_LAYERS = ("LSTM", "GRU")


class UseCudnn(Fix):
    """Build LSTM and GRU layers so that they can use cuDNN.

    ## Why it is slow
    On a GPU, an LSTM or GRU with the default arguments runs as one cuDNN kernel over
    the whole sequence. With other arguments it runs as a loop over the time steps, with
    several small kernels in each: often many times slower.

    ## What changes
    cuDNN needs `activation="tanh"`, `recurrent_activation="sigmoid"`, `use_bias=True`,
    `recurrent_dropout=0`, `unroll=False`, and for GRU `reset_after=True`. Except for
    `unroll`, this changes the model: train it anew and compare.

    ## When not to
    - The argument is there for accuracy, and accuracy matters more than speed.
    - Masked sequences must be padded on the right, or cuDNN cannot be used at all.
    - A layer that uses cuDNN turns XLA off for the whole model. Where XLA is fast,
      `use_cudnn=False` can be right: measure both.
    """

    category = "model"
    equivalence = Equivalence.SEMANTICS
    without_edit = "the arguments that keep cuDNN away are another model: its weights would not fit"

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find the recurrent layers on a GPU whose arguments exclude cuDNN, with why."""
        if evidence.device.kind != "GPU" or not step_may_matter(evidence):
            return None
        missing = [(layer, why_not(layer)) for layer in evidence.model.recurrent]
        missing = [(layer, why) for layer, why in missing if why and why != [UNROLL]]
        if not missing:
            return None
        layers = "; ".join(
            f"{layer.name}{f' ({at(layer.where)})' if layer.where else ''}: {', '.join(why)}"
            for layer, why in missing
        )
        first, reasons = missing[0]
        count = len(missing)
        return self.finding(
            title=f"{first.cls} runs step by step instead of in cuDNN"
            if count == 1
            else f"{count} recurrent layers run step by step instead of in cuDNN",
            text=f"What excludes cuDNN: {layers}.",
            bound=None,
            bound_basis="not measured: the layer would have to be built anew",
            where=tuple(layer.where for layer, _ in missing if layer.where),
            advice="Use the default for these arguments, or accept the slower kernel knowingly.",
            snippet=f"keras.layers.{first.cls}(units)  # without {', '.join(reasons)}",
        )


UNROLL = "unroll=True"


def why_not(layer: LayerFacts) -> list[str]:
    """Return the arguments that exclude cuDNN for an LSTM or GRU, as they were given.

    The conditions are those of Keras 3.15's `cudnn_ok` and of
    `_do_gru_arguments_support_cudnn`. An argument that was not recorded is not judged.
    """
    if layer.cls not in CUDNN_LAYERS:
        return []
    config = layer.config
    wanted: dict[str, Any] = {"activation": "tanh", "recurrent_activation": "sigmoid"}
    if layer.cls == "GRU":
        wanted["reset_after"] = True
    wanted["use_bias"] = True
    reasons = [
        f"{name}={config[name]!r}"
        for name, value in wanted.items()
        if name in config and config[name] != value
    ]
    if config.get("recurrent_dropout"):
        reasons.append(f"recurrent_dropout={config['recurrent_dropout']}")
    if config.get("unroll"):
        reasons.append(UNROLL)
    if config.get("use_cudnn") is False:
        reasons.append("use_cudnn=False")
    return reasons
