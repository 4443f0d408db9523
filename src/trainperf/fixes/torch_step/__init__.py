"""The step of PyTorch: compiling, optimizers, waits for the device, modes left on."""
