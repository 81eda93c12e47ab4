"""The paper as printed, with arithmetic to check it by."""
