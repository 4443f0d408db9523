"""The modules of S3's clients and of `datasets` that are hooked, apart from what hooks them."""

from __future__ import annotations

S3 = ("aiobotocore.client", "botocore.client")
TABLES = "datasets.arrow_dataset"
