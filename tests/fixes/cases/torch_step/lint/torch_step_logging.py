"""The cases of `torch_step_logging`."""

from __future__ import annotations

silent = (
    """
        import torch
        def log(i, value):
            if i % 50 == 0:
                print(value.item())
        for i, x in enumerate(l):
            loss = f(x)
            loss.backward()
            opt.step()
            log(i, loss)
        """,
    """
        import torch
        for i, x in enumerate(l):
            loss = f(x)
            loss.backward()
            opt.step()
            if i % 50 == 0:
                print(loss.item())
        """,
    """
        import torch
        for epoch in range(3):
            for x in l:
                loss = f(x)
                loss.backward()
                opt.step()
            print(loss.item())
        """,
    """
        import torch
        for x in l:
            loss = f(x)
            n = x.cpu().numpy()
            loss.backward()
            opt.step()
            total += loss.detach()
        """,
    """
        import lightning as L
        class M(L.LightningModule):
            def training_step(self, batch, i):
                loss = f(self.net(batch))
                self.log('loss', loss)
                if i % 50 == 0:
                    self.seen.append(loss.item())
                return loss
            def validation_step(self, batch, i):
                loss = f(self.net(batch))
                self.seen.append(loss.item())
                return loss
        """,
    """
        import torch
        for step in range(40):
            loss = f(model(image))
            loss.backward()
            seen.append(loss.item())
        """,
)

fires = (
    """
        import torch
        for x in l:
            loss = f(x)
            loss.backward()
            opt.step()
            total += loss.item()
        """,
    """
        import torch
        while True:
            loss = f(next(it))
            loss.backward()
            opt.step()
            print('loss', loss)
        """,
    """
        import torch
        for x in l:
            loss = f(x)
            loss.backward()
            opt.step()
            losses.append(float(loss))
        """,
    """
        import torch
        def log(file, value):
            file.write(str(value.item()))
        for x in l:
            loss = f(x)
            loss.backward()
            opt.step()
            log(out, loss)
        """,
    """
        from pytorch_lightning import LightningModule
        class M(LightningModule):
            def training_step(self, batch, i):
                loss = f(self.net(batch))
                self.log('loss', loss.item())
                return {'loss': loss}
        """,
    """
        import torch
        def train():
            for x in l:
                loss = f(x)
                loss.backward()
                for p in model.parameters():
                    p.data.add_(p.grad, alpha=-lr)
                total += loss.item()
        """,
)
