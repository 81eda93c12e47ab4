"""Experiments judged: evidence, rules, verdicts, figures, the page."""
