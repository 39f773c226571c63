"""The reproducible items: the papers, their items by name, the place of each in its paper, and its duration."""

from __future__ import annotations

from dataclasses import dataclass

from hypersphere.names import did_you_mean, nearest


@dataclass(frozen=True)
class Paper:
    """The citation of a paper, in a picture and in a list."""

    short: str
    title: str
    venue: str


@dataclass(frozen=True)
class Item:
    """One table, figure or statement of a paper.

    place: its place in the paper. code: the module below this package and its function.
    minutes: of the computation without training, on one thread of a server CPU.
    contests: the studies that are run for it; the function reads them.
    """

    title: str
    place: str
    minutes: float
    code: str
    contests: tuple[str, ...] = ()


PAPERS: dict[str, Paper] = {
    "nie2023": Paper(
        "Nie et al. 2023",
        "On the Inadequacy of Optimizing Alignment and Uniformity in Contrastive Learning of Sentence Representations",
        "ICLR 2023",
    ),
    "li2024": Paper(
        "Li et al. 2024",
        "Towards Better Understanding of Contrastive Sentence Representation Learning: A Unified Paradigm for Gradient",
        "ACL 2024",
    ),
    "koromilas2024": Paper(
        "Koromilas et al. 2024", "Bridging Mini-Batch and Asymptotic Analysis in Contrastive Learning", "ICML 2024"
    ),
    "cloa2024": Paper(
        "Li and Pimentel-Alarcón 2024",
        "Contrastive Learning with Orthonormal Anchors",
        "arXiv 2403.18699v1",
    ),
    "hypersphere": Paper("hypersphere", "Questions that none of the papers answered", "this project"),
}

# For a picture that illustrates a paper but is not a figure of it.
NOT_A_FIGURE = "not a figure of the paper"

ITEMS: dict[str, Item] = {
    "nie2023/fig2": Item("Length of the alignment part of the gradient", "Figure 2", 0.1, "nie2023.maps:fig2"),
    "nie2023/fig4": Item("Length of one negative's part of the gradient", "Figure 4", 0.1, "nie2023.maps:fig4"),
    "nie2023/bounds": Item(
        "Upper bounds of InfoNCE: DCL+ and MPT", "section 4, Eq. 10 and 13", 0.1, "nie2023.bounds:bounds"
    ),
    "nie2023/appendix-d": Item(
        "A common lower bound of both uniformities", "Appendix D", 0.1, "nie2023.appendix_d:appendix_d"
    ),
    "nie2023/mixup-bounds": Item(
        "Bounds of InfoNCE with mixed negatives", "Appendix E", 0.1, "nie2023.mixup:mixup_bounds"
    ),
    "li2024/table1": Item("Components of four contrastive losses", "Table 1", 0.1, "li2024.table1:table1"),
    "li2024/table2": Item(
        "Components of the other losses, original and modified", "Table 2", 0.1, "li2024.table2:table2"
    ),
    "li2024/fig2": Item("Mean dissipation of InfoNCE, ArcCon, MPT and MET", "Figure 2", 0.9, "li2024.dissipation:fig2"),
    "li2024/fig3": Item("Share of the hardest negative in the weight", "Figure 3", 0.1, "li2024.hardest:fig3"),
    "li2024/fig4": Item("Ratio of ArcCon and MET over the angles", "Figure 4", 0.1, "li2024.ratio:fig4"),
    "li2024/fig10": Item("Mean dissipation of InfoNCE and MPT", "Figure 10", 0.5, "li2024.dissipation:fig10"),
    "li2024/fig11": Item("The geometry of Lemma 1", "Figure 11", 0.1, "li2024.geometry:fig11"),
    "li2024/lemma1": Item(
        "Which ratios bring an anchor closer to its positive", "Lemma 1", 0.1, "li2024.lemma1:lemma1"
    ),
    "li2024/components": Item(
        "Dissipation, weight and ratio, each changed alone",
        f"Eq. 4 ({NOT_A_FIGURE})",
        0.1,
        "li2024.components:components",
    ),
    "koromilas2024/minimisers": Item(
        "Minimisers of contrastive losses, in a batch and in the limit",
        f"on minimisers ({NOT_A_FIGURE})",
        1.4,
        "koromilas2024.minimisers:minimisers",
    ),
    "koromilas2024/batch-independence": Item(
        "The expected loss against the batch size",
        f"on the batch size ({NOT_A_FIGURE})",
        0.2,
        "koromilas2024.batch_independence:batch_independence",
    ),
    "cloa2024/theorem31": Item(
        "Embeddings on one line: slope and curvature", "Theorem 3.1", 0.8, "cloa2024.theorem31:theorem31"
    ),
    "cloa2024/table1": Item("Losses as affinity, probability and divergence", "Table 1", 0.1, "cloa2024.table1:table1"),
    "nie2023/table1": Item(
        "Similarity and transfer of seven objectives", "Table 1", 0.1, "nie2023.scores:table1", ("nie-objectives",)
    ),
    "nie2023/table2": Item("The settings that won", "Table 2", 0.1, "nie2023.settings:table2", ("nie-objectives",)),
    "nie2023/fig1": Item(
        "Alignment, uniformity and quality; who overfits",
        "Figure 1",
        0.1,
        "nie2023.checkpoints:fig1",
        ("nie-objectives", "nie-margins"),
    ),
    "nie2023/fig3": Item("Margins of MPT", "Figure 3", 0.1, "nie2023.margins:fig3", ("nie-margins", "nie-objectives")),
    "li2024/fig1": Item(
        "Similarity of four losses, original and modified", "Figure 1", 0.1, "li2024.stages:fig1", ("li-stages",)
    ),
    "li2024/fig5": Item(
        "Cosines with and without dissipation", "Figure 5", 0.1, "li2024.conjectures:fig5", ("li-sweeps",)
    ),
    "li2024/fig6": Item("Sweeps of m, τ and r", "Figure 6", 0.1, "li2024.conjectures:fig6", ("li-sweeps",)),
    "li2024/fig7": Item(
        "Share of the hardest negative before and after training",
        "Figure 7",
        0.1,
        "li2024.conjectures:fig7",
        ("li-sweeps",),
    ),
    "li2024/fig8": Item(
        "Lemma 1's lower end, ratios and positive cosines while training",
        "Figure 8",
        0.1,
        "li2024.while_training:fig8",
        ("li-sweeps",),
    ),
    "li2024/fig9": Item("Angles while training", "Figure 9", 0.1, "li2024.while_training:fig9", ("li-sweeps",)),
    "li2024/table3": Item("Similarity: seven sets", "Table 3", 0.1, "li2024.stages:table3", ("li-stages",)),
    "li2024/table4": Item("Transfer: seven sets", "Table 4", 0.1, "li2024.stages:table4", ("li-stages",)),
    "li2024/table5": Item(
        "Original, + dissipation, + weight, + ratio", "Table 5", 0.1, "li2024.stages:table5", ("li-stages",)
    ),
    "li2024/table6": Item("Settings by a search in two stages", "Table 6", 0.1, "li2024.search:table6", ("li-search",)),
    "li2024/table7": Item(
        "Settings for a second encoder, in two stages", "Table 7", 0.1, "li2024.search:table7", ("li-search-second",)
    ),
    "koromilas2024/batch-size": Item(
        "Accuracy against the batch size",
        "abstract",
        0.1,
        "koromilas2024.batch_sizes:batch_size",
        ("koromilas-batch",),
    ),
    "koromilas2024/robustness": Item(
        "Best and worst over temperatures and batch sizes",
        "abstract",
        0.1,
        "koromilas2024.robustness:robustness",
        ("koromilas-robustness",),
    ),
    "koromilas2024/collapse": Item(
        "Accuracy, rank and uniformity of objectives and kernels",
        "abstract",
        0.1,
        "koromilas2024.collapse:collapse",
        ("koromilas-collapse",),
    ),
    "cloa2024/table2": Item(
        "Three lines in three dimensions", "Table 2", 0.1, "cloa2024.lines:table2", ("cloa-lines",)
    ),
    "cloa2024/fig1": Item(
        "Accuracy against the learning rate: three phases", "Figure 1", 0.1, "cloa2024.rates:fig1", ("cloa-rates",)
    ),
    "cloa2024/fig2": Item(
        "Accuracy and variance over learning rates, 10 % of the labels",
        "Figure 2",
        0.1,
        "cloa2024.rates:fig2",
        ("cloa-rates",),
    ),
    "cloa2024/fig3": Item(
        "Accuracy over learning rates, 50 and 100 % of the labels",
        "Figure 3",
        0.1,
        "cloa2024.rates:fig3",
        ("cloa-rates",),
    ),
    "cloa2024/table3": Item(
        "Top-1 of each base with and without anchors", "Table 3", 0.1, "cloa2024.gains:table3", ("cloa-rates",)
    ),
    "cloa2024/table4": Item(
        "Top-1 and top-5 on a second data set", "Table 4", 0.1, "cloa2024.second:table4", ("cloa-second",)
    ),
    "hypersphere/factorial": Item(
        "Do dissipation, weight and ratio predict a loss?",
        "images, then text",
        0.1,
        "own.factorial:factorial",
        ("factorial-images", "factorial-text"),
    ),
    "hypersphere/collapse": Item(
        "What does each objective do at a collapsed batch?",
        "every objective",
        1.5,
        "own.collapse:collapse",
    ),
}


