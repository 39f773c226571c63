"""Sentences: SimCSE's protocol on sentence-transformers' trainer, without computing padding."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from torch import Tensor, nn

from hypersphere.data.sts import ScoredPairs, load_sts_benchmark
from hypersphere.data.text import Corpus, read_corpus
from hypersphere.documents import locate
from hypersphere.encoders.checkpoint import default_prompt
from hypersphere.encoders.text import SentenceEncoder, create_text_encoder, describe, has_own_modules, skipped_tokens
from hypersphere.engine.distributed import gather_rows
from hypersphere.evaluation.embeddings import default_cache, embed
from hypersphere.evaluation.pairs import Remembered, pair_geometry
from hypersphere.evaluation.sentence_model import SentenceModel, computing, open_model
from hypersphere.evaluation.sts import score_pairs
from hypersphere.training.equal_texts import equal_pairs, instance_ids, text_ids
from hypersphere.training.folder import fingerprint_texts
from hypersphere.training.recipe import TextRecipe
from hypersphere.training.sections import NoHead, SentenceHead
from hypersphere.training.seeding import preserve_state
from hypersphere.training.task import (
    Echo,
    Scores,
    Task,
    arguments,
    create_head,
    held_out_rows,
    measured_rows,
    sample_rows,
)
from hypersphere.training.trainer import Inputs, ObjectiveTraining, ViewLoss, shard_of

PLAIN_POOLING, PLAIN_LENGTH = "cls", 32  # SimCSE's values, for a transformer that has neither
FEWEST, PARTS = 32, 8  # fewest rows of a chunk, most chunks of a batch: products stay large, lengths alike


class TextTrainer(ObjectiveTraining, SentenceTransformerTrainer):  # type: ignore[misc]
    """sentence-transformers' trainer with our loss, batches and checkpoints."""

    def embed(self, model: nn.Module, inputs: Inputs) -> Tensor:
        embedded: Tensor = model({"chunks": inputs["chunks"], "place": inputs["place"]})["sentence_embedding"]
        return embedded.view(-1, len(inputs["rows"]), embedded.shape[1])

    guide: SentenceModel | None = None

    def known(self, inputs: Inputs) -> dict[str, Any]:
        """The ids of a batch that has equal texts, on any process, and the guide's rows; counts the equal pairs."""
        known: dict[str, Any] = {}
        if "text_ids" in inputs:
            shard = shard_of(self.recipe.batch.size, self.args.process_index, self.args.world_size)
            ids = _ids(gather_rows(inputs["text_ids"], shard))
            pairs = equal_pairs(**ids)
            self.loss.masked_pairs += pairs
            known = {name: shard.local(each) for name, each in ids.items()} if pairs else {}
        return known | self._guide_rows(inputs)

    def known_alone(self, inputs: Inputs) -> dict[str, Any]:
        known = _ids(inputs["text_ids"]) if "text_ids" in inputs else {}
        return known | self._guide_rows(inputs)

    def _guide_rows(self, inputs: Inputs) -> dict[str, Any]:
        """The guide's embeddings of a batch's texts, which are as they were read: a guide has its own prompt."""
        if self.guide is None:
            return {}
        columns = inputs["texts"]
        texts = list(dict.fromkeys(text for column in columns for text in column))
        model = self.guide.model.to(self.args.device)
        with torch.no_grad():
            # A clone, because tensors of inference mode cannot take part in a graph.
            embedded = model.encode(texts, convert_to_tensor=True, show_progress_bar=False).float().clone()
        place = {text: row for row, text in enumerate(texts)}
        rows = [embedded[[place[text] for text in column]] for column in columns]
        further = {"guide_negatives": rows[2]} if len(rows) == 3 else {}
        return {"guide": rows[0] if len(rows) == 1 else (rows[0], rows[1]), **further}

    def prepare_loss(self, loss: Any, model: Any) -> Any:
        return loss.to(model.device)

    def preprocess_dataset(self, dataset: Any = None, dataset_name: str | None = None) -> Any:
        return dataset  # rows of a corpus, not columns of a table

    def add_model_card_callback(self, default_args_dict: dict[str, Any]) -> None:
        """Adds nothing: hypersphere writes its own card at the end of the run."""


