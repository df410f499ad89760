"""Small data for each estimator whose structure has rows."""

import numpy as np

import taut
from taut.structures import Bags, Chain

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
NEW = RNG.normal(size=(17, 3))
CODES = (X[:, 0] > 0) * 1 + (X[:, 1] > 0.3)
SIGNS = np.where(X[:, 0] * X[:, 1] + 0.3 * RNG.normal(size=60) > 0.0, 1.0, -1.0)
NUMBERS = X[:, 0] * X[:, 1] + 0.1 * RNG.normal(size=60)
OFFSETS = np.concatenate([[0], np.cumsum(np.tile([1, 4, 7], 5))])
SEQUENCES, LABELS = np.split(X, OFFSETS[1:-1]), np.split(CODES, OFFSETS[1:-1])
STARS = [(x, [(0, v) for v in range(1, len(x))]) for x in SEQUENCES]
BAGS = (np.arange(15) % 2).astype(int)

CASES = {
    "binary": (taut.BinarySVM(), X, SIGNS),
    "multiclass": (taut.MulticlassSVM(), X, CODES),
    "regression": (taut.RegressionSVM(epsilon=0.05), X, NUMBERS),
    "chain": (taut.ChainSVM(boundary=True), SEQUENCES, LABELS),
    "tree": (taut.TreeSVM(pairwise="symmetric"), STARS, LABELS),
    "graph": (taut.GraphSVM(pairwise="potts"), STARS, LABELS),
    "rank": (taut.RankSVM(), SEQUENCES, LABELS),
    "structured": (taut.StructuredSVM(Chain(3)), (X, OFFSETS), CODES),
    "bags": (taut.LatentSVM(start="first"), SEQUENCES, BAGS),
    "frames": (taut.LatentMulticlassSVM(start="first", max_rounds=1), SEQUENCES, BAGS),
    "latent": (taut.LatentStructuredSVM(Bags(1.0)), (X, OFFSETS), np.where(BAGS, 0, -1)),
}
