"""Run a model on batches and datasets without side effects."""
