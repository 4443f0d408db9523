"""Repairs that are made by the setting of a library whose loop it is."""

from __future__ import annotations

import ast
import contextlib
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from fixes.case_text import evidence_of
from rewriting import finding_of, project_of, result, script_of
from trainperf.errors import CannotRewrite
from trainperf.fixes import by_id
from trainperf.fixes.common import trainers
from trainperf.fixes.findings import findings_to_try, shown_findings
from trainperf.model import Site, Trainer
from trainperf.patch.patch import Edits
from trainperf.trainer_settings import GOVERNS, TRIED

LOOP = "torch_memmap_gpt"
"""The recording of a loop that gains by autocast."""
CALLS = evidence_of(LOOP).torch.calls
NONE = {"bf16": False, "fp16": False, "dataloader_num_workers": 0, "optim": "adamw_torch"}
ARGUMENTS = Trainer(
    "transformers",
    "TrainingArguments",
    where=Site("train.py", 9, "main", col=4, end_line=9, end_col=40),
    made="command",
    source="--",
    settings=NONE,
    defaults=NONE,
)


def in_a_call(library, cls, *settings):
    """A trainer that a call of the script makes, all its settings left to their defaults."""
    none = dict.fromkeys(settings)
    where = ARGUMENTS.where
    return Trainer(library, cls, where=where, made="call", settings=none, defaults=none)


LIGHTNING = in_a_call("lightning", "Trainer", "precision", "benchmark")
ACCELERATOR = in_a_call("accelerate", "Accelerator", "mixed_precision", "dynamo_backend")


def run_by(trainer, **laid):
    """The loop with a library's settings; two more fields at most, of `torch` or `facts`."""
    paths = {name.replace("__", "."): value for name, value in laid.items()}
    return evidence_of(LOOP, {"torch.trainer": trainer, **paths})


def autocast(evidence):
    (found,) = (one for one in shown_findings(evidence) if one.id == "torch_autocast")
    return found


def written(trainer, text, **laid):
    """What the edit of a finding makes of a script, and of the end of its command."""
    script, (site,) = script_of(text)
    made = replace(trainer, where=site) if trainer.where is not None else trainer
    by_id()["torch_autocast"].write(script, autocast(run_by(made, **laid)))
    return result(script), script.arguments


# ----------------------------------------------------------------- what is left alone


def test_a_loop_of_the_users_own_is_repaired_where_the_fix_says():
    found = autocast(run_by(None))
    assert "trainer" not in found.data
    assert found.where[0] == CALLS.forward


@pytest.mark.parametrize(
    "trainer",
    [
        # the installed version has no such setting
        replace(ARGUMENTS, settings={"dataloader_num_workers": 0}),
        # it is what it should be, and something else keeps it from its effect
        replace(ARGUMENTS, settings={**NONE, "bf16": True}),
        replace(LIGHTNING, settings={"precision": "bf16-mixed"}),
    ],
)
def test_what_the_setting_cannot_repair_is_left_to_the_fix(trainer):
    assert "trainer" not in autocast(run_by(trainer)).data


def test_an_optimizer_of_another_kind_is_not_made_adam():
    setting = GOVERNS["transformers"]["torch_fused_optimizer"][0]
    assert setting.suits(ARGUMENTS, {})
    assert not setting.suits(replace(ARGUMENTS, settings={**NONE, "optim": "sgd"}), {})
    assert not setting.suits(replace(ARGUMENTS, settings={"optim": "adamw_torch_fused"}), {})


# ------------------------------------------------------------------- options of the command


def test_what_the_command_sets_is_tried_and_given_by_the_command():
    text = "args = ▸parser.parse_args_into_dataclasses()◂\n"
    assert written(ARGUMENTS, text) == (None, ("--bf16", "True"))


def test_a_forward_that_no_edit_reaches_can_be_repaired_all_the_same():
    hidden = replace(CALLS, forward=None)
    found = autocast(run_by(ARGUMENTS, torch__calls=hidden))
    assert found.rewritable
    assert found.where == (ARGUMENTS.where,)
    assert "--bf16 True" in found.advice
    unprobed = run_by(ARGUMENTS, torch__calls=hidden, probes={})
    assert "torch_autocast" in {one.id for one in findings_to_try(unprobed, ())}


def test_a_command_that_ends_elsewhere_is_not_added_to():
    with pytest.raises(CannotRewrite, match="where it is started"):
        written(
            ARGUMENTS,
            "args = ▸parser.parse_args_into_dataclasses()◂\n",
            facts__command_reaches_script=False,
        )


