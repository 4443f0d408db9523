import random

import numpy as np
import pytest

from trainperf.child.tensorflow import facts

GENERATOR = np.random.default_rng(0)


def moved(image):
    return image + random.uniform(-1, 1)


class Plain:
    files = (1, 2, 3)

    def __getitem__(self, index):
        return [self.load(file) for file in self.files[index:]]

    def load(self, file):
        return np.full(3, file)

    def on_epoch_end(self):
        random.shuffle(list(self.files))  # in the process that trains, not in a worker


class ByMethod(Plain):
    def load(self, file):
        return np.random.rand(3) + file


class ByFunction(Plain):
    def load(self, file):
        return moved(file)


class InLambda(Plain):
    def load(self, file):
        add = lambda x: x + random.random()  # noqa: E731
        return add(file)


class OwnGenerator(Plain):
    def __init__(self):
        self.rng = GENERATOR

    def load(self, file):
        return self.rng.normal(size=3) + file


@pytest.mark.parametrize("cls", [Plain, list, object])
def test_a_dataset_that_only_shuffles_its_files_draws_nothing(cls):
    assert facts.item_draws(cls()) is False


@pytest.mark.parametrize("cls", [ByMethod, ByFunction, InLambda, OwnGenerator])
def test_what_makes_a_batch_is_followed_to_the_generator_it_names(cls):
    assert facts.item_draws(cls()) is True
