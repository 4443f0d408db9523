"""Q-learning in a corridor: the network is asked for one state at a time, layer by layer."""

import numpy as np
from tensorflow import keras

WIDTH, BATCH = 16, 64

keras.utils.set_random_seed(1)
model = keras.Sequential(
    [
        keras.Input((WIDTH,)),
        keras.layers.Dense(64, activation="relu"),
        keras.layers.Dense(64, activation="relu"),
        keras.layers.Dense(2),
    ]
)
model.compile("adam", "mse")
rng = np.random.default_rng(1)
places = np.eye(WIDTH, dtype="float32")
states, targets = [], []
place = 0
for step in range(2_000):
    for _ in range(8):
        values = model(places[place][None], training=False).numpy()[0]
        action = int(rng.integers(2) if rng.random() < 0.1 else values.argmax())
        after = min(WIDTH - 1, max(0, place + 2 * action - 1))
        ahead = model(places[after][None], training=False).numpy()[0]
        target = values.copy()
        target[action] = 1.0 if after == WIDTH - 1 else 0.9 * ahead.max()
        states.append(places[place])
        targets.append(target)
        place = 0 if after == WIDTH - 1 else after
    picked = rng.integers(0, len(states), BATCH)
    loss = model.train_on_batch(np.stack(states)[picked], np.stack(targets)[picked])
    states, targets = states[-2_000:], targets[-2_000:]
    if step % 500 == 499:
        print(f"step {step + 1}: loss {loss:.4f}")
