"""Keras on another backend is asked for Keras's causes and its input's, not for other loops'."""

from __future__ import annotations

from dataclasses import replace

from fixes import case_text
from trainperf.fixes import Fix, all_fixes
from trainperf.fixes.findings import findings_to_try, shown_findings
from trainperf.model import Evidence, Framework

TORCH = Framework("torch", "2.13.0", keras="3.15.1")


def said(on: Evidence) -> set[str]:
    found = {one.id for one in shown_findings(on)}
    return found | {one.id for one in findings_to_try(on, found)}


def shown(fix: Fix) -> list[Evidence]:
    """The cases in which a fix has something to say."""
    return [case.evidence for case in case_text.cases(fix.id) if case.kind in ("yes", "try")]


def test_nothing_of_a_loop_of_ones_own_is_said_of_kerass() -> None:
    for fix in all_fixes():
        family = type(fix).__module__.split(".")[-2]
        if fix.framework == "torch" and family in ("torch_step", "precision", "dataloader"):
            for case in shown(fix):
                loop = replace(case.loop, kind="fit", input_kind="numpy")
                keras = replace(case, framework=TORCH, loop=loop)
                assert fix.id not in said(keras)


def test_what_only_tensorflow_has_is_said_of_no_other() -> None:
    for fix in all_fixes():
        family = type(fix).__module__.split(".")[-2]
        if fix.framework == "tensorflow" and family != "tf_data":
            for case in shown(fix):
                assert fix.id not in said(replace(case, framework=TORCH))


def test_kerass_own_settings_are_tried() -> None:
    on_torch = case_text.evidence_of("torch_loop_keras_torch")
    assert {"keras_jit_compile", "batch_size"} <= said(on_torch)
    assert "keras_steps_per_execution" not in said(on_torch)


def test_the_workers_of_a_pydataset_are_found() -> None:
    starved = replace(case_text.evidence_of("loop_pydataset"), framework=TORCH)
    assert "keras_pydataset_workers" in said(starved)


def test_causes_of_tf_data_are_found_where_it_feeds_keras() -> None:
    case = case_text.evidence_of("slow_images")
    assert "tf_map_parallel" in said(replace(case, framework=TORCH))
    arrays = replace(case, framework=TORCH, loop=replace(case.loop, input_kind="numpy"))
    assert "tf_map_parallel" not in said(arrays)
