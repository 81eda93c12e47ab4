"""Small networks in stacks and alone. Run as a script, it lists those that differ.

No size fills whole vector registers: odd widths, a width of one, batches of odd numbers of rows.
"""

import json
import sys

import numpy as np

from fkd.baselines.network_training import Recipe, chi2, eipm, train

PENALTIES = (0.0, 0.025, 0.1, 0.2, 0.5, 1.0, 2.0, 3.0)
DEPENDENCE = {
    "chi2": lambda Z, f, S: chi2(f, S),
    "eipm": lambda Z, f, S: eipm(Z, S, bandwidth_s=0.05, bandwidth_z=1.0),
}
# Widths, rows, inputs, rows of a batch.
SHAPES = (((13, 9), 130, 7, 50), ((17, 11), 65, 5, 65), ((33, 1), 66, 5, 33), ((1, 7), 97, 5, 97))
PICKS = ((0, 1), (7, 3, 1), (3, 2, 1, 0), (6, 5, 4, 3, 2), tuple(range(8)))


def stack(shape, name, picks, *, epochs=2, columns=2):
    """The weights of the networks with these penalties, trained as one stack."""
    widths, n, d, batch_rows = shape
    rng = np.random.default_rng(0)
    X, S = rng.normal(size=(n, d)), rng.random((n, columns))
    networks = train(
        X,
        X[:, 0] + S[:, 0] * rng.normal(size=n),
        S,
        penalties=[PENALTIES[k] for k in picks],
        dependence=DEPENDENCE[name],
        recipe=Recipe(widths, epochs, batch_rows, learning_rate=0.001, weight_decay=0.01),
        seed=5,
    )
    return [np.concatenate([A.ravel() for A in (*f.weights, *f.biases)]) for f in networks]


def differing():
    """The networks that differ in a stack: shape, dependence, stack, penalty."""
    found = []
    for shape in SHAPES:
        for name in DEPENDENCE:
            alone = [stack(shape, name, [k])[0] for k in range(len(PENALTIES))]
            for picks in PICKS:
                together = zip(picks, stack(shape, name, picks), strict=True)
                bad = [k for k, w in together if w.tobytes() != alone[k].tobytes()]
                found += [f"{shape} {name} {picks} {k}" for k in bad]
    return found


if __name__ == "__main__":
    import torch

    told = {"capability": torch.backends.cpu.get_cpu_capability(), "differing": differing()}
    sys.stdout.write(json.dumps(told))
