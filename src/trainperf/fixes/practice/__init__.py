"""How the training is set up: batch, evaluations, work of one's own."""

FRAMEWORK, CATEGORY = "any", "host"
"""Those of its fixes, which may say another."""
