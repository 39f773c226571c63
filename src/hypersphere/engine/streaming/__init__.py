"""Objectives in row blocks: three loops, one for each way of seeing negatives."""
