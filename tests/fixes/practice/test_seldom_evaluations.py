"""Evaluations that come less often, unless another file of the user's goes by them."""

import pytest

from rewriting import project_of, result, site_in
from trainperf.errors import CannotRewrite
from trainperf.fixes.practice.interruptions import validate_seldom

FILES = {
    "train.py": "from stopping import stopping\n\n"
    "▸model.fit(x, y, validation_data=held, callbacks=stopping())◂\n",
    "stopping.py": "def stopping():\n    return [EarlyStopping('val_loss')]\n",
}


def test_callbacks_of_another_file_may_go_by_each_validation():
    with pytest.raises(CannotRewrite, match=r"stopping\.py goes by"):
        validate_seldom(project_of(FILES), site_in(FILES), 5)
    script = project_of({**FILES, "stopping.py": "def stopping():\n    return []\n"})
    validate_seldom(script, site_in(FILES), 5)
    assert "validation_freq=5" in (result(script) or "")
