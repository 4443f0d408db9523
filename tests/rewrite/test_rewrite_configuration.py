"""A setting of a JSON or YAML file changed, all else of its text as it was."""

from __future__ import annotations

import json

import pytest

from rewriting import project_of
from trainperf.errors import CannotRewrite
from trainperf.rewrite.configuration import Configuration


def changed(path, text, name="bf16", value=True):
    return Configuration.of(path, path, text.encode()).with_setting(name, value).text


REFUSED = [
    ("a.json", "[1, 2]"),
    ("a.json", "{"),
    ("a.json", '{"bf16": {"enabled": false}}'),
    ("a.json", '{"x": {"bf16": 0}, "bf16": null}'),
    ("a.yaml", "bf16: false\nbf16: true\n"),
    ("a.yaml", "bf16:\n  - a\nbf16 : 1\n"),
    ("a.yaml", "bf16: not\n  yet\nx: 1\n"),
    ("a.yaml", "- list\n"),
]


@pytest.mark.parametrize(("path", "text"), REFUSED)
def test_what_is_no_plain_place_is_refused(path, text):
    with pytest.raises(CannotRewrite):
        changed(path, text)


CHANGED = [
    ("a.json", '{"bf16": false}', '{"bf16": true}'),
    (
        "a.json",
        '{"betas": [0.9, 0.999],\r\n    "lr": 5e-5,\r\n"bf16":false}',
        '{"betas": [0.9, 0.999],\r\n    "lr": 5e-5,\r\n"bf16": true}',
    ),
    (
        "a.json",
        '{\n    "lr": 5e-5, "x": [1]\n}\n',
        '{\n    "bf16": true,\n    "lr": 5e-5, "x": [1]\n}\n',
    ),
    ("a.json", "{}", '{"bf16": true}'),
    ("a.yaml", "x: 1\nbf16: false  # why\n", "x: 1\nbf16: true  # why\n"),
    ("a.yaml", "bf16: 'no # yet' # why\n", "bf16: true # why\n"),
    ("a.yaml", "bf16: a#b\r\nx: 1\r\n", "bf16: true\r\nx: 1\r\n"),
    ("a.yaml", "x: 1\nbf16: false", "x: 1\nbf16: true"),
    ("a.yml", "# settings\nx: 1\n", "# settings\nbf16: true\nx: 1\n"),
    ("a.yaml", "inner:\n  bf16: false\n", "bf16: true\ninner:\n  bf16: false\n"),
]


@pytest.mark.parametrize(("path", "before", "after"), CHANGED)
def test_one_setting_is_changed_or_added(path, before, after):
    assert changed(path, before) == after


def test_texts_are_quoted():
    assert json.loads(changed("a.json", "{}", "optim", "adamw")) == {"optim": "adamw"}
    assert changed("a.yaml", "optim: sgd\n", "optim", "adamw") == 'optim: "adamw"\n'


def test_a_file_of_settings_is_a_part_of_the_patch():
    script = project_of({"conf.json": '{\n  "bf16": false\n}\n', "train.py": "x = 1\n"})
    script.set_in_configuration("conf.json", "bf16", True)
    assert script.contents() == {"/project/conf.json": b'{\n  "bf16": true\n}\n'}
    assert script.originals() == {"/project/conf.json": b'{\n  "bf16": false\n}\n'}
    assert "--- a/conf.json\n+++ b/conf.json\n" in script.diff()
    other = script.copy()
    other.set_in_configuration("conf.json", "workers", 2)
    assert json.loads(other.contents()["/project/conf.json"]) == {"workers": 2, "bf16": True}
    assert json.loads(script.contents()["/project/conf.json"]) == {"bf16": True}


def test_a_file_that_is_gone_or_no_users_is_refused():
    script = project_of({"train.py": "x = 1\n"})
    for path in ("conf.json", "/etc/conf.json"):
        with pytest.raises(CannotRewrite):
            script.set_in_configuration(path, "bf16", True)
