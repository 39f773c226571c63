"""Training on sentences, and the encoder it is given."""

from __future__ import annotations

import csv
import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.stats
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Dense, Normalize, Pooling, StaticEmbedding, Transformer
from transformers import AutoModel, AutoTokenizer

import hypersphere as hs
from hypersphere.encoders.checkpoint import default_prompt
from hypersphere.encoders.text import create_text_encoder, skipped_tokens
from hypersphere.geometry import unit
from hypersphere.studies.compare.cells import cell_id
from hypersphere.training.equal_texts import text_ids
from hypersphere.training.journal import read_journal
from hypersphere.training.load import parse_recipe, read_recipe
from hypersphere.training.run import NotPreparedError, create_task, train
from hypersphere.training.text import Chunks, TextTask, _refuse_equal_views
from tests.training import worlds
from tests.training.worlds import quiet


def spearman(model: SentenceTransformer, path: Path) -> float:
    table = list(csv.DictReader(path.read_text().splitlines()))
    first, second = (model.encode([row[key] for row in table]) for key in ("sentence1", "sentence2"))
    cosines = (first * second).sum(1) / np.linalg.norm(first, axis=1) / np.linalg.norm(second, axis=1)
    return 100 * float(scipy.stats.spearmanr(cosines, [float(row["score"]) for row in table]).statistic)


def prompted(folder: Path, include: bool) -> str:
    """A model that puts three words before every text, and pools over them or not."""
    model = SentenceTransformer(str(worlds.encoder(folder)))
    model.prompts, model.default_prompt_name = {"query": "red red cat "}, "query"
    model.set_pooling_include_prompt(include)
    model.save_pretrained(str(folder / "prompted"), create_model_card=False)
    return str(folder / "prompted")


def test_a_shipped_recipe_leaves_a_sentence_transformer_its_modules_and_begins_with_it(tmp_path: Path) -> None:
    said: list[str] = []
    finished = train(read_recipe("simcse-small", worlds.fine_tuning(tmp_path)), echo=said.append)
    before, after = (SentenceTransformer(str(f)) for f in (tmp_path / "sentence-model", finished.folder / "model"))
    assert [type(module) for module in after] == [Transformer, Pooling, Dense, Normalize]
    assert (after[1].pooling_mode, after.max_seq_length) == ("mean", 20)
    assert (after.prompts["query"], after.default_prompt_name) == ("red cat ", "query")
    expected = spearman(before, tmp_path / "scored.csv")
    assert finished.results["given"]["stsb_dev"] == pytest.approx(expected, abs=1e-3)
    assert finished.results["history"][0]["stsb_dev"] == pytest.approx(expected, abs=1e-3)
    kept = "mean of the last layer, then a dense layer, then normalisation; at most 20 tokens"
    assert f"Encoder: a SentenceTransformer, kept as it is: {kept}." in said
    assert "Head: none; the objective sees the pooled embedding itself." in said


def test_what_the_user_gives_replaces_the_models_own_and_the_run_says_so(tmp_path: Path) -> None:
    said: list[str] = []
    given = worlds.fine_tuning(tmp_path, "encoder.pooling=cls", "encoder.max_length=9", "head=linear-tanh")
    task = create_task(read_recipe("simcse-small", given), tmp_path / "run", said.append)
    assert said[0] == (
        "Encoder: a SentenceTransformer, changed by encoder.pooling and encoder.max_length (as given: pooling mean, "
        "then dense, then normalize, at most 20 tokens); now: [CLS] of the last layer; at most 9 tokens."
    )
    assert len(task.trainer.loss.head) == 2
    assert task.scored  # the comparison is with the model before these changes
    untouched = spearman(SentenceTransformer(str(tmp_path / "sentence-model")), tmp_path / "scored.csv")
    assert task.given()["stsb_dev"] == pytest.approx(untouched, abs=1e-3)


