"""The champion as MLflow serves it: rows in the user's own columns in, the target's unit out."""

from typing import Any

import numpy as np
import pandas as pd
from mlflow.models import set_model
from mlflow.pyfunc.model import PythonModel

from fkd.catalog.bundle import Bundle


class ServedModel(PythonModel):
    """A bundle of plain arrays behind MLflow's interface."""

    def load_context(self, context: Any) -> None:
        """Read the arrays; nothing is unpickled."""
        with np.load(context.artifacts["bundle"], allow_pickle=False) as archive:
            self.bundle = Bundle.from_arrays({name: archive[name] for name in archive.files})

    def predict(self, context: Any, model_input: pd.DataFrame, params: Any = None) -> Any:
        """Return the predictions in the target's own unit."""
        return self.bundle.predict(model_input)


set_model(ServedModel())