def test_two_settings_of_one_command_go_into_one_patch():
    evidence = run_by(ARGUMENTS)
    one = autocast(evidence)
    workers = trainers.governed(replace(one, id="torch_workers", data={"workers": 2}), evidence)
    made = Edits("/project", by_id(), _no_file).write((one, workers))
    assert made.patch.arguments == ("--bf16", "True", "--dataloader_num_workers", "2")
    assert made.patch.findings == ("torch_autocast", "torch_workers")
    assert not made.patch.diff


def test_two_values_of_one_setting_do_not_go_together():
    evidence = run_by(ARGUMENTS)
    found = [
        trainers.governed(replace(autocast(evidence), id=id_, data={"workers": n}), evidence)
        for id_, n in (("torch_workers", 2), ("torch_too_many_workers", 4))
    ]
    made = Edits("/project", by_id(), _no_file).write(found)
    assert made.patch.arguments == ("--dataloader_num_workers", "2")
    (left,) = made.patch.skipped
    assert "sets --dataloader_num_workers to 2" in left.reason


def _no_file(path):
    raise FileNotFoundError(path)


# ------------------------------------------------------------------------------- calls


OPTION = (
    'parser.add_argument("--mixed_precision", default=None, choices=["no", "bf16"])\n'
    "args = parser.parse_args()\n"
    "accelerator = ▸Accelerator(mixed_precision=args.mixed_precision)◂\n"
)
CALLED = [
    (
        replace(ARGUMENTS, made="call"),
        'args = ▸TrainingArguments("out", bf16=False)◂\n',
        'args = TrainingArguments("out", bf16=True)\n',
    ),
    (
        replace(ARGUMENTS, made="call"),
        'args = ▸TrainingArguments("out")◂\n',
        'args = TrainingArguments("out", bf16=True)\n',
    ),
    (
        LIGHTNING,
        "trainer = ▸L.Trainer(max_epochs=3)◂\n",
        'trainer = L.Trainer(max_epochs=3, precision="bf16-mixed")\n',
    ),
    (
        ACCELERATOR,
        "accelerator = ▸Accelerator(True, False, None)◂\n",
        'accelerator = Accelerator(True, False, "bf16")\n',
    ),
    # the default of an option that the command does not give
    (ACCELERATOR, OPTION, OPTION.replace("default=None", 'default="bf16"')),
]


@pytest.mark.parametrize(("trainer", "before", "after"), CALLED)
def test_the_users_call_is_edited_or_what_it_has_the_value_from(trainer, before, after):
    assert written(trainer, before) == (after.replace("▸", "").replace("◂", ""), ())


def test_an_option_that_the_command_gives_is_given_again():
    trainer = replace(ACCELERATOR, settings={"mixed_precision": "no"})
    words = ["python", "train.py", "--mixed_precision", "no"]
    found = written(trainer, OPTION, facts__command_words=words)
    assert found == (None, ("--mixed_precision", "bf16"))


def test_where_the_library_is_made_by_something_else_the_loop_itself_is_edited():
    text = "trainer = instantiate(config)\nout = ▸model(x)◂\nloss = f(out)\n▸loss.backward()◂\n"
    script, sites = script_of(text)
    calls = replace(CALLS, forward=sites[0], backward=sites[1])
    trainer = replace(LIGHTNING, made="elsewhere", where=None)
    by_id()["torch_autocast"].write(script, autocast(run_by(trainer, torch__calls=calls)))
    assert "with torch.autocast" in (result(script) or "")


CONFIGURED = {
    "train.py": "args = ▸parser.parse_json_file(path)◂\n",
    "conf.json": '{"seed": 1, "bf16": false}\n',
}


def test_a_file_that_sets_it_is_changed_where_it_is_named():
    script = project_of(CONFIGURED)
    trainer = replace(ARGUMENTS, made="file", source="/project/conf.json")
    by_id()["torch_autocast"].write(script, autocast(run_by(trainer)))
    assert script.contents() == {"/project/conf.json": b'{"seed": 1, "bf16": true}\n'}
    assert script.arguments == ()


def test_a_file_that_cannot_be_changed_is_named_with_its_line():
    script = project_of({**CONFIGURED, "conf.json": "[]"})
    trainer = replace(ARGUMENTS, made="file", source="/project/conf.json")
    with pytest.raises(CannotRewrite, match=r'conf\.json: set "bf16": true there'):
        by_id()["torch_autocast"].write(script, autocast(run_by(trainer)))


