"""Whether a language model keeps sequences apart that follow one another in one row.

Transformers has a collator that puts them so, without padding: the positions begin anew with each.
Which models and which attention go by that differs from version to version, so the model is asked.
"""

from __future__ import annotations

import inspect
import sys
from typing import Any

from ..loader.settings import COLLATORS
from .passes import evaluated
from .unpadded import CLOSE, largest

CAUSAL = "transformers.models.auto.modeling_auto"
EPSILONS = 8
"""Largest distance of two outputs by their rounding, in units of that of their type, where this
is more than `CLOSE`: bfloat16."""


def of_driver(driver: Any) -> dict[str, Any] | None:
    """The fields of a `Packing` for the largest model of a loop; None where it cannot be asked."""
    called = largest(driver)
    try:
        apart = None if called is None else keeps_apart(*called)
    except Exception as error:
        driver.process.failed("the model on sequences in one row", error)
        return None
    if apart is None:
        return None
    flattens = hasattr(sys.modules.get(COLLATORS), "DataCollatorWithFlattening")
    return {"apart": apart, "flattens": flattens}


def keeps_apart(module: Any, args: Any, kwargs: Any) -> bool | None:
    """Whether each token gives the same in a row of all sequences as in a padded one of its own.

    It is asked without gradients, and in the mode of evaluation. None for any but a causal
    language model of Transformers that is called with padded tokens, their mask and no positions.
    """
    import torch

    ids, mask = kwargs.get("input_ids"), kwargs.get("attention_mask")
    if args or ids is None or mask is None or kwargs.get("position_ids") is not None:
        return None
    if ids.dim() != 2 or mask.shape != ids.shape or not _is_causal(module):
        return None
    if "position_ids" not in inspect.signature(module.forward).parameters:
        return None
    given = mask.detach() != 0
    lengths = given.sum(dim=1).tolist()
    if len(lengths) < 2 or bool(given.all()):
        return None
    positions = given.cumsum(dim=1) - 1
    row = {"input_ids": ids.detach()[given][None], "position_ids": positions[given][None]}
    with evaluated(module):
        padded = module(input_ids=ids.detach(), attention_mask=mask.detach()).logits
        packed = module(**row).logits
    own, together = padded[given].float(), packed[0].float()
    rounding = EPSILONS * torch.finfo(padded.dtype).eps
    usual = float(own.abs().mean()) or 1.0
    return float((own - together).abs().max()) <= max(CLOSE, rounding) * usual


def _is_causal(module: Any) -> bool:
    """Whether a model, or what it is a subclass of, is one of the library's that predict tokens."""
    auto: Any = sys.modules.get(CAUSAL)
    names = set(getattr(auto, "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES", {}).values())
    compiled = any(getattr(one, "_compiled_call_impl", None) for one in module.modules())
    return not compiled and any(cls.__name__ in names for cls in type(module).__mro__)
