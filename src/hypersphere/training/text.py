"""Sentences: SimCSE's protocol on sentence-transformers' trainer, without computing padding."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from torch import Tensor, nn

from hypersphere.data.sts import load_sts_benchmark
from hypersphere.data.text import Corpus, read_corpus
from hypersphere.documents import locate
from hypersphere.encoders.checkpoint import default_prompt
from hypersphere.encoders.text import SentenceEncoder, skipped_tokens
from hypersphere.evaluation.pairs import Remembered, pair_geometry
from hypersphere.evaluation.sts import score_pairs
from hypersphere.training.content import content_of_texts
from hypersphere.training.given import open_encoder, score_as_given
from hypersphere.training.recipe import Recipe
from hypersphere.training.task import Scores, Task, arguments, held_out_rows, measured_rows, sample_rows, view_loss
from hypersphere.training.trainer import ObjectiveTraining
from hypersphere.training.undisturbed import undisturbed

FEWEST, PARTS = 32, 8  # rows of a chunk at least, chunks of a batch at most: products stay large, lengths alike


class TextTrainer(ObjectiveTraining, SentenceTransformerTrainer):  # type: ignore[misc]
    """sentence-transformers' trainer with our loss, batches and checkpoints."""

    def embed(self, model: nn.Module, inputs: dict[str, Any]) -> Tensor:
        embedded: Tensor = model({"chunks": inputs["chunks"], "place": inputs["place"]})["sentence_embedding"]
        return embedded.view(-1, len(inputs["rows"]), embedded.shape[1])

    def prepare_loss(self, loss: Any, model: Any) -> Any:
        return loss.to(model.device)

    def preprocess_dataset(self, dataset: Any = None, dataset_name: str | None = None) -> Any:
        return dataset  # rows of a corpus, not columns of a table

    def add_model_card_callback(self, default_args_dict: dict[str, Any]) -> None:
        """The card is ours, written when the run is over."""


class Chunks:
    """Collates texts into chunks of rows of like length, every chunk padded to its own longest row.

    The views stand one after another: row v N + i of the batch is view v of instance i, and ``place`` says where it is
    among the chunks' rows. Dropout views are the same tokens twice. ``prompt`` stands before every text; the pooling
    leaves out the first ``skipped`` tokens.
    """

    def __init__(
        self,
        tokenizer: Any,
        max_length: int | None,
        size: int,
        twice: bool,
        prompt: str = "",
        skipped: int | None = None,
    ) -> None:
        self.tokenizer, self.max_length, self.size, self.twice = tokenizer, max_length, size, twice
        self.prompt = prompt
        self.extra = {} if skipped is None else {"prompt_length": skipped}

    def __call__(self, instances: list[dict[str, Any]]) -> dict[str, Any]:
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
        return {"chunks": chunks, "place": place, "rows": torch.tensor([instance["row"] for instance in instances])}