def test_a_plain_transformer_gets_simcses_pooling_length_and_head(tmp_path: Path) -> None:
    said: list[str] = []
    given = worlds.fine_tuning(tmp_path, encoder=tmp_path / "encoder")
    task = create_task(read_recipe("simcse-small", given), tmp_path / "run", said.append)
    assert said[0].endswith("no pooling of its own; set: [CLS] of the last layer; at most 32 tokens.")
    assert [type(layer) for layer in task.trainer.loss.head] == [torch.nn.Linear, torch.nn.Tanh]
    assert task.scored
    task.trainer.encoder.eval()
    assert task.given()["stsb_dev"] == pytest.approx(task.score()["stsb_dev"], abs=1e-3)


def test_dimensions_that_the_model_leaves_out_are_not_trained_on(tmp_path: Path) -> None:
    model = worlds.sentence_model(tmp_path, truncate_dim=5)
    tree = worlds.text_recipe(tmp_path, encoder={"name": str(model), "max_length": None})
    task = create_task(parse_recipe(tree), tmp_path / "run", lambda sentence: None)
    inputs = task.trainer.data_collator([task.trainer.train_dataset[row] for row in range(4)])  # type: ignore[index]
    assert task.trainer.embed(task.trainer.encoder, inputs).shape == (2, 4, 5)
    assert task.trainer.compute_loss(task.trainer.encoder, inputs).isfinite()


def test_what_cannot_be_kept_or_trained_is_refused_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(NotPreparedError, match="a SentenceTransformer gets no simcse head"):
        train(read_recipe("simcse-small", worlds.fine_tuning(tmp_path, "head.keep=true")), echo=lambda sentence: None)
    with pytest.raises(ValueError, match="'simcse' is for text"):
        read_recipe("digits", ["head=simcse"])
    tokenizer = SentenceTransformer(str(tmp_path / "sentence-model")).tokenizer.backend_tokenizer
    static = SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_dim=4)], device="cpu")
    static.save_pretrained(str(tmp_path / "static"), create_model_card=False)
    with pytest.raises(NotPreparedError, match="begins with StaticEmbedding, not with a transformer"):
        train(
            read_recipe("simcse-small", worlds.fine_tuning(tmp_path, encoder=tmp_path / "static")),
            echo=lambda sentence: None,
        )


def test_chunks_give_back_every_view_in_its_place(tmp_path: Path) -> None:
    model = create_text_encoder(str(worlds.encoder(tmp_path)), max_length=16).eval().double()
    texts = worlds.sentences(7)
    batch = Chunks(model.tokenizer, 16, 3, twice=True)([{"row": i, "texts": [t]} for i, t in enumerate(texts)])
    with torch.no_grad():
        embeddings = model({"chunks": batch["chunks"], "place": batch["place"]})["sentence_embedding"]
    expected = model.encode(texts, convert_to_tensor=True)
    assert torch.allclose(embeddings, torch.cat([expected, expected]), rtol=0, atol=1e-12)
    assert max(len(chunk["input_ids"]) for chunk in batch["chunks"]) == 3
    padded = sum(int((chunk["attention_mask"] == 0).sum()) for chunk in batch["chunks"])
    together = model.tokenizer(texts * 2, padding=True, return_tensors="pt")["attention_mask"]
    assert padded < int((together == 0).sum()) / 2


@pytest.mark.parametrize("views", ["pairs", "triples"])
def test_the_loss_is_that_of_the_plain_padded_batch(tmp_path: Path, views: str) -> None:
    texts = 2 if views == "pairs" else 3
    tree = worlds.text_recipe(tmp_path, data={"source": str(worlds.pairs(tmp_path, texts=texts)), "views": views})
    tree["encoder"]["dropout"] = 0.0
    task = create_task(parse_recipe(tree), tmp_path / "run", quiet)
    instances = [task.trainer.train_dataset[row] for row in range(8)]  # type: ignore[index]
    value = task.trainer.compute_loss(task.trainer.model, task.trainer.data_collator(instances))

    model = AutoModel.from_pretrained(tree["encoder"]["name"]).eval()
    tokenizer = AutoTokenizer.from_pretrained(tree["encoder"]["name"])

    def plain(column: int) -> torch.Tensor:
        batch = tokenizer([i["texts"][column] for i in instances], padding=True, return_tensors="pt", truncation=True,
                          max_length=16)  # fmt: skip
        return task.trainer.loss.head(model(**batch).last_hidden_state[:, 0])

    objective = hs.create_objective("infonce", temperature=0.1)
    expected = objective(plain(0), plain(1), negatives=plain(2) if texts == 3 else None)
    assert value.item() == pytest.approx(expected.item(), rel=1e-5)


