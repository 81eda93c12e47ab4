"""Sentences about parameters that several public objects share, written once for all docstrings."""

import re
from inspect import cleandoc
from textwrap import dedent, indent
from typing import TypeVar

T = TypeVar("T", bound=type)

WORDS = {
    "kernel": """
        kernel
            ``"rbf"`` exp(-gamma |x-z|²), ``"laplacian"`` exp(-gamma |x-z|₁), ``"polynomial"``
            (gamma x·z + coef0)^degree, ``"linear"`` x·z, ``"precomputed"`` (X then holds kernel
            values against all training rows), or a function of two blocks of rows that returns
            their kernel matrix.
        gamma
            Width of the kernel, above 0; None means 1 / number of inputs.
        degree, coef0
            Of the polynomial kernel.
    """,
    "map": """
        approximation
            How the kernel is represented: ``"exact"``, ``"nystroem"`` (landmarks among the
            training rows), ``"fourier"`` (random features of the RBF or Laplacian kernel),
            ``"identity"`` (the inputs themselves, for ``kernel="linear"``) or ``"auto"``: exact
            up to 10 000 rows, Nystroem beyond.
        landmarks
            Landmarks of the Nystroem map or number of Fourier features; None means 1000, for
            landmarks at most n.
        landmark_method
            How landmarks are chosen: ``"rpcholesky"`` or ``"uniform"``.
    """,
    "seed": """
        random_state
            Seed of landmarks or Fourier features.
    """,
    "path": """
        ridge
            Ridge of the regressions that find what to remove, above 0. A larger one removes more
            per iteration. None takes a thousandth of the sum of all squared features, so that
            neither the number of rows nor the unit of the inputs changes how much is removed. (The
            offset of the inputs counts under linear and polynomial kernels: standardise them.)
        iterations
            How often to remove; 0 leaves the kernel as it is.
    """,
    "removal": """
        removal
            ``"path"`` cuts directions out of the kernel, `iterations` times; ``"shrinkage"`` makes
            those small along which a prediction would covary with functions of the sensitive
            features. A shrinkage looks at neither `ridge`, `iterations` nor `center_sensitive`.
        penalty
            Of a shrinkage: the price of a squared covariance with such a function, in units of the
            machine's mean loss (docs/shrinkage.md); 0 leaves the kernel as it is, None is 10. A
            path has none.
    """,
    "basis": """
        basis
            The functions of the sensitive features that a prediction should not covary with:
            ``"columns"`` (these themselves), ``"rbf"`` (a kernel on them), ``"splines"`` on the
            ranks of each, ``"levels"`` (an indicator per value). None is ``"columns"`` on a path,
            ``"rbf"`` for a shrinkage.
        gamma_s
            Width of the kernel of ``"rbf"``, the sensitive columns in units of their training
            range.
        given
            What may depend on the sensitive features: ``"y"``, or names or positions of columns of
            X. Only what the functions hold beyond splines of these is taken out.
    """,
    "unfairness": """
        unfairness
            Instead of a strength a bound on what is left, such as ``{"gdp": 0.01}`` (in units of
            the target's range), ``"hgr"`` or ``"pf"``: the least of some seventeen strengths
            (penalties 0 and 0.1 to 10 000; up to `iterations` on a path) whose pooled held-out
            predictions of five folds keep it, by the estimate itself, not by its interval. New
            rows may exceed the bound.
    """,
    "weigh": """
        weigh
            What `sample_weight` of `fit` counts in: ``"both"``, in what decides the
            ``"removal"`` alone, or in the machine's ``"fit"`` alone. Weights are numbers of rows:
            twice the weights are twice the rows beside `alpha`, `ridge` or `C`.
    """,
    "centring": """
        center_sensitive
            On a path with the columns as basis: fit their deviation from their mean, so that
            neither their unit nor their offset changes anything; other functions are always
            centred. False is the published form: of the columns as they are, whose first removed
            direction is mostly their mean.
    """,
    "trial": """
        held_out
            Share of the training rows that a trial fit leaves out, to warn where dependence on the
            sensitive features did not fall on them, where the model is worse than a constant or
            has become one. Of at most 2000 rows; none below 100 rows, where it is 0, or where no
            sensitive column varies in both parts. The fit itself uses all rows. With `given`
            nothing is said of dependence, as some is meant to stay.
    """,
    "output": """
        output
            What `transform` gives: ``"kernel"``, the fair kernel against the training rows, (k, n),
            for estimators that take ``kernel="precomputed"``; or ``"features"``, (k, r), of whose
            inner products the fair kernel is made, for any estimator. Features of a reduced map
            need no training row but the landmarks.
    """,
    "solver": """
        solver
            ``"libsvm"``, whose work grows with the square of the rows; ``"batched"``, passes over
            the rows of a reduced map that end with a certified duality gap; or ``"auto"``: batched
            on reduced maps beyond 10 000 rows.
        tol, max_iter
            When libsvm stops: at this violation of its conditions, or after so many steps, with a
            ConvergenceWarning; -1 is no limit. When batched passes stop: at this duality gap
            relative to the objective, or after so many passes, never more than 2000.
    """,
    "fitted": """
        strength_ : float
            How much is taken out: iterations of a path, the penalty of a shrinkage; given, or
            chosen by `unfairness`.
        effective_iterations_ : int or None
            Iterations that found something to remove, fewer than `iterations` where the rank ran
            out; None for a shrinkage.
        held_out_ : HeldOut or None
            What rows that a trial fit left out say of it.
        unfairness_ : KeptBound or None
            What a bound chose, with an interval that does not know of the choice.
        n_features_in_, feature_names_in_
            Columns of X, their names where it was a data frame.
    """,
    "method": """
        Fair Kernel Decomposition is Algorithm 1 of Störck, Hinder & Hammer (2026), "Extending Fair
        Null-Space Projections for Continuous Attributes to Kernel Methods", here in a form whose
        directions are nested in the number of iterations (docs/maths.md). Shrinkage is
        docs/shrinkage.md's.
    """,
    "kernel_parameters": """
        gamma
            Width of the kernel, above 0; None means 1 / number of inputs.
        degree, coef0
            Of the polynomial kernel.
        approximation
            How the kernel is represented: ``"exact"``, ``"nystroem"``, ``"fourier"``,
            ``"identity"`` (for ``kernel="linear"``) or ``"auto"``: exact up to 10 000 rows.
        landmarks, landmark_method
            Landmarks of the Nystroem map (by ``"rpcholesky"`` or ``"uniform"``) or number of
            Fourier features; None means 1000, for landmarks at most n.
        random_state
            Seed of landmarks or Fourier features.
    """,
    "network_parameters": """
        first_width, second_width
            Units of the two hidden layers.
        epochs, batch_rows
            Passes over the rows, rows per step; density estimates need some hundred.
        learning_rate, weight_decay
            Of Adam.
        random_state
            Seed of the first weights and of the order of the batches.
    """,
}


def fill_docstring(described: T) -> T:
    """Return a class in whose docstring each line ``{name}`` became the shared sentences."""
    if described.__doc__:  # python -OO has none
        text = cleandoc(described.__doc__)
        described.__doc__ = re.sub(r"(?m)^([ ]*)\{(\w+)\}$", _filled, text)
    return described


def _filled(found: re.Match[str]) -> str:
    return indent(dedent(WORDS[found[2]]).strip("\n"), found[1])
