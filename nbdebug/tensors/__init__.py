"""Samples, histograms and summaries of tensors, and traversal of nested batches."""
