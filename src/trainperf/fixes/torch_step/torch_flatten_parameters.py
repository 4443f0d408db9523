"""Recurrent layers whose weights lie scattered in GPU memory."""

from __future__ import annotations

from trainperf.fixes import Fix
from trainperf.fixes.common.step import bound_if_saved
from trainperf.fixes.common.words import ms, worth
from trainperf.fixes.torch_step._step import RECURRENT, count_of, part_seconds
from trainperf.model import Evidence, Finding


class FlattenParameters(Fix):
    """Put the weights of recurrent layers into one piece of memory: `flatten_parameters()`.

    ## Why it is slow
    cuDNN wants all weights of an `LSTM`, `GRU` or `RNN` side by side. When they are not,
    after `copy.deepcopy`, `DataParallel` or weights that were set by hand, PyTorch copies
    them together in each forward. It warns once that they are "not part of single
    contiguous chunk of memory".

    ## What changes
    `flatten_parameters()` copies them once. Values and results stay the same.

    ## When not to
    Under `DataParallel` each forward gets scattered copies of the weights anew, so the
    call belongs into `forward`, and `DistributedDataParallel` is the real repair.
    """

    category = "model"
    framework = "torch"
    without_edit = "whether the weights are scattered once or in each forward is not seen"

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find recurrent layers whose weights lie in several pieces of a GPU's memory."""
        model = evidence.torch.model
        if not model.scattered or evidence.device.kind != "GPU":
            return None
        forward = part_seconds(evidence, "forward")
        bound = bound_if_saved(evidence, forward)
        if not worth(evidence, bound):
            return None
        layers = count_of(model, RECURRENT)
        whose = f" of {model.cls}'s {layers} recurrent layers" if layers > 1 else ""
        return self.finding(
            title="The weights of a recurrent layer lie scattered in GPU memory",
            text=f"The weights{whose} are not in one piece of memory, so each "
            f"forward copies them together. Forward takes {ms(forward)} of the "
            f"{ms(evidence.times.real)} step.",
            bound=bound,
            bound_basis="at most all of forward",
            where=model.scattered,
            advice="Call flatten_parameters() on the layer after the model is on the GPU, or first "
            "in forward.",
            snippet="self.rnn.flatten_parameters()\noutput, state = self.rnn(x)",
        )