def list_items(name: str | None = None) -> list[str]:
    """All items, the items of one paper, or a single item by its name. ValueError if there is none of that name.

    >>> list_items("koromilas2024")[:2]
    ['koromilas2024/minimisers', 'koromilas2024/batch-independence']
    """
    if name is None:
        return list(ITEMS)
    if name in PAPERS:
        return [each for each in ITEMS if paper_of(each) == name]
    check(name)
    return [name]


def paper_of(name: str) -> str:
    return name.partition("/")[0]


def check(name: str) -> None:
    """Raises ValueError unless there is an item of this name; it lists the paper's items and the nearest name."""
    if name in ITEMS:
        return
    paper, _, wanted = name.partition("/")
    if paper in PAPERS:
        own = [each.partition("/")[2] for each in list_items(paper)]
        near = nearest(wanted, own, alike=0.7)  # fig99 is no more like fig2 than like fig4
        hint = f"; did you mean '{paper}/{near}'?" if near else "."
        raise ValueError(f"{paper} has no item {wanted!r}, only {_listed(own)}{hint}")
    same = [each for each in ITEMS if each.partition("/")[2] == (wanted or paper)]
    if same:
        raise ValueError(f"there is no paper {paper!r}, but there is {_listed(same)}." if wanted else
                         f"{name!r} lacks its paper: there is {_listed(same)}.")  # fmt: skip
    hint = did_you_mean(paper, PAPERS) or "."
    raise ValueError(f"there is no paper {paper!r} to reproduce, only {_listed(list(PAPERS))}{hint}")


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def cite(name: str) -> str:
    """The paper of an item and the place in it.

    >>> cite("li2024/fig3")
    'Li et al. 2024, Figure 3'
    """
    return f"{PAPERS[paper_of(name)].short}, {ITEMS[name].place}"