def test_the_gradient_cache_changes_nothing_but_memory(tmp_path: Path) -> None:
    values_and_grads = []
    for cache in (False, True):
        tree = worlds.text_recipe(tmp_path, batch={"cache": cache})
        task = create_task(parse_recipe(tree), tmp_path / "run", quiet)
        trainer = task.trainer
        torch.manual_seed(3)
        for parameter in trainer.loss.parameters():
            torch.nn.init.constant_(parameter, 0.1)
        trainer.model.train()
        torch.manual_seed(4)  # dropout
        value = trainer.compute_loss(trainer.model, trainer.data_collator([trainer.train_dataset[i] for i in range(8)]))
        value.backward()
        values_and_grads.append((value, [p.grad for p in trainer.model.parameters() if p.grad is not None]))
    assert torch.equal(values_and_grads[0][0], values_and_grads[1][0])
    assert len(values_and_grads[0][1]) == len(values_and_grads[1][1]) > 10
    for plain, cached in zip(values_and_grads[0][1], values_and_grads[1][1], strict=True):
        assert torch.allclose(plain, cached, atol=1e-7)


@pytest.mark.parametrize("keep", [True, False])
def test_a_run_leaves_a_folder_that_sentence_transformers_opens(tmp_path: Path, with_curves: None, keep: bool) -> None:
    tree = worlds.text_recipe(
        tmp_path,
        head={"kind": "linear-tanh", "keep": keep},
        evaluation={"sts": str(worlds.scored(tmp_path)), "every": 3},
    )
    said: list[str] = []
    finished = train(parse_recipe(tree), echo=said.append)
    assert (finished.folder / "curves.png").is_file()
    opened = SentenceTransformer(str(finished.folder / "model"))
    assert len(list(opened)) == (3 if keep else 2)
    assert any(("belongs to the saved model" if keep else "training only") in sentence for sentence in said)
    assert any("[CLS] of the last layer" in sentence for sentence in said)
    assert set(finished.results["history"]) == {0, 3, 6}
    best = finished.results["best_step"]
    scores = {step: scores["stsb_dev"] for step, scores in finished.results["history"].items()}
    assert scores[best] == max(scores.values()) == pytest.approx(finished.results["scores"]["stsb_dev"])
    lines = {line["step"]: line for line in read_journal(finished.folder / "metrics.jsonl") if "score" in line}
    assert {step: line["score"] for step, line in lines.items()} == pytest.approx(scores)
    assert len({line["uniformity"] for line in lines.values()}) == len(lines) == 3  # of the weights of each step
    assert all(line["alignment"] > 0 and line["infonce"] > 0 for line in lines.values())
    table = list(csv.DictReader(worlds.scored(tmp_path).read_text().splitlines()))
    first, second = (opened.encode([row[key] for row in table]) for key in ("sentence1", "sentence2"))
    cosines = (first * second).sum(1) / np.linalg.norm(first, axis=1) / np.linalg.norm(second, axis=1)
    expected = 100 * scipy.stats.spearmanr(cosines, [float(row["score"]) for row in table]).statistic
    assert scores[best] == pytest.approx(expected, abs=1e-3)
    card = (finished.folder / "model" / "README.md").read_text()
    assert "temperature: 0.1" in card and "Gao et al. 2021" in card
    with pytest.raises(NotPreparedError, match="finished run"):
        train(parse_recipe(tree), echo=quiet)
    with pytest.raises(NotPreparedError, match="finished run"):
        train(parse_recipe(tree), resume=True, echo=quiet)