def prepare_text(recipe: Recipe, folder: Path, say: Callable[[str], None]) -> Task:
    """Everything a run on text needs."""
    corpus = read_corpus(recipe.data.source, recipe.data.views, columns=recipe.data.columns, rows=recipe.data.rows)
    kept, aside = held_out_rows(len(corpus), recipe)
    as_written = recipe
    encoder, recipe = open_encoder(as_written, say)
    encoder.cached = recipe.batch.cache
    prompt = default_prompt(encoder) or ""
    _check_room(encoder, recipe, prompt)
    width = int(encoder.get_embedding_dimension() or 0)
    if prompt:
        say(f"Prompt: {prompt!r} stands before every text, as the encoder has it.")
    say(f"Head: {_head_in_words(recipe)}.")
    say(f"Data: {corpus.name}, {len(kept)} instances, views by {recipe.data.views}"
        + (f", {corpus.empty} empty lines left out" if corpus.empty else "") + ".")  # fmt: skip
    if recipe.evaluation.sts is None:
        say("Without evaluation.sts the run cannot tell whether it makes the model better or worse.")
    views = 3 if recipe.data.views == "triples" else 2
    chunk = recipe.batch.chunk or max(FEWEST, views * recipe.batch.size // PARTS)
    collate = Chunks(
        encoder.tokenizer, recipe.encoder.max_length, chunk, twice=recipe.data.views == "dropout", prompt=prompt,
        skipped=skipped_tokens(encoder, prompt),
    )  # fmt: skip
    training = Rows(corpus, kept)
    trainer = TextTrainer(
        model=encoder,
        args=arguments(recipe, folder, len(training), SentenceTransformerTrainingArguments, say),
        train_dataset=training,
        loss=view_loss(recipe, 0 if recipe.head.keep else width),
        data_collator=collate,  # type: ignore[arg-type]
    )
    trainer.recipe = recipe
    if recipe.data.views == "dropout":
        _refuse_equal_views(trainer, collate([training[row] for row in range(min(4, len(training)))]))
    score, geometry, final, given = _scores(as_written, encoder)
    return Task(
        trainer=trainer,
        views=views,
        width=width,
        sample=collate([corpus[row] for row in sample_rows(kept, recipe)]),
        held_out=[
            collate([corpus[row] for row in rows]) for rows in measured_rows(aside, recipe, trainer.args.max_steps, say)
        ],
        score=score,
        geometry=geometry,
        final=final,
        given=given,
        key="stsb_dev",
        save=lambda target: _save(encoder, target),
        content=content_of_texts(corpus.columns),
    )


def _check_room(encoder: SentenceEncoder, recipe: Recipe, prompt: str) -> None:
    """Refuses a length at which every text is the same."""
    taken, most = len(encoder.tokenizer(prompt)["input_ids"]), recipe.encoder.max_length
    if most is not None and most <= taken:
        what = "the prompt and the special tokens" if prompt else "the special tokens"
        raise ValueError(f"encoder.max_length is {most}: {what} take {taken}, which leaves no room for a text")


def _refuse_equal_views(trainer: TextTrainer, batch: dict[str, Any]) -> None:
    """Dropout makes the two views of a sentence; some encoders have none, and would learn nothing from equal ones."""
    recipe, encoder = trainer.recipe, trainer.encoder
    with undisturbed([encoder], recipe.seed):
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


def _scores(recipe: Recipe, encoder: SentenceEncoder) -> tuple[Any, Any, Any, Any]:
    """STS-B: dev while training, its geometry, test at the end, both of the model as given; Spearman × 100 of
    cosines."""
    if recipe.evaluation.sts is None:
        return None, None, None, None
    where = recipe.evaluation.sts
    dev = load_sts_benchmark(where, "dev")
    own = locate(where).is_file()  # a file of one's own has no other part
    test = None if own else load_sts_benchmark(where, "test")

    def encode(sentences: list[str]) -> Any:
        return encoder.encode(sentences, batch_size=128, convert_to_numpy=True, show_progress_bar=False)

    embedded = Remembered(encode)

    def score() -> Scores:
        embedded.forget()  # the weights have changed
        return {"stsb_dev": 100 * score_pairs(embedded, dev)}

    def geometry() -> Scores:
        return pair_geometry(embedded, dev, recipe.batch.size)

    def final() -> Scores:
        return score() if test is None else score() | {"stsb_test": 100 * score_pairs(encode, test)}

    def given() -> Scores:
        parts = {"stsb_dev": dev} if test is None else {"stsb_dev": dev, "stsb_test": test}
        return dict(zip(parts, score_as_given(recipe, list(parts.values())), strict=True))

    return score, geometry, final, given


def _save(encoder: SentenceEncoder, target: Path) -> None:
    encoder.save_pretrained(str(target), create_model_card=False)


def _head_in_words(recipe: Recipe) -> str:
    if recipe.head.kind == "none":
        return "none; the objective sees the pooled embedding itself"
    if recipe.head.keep:
        return f"{recipe.head.kind}, kept: it belongs to the saved model"
    return f"{recipe.head.kind}, used in training only; the saved model and every evaluation go without it"
