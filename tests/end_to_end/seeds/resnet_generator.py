"""ResNet training fed by a Python generator that makes whole batches."""

import tempfile

import pictures
import residual
import tensorflow as tf

SIZE, BATCH = 96, 32


def batches(paths, labels):
    """Read the files in turn and yield batch after batch, without end."""
    position = 0
    while True:
        images, wanted = [], []
        for _ in range(BATCH):
            contents = tf.io.read_file(paths[position % len(paths)])
            image = tf.io.decode_image(contents, channels=3)
            images.append(tf.image.resize(image, (SIZE, SIZE)))
            wanted.append(labels[position % len(paths)])
            position += 1
        yield tf.stack(images), tf.constant(wanted)


with tempfile.TemporaryDirectory() as folder:
    files = pictures.write(folder, 320)
    dataset = tf.data.Dataset.from_generator(
        lambda: batches(*files),
        output_signature=(
            tf.TensorSpec((None, SIZE, SIZE, 3), tf.float32),
            tf.TensorSpec((None,), tf.int32),
        ),
    )
    model = residual.build(SIZE, 10)
    model.compile("adam", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.fit(dataset, steps_per_epoch=100, epochs=2)
