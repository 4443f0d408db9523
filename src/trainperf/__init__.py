"""Says why a training script is slow, by experiment, and what each repair is worth."""

from importlib import import_module

__version__ = "0.1.0"


def load_ipython_extension(shell: object) -> None:
    """Take `%load_ext trainperf`: from then on there is `%%trainperf`."""
    import_module("trainperf.commands.magic").register(shell)  # everything imports this module
