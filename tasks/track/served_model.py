"""The champion as a model that MLflow serves, from raw columns to the target's unit."""

import hashlib
import io
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from mlflow.models import set_model
from mlflow.pyfunc.model import PythonModel

from fkd.problems.bundle import Bundle


class ServedModel(PythonModel):
    """A bundle of plain arrays with MLflow's interface."""

    def load_context(self, context: Any) -> None:
        """Read the arrays and compare their checksum with the logged one. Nothing is unpickled."""
        data = Path(context.artifacts["bundle"]).read_bytes()
        expected = (context.model_config or {}).get("bundle_sha256")
        if (found := hashlib.sha256(data).hexdigest()) != expected:
            raise ValueError(
                f"bundle.npz must have the sha256 {expected} that was logged with the model, got "
                f"{found}. Restore the file, or register the model again with `fkd run`."
            )
        with np.load(io.BytesIO(data), allow_pickle=False) as archive:
            self.bundle = Bundle.from_arrays({name: archive[name] for name in archive.files})

    def predict(self, context: Any, model_input: pd.DataFrame, params: Any = None) -> Any:
        """Return the predictions in the target's unit."""
        return self.bundle.predict(model_input)


set_model(ServedModel())
