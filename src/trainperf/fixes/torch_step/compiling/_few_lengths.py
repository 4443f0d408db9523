"""Batches that Transformers pads, padded to a few lengths, so that few shapes are compiled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainperf.errors import CannotRewrite
from trainperf.model import Padding, Site

if TYPE_CHECKING:
    from trainperf.rewrite import Script

MULTIPLE = "pad_to_multiple_of"
PADS = ("DataCollatorWithPadding", "DataCollatorForLanguageModeling", "DataCollatorForSeq2Seq")
"""Collators that can pad beyond the longest sequence of a batch."""
LENGTHS = 4
"""Up to the usual length of a batch there are no more: PyTorch compiles for eight shapes."""
SMALLEST, LARGEST = 8, 128


def multiple_of(padding: Padding | None) -> int | None:
    """Return the power of two that batches are to be padded to multiples of.

    None where no collator of Transformers pads them to their longest, or the model reads padding.
    """
    if padding is None or not padding.masked or padding.collator not in PADS:
        return None
    found = SMALLEST
    while found < min(padding.padded_length / LENGTHS, LARGEST):
        found *= 2
    return found


def pad_to_multiples(script: Script, site: Site, collator: str, multiple: int) -> None:
    """Give the only collator that is built in the file of `site` the multiple to pad to.

    Raises `CannotRewrite` where it is not there, or pads to another one.
    """
    module = script.linked(site.file)
    calls = list(module.calls(f"transformers.{collator}"))
    if len(calls) != 1:
        raise CannotRewrite(f"the file builds {collator} in {len(calls)} places, not in one")
    there = script.site_of(site, calls[0])
    if MULTIPLE in script.call_keywords(there):
        raise CannotRewrite(f"{collator} is told {MULTIPLE} already")
    script.set_keyword(there, MULTIPLE, str(multiple))