class Chunks:
    """Collates texts into chunks of rows of similar length, every chunk padded to its own longest row.

    The views follow one another: row v N + i of the batch is view v of instance i, and ``place`` holds its index among
    the chunks' rows. Dropout views are the same tokens twice. ``prompt`` precedes every text; the pooling leaves out
    the first ``skipped`` tokens. ``ids``: the batch has the ids (N, columns) of its texts. ``texts``: it has its texts,
    column by column.
    """

    def __init__(
        self,
        tokenizer: Any,
        max_length: int | None,
        size: int,
        twice: bool,
        prompt: str = "",
        skipped: int | None = None,
        ids: bool = False,
        texts: bool = False,
    ) -> None:
        self.tokenizer, self.max_length, self.size, self.twice = tokenizer, max_length, size, twice
        self.prompt, self.ids, self.texts = prompt, ids, texts
        self.extra = {} if skipped is None else {"prompt_length": skipped}

    def __call__(self, instances: list[dict[str, Any]]) -> Inputs:
        columns = list(zip(*(instance["texts"] for instance in instances), strict=True))
        texts = [self.prompt + text for column in (columns * 2 if self.twice else columns) for text in column]
        tokens = self.tokenizer(texts, truncation=True, max_length=self.max_length)
        order = sorted(range(len(texts)), key=lambda row: len(tokens["input_ids"][row]))
        chunks = []
        for start in range(0, len(order), self.size):
            rows = order[start : start + self.size]
            chunk = {name: [values[row] for row in rows] for name, values in tokens.items()}
            chunks.append({**self.tokenizer.pad(chunk, return_tensors="pt"), **self.extra})
        place = torch.empty(len(order), dtype=torch.long)
        place[order] = torch.arange(len(order))
        inputs = {"chunks": chunks, "place": place, "rows": torch.tensor([instance["row"] for instance in instances])}
        if self.texts:
            inputs["texts"] = [list(column) for column in columns]
        if self.ids:
            inputs["text_ids"] = torch.stack([text_ids(column) for column in columns], dim=1)
        return inputs


def _ids(texts: Tensor) -> dict[str, Tensor]:
    """The ids of a batch of texts, pairs or triples, of which the third text is a hard negative."""
    return instance_ids(texts[:, :2], texts[:, 2] if texts.shape[1] > 2 else None)