def test_a_learned_temperature_and_the_head_are_trained(tmp_path: Path) -> None:
    tree = worlds.text_recipe(tmp_path, objective={"name": "infonce", "temperature": 0.1, "learnable": True})
    task = create_task(parse_recipe(tree), tmp_path / "run", quiet)
    before = {name: value.detach().clone() for name, value in task.trainer.loss.named_parameters()}
    task.trainer.train()
    after = dict(task.trainer.loss.named_parameters())
    assert len(before) == 3
    assert all(not torch.equal(before[name], after[name]) for name in before)


def test_bad_text_is_refused_in_one_sentence(tmp_path: Path) -> None:
    def refusal(**changes: object) -> str:
        with pytest.raises(NotPreparedError) as caught:
            train(parse_recipe(worlds.text_recipe(tmp_path, **changes)), echo=quiet)
        assert not (tmp_path / "run").exists()
        return str(caught.value)

    assert "no text file" in refusal(data={"source": "nowhere.txt"})
    assert "fewer than one batch of 128" in refusal(batch={"size": 128})
    assert "no config.json" in refusal(encoder={"name": str(tmp_path)})
    assert "line 1 of corpus.txt has 1 texts" in refusal(data={"views": "pairs"})
    assert "less than one batch" in refusal(data={"held_out": 60})
    assert "the special tokens take 2, which leaves no room" in refusal(encoder={"max_length": 2})


def test_two_views_by_dropout_need_dropout(tmp_path: Path) -> None:
    tree = worlds.text_recipe(tmp_path)
    still = str(worlds.encoder(tmp_path / "still", dropout=0.0))
    for wrong in ({"name": still, "max_length": 16}, {**tree["encoder"], "dropout": 0.0}):
        with pytest.raises(NotPreparedError) as caught:
            train(parse_recipe({**tree, "encoder": wrong}), echo=quiet)
        assert f"the encoder {wrong['name']} has no dropout" in str(caught.value)
        assert "set encoder.dropout=0.1" in str(caught.value)
    task = create_task(
        parse_recipe({**tree, "encoder": {"name": still, "max_length": 16, "dropout": 0.1}}), tmp_path / "run", quiet
    )
    before, mode = torch.get_rng_state(), task.trainer.encoder.training
    _refuse_equal_views(task.trainer, task.sample)  # type: ignore[arg-type]
    assert torch.equal(torch.get_rng_state(), before) and task.trainer.encoder.training == mode


@pytest.mark.parametrize("include", [True, False])
def test_the_prompt_of_a_model_stands_before_texts_in_training_as_in_use(tmp_path: Path, include: bool) -> None:
    encoder = {"name": prompted(tmp_path, include), "pooling": None, "max_length": 16}
    said: list[str] = []
    tree = worlds.text_recipe(tmp_path, data={"source": str(worlds.pairs(tmp_path)), "views": "pairs"})
    task = create_task(parse_recipe({**tree, "encoder": encoder}), tmp_path / "run", said.append)
    assert any("Prompt: 'red red cat ' stands before every text" in sentence for sentence in said)
    model = create_text_encoder(encoder["name"], pooling=None, max_length=16).eval()  # type: ignore[arg-type]
    assert default_prompt(model) == "red red cat "
    assert skipped_tokens(model, "red red cat ") == (None if include else 4)  # [CLS] and three words
    for each in (model, task.trainer.encoder.eval()):
        each.double()  # chunks of other lengths round otherwise
    instances = [task.trainer.train_dataset[row] for row in range(8)]  # type: ignore[index]
    with torch.no_grad():
        embeddings = task.trainer.embed(task.trainer.encoder, task.trainer.data_collator(instances))
    for view in range(2):
        texts = [instance["texts"][view] for instance in instances]
        assert torch.allclose(embeddings[view], model.encode(texts, convert_to_tensor=True), rtol=0, atol=1e-12)
        assert not torch.allclose(embeddings[view], model.encode(texts, prompt="", convert_to_tensor=True), atol=1e-3)


