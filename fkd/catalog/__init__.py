"""What a pipeline needs to name: methods, problems, tables, models as files."""