class TextTask(Task):
    """Sentences: SimCSE's protocol, STS-B as the score."""

    key = "stsb_dev"

    def __init__(self, recipe: TextRecipe, folder: Path, echo: Echo) -> None:
        corpus = read_corpus(recipe.data.source, recipe.data.views, columns=recipe.data.columns, rows=recipe.data.rows)
        kept, aside = held_out_rows(len(corpus), recipe)
        self._as_written = recipe
        self._masks = recipe.has_negatives and recipe.batch.mask_duplicates
        encoder, recipe = open_encoder(recipe, echo)
        encoder.cached = recipe.batch.cache
        prompt = default_prompt(encoder) or ""
        _check_room(encoder, recipe, prompt)
        self.encoder = encoder
        self.width = int(encoder.get_embedding_dimension() or 0)
        if prompt:
            echo(f"Prompt: {prompt!r} stands before every text, as the encoder has it.")
        echo(f"Head: {_head_in_words(recipe)}.")
        echo(f"Data: {corpus.name}, {len(kept)} instances, views by {recipe.data.views}"
            + (f", {corpus.empty} empty lines left out" if corpus.empty else "") + ".")  # fmt: skip
        if not recipe.scored:
            echo("Without evaluation.sts nothing measures whether the run makes the model better or worse.")
        self.views = 3 if recipe.data.views == "triples" else 2
        chunk = recipe.batch.chunk or max(FEWEST, self.views * recipe.batch.size // PARTS)
        collate = Chunks(
            encoder.tokenizer, recipe.encoder.max_length, chunk, twice=recipe.data.views == "dropout", prompt=prompt,
            skipped=skipped_tokens(encoder, prompt), ids=self._masks,
            texts=recipe.guide is not None,
        )  # fmt: skip
        training = Rows(corpus, kept)
        head = None if recipe.keeps_head else create_head(recipe, self.width)  # the encoder's own, or one for training
        loss = ViewLoss(recipe.create_objective(gather=True), head, hard_negatives=self.views == 3)
        if self._masks:
            loss.register_buffer("masked_pairs", torch.zeros((), dtype=torch.int64))  # a checkpoint keeps the count
        trainer = TextTrainer(
            model=encoder,
            args=arguments(recipe, folder, len(training), SentenceTransformerTrainingArguments, echo),
            train_dataset=training,
            loss=loss,
            data_collator=collate,  # type: ignore[arg-type]
        )
        trainer.recipe = recipe
        if recipe.guide is not None:
            trainer.guide = open_model(recipe.guide)
            echo(f"Guide: {trainer.guide.name}, frozen; {trainer.guide.about().pooling} pooling.")
        self.trainer = trainer
        if recipe.data.views == "dropout":
            _refuse_equal_views(trainer, collate([training[row] for row in range(min(4, len(training)))]))
        self.sample = collate([corpus[row] for row in sample_rows(kept, recipe)])
        batches = measured_rows(aside, recipe, trainer.args.max_steps, echo)
        self.held_out = [collate([corpus[row] for row in rows]) for rows in batches]
        self.fingerprint = fingerprint_texts(corpus.columns)
        self._parts = _scored_parts(recipe.evaluation.sts, recipe.evaluation.limit)
        self._embedded = Remembered(self._encode)
        self.scored = recipe.scored

    def score(self) -> Scores:
        """Spearman × 100 of cosines on STS-B's development set."""
        self._embedded.forget()  # the weights have changed
        return {"stsb_dev": 100 * score_pairs(self._embedded, self._parts["stsb_dev"])}

    def geometry(self) -> Scores:
        return pair_geometry(self._embedded, self._parts["stsb_dev"], self._as_written.batch.size)

    def final(self, scores: Scores | None = None) -> Scores:
        if not self.scored:
            return {}
        final, test = dict(scores or self.score()), self._parts.get("stsb_test")
        return final | ({} if test is None else {"stsb_test": 100 * score_pairs(self._encode, test)})

    def given(self) -> Scores:
        if not self.scored:
            return {}
        encode = self._as_given.encode
        return {name: 100 * score_pairs(encode, part) for name, part in self._parts.items()}

    @cached_property
    def _as_given(self) -> AsGiven:
        return as_given(self._as_written)

    def counted(self) -> dict[str, int]:
        return {"masked_pairs": int(self.trainer.loss.masked_pairs)} if self._masks else {}

    def save(self, target: Path) -> None:
        self.encoder.save_pretrained(str(target), create_model_card=False)

    def _encode(self, sentences: list[str]) -> np.ndarray:
        if self.trainer.state.global_step == 0 and self._as_given.plain and not self._as_written.keeps_head:
            return self._as_given.encode(sentences)
        with computing(self._as_written.precision, self.encoder.device):
            embedded: np.ndarray = self.encoder.encode(
                sentences, batch_size=128, convert_to_numpy=True, show_progress_bar=False
            )
        return embedded


def _scored_parts(where: str | None, limit: int | None) -> dict[str, ScoredPairs]:
    """STS-B's development and test set; a user's own file has only one part."""
    if where is None:
        return {}
    parts = {"stsb_dev": load_sts_benchmark(where, "dev")}
    if not locate(where).is_file():
        parts["stsb_test"] = load_sts_benchmark(where, "test")
    return parts if limit is None else {name: part.spaced(limit) for name, part in parts.items()}


def _check_room(encoder: SentenceEncoder, recipe: TextRecipe, prompt: str) -> None:
    """Refuses a length that truncates all texts to the same tokens."""
    taken, most = len(encoder.tokenizer(prompt)["input_ids"]), recipe.encoder.max_length
    if most is not None and most <= taken:
        what = "the prompt and the special tokens" if prompt else "the special tokens"
        raise ValueError(f"encoder.max_length is {most}: {what} take {taken}, which leaves no room for a text")


def _refuse_equal_views(trainer: TextTrainer, batch: Inputs) -> None:
    """Refuses dropout views from an encoder without dropout: its two views are equal, and it would learn nothing."""
    recipe, encoder = trainer.recipe, trainer.encoder
    with preserve_state([encoder], recipe.seed):
        encoder.train()
        inputs = trainer._prepare_inputs(batch)
        first, second = (trainer.embed(encoder, inputs) for _ in range(2))
    if torch.allclose(first, second, rtol=1e-4, atol=1e-6):
        raise ValueError(
            f"the encoder {recipe.encoder.name} has no dropout, so both views of a sentence would be equal: set "
            "encoder.dropout=0.1"
        )


class Rows(torch.utils.data.Dataset[dict[str, Any]]):
    """The chosen rows of a corpus."""

    def __init__(self, corpus: Corpus, rows: list[int]) -> None:
        self.corpus, self.rows = corpus, rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, place: int) -> dict[str, Any]:
        return self.corpus[self.rows[place]]