def test_a_prompt_that_leaves_no_room_for_a_text_is_refused(tmp_path: Path) -> None:
    tree = worlds.text_recipe(tmp_path)
    encoder = {"name": prompted(tmp_path, True), "pooling": None, "max_length": 5}
    with pytest.raises(NotPreparedError, match="the prompt and the special tokens take 5, which leaves no room"):
        train(parse_recipe({**tree, "encoder": encoder}), echo=quiet)


# --- equal texts


@pytest.mark.parametrize("texts", [1, 2, 3])
def test_a_batch_has_the_ids_of_its_texts(tmp_path: Path, texts: int) -> None:
    tokenizer = AutoTokenizer.from_pretrained(str(worlds.encoder(tmp_path)))
    rows = [[f"red {row}", "cat" if row % 2 else "dog", f"bird {row}"][:texts] for row in range(4)]
    batch = Chunks(tokenizer, 16, 3, twice=False, ids=True)([{"row": i, "texts": row} for i, row in enumerate(rows)])
    assert torch.equal(batch["text_ids"], torch.stack([text_ids(row) for row in rows]))


@pytest.mark.parametrize("texts", [2, 3])
def test_equal_texts_are_no_negatives_unless_the_recipe_wants_them(tmp_path: Path, texts: int) -> None:
    source = worlds.pairs(tmp_path, texts=texts, different=3)
    if texts == 3:  # hard negatives that are the documents of others
        rows = [line.split("\t") for line in source.read_text().splitlines()]
        source.write_text("".join("\t".join([*row[:2], rows[0][1]]) + "\n" for row in rows))
    losses = {}
    for mask in (True, False):
        tree = worlds.text_recipe(tmp_path, data={"source": str(source), "views": "pairs" if texts == 2 else "triples"})
        tree["encoder"]["dropout"] = 0.0
        if not mask:
            tree["batch"]["mask_duplicates"] = False
        torch.manual_seed(0)
        task = create_task(parse_recipe(tree), tmp_path / "run", quiet)
        batch = task.trainer.data_collator([task.trainer.train_dataset[row] for row in range(8)])  # type: ignore[index]
        losses[mask] = task.trainer.compute_loss(task.trainer.model, batch).item()
        with torch.no_grad():
            z = task.trainer.loss.project(task.trainer.embed(task.trainer.encoder, batch))
        # Documents 0 1 2 0 1 2 0 1: three, three and one equal pairs; each hard negative is document 0, of three rows.
        pairs = 3 + 3 + 1 + (8 * 3 if texts == 3 else 0)
        assert task.counted() == ({"masked_pairs": pairs} if mask else {})
    documents = torch.arange(8) % 3
    known = {"ids": documents, **({"ids_negatives": torch.zeros(8).long()} if texts == 3 else {})}
    negatives = {"negatives": z[2]} if texts == 3 else {}
    objective = hs.create_objective("infonce", temperature=0.1)
    assert losses[True] == pytest.approx(objective(z[0], z[1], **known, **negatives).item(), rel=1e-5)
    assert losses[False] == pytest.approx(objective(z[0], z[1], **negatives).item(), rel=1e-5)
    assert losses[True] < losses[False] - 0.1


