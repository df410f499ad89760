"""What the documentation of several estimators says."""

from __future__ import annotations

#: By the names that stand for it there.
SHARED = {
    "training": """C : float, default=1.0
        Multiplies the sum of the losses: larger fits the training data more closely.
    solver : "auto", str or Solver, default="auto"
        A name such as "dual_coordinate", or an object such as `taut.solvers.DualCoordinate()`. By
        default that, and `OnlineCache()` for data that are read part by part.
    kernel : str, Kernel or callable, default="linear"
        "linear" has weights for features. "rbf", "laplacian", "polynomial", "intersection", "chi2",
        "von_mises" or "precomputed", an object of `taut.kernels`, or a function of two blocks of
        rows has coefficients of training rows instead; see docs/kernels.md.
    gamma : "scale", "auto" or float, default="scale"
        Of kernels by name: 1 / (n_features var(X)), 1 / n_features, or a number.
    degree : float, default=3
        Of the polynomial kernel by name.
    coef0 : float, default=0.0
        Of the polynomial kernel by name.
    cache : int or str, default="500MB"
        Memory for rows of the kernel matrix; for all of it with solvers that need it whole.
    prior_mean : array or fitted model, optional
        What the weights are drawn to, in the shape of `coef_`; 0 by default.
    prior_precision : float or array, optional
        How strongly: factors on the squares of the weights, in the shape of `coef_`, or a matrix,
        the inverse of the prior's covariance. 1 by default.
    nonneg : bool or array of bool, default=False
        Which weights must not be negative, in the shape of `coef_`; True is all but intercepts.
    tol : float, default=1e-3
        Relative duality gap (P - D) / P at which training ends.
    max_iter : int, default=1000
        Largest number of passes over the data.
    time_limit : float, optional
        Seconds after which training ends; compilation does not count, and the proof of the bounds
        at the end comes on top.
    n_jobs : int, default=1
        Threads; -1 for all processors. With more than one, runs of one seed differ within `tol`.
    random_state : int, RandomState, Generator or None
        Seed of the order of visits.
    verbose : int, default=0
        1 shows progress on standard error: a live line on a terminal, elsewhere a line every few
        seconds.
    warm_start : bool, default=False
        Start from the dual variables of the last fit, which must have been on the same data.
    callbacks : sequence of callables, default=()
        Called with a `taut.Record` after each pass; returning True ends training.
    checkpoint : Checkpoint or path, optional
        Where to save training from time to time, and to resume it from.""",
    "fitted": """certificate_ : Certificate
        Primal, dual, gap, and why training ended.
    history_ : History
        A record of each pass.
    n_iter_ : int
        Number of passes.
    support_ : ndarray of shape (n_support,)
        With a kernel, in place of `coef_`: the training rows that have coefficients, counted
        through all examples.
    support_vectors_ : ndarray or CSR of shape (n_support, n_features)
        These rows. Not there with kernel="precomputed".
    dual_coef_ : ndarray of shape (n_columns, n_support)
        Their coefficients; scores are dual_coef_ k(support_vectors_, x) + intercept_, the intercept
        being b^2 times the summed coefficients where b is the constant feature.
    support_classes_ : ndarray of shape (n_support,)
        The class of each of them, as a place in `classes_`; of classifiers of rows.
    n_support_ : ndarray
        How many there are; of classifiers of rows, for each class.
    kernel_ : Kernel
        With its numbers.
    n_rows_ : int
        Number of training rows.""",
    "intercept": """fit_intercept : bool, default=True
    intercept_scaling : float, default=1.0
        Value of the constant feature; larger means less regularised intercepts.""",
    "class_weight": """class_weight : dict or "balanced", optional
        Factors on C by class.""",
    "calibrate": """calibrate : float, optional
        Share of the rows, between 0 and 1, from which `temperature_` is found; `predict_proba` is
        there then. Weights and certificate are those of a fit to all rows, and the temperature is
        that of a second fit, to the other rows.""",
    "features": """features : Extractor, optional
        What makes features of X, such as `taut.features.SequenceFeatures()` of tokens or
        `taut.features.TextFeatures()` of texts. A copy is fitted with the model, is kept as
        `features_`, and is saved with it. By default X has features already.""",
    "node_parameters": """loss : "hamming" or "mean_hamming", default="hamming"
        Number of wrong labels in a graph, or their share.
    pairwise : {"full", "symmetric", "potts"}, default="full"
        A weight for each pair of labels in the order of the edge, for each pair in any order, or
        one for equal labels and none for different ones.""",
    "node_attributes": """coef_ : ndarray of shape (n_labels, n_features)
    pairwise_ : ndarray of shape (n_edge_features, n_ties)
        The weights of pairs of labels: as many as `pairwise` tells apart.
    pair_weights_ : ndarray of shape (n_edge_features, n_labels, n_labels)
        The same for each pair, the label of an edge's first node first.
    classes_ : ndarray of shape (n_labels,)
    temperature_ : float
        What `fit_temperature` has found, for `predict_marginals`.""",
}
