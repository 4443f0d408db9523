"""One epoch of `fit`, then many single predictions, and again: text generators do it."""

import keras
import numpy as np

rng = np.random.default_rng(0)
x = rng.normal(size=(4_000, 20, 12)).astype("float32")
y = rng.integers(0, 12, 4_000)

keras.utils.set_random_seed(1)
model = keras.Sequential([keras.Input((20, 12)), keras.layers.LSTM(24), keras.layers.Dense(12)])
model.compile("rmsprop", keras.losses.SparseCategoricalCrossentropy(from_logits=True))

for epoch in range(60):
    model.fit(x, y, batch_size=128, epochs=1, verbose=0)
    window = x[epoch % len(x)].copy()
    for _ in range(120):
        scores = model.predict(window[None], verbose=0)[0]
        window = np.roll(window, -1, axis=0)
        window[-1] = np.eye(12)[scores.argmax()]
    print(f"epoch {epoch}")
