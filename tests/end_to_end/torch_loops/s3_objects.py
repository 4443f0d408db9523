import io
import sys

import boto3
import numpy as np
import torch
from common import loss_function, network
from torch.utils.data import DataLoader, Dataset


class Objects(Dataset):
    """One object for each sample, as many a tutorial reads them."""

    def __init__(self, count):
        self.keys = [f"train/{number % 16}.npy" for number in range(count)]
        self.client = None

    def __len__(self):
        return len(self.keys)

    def __getitem__(self, index):
        if self.client is None:
            self.client = boto3.client("s3")
        body = self.client.get_object(Bucket="photos", Key=self.keys[index])["Body"]
        x = torch.from_numpy(np.load(io.BytesIO(body.read())))
        return x, x.sum(0, keepdim=True)


def main(workers):
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = DataLoader(Objects(4000), batch_size=4, num_workers=workers)
    for x, y in loader:
        optimizer.zero_grad()
        loss_function(model(x), y).backward()
        optimizer.step()


if __name__ == "__main__":
    main(int(sys.argv[1]))
