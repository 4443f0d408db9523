"""The cases of `torch_item_work`."""

from __future__ import annotations

silent = (
    """
        import pandas as pd
        from torch.utils.data import Dataset
        class D(Dataset):
            def __init__(self, path):
                self.rows = pd.read_csv(path)
            def __getitem__(self, i):
                return self.rows.iloc[i]
        """,
    """
        import pandas as pd
        from torch.utils.data import Dataset
        class D(Dataset):
            def __getitem__(self, i):
                path = self.paths[i]
                return pd.read_csv(path)
        """,
    """
        import pandas as pd
        from torch.utils.data import Dataset
        class D(Dataset):
            def __getitem__(self, i):
                if self.rows is None:
                    self.rows = pd.read_csv(self.path)
                return self.rows.iloc[i]
        """,
)

fires = (
    """
        import pandas as pd
        from torch.utils.data import Dataset
        class D(Dataset):
            def __getitem__(self, i):
                return pd.read_csv(self.path).iloc[i]
        """,
    """
        import torch
        class D(torch.utils.data.Dataset):
            def __getitem__(self, i):
                rows = torch.load('all.pt')
                return rows[i]
        """,
)
