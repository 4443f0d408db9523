"""`trainperf sagemaker submit`: the same diagnosis as a SageMaker training job."""