def test_a_query_that_is_anothers_query_or_document_is_no_negative_of_it(tmp_path: Path) -> None:
    """On pairs whose documents are all different."""
    queries, documents = worlds.sentences(8, 1), worlds.sentences(8, 2)
    queries[5], queries[6] = queries[1], documents[3]
    source = tmp_path / "pairs.tsv"
    source.write_text("".join(f"{query}\t{document}\n" for query, document in zip(queries, documents, strict=True)))
    tree = worlds.text_recipe(tmp_path, data={"source": str(source), "views": "pairs"})
    tree["encoder"]["dropout"] = 0.0
    task = create_task(parse_recipe(tree), tmp_path / "run", quiet)
    batch = task.trainer.data_collator([task.trainer.train_dataset[row] for row in range(8)])  # type: ignore[index]
    with torch.no_grad():
        value = task.trainer.compute_loss(task.trainer.model, batch).item()
        h, other = (unit(each) for each in task.trainer.loss.project(task.trainer.embed(task.trainer.encoder, batch)))
    apart = [(1, 5), (5, 1), (3, 6), (6, 3)]
    losses = []
    for i in range(8):
        logits = {j: float(h[i] @ other[j]) / 0.1 for j in range(8) if (i, j) not in apart}
        losses.append(math.log(sum(map(math.exp, logits.values()))) - logits[i])
    assert value == pytest.approx(sum(losses) / 8, rel=1e-5)
    assert task.counted() == {"masked_pairs": 2}


def test_a_run_tells_how_many_pairs_it_masked_and_a_resumed_one_goes_on_counting(tmp_path: Path) -> None:
    source = tmp_path / "few.txt"
    source.write_text("\n".join(worlds.sentences(12) * 2) + "\n")
    said: list[str] = []
    recipe = parse_recipe(worlds.text_recipe(tmp_path, data={"source": str(source)}))
    finished = train(recipe, echo=said.append)
    masked = finished.results["masked_pairs"]
    assert masked > 0
    assert f"Masked: {masked} pairs of equal texts were no negatives of each other." in said
    (finished.folder / "results.json").unlink()
    shutil.rmtree(finished.folder / "checkpoints" / "checkpoint-6")
    assert train(recipe, resume=True, echo=quiet).results["masked_pairs"] == masked


def test_masking_changes_no_id_of_a_study_and_is_refused_without_negatives(tmp_path: Path) -> None:
    tree = worlds.text_recipe(tmp_path)
    recipe = parse_recipe(tree)
    ids = [cell_id(parse_recipe({**tree, "batch": {**tree["batch"], "mask_duplicates": m}})) for m in (True, False)]
    assert ids[0] == cell_id(recipe) != ids[1]
    with pytest.raises(ValueError, match=r"batch\.mask_duplicates is for text with an objective that has negatives"):
        parse_recipe({**tree, "objective": {"name": "vicreg"}, "batch": {"mask_duplicates": False}})


# --- guides


def guided_task(folder: Path, views: str, guide: str, **rule: object) -> tuple[TextTask, dict[str, Any]]:
    source = worlds.pairs(folder, texts=3 if views == "triples" else 2)
    objective = {"name": "infonce", "temperature": 0.1, "guide": guide, **rule}
    tree = worlds.text_recipe(folder, data={"source": str(source), "views": views}, objective=objective)
    tree["encoder"]["dropout"] = 0.0
    task = create_task(parse_recipe(tree), folder / "run", quiet)
    assert isinstance(task, TextTask)
    return task, task.trainer.data_collator([task.trainer.train_dataset[row] for row in range(8)])  # type: ignore


@pytest.mark.parametrize("views", ["pairs", "triples"])
def test_a_model_guides_by_what_it_makes_of_the_texts(tmp_path: Path, views: str) -> None:
    folder = worlds.sentence_model(tmp_path)
    task, batch = guided_task(tmp_path, views, str(folder), guide_margin=0.02, guide_strategy="relative")
    value = task.trainer.compute_loss(task.trainer.model, batch)
    with torch.no_grad():
        z = task.trainer.loss.project(task.trainer.embed(task.trainer.encoder, batch))
    rows = [torch.tensor(SentenceTransformer(str(folder)).encode(list(column))) for column in batch["texts"]]
    further = {"negatives": z[2], "guide_negatives": rows[2]} if views == "triples" else {}
    base = {"name": "infonce", "temperature": 0.1}
    expected = hs.create_objective("guided", base=base, margin=0.02, strategy="relative")
    plain = hs.create_objective("infonce", temperature=0.1)
    assert value.item() == pytest.approx(expected(z[0], z[1], guide=(rows[0], rows[1]), **further).item(), rel=1e-5)
    assert value.item() < plain(z[0], z[1], negatives=further.get("negatives")).item() - 0.01
    value.backward()
    assert all(parameter.grad is None for parameter in task.trainer.guide.model.parameters())


