"""The step of PyTorch: compiling, optimizers, waits for the device, modes left on."""

FRAMEWORK, CATEGORY = "torch", "model"
"""Those of its fixes, which may say another."""
