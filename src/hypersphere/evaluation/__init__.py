"""Evaluation of encoders: sentence similarity and transfer, probes of image encoders."""

from hypersphere.evaluation.sentences import SentenceEvaluation, evaluate_sentences, list_sentences

__all__ = ["SentenceEvaluation", "evaluate_sentences", "list_sentences"]
