"""A residual network in the manner of ResNet50, small enough for a CPU."""

from tensorflow import keras

layers = keras.layers


def bottleneck(x, filters, stride):
    """Return a bottleneck block on `x`: 1×1, 3×3, 1×1 and the way round them."""
    way_round = x
    if stride != 1 or x.shape[-1] != 4 * filters:
        way_round = layers.Conv2D(4 * filters, 1, strides=stride, use_bias=False)(x)
        way_round = layers.BatchNormalization()(way_round)
    for width, size, step in ((filters, 1, stride), (filters, 3, 1)):
        x = layers.Conv2D(width, size, strides=step, padding="same", use_bias=False)(x)
        x = layers.BatchNormalization()(x)
        x = layers.ReLU()(x)
    x = layers.Conv2D(4 * filters, 1, use_bias=False)(x)
    x = layers.BatchNormalization()(x)
    return layers.ReLU()(layers.Add()([x, way_round]))


def build(size, classes, blocks=(2, 2), filters=8):
    """Return the network for pictures of `size` × `size`."""
    inputs = keras.Input((size, size, 3))
    x = layers.Rescaling(1 / 255)(inputs)
    x = layers.Conv2D(filters, 7, strides=2, padding="same", activation="relu")(x)
    x = layers.MaxPooling2D(3, strides=2, padding="same")(x)
    for stage, count in enumerate(blocks):
        for block in range(count):
            x = bottleneck(x, filters * 2**stage, 2 if stage and not block else 1)
    x = layers.GlobalAveragePooling2D()(x)
    return keras.Model(inputs, layers.Dense(classes)(x))
