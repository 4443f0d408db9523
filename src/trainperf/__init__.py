"""Says why a training script is slow, by experiment, and what each repair is worth."""

__version__ = "0.1.0"
