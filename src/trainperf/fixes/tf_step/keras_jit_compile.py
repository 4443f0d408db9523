"""A Keras model that runs without XLA though XLA makes its step faster."""

from __future__ import annotations

from trainperf.fixes import Fix
from trainperf.fixes.common.keras_source import compile_seen, set_compile
from trainperf.fixes.common.step import PROBE_LEAST, bound_by, left_by, saved_by, step_can_matter
from trainperf.fixes.common.words import at, ms, times, worth
from trainperf.model import Equivalence, Evidence, Finding, Loop, ModelFacts, Probe
from trainperf.rewrite import Script


class CompileWithXla(Fix):
    """Compile the step with XLA, or `torch.compile`: `jit_compile=True`.

    ## Why it is slow
    Without XLA each operation of the step is a kernel of its own that reads its
    input from memory and writes its result back. XLA fuses them. Keras turns it on by
    itself (`jit_compile="auto"`), but off again, without a word, on hosts without a
    GPU, under `tf.distribute`, with op determinism, and for the whole model as soon as
    one layer does not support it. On PyTorch it is off unless it is asked for, and what
    compiles is `torch.compile`.

    ## What changes
    The step is compiled as a whole before the first batch, which takes seconds to
    minutes once. The mathematics is the same, rounding differs.

    ## When not to
    - Batches of changing shape are compiled anew for each shape.
    - Runs too short to earn the compilation back (the report gives the number of steps).
    - LSTM and GRU on a GPU: cuDNN is often faster than XLA. Measure both.
    """

    category = "model"
    framework = "keras"
    usual = 1.2
    probed_by = "jit_compile"
    compiles = True
    equivalence = Equivalence.NUMERICS

    def detect(self, evidence: Evidence) -> Finding | None:
        """Find a model without XLA whose step ran faster with it, and says what it costs."""
        model = evidence.model
        if model.jit is not False or model.run_eagerly:
            return None
        probe = evidence.probe("jit_compile")
        bound = bound_by(evidence, probe)
        if probe.low < PROBE_LEAST or not worth(evidence, bound) or _too_late(evidence, probe):
            return None
        steps = _break_even(probe.one_off_s, saved_by(evidence, probe))
        text = (
            f"Compiled with XLA, the same step ran {times(probe.ratio)} as fast in this run "
            f"({ms(probe.base_s)} → {ms(probe.candidate_s)}). Compiling took "
            f"{ms(probe.one_off_s)}, which {steps:,} steps earn back."
        )
        basis = "measured by a probe of the step in this run"
        return self._finding(evidence, text, bound, basis, {"break_even_steps": steps})

    def possible(self, evidence: Evidence) -> Finding | None:
        """Try a model without XLA, whatever a probe said, unless the run is too short for it."""
        model = evidence.model
        if model.jit is not False or model.run_eagerly or not step_can_matter(evidence):
            return None
        made = evidence.probes.get("jit_compile")
        if isinstance(made, Probe) and _too_late(evidence, made):
            return None
        bound, basis = left_by(evidence, "jit_compile")
        step = "step" if evidence.framework.on_other_backend else "compiled step"
        text = (
            f"Keras runs the {step} without {_compiler(evidence)}, each operation as a kernel of "
            "its own."
        )
        return self._finding(evidence, text, bound, basis, {})

    def _finding(
        self, evidence: Evidence, text: str, bound: float | None, basis: str, data: dict[str, int]
    ) -> Finding:
        model = evidence.model
        where = model.compile_where
        refused = bool(model.jit_blocking_layers) or "determinis" in model.jit_blocker.lower()
        advice, snippet = _advice(model, refused)
        return self.finding(
            title=f"{_compiler(evidence)} is off{_why(model)}",
            text=text,
            bound=bound,
            bound_basis=basis,
            where=(where,) if where else (),
            advice=advice,
            snippet=snippet,
            rewritable=where is not None and where.exact and not refused,
            data={**data, **compile_seen(evidence)},
        )

    def rewrite(self, script: Script, finding: Finding) -> None:
        """Set the keyword in the call of `compile`."""
        set_compile(script, finding, "jit_compile", "True")


def _compiler(evidence: Evidence) -> str:
    """Name what `jit_compile=True` compiles the step with."""
    return "torch.compile" if evidence.framework.name == "torch" else "XLA"


def _why(model: ModelFacts) -> str:
    if model.jit_requested is False:
        place = f" ({at(model.compile_where)})" if model.compile_where else ""
        return f": compile was given jit_compile=False{place}"
    return f": {model.jit_blocker}" if model.jit_blocker else ""


def _break_even(one_off_s: float, saved_s: float) -> int:
    """Steps after which compiling has paid; both in seconds."""
    return round(one_off_s / max(saved_s, 1e-9)) + 1


def _too_late(evidence: Evidence, probe: Probe) -> bool:
    """Whether the run is over before compiling has paid."""
    planned = _planned(evidence.loop)
    saved = saved_by(evidence, probe)
    return planned is not None and saved > 0 and _break_even(probe.one_off_s, saved) >= planned


def _planned(loop: Loop) -> int | None:
    """Steps of the whole run, or None if they are not known."""
    if loop.epochs is None or loop.epoch_steps is None:
        return None
    return loop.epochs * loop.epoch_steps


def _advice(model: ModelFacts, refused: bool) -> tuple[str, str]:
    """Say what to do, in words and in code."""
    advice = "Set jit_compile=True in compile."
    snippet = "model.compile(..., jit_compile=True)"
    if model.jit_blocking_layers:
        names = ", ".join(model.jit_blocking_layers)
        advice = (
            f"Keras refuses XLA because of {names}. If those are LSTM or GRU layers, build them "
            "with use_cudnn=False, then set jit_compile=True."
        )
        snippet = f"keras.layers.LSTM(..., use_cudnn=False)\n{snippet}"
    elif refused:
        advice = (
            "Op determinism excludes XLA. Turn it off if runs need not repeat exactly, then set "
            "jit_compile=True."
        )
    return advice, snippet
