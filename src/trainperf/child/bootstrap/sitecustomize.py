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
    except Exception as error:  # site.py says this much of it, and goes on
        if not isinstance(error, ImportError) or error.name != "sitecustomize":
            told = f"{type(error).__name__}: {error}"
            sys.stderr.write(f"Error in sitecustomize; set PYTHONVERBOSE for traceback:\n{told}\n")
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
    taken, path = _taken(), sys.path[:]
    if taken:
        home = os.path.dirname(os.__file__)
        sys.path[:] = [entry for entry in path if entry.startswith(home) or entry[-4:] == ".zip"]
    try:
        child = module_from_spec(spec)
        sys.modules["_trainperf_child"] = child
        spec.loader.exec_module(child)
        import_module("_trainperf_child.start").start(os.environ["TRAINPERF_RUN"])
        if taken:
            _import_all(package)
    finally:
        sys.path[:] = path
        for name in list(sys.modules):
            if name.partition(".")[0] in taken:
                del sys.modules[name]


def _import_all(package: str) -> None:
    """Import our modules now: they mean the standard library's, which a folder then takes over."""
    from importlib import import_module
    from pkgutil import walk_packages

    for module in walk_packages([package], "_trainperf_child."):
        import_module(module.name)


def _taken() -> "frozenset[str]":
    """Names of the standard library that folders which come before it own as well.

    Those of modules that the interpreter has imported by now are not among them: everybody gets
    these.
    """
    standard = sys.stdlib_module_names
    home = os.path.dirname(os.__file__)
    folders = []
    for entry in sys.path:
        if entry.startswith(home):
            break
        folders.append(entry)
    if not sys.flags.safe_path:
        script = sys.argv[0] if sys.argv else ""
        folders.append("." if script in ("", "-c", "-m") else os.path.dirname(script) or ".")
    owned = set()
    for folder in folders:
        try:
            names = os.listdir(folder)
        except OSError:
            continue
        for name in names:
            if name.endswith(".py"):
                owned.add(name[:-3])
            elif name in standard and os.path.exists(os.path.join(folder, name, "__init__.py")):
                owned.add(name)
    return frozenset(owned & standard - sys.modules.keys())


try:
    _start()
except Exception as error:
    print(f"trainperf: not observing this process: {error!r}", file=sys.stderr)
