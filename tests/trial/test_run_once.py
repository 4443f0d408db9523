"""A changed script that is run once, up to its first slice: does it run at all?"""

from dataclasses import replace

import pytest

from fixes.boxes import GIB, cores
from fixes.case_text import evidence_of
from kit.legs import PLAIN, base_run, clock, written
from recordings import recording
from rewriting import finding_of, marked
from trainperf.fixes import by_id
from trainperf.patch.patch import Edits
from trainperf.trial import Subject, run_once
from trainperf.trial.budget import Costs
from trainperf.trial.legs.faults import LegFailed, OutOfTime

MODEL = """
class Model:
    def predict(self, x):
        return x
    {}
model = Model()
made = ▸model.predict(1)◂
"""
COSTS = Costs(start_s=1.0, step_s=0.02, epoch_s=None, cores=2, slots=1)


@pytest.mark.parametrize(
    ("other", "seconds", "why"),
    [
        ("predict_on_batch = predict", 60.0, None),
        ("", 60.0, (LegFailed, "fails: AttributeError: 'Model' object has no attribute")),
        ("", 2.0, (OutOfTime, "was not run: out of budget")),
    ],
)
def test_what_a_changed_script_does_not_do_is_told(tmp_path, other, seconds, why):
    text, (site,) = marked(MODEL.format(other))
    script = written(tmp_path, text + PLAIN.format(0.02))
    site = replace(site, file=str(script))
    found = finding_of(by_id()["keras_predict_in_loop"], where=(site,), data={"rows": [1]})
    subject = Subject(
        replace(recording(), run=base_run(script)), evidence_of("eager_agent"), (found,),
        cores(8, memory_available=32 * GIB), Edits(tmp_path, by_id()), tmp_path / "runs",
        began=0.0, deadline=0.0,
    )  # fmt: skip
    failure = run_once(subject, COSTS, clock(seconds), lambda event: None, (found,), (found.id,))
    if why is None:
        assert failure is None
    else:
        assert type(failure) is why[0]
        assert str(failure).startswith(why[1])
