"""AWS's word on this machine: instance, price, SageMaker."""
