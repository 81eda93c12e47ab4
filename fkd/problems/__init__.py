"""Prediction problems as declarations, with tables, encoders and stored models.

To add a problem, declare it in a module of its own and add it to `PROBLEMS`.
"""

from fkd.problems.acs import ACS_INCOME, ACS_TRAVEL_TIME
from fkd.problems.crimes import CRIMES
from fkd.problems.declaration import Problem, RowFilter

__all__ = ["ACS_INCOME", "ACS_TRAVEL_TIME", "CRIMES", "PROBLEMS", "Problem", "RowFilter"]

# Problems by name. `fkd.problems.own_table` declares the problem of a user's table.
PROBLEMS = {problem.name: problem for problem in (CRIMES, ACS_INCOME, ACS_TRAVEL_TIME)}
