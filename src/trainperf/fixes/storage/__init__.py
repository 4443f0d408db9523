"""Files and objects that are read: volumes, S3, SageMaker's input."""
