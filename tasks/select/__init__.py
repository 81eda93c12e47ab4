"""Choose, refit and judge the champion."""
