"""The modules of S3's clients and of `datasets` that are hooked, apart from what hooks them."""

from __future__ import annotations

S3 = ("aiobotocore.client", "botocore.client", "s3torchconnector._s3client._s3client")
TABLES = "datasets.arrow_dataset"
