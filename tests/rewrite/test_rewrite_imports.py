import pytest

from rewriting import FILE, marked, result, script_of
from trainperf.rewrite import CannotRewrite

BOUND = [
    ("import tensorflow as tf\n", "tf"),
    ("import tensorflow\n", "tensorflow"),
    ("import os, tensorflow as t\n", "t"),
    ("import tensorflow.keras\n", "tensorflow"),
    ("import tensorflow.compat.v2 as tf2\n", "tf2"),
    ("from tensorflow.compat import v2 as tf2\n", "tf2"),
    ("import tensorflow.keras as k\nimport tensorflow as tf\n", "tf"),
    ("try:\n    import tensorflow as tf\nexcept ImportError:\n    tf = None\n", "tf"),
    ("if True:\n    import tensorflow as tf\n", "tf"),
    ("x = 1\ndef f():\n    pass\nimport tensorflow as tf\n", "tf"),
    ("import tensorflow as tf\ndef f():\n    import tensorflow as tf\n", "tf"),
]


@pytest.mark.parametrize(("text", "name"), BOUND)
def test_the_name_a_module_has_is_used_and_nothing_is_added(text, name):
    script, _ = script_of(text)
    assert script.module_name(FILE, "tensorflow") == name
    assert script.sources() == {}


UNRELIABLE = [
    "import tensorflow as tf\ndef f(tf):\n    pass\n",
    "import tensorflow as tf\ntf = 1\n",
    "def main():\n    import tensorflow as tf\n",
    "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import tensorflow as tf\n",
    "import tflite as tf\ntensorflow = 1\n",
    "import tensorflow as tf\nfor tf in range(3):\n    pass\n",
]


@pytest.mark.parametrize("text", UNRELIABLE)
def test_beside_a_name_that_cannot_be_relied_on_the_module_gets_another(text):
    script, _ = script_of(text)
    assert script.module_name(FILE, "tensorflow") == "tf_2"
    assert "import tensorflow as tf_2\n" in script.sources()[script.path(FILE)]


def test_a_module_of_a_package_gets_another_name_as_well():
    script, _ = script_of("concurrent = 1\nfutures_2 = 2\n")
    assert script.module_name(FILE, "concurrent.futures") == "futures_3"


ADDED = [
    ("", "tf", "import tensorflow as tf\n"),
    ("x = 1\n", "tf", "import tensorflow as tf\nx = 1\n"),
    ("import keras", "tf", "import keras\nimport tensorflow as tf"),
    ("import keras\n\nx = 1\n", "tf", "import keras\nimport tensorflow as tf\n\nx = 1\n"),
    (
        "from tensorflow import keras\n",
        "tf",
        "from tensorflow import keras\nimport tensorflow as tf\n",
    ),
    (
        "import tensorflow.compat.v1 as tf\n",
        "tensorflow",
        "import tensorflow.compat.v1 as tf\nimport tensorflow\n",
    ),
    ("import tflite as tf\n", "tensorflow", "import tflite as tf\nimport tensorflow\n"),
    ("from . import tf\n", "tensorflow", "from . import tf\nimport tensorflow\n"),
    (
        "import tensorflow.keras as tf\n",
        "tensorflow",
        "import tensorflow.keras as tf\nimport tensorflow\n",
    ),
    ("import keras\r\n", "tf", "import keras\r\nimport tensorflow as tf\r\n"),
]


@pytest.mark.parametrize(("text", "name", "after"), ADDED)
def test_a_module_that_is_not_imported_is(text, name, after):
    script, _ = script_of(text)
    assert script.module_name(FILE, "tensorflow") == name
    assert script.module_name(FILE, "tensorflow") == name
    assert result(script) == after


def test_an_import_in_the_function_around_a_site_counts():
    script, sites = script_of("def main():\n    import tensorflow as t\n    ▸f()◂\n")
    assert script.module_name(FILE, "tensorflow", sites[0]) == "t"
    script, sites = script_of("def main():\n    ▸f()◂\n    import tensorflow as t\n")
    assert script.module_name(FILE, "tensorflow", sites[0]) == "tf_2"


def test_other_modules_keep_their_own_name():
    script, _ = script_of("import os\nimport keras.layers\n")
    assert script.module_name(FILE, "os") == "os"
    assert script.module_name(FILE, "keras") == "keras"
    assert script.module_name(FILE, "numpy") == "np"
    assert script.module_name(FILE, "keras.mixed_precision") == "keras.mixed_precision"


