"""Tables that stay on disk: Parquet files that DuckDB reads, and the parts that ranks of an evaluation write."""
