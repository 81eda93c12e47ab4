"""Pictures of fairness in scikit-learn's Display style, each with the numbers behind it."""

from fkd.plot.front_display import FrontDisplay
from fkd.plot.sensitive_display import SensitiveDisplay
from fkd.plot.strength_display import StrengthDisplay

__all__ = ["FrontDisplay", "SensitiveDisplay", "StrengthDisplay"]
