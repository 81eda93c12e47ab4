"""Prediction problems, declared as values, with the tables and encoders that they use."""

from fkd.problems.acs import ACS_INCOME, ACS_TRAVEL_TIME
from fkd.problems.crimes import CRIMES
from fkd.problems.declaration import Problem, RowFilter

__all__ = ["ACS_INCOME", "ACS_TRAVEL_TIME", "CRIMES", "PROBLEMS", "Problem", "RowFilter"]

# Problems by name. A table of the user's own is made by `fkd.problems.own_table`.
PROBLEMS = {problem.name: problem for problem in (CRIMES, ACS_INCOME, ACS_TRAVEL_TIME)}
