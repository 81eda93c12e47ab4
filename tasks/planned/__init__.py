"""What is to be computed: trials on splits of a table's rows."""