def test_an_objective_that_reads_a_guide_gets_what_a_model_makes_of_the_texts(tmp_path: Path) -> None:
    folder = worlds.sentence_model(tmp_path)
    task, batch = guided_task(tmp_path, "pairs", str(folder), name="xclr", graph_temperature=0.2)
    with torch.no_grad():
        value = task.trainer.compute_loss(task.trainer.model, batch)
        z = task.trainer.loss.project(task.trainer.embed(task.trainer.encoder, batch))
    rows = [torch.tensor(SentenceTransformer(str(folder)).encode(list(column))) for column in batch["texts"]]
    expected = hs.create_objective("xclr", temperature=0.1, graph_temperature=0.2)(z[0], z[1], guide=tuple(rows))
    assert value.item() == pytest.approx(expected.item(), rel=1e-5)


def test_the_encoder_guides_itself(tmp_path: Path) -> None:
    task, batch = guided_task(tmp_path, "pairs", "self", guide_margin=-0.1)
    assert task.trainer.guide is None and "texts" not in batch
    with torch.no_grad():
        z = task.trainer.loss.project(task.trainer.embed(task.trainer.encoder, batch))
        value = task.trainer.compute_loss(task.trainer.model, batch)
    base = {"name": "infonce", "temperature": 0.1}
    expected = hs.create_objective("guided", base=base, source="self", margin=-0.1)
    assert value.item() == pytest.approx(expected(z[0], z[1]).item(), rel=1e-5)


def test_a_guided_run_ends_and_names_its_guide(tmp_path: Path) -> None:
    said: list[str] = []
    schedule = {"schedule": "cosine", "low": 0.1, "high": 0.5, "period": 4}
    objective = {"name": "infonce", "temperature": schedule, "guide": str(worlds.sentence_model(tmp_path))}
    source = worlds.pairs(tmp_path)
    tree = worlds.text_recipe(tmp_path, data={"source": str(source), "views": "pairs"}, objective=objective, steps=2)
    recipe = parse_recipe(tree)
    assert recipe.resolved()["objective"]["guide"] == objective["guide"]
    assert recipe.resolved()["objective"]["base"]["temperature"] == schedule
    assert train(recipe, echo=said.append).results["steps"] == 2
    assert any(sentence.startswith(f"Guide: {objective['guide']}, frozen") for sentence in said)


