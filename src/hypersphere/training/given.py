"""The encoder a run on text is given: what it has of its own is kept, what it lacks is SimCSE's, the rest is set."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hypersphere.data.sts import ScoredPairs
from hypersphere.encoders.text import SentenceEncoder, create_text_encoder, describe, has_own_modules
from hypersphere.evaluation.embeddings import default_cache, embed
from hypersphere.evaluation.sentence_model import open_model
from hypersphere.evaluation.sts import score_pairs
from hypersphere.training.recipe import Recipe

PLAIN_POOLING, PLAIN_LENGTH = "cls", 32  # SimCSE's, for a transformer that has neither


def open_encoder(recipe: Recipe, say: Callable[[str], None]) -> tuple[SentenceEncoder, Recipe]:
    """The encoder to train, and the recipe with its length and head filled in where they follow from the encoder.

    A sentence-transformers model keeps every module, its prompts and its length, unless the recipe gives a pooling
    (which replaces the modules after the transformer), a length or a head. A plain transformer has nothing to keep.
    """
    own, wanted, head = has_own_modules(recipe.encoder.name), recipe.encoder, recipe.head
    if head.kind == "simcse":
        if own and head.keep:
            raise ValueError(
                "head.keep: a SentenceTransformer gets no simcse head, since it keeps its own modules "
                "(head.kind=linear-tanh adds one)"
            )
        head = head.model_copy(update={"kind": "none" if own else "linear-tanh"})
    encoder = create_text_encoder(
        wanted.name,
        pooling=wanted.pooling or (None if own else PLAIN_POOLING),
        max_length=wanted.max_length or (None if own else PLAIN_LENGTH),
        dropout=wanted.dropout,
        head=head.keep,
    )
    say(f"Encoder: {_kept_and_set(recipe, own)}{describe(encoder)}.")
    resolved = {"encoder": wanted.model_copy(update={"max_length": encoder.max_seq_length}), "head": head}
    return encoder, recipe.model_copy(update=resolved)


def _kept_and_set(recipe: Recipe, own: bool) -> str:
    """What the run does to the modules between the tokens and the embedding."""
    if not own:
        return "a plain transformer, which has no pooling of its own; set: "
    keys = {
        "encoder.pooling": recipe.encoder.pooling, "encoder.max_length": recipe.encoder.max_length,
        "head.keep": recipe.head.keep,
    }  # fmt: skip
    given = [key for key, value in keys.items() if value]
    if not given:
        return "a SentenceTransformer, kept as it is: "
    about = open_model(recipe.encoder.name).about()
    before = f"pooling {about.pooling}, at most {about.max_length} tokens"
    return f"a SentenceTransformer, changed by {' and '.join(given)} (as given: {before}); now: "


def score_as_given(recipe: Recipe, parts: Sequence[ScoredPairs]) -> list[float]:
    """STS of the model in ``recipe.encoder.name`` before any change, Spearman × 100 of each part.

    A plain transformer is measured as the run begins with it. The embeddings are kept in the evaluation's cache, so
    that the next run that starts from the same model has them at once.
    """
    own, wanted = has_own_modules(recipe.encoder.name), recipe.encoder
    pooling, length = (None, None) if own else (wanted.pooling or PLAIN_POOLING, wanted.max_length or PLAIN_LENGTH)
    model = open_model(wanted.name, pooling, length)
    texts = [text for part in parts for side in (part.first, part.second) for text in side]
    try:
        store, _ = embed(model, texts, default_cache())
    except OSError:  # a cache that cannot be written costs time, not the run
        store, _ = embed(model, texts, None)
    return [100 * score_pairs(store.rows, part) for part in parts]
