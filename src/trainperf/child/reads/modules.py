"""The modules of S3's clients that are hooked, apart from what hooks them."""

from __future__ import annotations

S3 = ("aiobotocore.client", "botocore.client", "s3torchconnector._s3client._s3client")