# ------------------------------------------------------------------------------- the table


def test_every_setting_is_of_a_fix_that_edits_and_has_a_value():
    fixes = by_id()
    for library, rows in GOVERNS.items():
        for id_, settings in rows.items():
            assert fixes[id_].rewrites, (library, id_)
            for one in settings:
                text = one.value.replace("{", "").replace("}", "")
                assert one.times or ast.parse(text, mode="eval"), (library, id_)


def test_an_option_of_lightnings_command_line_begins_with_the_trainer():
    trainer = replace(LIGHTNING, made="command", source="--trainer.")
    found = written(trainer, "cli = ▸LightningCLI(Model)◂\n")
    assert found == (None, ("--trainer.precision", "bf16-mixed"))


def test_evaluations_become_so_many_times_more_seldom():
    (setting,) = GOVERNS["transformers"]["evaluation_between"]
    assert setting.template(replace(ARGUMENTS, settings={"eval_steps": 50})) == "250"
    assert not setting.suits(replace(ARGUMENTS, settings={"eval_steps": None}), {})
    assert not setting.suits(replace(ARGUMENTS, settings={"eval_steps": 0.1}), {})


def test_evaluations_that_may_end_the_training_come_as_often_as_before():
    trainer = replace(ARGUMENTS, made="call", settings={"eval_steps": 50})
    for behind, taken in (("", True), ("trainer.add_callback(EarlyStoppingCallback(3))\n", False)):
        script, (site,) = script_of(f"args = ▸TrainingArguments('out', eval_steps=50)◂\n{behind}")
        evidence = run_by(replace(trainer, where=site))
        found = trainers.governed(bare("evaluation_between"), evidence)
        with contextlib.nullcontext() if taken else pytest.raises(CannotRewrite, match="goes by"):
            by_id()["evaluation_between"].write(script, found)
        assert ("eval_steps=250" in (result(script) or "")) == taken


def test_the_batch_is_the_librarys_where_it_is_that_of_the_loader():
    (setting,) = GOVERNS["transformers"]["batch_size"]
    data = {"batch_size": 8, "batch": 16}
    trainer = replace(ARGUMENTS, settings={"per_device_train_batch_size": 8})
    assert setting.suits(trainer, data)
    several = replace(ARGUMENTS, settings={"per_device_train_batch_size": 4})
    assert not setting.suits(several, data)  # two devices share the loader's batch
    evidence = run_by(trainer)
    found = trainers.governed(replace(bare("batch_size"), data=data), evidence)
    for batch, words in ((None, "16"), (32, "32")):
        script, _ = script_of("x = 1\n")
        way = found if batch is None else replace(found, data={**found.data, "batch": batch})
        by_id()["batch_size"].write(script, way)
        assert script.arguments == ("--per_device_train_batch_size", words)


def bare(id_):
    return finding_of(by_id()[id_], bound=2.0)


def test_of_several_ways_none_is_advised_before_it_was_tried():
    evidence = run_by(ARGUMENTS)
    data = {"workers": 2}
    found = trainers.governed(replace(bare("torch_workers"), data=data), evidence)
    assert "`--dataloader_num_workers`" in found.advice


def test_what_changes_the_experiment_keeps_its_own_advice():
    trainer = replace(ARGUMENTS, settings={"logging_steps": 1})
    found = trainers.governed(bare("torch_step_logging"), run_by(trainer))
    assert found.advice.startswith(by_id()["torch_step_logging"].summary)
    assert "--logging_steps 50" in found.advice


def test_every_fix_that_is_edited_in_a_library_has_a_row_of_its_own():
    for fix in by_id().values():
        assert GOVERNS.keys() >= fix.in_libraries.keys()
        assert not any(fix.id in GOVERNS[library] for library in fix.in_libraries)
        assert not fix.in_libraries or fix.rewrites


def test_the_versions_that_were_tried_are_those_of_the_nightly_tests():
    text = (Path(__file__).parents[3] / "pyproject.toml").read_text(encoding="utf-8")
    extras = tomllib.loads(text)["project"]["optional-dependencies"]
    for at, extra in enumerate(("oldest-libraries", "libraries")):
        pinned = dict(one.split("==") for one in extras[extra] if "==" in one)
        assert pinned == {library: versions[at] for library, versions in TRIED.items()}