PLACES = [
    # where the line goes, marked by ▸◂ at the start of the line it goes before
    '"""Doc."""\n▸◂x = 1\n',
    "#!/usr/bin/env python\n# coding: utf-8\n\n▸◂x = 1\n",
    '"""Doc."""\n\nfrom __future__ import annotations\n▸◂\nx = 1\n',
    "import os\nimport sys\n▸◂\ndef f():\n    import late\n",
    "import os\nos.environ['A'] = '1'\nos.umask(0)\nimport sys\n▸◂os.umask(1)\nx = f()\nimport y\n",
    "import os\ntry:\n    import a\nexcept ImportError:\n    a = None\n▸◂x = 1\n",
    "import os\nif os.name:\n    import a\nelse:\n    from b import a\n▸◂x = 1\n",
    "import os\n▸◂if __name__ == '__main__':\n    import a\n    a.main()\n",
    "import os\n▸◂try:\n    for x in y:\n        import a\nexcept E:\n    pass\n",
    "from a import (\n    b,\n    c,\n)  # why\n▸◂x = 1\n",
    "import os\n__version__ = '1'\nimport sys\n▸◂\n",
]


@pytest.mark.parametrize("text", PLACES)
def test_an_import_goes_after_the_leading_imports(text):
    plain, (site,) = marked(text)
    script, _ = script_of(plain)
    script.insert_after_imports(FILE, "import new")
    lines = plain.split("\n")
    lines.insert(site.line - 1, "import new")
    assert result(script) == "\n".join(lines)


def test_a_statement_goes_after_an_empty_line():
    script, _ = script_of("import os\n\n\nx = 1\n")
    script.insert_after_imports(FILE, "os.umask(0)")
    script.insert_after_imports(FILE, "os.umask(0)")
    assert result(script) == "import os\n\nos.umask(0)\n\n\nx = 1\n"


def test_a_statement_goes_after_the_import_it_needs():
    script, _ = script_of("import os\nx = f()\nimport keras\ny = 1\n")
    script.insert_after_imports(FILE, "keras.go()")
    assert result(script) == "import os\nx = f()\nimport keras\n\nkeras.go()\ny = 1\n"


def test_a_statement_may_use_an_import_that_was_just_added_in_any_order():
    script, _ = script_of("import os\nx = 1\n")
    with pytest.raises(CannotRewrite, match="does not import tf"):
        script.insert_after_imports(FILE, "tf.go()")
    script.insert_after_imports(FILE, "os.umask(0)")
    name = script.module_name(FILE, "tensorflow")
    script.insert_after_imports(FILE, f"{name}.go()")
    after = "import os\nimport tensorflow as tf\n\nos.umask(0)\n\ntf.go()\nx = 1\n"
    assert result(script) == after


BEHIND = "x = f()\nimport os\n\nif __name__ == '__main__':\n    import torch\n    f()\n"


def test_a_function_goes_behind_the_import_it_needs():
    script, _ = script_of(BEHIND)
    script.insert_function(FILE, "def made():\n    return os.x\n")
    assert "import os\n\n\ndef made():\n    return os.x\n\n\nif __name__" in result(script)


def test_a_line_goes_behind_an_import_under_a_with():
    script, _ = script_of("with quiet():\n    import keras\nx = 1\n")
    script.insert_after_imports(FILE, "keras.go()")
    assert result(script) == "with quiet():\n    import keras\n\nkeras.go()\nx = 1\n"


def test_what_needs_an_import_of_the_script_itself_is_not_put_behind_that():
    script, _ = script_of(BEHIND)
    with pytest.raises(CannotRewrite, match="imports torch in line 4 only"):
        script.insert_function(FILE, "def made():\n    return torch.x\n")


@pytest.mark.parametrize("statement", ["x =", "  x()", "import", "if a:"])
def test_what_is_no_statement_is_refused(statement):
    script, sites = script_of("import os\n▸f()◂\n")
    with pytest.raises(CannotRewrite):
        script.insert_before(sites[0], statement)
    with pytest.raises(CannotRewrite):
        script.insert_after_imports(FILE, statement)
    assert script.sources() == {}