@pytest.mark.parametrize(
    ("objective", "sentence"),
    [
        ({"guide_margin": 0.1}, r"objective\.guide_margin needs objective\.guide"),
        ({"guide": 3}, r"objective\.guide is 3: it should be self, or the folder or name of a sentence model"),
        ({"guide": "self", "guide_strategy": "best"}, "guided's strategy must be 'absolute' or 'relative', not 'best'"),
        ({"name": "vicreg", "guide": "self"}, "guided's base must have negatives that can be dropped"),
        ({"name": "guided", "base": "infonce"}, r"guided needs a guide: objective\.guide names it in a recipe"),
        ({"name": "cosent"}, "cosent needs the score of each pair, which the data of a run does not have"),
        ({"name": "xclr"}, r"xclr needs a guide: objective\.guide names it in a recipe"),
        ({"name": "xclr", "guide": "self"}, r"xclr reads the rows of a guide: .* must be a sentence model$"),
        ({"name": "xclr", "guide": "a-model", "guide_margin": 0.1}, r"xclr has .* leave out objective\.guide_margin"),
        ({"name": "guided", "guide": "self"}, r"guided reads the rows .* a sentence model, or objective\.source=self"),
        (
            {"name": "guided", "source": "self", "guide": "a-model"},
            r"guided has objective\.source=self, so its guide is self, not 'a-model'",
        ),
    ],
)
def test_a_guide_that_cannot_be_is_refused_in_one_sentence(
    tmp_path: Path, objective: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(ValueError, match=sentence):
        parse_recipe(worlds.text_recipe(tmp_path, objective={"name": "infonce", **objective}))


def test_guided_by_name_is_the_objective_with_its_guide_around_it(tmp_path: Path) -> None:
    for guide, source in (("a-model", "given"), ("self", "self")):
        around = {"name": "infonce", "guide": guide, "guide_margin": 0.1}
        by_name = {"name": "guided", "base": "infonce", "margin": 0.1, "source": source, "guide": guide}
        one, other = (parse_recipe(worlds.text_recipe(tmp_path, objective=each)) for each in (around, by_name))
        assert one.resolved()["objective"] == other.resolved()["objective"]
        assert repr(one.create_objective()) == repr(other.create_objective())


def test_a_sentence_model_guides_no_images(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="xclr needs a guide of each instance, which a run has on text alone"):
        parse_recipe(worlds.digits_recipe(tmp_path, objective={"name": "xclr", "guide": "a-model"}))
    with pytest.raises(ValueError, match="a sentence model guides text alone; here it can be self"):
        parse_recipe(worlds.digits_recipe(tmp_path, objective={"name": "infonce", "guide": "a-model"}))
    parse_recipe(worlds.digits_recipe(tmp_path, objective={"name": "infonce", "guide": "self"}))


@pytest.mark.parametrize("best", [True, False])
def test_no_weights_are_scored_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, best: bool) -> None:
    """The score before training is that of the model as given, the final one that of the step whose weights stay."""
    encoded: list[int] = []
    encode = SentenceTransformer.encode

    def counted(self: SentenceTransformer, sentences: Any, **options: Any) -> Any:
        encoded.append(len(sentences))
        return encode(self, sentences, **options)

    monkeypatch.setattr(SentenceTransformer, "encode", counted)
    monkeypatch.setenv("HYPERSPHERE_CACHE", str(tmp_path / "cache"))
    sts = str(worlds.scored(tmp_path))
    tree = worlds.text_recipe(tmp_path, evaluation={"sts": sts, "every": 3, "best": best, "limit": 20})
    finished = train(parse_recipe(tree), echo=quiet)
    history, scores = finished.results["history"], finished.results["scores"]
    model = SentenceTransformer(str(finished.folder / "model"))
    table = list(csv.DictReader(Path(sts).read_text().splitlines()))[::2]  # 20 of 40 pairs
    lines = [",".join(row.values()) for row in table]
    (tmp_path / "half.csv").write_text("\n".join(["sentence1,sentence2,score", *lines]))
    assert history[0]["stsb_dev"] == finished.results["given"]["stsb_dev"]
    assert scores["stsb_dev"] == history[finished.results["best_step"] if best else 6]["stsb_dev"]
    evaluations = [count for count in encoded if count > 8]  # fewer: a comparison of two ways to encode
    assert len(evaluations) == 2  # steps 3 and 6
    assert scores["stsb_dev"] == pytest.approx(spearman(model, tmp_path / "half.csv"), abs=1e-3)


def test_half_precision_scores_are_those_of_the_encoder_nearly(tmp_path: Path) -> None:
    tree = worlds.text_recipe(tmp_path, precision="bf16", evaluation={"sts": str(worlds.scored(tmp_path)), "every": 6})
    finished = train(parse_recipe(tree), echo=quiet)
    model = SentenceTransformer(str(finished.folder / "model"))
    exact = spearman(model, tmp_path / "scored.csv")
    assert 0 < abs(finished.results["scores"]["stsb_dev"] - exact) < 3


def test_without_checkpoints_only_an_interruption_saves(tmp_path: Path) -> None:
    finished = train(parse_recipe(worlds.text_recipe(tmp_path, checkpoint={"every": 0})), echo=quiet)
    assert not list((finished.folder / "checkpoints").glob("checkpoint-*"))
