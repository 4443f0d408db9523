"""What AWS says of this machine: instance, price, SageMaker."""
