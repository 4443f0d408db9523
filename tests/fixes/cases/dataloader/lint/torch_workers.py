"""The cases of `torch_workers`."""

from __future__ import annotations

silent = (
    """
        import torch
        from torch.utils.data import DataLoader, TensorDataset
        for x, y in DataLoader(TensorDataset(a, b)):
            loss.backward()
            opt.step()
        """,
    """
        from torch.utils.data import DataLoader
        from torchvision.datasets import ImageFolder
        for x, y in DataLoader(ImageFolder('a'), num_workers=4):
            loss.backward()
            opt.step()
        """,
    """
        from torch.utils.data import DataLoader
        from torchvision.datasets import ImageFolder
        for x, y in DataLoader(ImageFolder('a'), **options):
            loss.backward()
            opt.step()
        """,
    """
        from torch.utils.data import DataLoader
        from torchvision.datasets import ImageFolder
        print(next(iter(DataLoader(ImageFolder('a')))))
        """,
    """
        import torch
        from torch.utils.data import DataLoader
        def pad(batch):
            labels = []
            for words, label in batch:
                labels.append(label)
            return torch.nn.utils.rnn.pad_sequence([w for w, _ in batch]), labels
        for x, y in DataLoader(texts, collate_fn=pad):
            loss.backward()
            opt.step()
        """,
)

fires = (
    """
        from torch.utils.data import DataLoader as DL
        from torchvision.datasets import ImageFolder
        for x, y in DL(ImageFolder('a'), 32):
            loss.backward()
            opt.step()
        """,
    """
        import torch
        from PIL import Image
        class D(torch.utils.data.Dataset):
            def __getitem__(self, i):
                return Image.open(self.p[i])
        data = D()
        loader = torch.utils.data.DataLoader(data, num_workers=0)
        def main():
            for x in loader:
                loss.backward()
                opt.step()
        """,
    """
        from torch.utils.data import DataLoader
        class Collate:
            def __call__(self, batch):
                rows = []
                for text, _ in batch:
                    rows.append([self.numbers[word] for word in text.split()])
                return rows
        collate = Collate()
        for x in DataLoader(texts, collate_fn=collate):
            loss.backward()
            opt.step()
        """,
    """
        import lightning as L
        from torch.utils.data import DataLoader
        from torchvision.datasets import ImageFolder
        class Flowers(L.LightningDataModule):
            def train_dataloader(self):
                return DataLoader(ImageFolder('a'), batch_size=32, shuffle=True)
        """,
)
