"""Run a training script unchanged, and watch the loop that it runs."""
