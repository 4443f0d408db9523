"""A denoiser of spectra that is scored by a moving average of its weights, kept in a list."""

import numpy as np
from tensorflow import keras

keras.utils.set_random_seed(1)
spectra = np.cumsum(np.random.normal(size=(6_000, 256)), axis=1).astype("float32") / 16
noisy = spectra + np.random.normal(scale=0.2, size=spectra.shape).astype("float32")
model = keras.Sequential(
    [
        keras.Input((256,)),
        keras.layers.Dense(1_200, activation="relu"),
        keras.layers.Dense(900, activation="relu"),
        keras.layers.Dense(256),
    ]
)
model.compile(optimizer="sgd", loss="mse")
shadow = model.get_weights()


def blend(batch, logs):
    for kept, now in zip(shadow, model.get_weights()):
        kept *= 0.98
        kept += 0.02 * now


def score(epoch, logs):
    trained = model.get_weights()
    model.set_weights(shadow)
    print("average:", model.evaluate(noisy[:512], spectra[:512], verbose=0))
    model.set_weights(trained)


average = keras.callbacks.LambdaCallback(on_train_batch_end=blend, on_epoch_end=score)
model.fit(noisy, spectra, batch_size=32, epochs=20, callbacks=[average], verbose=2)
