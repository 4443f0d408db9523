"""The cases of `keras_pydataset_workers`."""

from __future__ import annotations

silent = (
    """
        import keras
        class D(keras.utils.PyDataset):
            def __getitem__(self, i):
                return self.x[i]
        model.fit(D())
        """,
    """
        import keras, numpy as np
        class D(keras.utils.PyDataset):
            def __getitem__(self, i):
                return np.load(self.p[i])
        model.fit(D(paths, workers=4))
        """,
    """
        import keras, numpy as np
        class D(keras.utils.PyDataset):
            def __getitem__(self, i):
                return np.load(self.p[i])
        d = D(paths)
        d.workers = 4
        model.fit(d)
        """,
    """
        import keras
        d = keras.preprocessing.image.ImageDataGenerator().flow_from_directory('train')
        model.fit(d, workers=4)
        """,
)

fires = (
    """
        import keras, numpy as np
        class D(keras.utils.PyDataset):
            def __getitem__(self, i):
                return np.load(self.p[i])
        d = D(paths)
        model.fit(d, epochs=3)
        """,
    """
        from tensorflow.keras.utils import Sequence
        from PIL import Image
        class D(Sequence):
            def __getitem__(self, i):
                return self.load(i)
            def load(self, i):
                return Image.open(self.p[i])
        model.fit(x=D(paths))
        """,
    """
        from tensorflow.keras.preprocessing.image import ImageDataGenerator
        g = ImageDataGenerator(rescale=1 / 255)
        train = g.flow_from_directory('train', batch_size=20)
        model.fit(train, epochs=3, validation_data=g.flow_from_directory('val'))
        """,
)
