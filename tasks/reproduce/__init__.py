"""The paper's experiments and claims."""
