"""Small faults put into the code on purpose, to see whether the tests notice.

``python -m mutants`` (or ``make mutants``) tries two kinds, each in a copy of the tree:

* the named ones of `named.yaml`, faults that must never pass again,
* a sample of changes drawn from every function by a seed: operators, constants, arguments,
  conditions, return values.

The result is docs/mutants.md. Why not a library: mutmut tries every change of a code base, by
forks of one pytest process, which ours would not survive (threads of Dask, Prefect, MLflow), with
no sample by seed and no faults of one's own; cosmic-ray knows its mutants by line, so that an edit
above loses them, and runs one fixed command for all of them. What is particular here, an anchor
that is a function's name and the choice of the tests that run it, would have to be written beside
either.
"""
