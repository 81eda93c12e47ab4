"""Paragraphs that the docstrings of several public classes share."""

import re
from inspect import cleandoc
from textwrap import dedent, indent
from typing import TypeVar

T = TypeVar("T", bound=type)

PARAGRAPHS = {
    "kernel": """
        kernel
            ``"rbf"`` exp(-gamma |x-z|²), ``"laplacian"`` exp(-gamma |x-z|₁), ``"polynomial"``
            (gamma x·z + coef0)^degree, ``"linear"`` x·z, ``"precomputed"`` (X contains kernel
            values against all training rows), or a function of two blocks of rows that returns
            their kernel matrix.
        gamma
            Width of the kernel, above 0; None means 1 / number of inputs.
        degree, coef0
            Parameters of the polynomial kernel.
    """,
    "map": """
        approximation
            How the kernel is represented: ``"exact"``, ``"nystroem"`` (landmarks among the
            training rows), ``"fourier"`` (random features of the RBF or Laplacian kernel),
            ``"identity"`` (the inputs themselves, for ``kernel="linear"``) or ``"auto"``: exact
            up to 10 000 rows, Nystroem beyond.
        landmarks
            Number of landmarks of the Nystroem map or of Fourier features; None means 1000,
            and at most n landmarks. Other maps have none.
        landmark_method
            Selection of the landmarks of the Nystroem map: ``"rpcholesky"`` or ``"uniform"``.
    """,
    "seed": """
        random_state
            Seed of landmarks or Fourier features.
    """,
    "path": """
        ridge
            Ridge of the regressions that find the directions to remove, above 0. A larger ridge
            removes more per iteration. None is a thousandth of the sum of all squared features, so
            that neither the number of rows nor the unit of the inputs changes how much is removed.
            Linear and polynomial kernels depend on the offset of the inputs: standardise them.
        iterations
            Strength of a path: the number of removals. 0 leaves the kernel unchanged, the default
            is 10.
    """,
    "removal": """
        removal
            ``"path"`` removes directions from the kernel, `iterations` times. ``"shrinkage"``
            shrinks the directions along which a prediction would covary with functions of the
            sensitive features, by `penalty`. Parameters of the other removal are refused.
        penalty
            Strength of a shrinkage: the price of a squared covariance with such a function, in
            units of the machine's mean loss (docs/explanation/shrinkage.md). 0 leaves the kernel
            unchanged, None is 10.
    """,
    "basis": """
        basis
            The functions of the sensitive features that a prediction should not covary with:
            ``"columns"`` (the columns themselves), ``"rbf"`` (a kernel on them), ``"splines"`` (on
            the ranks of each column), ``"levels"`` (an indicator per value). None is
            ``"columns"`` for a path, ``"rbf"`` for a shrinkage.
        gamma_s
            Width of the kernel of ``basis="rbf"`` on the sensitive columns, scaled to their
            training range.
        given
            Conditioning columns: ``"y"``, or names or positions of columns of X. Dependence on the
            sensitive features through them is allowed: only the part of the functions that splines
            of these columns do not explain is removed.
    """,
    "unfairness": """
        unfairness
            Bound on a measure instead of a strength, such as ``{"gdp": 0.01}`` (in units of the
            target's range), ``"hgr"`` or ``"pf"``. The smallest of about seventeen strengths
            (penalties 0 and 0.1 to 10 000; up to `iterations` of a path) is chosen for which the
            pooled held-out predictions of five folds satisfy the bound. The estimate is compared
            with the bound, not its confidence interval. Each row counts once, whatever its weight.
            New rows may exceed the bound.
    """,
    "weigh": """
        weigh
            Where `sample_weight` of `fit` is used: ``"both"``, only in the ``"removal"``, or only
            in the ``"fit"`` of the machine. Weights are numbers of rows: twice the weights are
            twice the rows relative to `alpha`, `ridge` or `C`.
    """,
    "centring": """
        center_sensitive
            For a path with ``basis="columns"``: centre the columns, so that neither their unit nor
            their offset changes the result. Other functions are always centred. False is the
            published form, whose first removed direction is mostly the mean of the columns.
    """,
    "trial": """
        held_out
            Share of the training rows that a trial fit leaves out. A warning is issued if the
            dependence on the sensitive features does not fall on them, or if the model is worse
            than a constant or is one. The trial uses at most 2000 rows. It is skipped below 100
            rows, if the share is 0, or if no sensitive column varies in both parts. The fit itself
            uses all rows. With `given` dependence is not checked, since some of it is allowed.
    """,
    "output": """
        output
            Output of `transform`: ``"kernel"``, the fair kernel against the training rows, (k, n),
            for estimators with ``kernel="precomputed"``; or ``"features"``, (k, r), whose inner
            products are the fair kernel, for any estimator. Features of a reduced map store no
            training rows except the landmarks.
    """,
    "solver": """
        solver
            ``"libsvm"``, whose cost grows with the square of the number of rows; ``"batched"``,
            passes over the rows of a reduced map until the duality gap is certified; or
            ``"auto"``: batched for reduced maps with more than 10 000 rows.
        tol, max_iter
            Stopping criteria. libsvm: violation of the optimality conditions, number of steps (a
            ConvergenceWarning is issued; -1 is no limit). Batched: relative duality gap, number of
            passes, at most 2000.
    """,
    "fitted": """
        strength_ : float
            Strength of the removal: iterations of a path or the penalty of a shrinkage, as given
            or as chosen by `unfairness`.
        effective_iterations_ : int or None
            Iterations that found a direction to remove, fewer than `iterations` if the rank is
            exhausted; None for a shrinkage.
        held_out_ : HeldOut or None
            Result of the trial fit on the held-out rows.
        unfairness_ : KeptBound or None
            The strength chosen by a bound, with an interval that ignores the selection.
        n_features_in_, feature_names_in_
            Number of columns of X, and their names if X was a data frame.
    """,
    "method": """
        Fair Kernel Decomposition is Algorithm 1 of Störck, Hinder & Hammer (2026), "Extending Fair
        Null-Space Projections for Continuous Attributes to Kernel Methods", computed in a form
        whose directions are nested in the number of iterations (docs/explanation/maths.md).
        Shrinkage is described in docs/explanation/shrinkage.md.
    """,
    "kernel_parameters": """
        gamma
            Width of the kernel, above 0; None means 1 / number of inputs.
        degree, coef0
            Parameters of the polynomial kernel.
        approximation
            How the kernel is represented: ``"exact"``, ``"nystroem"``, ``"fourier"``,
            ``"identity"`` (for ``kernel="linear"``) or ``"auto"``: exact up to 10 000 rows.
        landmarks, landmark_method
            Number of landmarks of the Nystroem map (chosen by ``"rpcholesky"`` or ``"uniform"``)
            or of Fourier features; None means 1000, and at most n landmarks.
        random_state
            Seed of landmarks or Fourier features.
    """,
    "network_parameters": """
        first_width, second_width
            Units of the two hidden layers.
        epochs, batch_rows
            Passes over the rows, rows per step; density estimates need some hundred rows.
        learning_rate, weight_decay
            Parameters of Adam.
        random_state
            Seed of the initial weights and of the order of the batches.
    """,
}


def fill_docstring(described: T) -> T:
    """Replace each line ``{name}`` of a class docstring by a shared paragraph; a decorator."""
    if described.__doc__:  # python -OO has none
        text = cleandoc(described.__doc__)
        described.__doc__ = re.sub(r"(?m)^([ ]*)\{(\w+)\}$", _paragraph, text)
    return described


def _paragraph(found: re.Match[str]) -> str:
    return indent(dedent(PARAGRAPHS[found[2]]).strip("\n"), found[1])