def _head_in_words(recipe: TextRecipe) -> str:
    if recipe.head.kind == "none":
        return "none; the objective sees the pooled embedding itself"
    if recipe.keeps_head:
        return f"{recipe.head.kind}, kept: it belongs to the saved model"
    return f"{recipe.head.kind}, used in training only; the saved model and every evaluation go without it"


# --- the encoder of a run: its own modules are kept, missing ones are SimCSE's, the recipe sets the rest


def open_encoder(recipe: TextRecipe, echo: Echo) -> tuple[SentenceEncoder, TextRecipe]:
    """The encoder to train, and the recipe with its length and head filled in where they follow from the encoder.

    A sentence-transformers model keeps every module, its prompts and its length, unless the recipe gives a pooling
    (which replaces the modules after the transformer), a length or a head. A plain transformer has nothing to keep.
    """
    own, wanted, head = has_own_modules(recipe.encoder.name), recipe.encoder, recipe.head
    if isinstance(head, SentenceHead) and head.kind == "simcse":
        if own and head.keep:
            raise ValueError(
                "head.keep: a SentenceTransformer gets no simcse head, since it keeps its own modules "
                "(head.kind=linear-tanh adds one)"
            )
        head = NoHead() if own else head.model_copy(update={"kind": "linear-tanh"})
    encoder = create_text_encoder(
        wanted.name,
        pooling=wanted.pooling or (None if own else PLAIN_POOLING),
        max_length=wanted.max_length or (None if own else PLAIN_LENGTH),
        dropout=wanted.dropout,
        head=recipe.keeps_head,
    )
    echo(f"Encoder: {_kept_and_set(recipe, own)}{describe(encoder)}.")
    resolved = {"encoder": wanted.model_copy(update={"max_length": encoder.max_seq_length}), "head": head}
    return encoder, recipe.model_copy(update=resolved)


def _kept_and_set(recipe: TextRecipe, own: bool) -> str:
    """Describes which modules between the tokens and the embedding the run keeps and which it sets."""
    if not own:
        return "a plain transformer, which has no pooling of its own; set: "
    keys = {
        "encoder.pooling": recipe.encoder.pooling, "encoder.max_length": recipe.encoder.max_length,
        "head.keep": recipe.keeps_head,
    }  # fmt: skip
    given = [key for key, value in keys.items() if value]
    if not given:
        return "a SentenceTransformer, kept as it is: "
    about = open_model(recipe.encoder.name).about()
    before = f"pooling {about.pooling}, at most {about.max_length} tokens"
    return f"a SentenceTransformer, changed by {' and '.join(given)} (as given: {before}); now: "


@dataclass(frozen=True)
class AsGiven:
    """The model in ``recipe.encoder.name`` before the run changes it. ``plain``: a transformer without modules of its
    own, which has the pooling and length that the run begins with."""

    model: SentenceModel
    plain: bool

    def encode(self, sentences: list[str]) -> np.ndarray:
        """The embeddings stay in the evaluation's cache, so that the next run from the same model need not compute
        them."""
        try:
            store, _ = embed(self.model, sentences, default_cache())
        except OSError:  # a cache that cannot be written costs time but does not end the run
            store, _ = embed(self.model, sentences, None)
        return store.rows(sentences)


def as_given(recipe: TextRecipe) -> AsGiven:
    own, wanted = has_own_modules(recipe.encoder.name), recipe.encoder
    pooling, length = (None, None) if own else (wanted.pooling or PLAIN_POOLING, wanted.max_length or PLAIN_LENGTH)
    return AsGiven(open_model(wanted.name, pooling, length, precision=recipe.precision), not own)
