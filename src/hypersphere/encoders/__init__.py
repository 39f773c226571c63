"""Encoders of images and sentences, the heads on top of them, and random views of images."""
