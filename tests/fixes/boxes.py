"""What only a box with a GPU, of AWS or of a cluster has: values that lines of cases name."""

from trainperf.model import CudaDevice, Device, Operator, Trace

GPU = Device("GPU", "NVIDIA A10G", 1, (CudaDevice(0, "NVIDIA A10G", index=0),))

CUDA_TRACE = Trace("cuda", 3, (Operator("aten::addmm", 24, 0.09),), 0.0, 120, gap_s=0.0)
"""A pass whose kernels, all of them matrix products, take 90 ms."""
