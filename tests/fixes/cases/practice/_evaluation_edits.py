"""What cases of `_evaluation_edits` are made of."""

from __future__ import annotations

from rewriting import Example, unmarked

TESTED = "\n\ndef test(model, loader):\n    ▸model.eval()◂\n    show(model, loader)\n"


def _untouched(source: str, **data: object) -> Example:
    return Example.untouched(source, dict(data))


PLAIN = unmarked(TESTED)

EXAMPLES = [
    Example(
        before="▸model.fit(ds, epochs=20, validation_data=held)◂\n",
        after="model.fit(ds, epochs=20, validation_data=held, validation_freq=5)\n",
        data={"validation_freq": 5},
    ),
    _untouched("▸model.fit(ds, validation_data=held, validation_freq=2)◂\n", validation_freq=5),
    _untouched("▸model.fit(ds, **how)◂\n", validation_freq=5),
    # the best of all epochs is kept, or each is drawn
    _untouched(
        'h = ▸model.fit(ds, validation_data=held)◂\nplot(h.history["val_loss"])\n',
        validation_freq=5,
    ),
    Example(
        before="for epoch in range(1, args.epochs + 1):\n    train(model)\n"
        "    test(model, loader)\n    scheduler.step()\n" + TESTED,
        after="for epoch in range(1, args.epochs + 1):\n    train(model)\n"
        "    if epoch % 5 == 0 or epoch == args.epochs:\n        test(model, loader)\n"
        "    scheduler.step()\n" + PLAIN,
    ),
    Example(
        before="for t in range(epochs):\n    test(model, loader)\n" + TESTED,
        after="for t in range(epochs):\n    if (t + 1) % 5 == 0 or t + 1 == epochs:\n"
        "        test(model, loader)\n" + PLAIN,
    ),
    Example(
        before="while True:\n    if step % 100 == 0 and master:\n        test(model, held)\n"
        + TESTED,
        after="while True:\n    if step % 500 == 0 and master:\n        test(model, held)\n"
        + PLAIN,
    ),
    Example(
        before="for x in data:\n    if step % args.every == 0:\n        ▸model.eval()◂\n",
        after="for x in data:\n    if step % (5 * args.every) == 0:\n        model.eval()\n",
    ),
    # how far the loop goes is worked out
    Example(
        before="for t in range(3 if quick else 9):\n    test(model, loader)\n" + TESTED,
        after="for t in range(3 if quick else 9):\n"
        "    if (t + 1) % 5 == 0 or t + 1 == (3 if quick else 9):\n"
        "        test(model, loader)\n" + PLAIN,
    ),
    # what divides is no count of turns, or asks for all turns but some
    _untouched('for t in range(9):\n    if "%d" % t == last:\n        ▸model.eval()◂\n'),
    _untouched("for x in data:\n    if len(x) % 2 == 0:\n        ▸model.eval()◂\n"),
    _untouched("for t in range(9):\n    if t % 4:\n        ▸model.eval()◂\n"),
    # what it gives is read in each turn
    _untouched(
        "for t in range(9):\n    if (t + 1) % every == 0:\n        ▸model.eval()◂\n"
        "        score = test(model)\n    print(score)\n"
    ),
    # learning rates and the end of the training go by it
    _untouched(
        "for t in range(9):\n    if t % 2 == 0:\n        ▸model.eval()◂\n"
        "        scheduler.step(test(model))\n"
    ),
    _untouched(
        "def test():\n    ▸model.eval()◂\n    for g in optimizer.param_groups:\n"
        "        g['lr'] /= 2\n\n\nfor t in range(9):\n    test()\n"
    ),
    _untouched(
        "for t in range(9):\n    if t % 2 == 0:\n        ▸model.eval()◂\n"
        "        if test(model) < 0.1:\n            break\n"
    ),
    _untouched(
        "rate = 1\nfor t in range(9):\n    train(rate)\n    if t % 2 == 0:\n"
        "        ▸model.eval()◂\n        rate = test(model)\n"
    ),
    # what the training binds for itself in each turn is no more than a name
    Example(
        before="for x in data:\n    loss = step(x)\n    if step % 9 == 0:\n        ▸model.eval()◂\n"
        "        loss = test(model)\n        print(loss)\n",
        after="for x in data:\n    loss = step(x)\n    if step % 45 == 0:\n        model.eval()\n"
        "        loss = test(model)\n        print(loss)\n",
    ),
    # an environment is no part of the training
    Example(
        before="best = 0\nfor t in range(99):\n    if t % 9 == 0:\n        ▸model.eval()◂\n"
        "        best = max(best, env.step(model(seen)))\nprint(best)\n",
        after="best = 0\nfor t in range(99):\n    if t % 45 == 0:\n        model.eval()\n"
        "        best = max(best, env.step(model(seen)))\nprint(best)\n",
    ),
    # what it returns decides something
    _untouched("for t in range(epochs):\n    best = min(best, test(model, loader))\n" + TESTED),
    # nobody counts, or something else asks
    _untouched("while True:\n    test(model, loader)\n" + TESTED),
    _untouched("for name in names:\n    test(model, loader)\n" + TESTED),
    _untouched("for t in range(0, 9, 2):\n    test(model, loader)\n" + TESTED),
    _untouched("for t in range(9):\n    test(model, a)\n    test(model, b)\n" + TESTED),
    _untouched("for x in data:\n    ▸model.eval()◂\n"),
]
