"""Callbacks that watch the runs of trainers; one module for each trainer."""
