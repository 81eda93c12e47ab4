"""How much a prediction depends on a continuous sensitive attribute."""

from fkd.measures.gdp import gdp
from fkd.measures.gedi import gedi
from fkd.measures.hgr import chi2, hgr
from fkd.measures.pairwise import pairwise_fairness, pairwise_rates

__all__ = ["chi2", "gdp", "gedi", "hgr", "pairwise_fairness", "pairwise_rates"]
