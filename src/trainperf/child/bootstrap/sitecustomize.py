"""Starts trainperf's observer in a Python process that `trainperf diagnose` started.

Alone in its folder, because the folder is put on PYTHONPATH: any other module here
would shadow the user's module of that name. Everything below must leave the process
as it would have been: `sys.path` without this folder, the user's own
`sitecustomize` run, and no exception ever.
"""

import os
import sys


def _start() -> None:
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != here]
    ours = sys.modules.pop("sitecustomize", None)
    try:
        import sitecustomize  # noqa: F401 - the user's own, if there is one
    except ImportError:
        pass
    finally:
        if ours is not None:  # site.py looks the name up after this import
            sys.modules.setdefault("sitecustomize", ours)
    if not os.environ.get("TRAINPERF_RUN"):
        return
    from importlib import import_module
    from importlib.util import module_from_spec, spec_from_file_location

    package = os.path.dirname(here)
    spec = spec_from_file_location(
        "_trainperf_child",
        os.path.join(package, "__init__.py"),
        submodule_search_locations=[package],
    )
    if spec is None or spec.loader is None:
        raise ImportError(f"{package} cannot be loaded")
    child = module_from_spec(spec)
    sys.modules["_trainperf_child"] = child
    spec.loader.exec_module(child)
    import_module("_trainperf_child.start").start(os.environ["TRAINPERF_RUN"])


try:
    _start()
except Exception as error:
    print(f"trainperf: not observing this process: {error!r}", file=sys.stderr)
