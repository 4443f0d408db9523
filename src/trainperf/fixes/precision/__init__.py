"""Computing in more bits, or in another layout, than is needed."""

FRAMEWORK, CATEGORY = "torch", "model"
"""Those of its fixes, which may say another."""
