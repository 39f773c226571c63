"""Encoders: what turns an image or a sentence into a vector, the heads put on them, and the views made of images."""
