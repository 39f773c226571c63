"""The plain-loop references against golden values, golden gradients and the identities between them."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from tests import reference as ref

Z1, Z2 = ref.golden_views()
H, HP = ref.unit_rows(Z1), ref.unit_rows(Z2)
GOLDEN_GRADIENTS = json.loads((Path(__file__).parent / "golden_gradients.json").read_text())


def effective_rank(rows: ref.Matrix) -> float:
    """exp(entropy(sigma/sum sigma)), sigma the singular values."""
    sigma = np.linalg.svd(np.array(rows), compute_uv=False)
    shares = [float(v) / float(sigma.sum()) for v in sigma]
    return math.exp(-sum(p * math.log(p) for p in shares))


COMPUTED: dict[str, Callable[[], float]] = {
    "infonce_tau0.05": lambda: ref.infonce(Z1, Z2),
    "infonce_symmetric_tau0.05": lambda: ref.infonce(Z1, Z2, symmetric=True),
    "ntxent_2N_tau0.5": lambda: ref.ntxent(Z1, Z2),
    "dcl_2N_tau0.5": lambda: ref.dcl(Z1, Z2, temperature=0.5, pairs="both"),
    "dcl_cross_tau0.05": lambda: ref.dcl(Z1, Z2),
    "dcl_plus_tau0.05": lambda: ref.dcl_plus(Z1, Z2, temperature=0.05),
    "dcl_plus_tau0.20": lambda: ref.dcl_plus(Z1, Z2, temperature=0.2),
    "align_alpha2": lambda: ref.align_uniform(Z1, Z2, weight=0.0),
    "align_alpha1": lambda: ref.align_uniform(Z1, Z2, weight=0.0, alpha=1.0),
    "uniform_cross_t2": lambda: ref.align_uniform(Z1, Z2, weight=1.0, pairs="cross"),
    # the printed value is U(h) of the first view alone; the objective averages U(h) and U(h')
    "uniform_same_t2": lambda: ref.align_uniform(Z1, Z1, weight=1.0),
    "au_cross_alpha2_t2_lam0.5": lambda: ref.align_uniform(Z1, Z2, pairs="cross"),
    "mpt_m0.23": lambda: ref.mpt(Z1, Z2),
    "met_m0.45": lambda: ref.met(Z1, Z2),
    "mat_m0.15pi": lambda: ref.mat(Z1, Z2),
    "arccon_u10deg_tau0.05": lambda: ref.arccon(Z1, Z2),
    "paradigm_baseline_mean_anchors(m.3,tau.05,r1)": lambda: ref.paradigm(Z1, Z2),
    "mhe": lambda: (ref.mhe(Z1, Z2, weight=10.0) - ref.mhe(Z1, Z2, weight=0.0)) / 10.0,
    "mhs_mean": lambda: ref.mhs(Z1, Z2, weight=1.0) - ref.mhs(Z1, Z2, weight=0.0),
    "barlow_l2_nu0.0051": lambda: ref.barlow(Z1, Z2, normalization="unit"),
    "barlow_bn_nu0.0051(rawinput)": lambda: ref.barlow(Z1, Z2),
    "vicreg_official(rawinput)": lambda: ref.vicreg(Z1, Z2),
    "vicreg_official(l2)": lambda: ref.vicreg(Z1, Z2, normalization="unit"),
    "dhel_tau0.3_anchor_energy": lambda: ref.dhel(Z1, Z2),
    "dhel_tau0.3_both_energies": lambda: ref.dhel(Z1, Z2, energy="both"),
    "kcl_gaussian_t2_gamma16_oneview": lambda: ref.kcl(Z1, Z2),
    "kcl_log_t2_gamma16_oneview": lambda: ref.kcl(Z1, Z2, kernel="log"),
    "kcl_imq_c2_gamma16_oneview": lambda: ref.kcl(Z1, Z2, kernel="imq"),
    "kcl_riesz_s-1_gamma16_oneview": lambda: ref.kcl(Z1, Z2, kernel="riesz", s=-1.0),
    "kcl_riesz_s1_gamma16_oneview": lambda: ref.kcl(Z1, Z2, kernel="riesz", s=1.0),
    "kcl_gaussian_t2_gamma16_code": lambda: ref.kcl(Z1, Z2, views="both"),
    "cloa_sum(e0,e1;labels01010;h)": lambda: 5.0 * ref.cloa_term(np.eye(4)[:2], [0, 1, 0, 1, 0], Z1, Z1),
    "mMHE_value(d once)": lambda: ref.mmhe_literal(Z1, Z2),
    "mB_sum(r1.5,paper weights)": lambda: ref.mbarlow(Z1, Z2, views="anchor"),
    "mV_sum(r1.5)": lambda: ref.mvicreg(Z1, Z2, views="anchor"),
    "mMHS_sum(r1.75)": lambda: ref.mmhs_literal(Z1, Z2),
    "effective_rank(H)": lambda: effective_rank(H),
}

RELEASED: dict[str, Callable[[], float]] = {
    "dhel_both": lambda: ref.dhel(Z1, Z2, energy="both"),
    "dhel_anchor": lambda: ref.dhel(Z1, Z2),
    "kcl_gaussian": lambda: ref.kcl(Z1, Z2, views="both"),
    # the released code leaves the half out of the alignment kernel: one more -K_A of each view
    "kcl_log": lambda: ref.kcl(Z1, Z2, kernel="log", views="both") + 2.0 * ref.kcl(Z1, Z2, kernel="log", gamma=0.0),
    "kcl_imq": lambda: ref.kcl(Z1, Z2, kernel="imq", views="both"),
    "kcl_riesz_s-1": lambda: ref.kcl(Z1, Z2, kernel="riesz", s=-1.0, views="both"),
    "kcl_riesz_s1": lambda: ref.kcl(Z1, Z2, kernel="riesz", s=1.0, views="both"),
    "kcl_gaussian_riesz_s1": lambda: ref.kcl(Z1, Z2, kernel="gaussian_riesz", s=1.0, views="both"),
}

# objectives whose gradient exists in the neighbourhood of a random input, no detached part
SMOOTH: dict[str, Callable[..., float]] = {
    "infonce": ref.infonce,
    "infonce_symmetric": partial(ref.infonce, symmetric=True),
    "ntxent": ref.ntxent,
    "dcl": ref.dcl,
    "dcl_both": partial(ref.dcl, pairs="both"),
    "align_uniform": ref.align_uniform,
    "align_uniform_cross": partial(ref.align_uniform, pairs="cross"),
    "arccon": ref.arccon,
    "mhe": ref.mhe,
    "mhe_both": partial(ref.mhe, views="both"),
    "mhe_riesz": partial(ref.mhe, s=1.0),
    "barlow_unit": partial(ref.barlow, normalization="unit"),
    "vicreg_unit": partial(ref.vicreg, normalization="unit"),
    "dhel": ref.dhel,
    "dhel_both": partial(ref.dhel, energy="both"),
    "dhel_symmetric": partial(ref.dhel, energy="symmetric"),
    "kcl": ref.kcl,
    "kcl_both": partial(ref.kcl, views="both"),
    "kcl_log": partial(ref.kcl, kernel="log"),
    "kcl_imq": partial(ref.kcl, kernel="imq"),
    "kcl_gaussian_riesz": partial(ref.kcl, kernel="gaussian_riesz"),
    "debiased": ref.debiased,
    "geodesic": ref.geodesic,
    "siglip": ref.siglip,
    "spectral": ref.spectral,
    "supcon": ref.supcon,
}

FEATURES = {"barlow", "frossl", "mmcr", "sigreg", "vicreg", "visreg", "wasserstein"}  # they compare features, not pairs
FEATURES |= {"sphere_jepa"}  # it tests a whole sample
COSINE_ONLY = sorted(set(ref.REFERENCES) - {*FEATURES, "hyperbolic"})


def random_views(seed: int, n: int = 6, width: int = 5, spread: float = 0.6) -> tuple[np.ndarray, np.ndarray]:
    """Two views that are close to each other."""
    rng = np.random.default_rng(seed)
    first = rng.normal(size=(n, width))
    return first, first + spread * rng.normal(size=(n, width))


def simplex(n: int) -> np.ndarray:
    """n unit vectors with all cosines -1/(n-1)."""
    centred = np.eye(n) - 1.0 / n
    return centred / np.linalg.norm(centred, axis=1, keepdims=True)


def assert_close(actual: ref.Matrix, expected: ref.Matrix, tolerance: float) -> None:
    """The largest difference of two gradients."""
    assert np.abs(np.array(actual) - np.array(expected)).max() <= tolerance


def test_every_golden_row_is_computed() -> None:
    assert set(COMPUTED) == set(ref.GOLDEN)
    assert set(RELEASED) == set(ref.GOLDEN_RELEASED)


@pytest.mark.parametrize("name", sorted(ref.GOLDEN))
def test_golden(name: str) -> None:
    assert COMPUTED[name]() == pytest.approx(ref.GOLDEN[name], rel=0, abs=1e-9)


@pytest.mark.parametrize("name", sorted(ref.GOLDEN_RELEASED))
def test_golden_released(name: str) -> None:
    assert RELEASED[name]() == pytest.approx(ref.GOLDEN_RELEASED[name], rel=0, abs=1e-9)


def test_same_view_uniformity_averages_the_views() -> None:
    first, second = ref.align_uniform(Z1, Z1, weight=1.0), ref.align_uniform(Z2, Z2, weight=1.0)
    assert first != pytest.approx(second, abs=1e-2)
    assert ref.align_uniform(Z1, Z2, weight=1.0) == pytest.approx(0.5 * (first + second), abs=1e-12)


def test_golden_cosines_and_gate() -> None:
    assert ref.positive_cosines(H, HP) == pytest.approx(ref.GOLDEN_COSINES, rel=0, abs=5.1e-9)
    assert ref.gate(H, HP, [], 0.3) == ref.GOLDEN_GATE


def test_golden_views_are_the_gradients_input() -> None:
    assert pytest.approx(np.array(GOLDEN_GRADIENTS["z1"]), rel=0, abs=1e-14) == Z1
    assert pytest.approx(np.array(GOLDEN_GRADIENTS["z2"]), rel=0, abs=1e-14) == Z2


@pytest.mark.parametrize(
    "case", GOLDEN_GRADIENTS["cases"], ids=lambda case: case["name"] + ":" + case["params"]["stage"]
)
def test_golden_gradients(case: dict) -> None:
    first, second = ref.GRADIENTS[case["name"]](Z1, Z2, **case["params"])
    assert_close(first, case["z1_grad"], 1e-11)
    assert_close(second, case["z2_grad"], 1e-11)


@pytest.mark.parametrize("name", ["mmhe", "mmhs", "mbarlow", "mvicreg"])
def test_default_parameters_are_the_golden_ones(name: str) -> None:
    case = next(c for c in GOLDEN_GRADIENTS["cases"] if c["name"] == name and c["params"]["stage"] == "+r")
    assert_close(ref.GRADIENTS[name](Z1, Z2)[0], case["z1_grad"], 1e-11)
    anchor, rest = ref.GRADIENTS[name](Z1, Z2, views="anchor")
    assert_close(anchor, case["z1_grad"], 1e-11)
    assert not np.array(rest).any()


# ---------------------------------------------------------------------------------------------------------
# identities


@pytest.mark.parametrize("seed", range(4))
def test_arccon_without_angle_is_infonce(seed: int) -> None:
    z1, z2 = random_views(seed)
    assert ref.arccon(z1, z2, angle=0.0) == pytest.approx(ref.infonce(z1, z2), abs=1e-11)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("temperature", [0.03, 0.2, 1.0])
def test_infonce_is_softplus_of_dcl(seed: int, temperature: float) -> None:
    h, hp = (ref.unit_rows(z) for z in random_views(seed))
    extra = ref.unit_rows(random_views(seed + 100, n=3)[0])
    positive, negative = ref.positive_cosines(h, hp), ref.negative_cosines(h, hp, extra)
    terms = ref.infonce_terms(positive, negative, temperature)
    decoupled = ref.dcl_terms(positive, negative, temperature)
    assert terms == pytest.approx([ref.softplus(v) for v in decoupled], abs=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_uniformity_with_t_one_is_mhe(seed: int) -> None:
    z1, z2 = random_views(seed)
    uniform = ref.align_uniform(z1, z1, t=1.0, weight=1.0)
    assert ref.mhe(z1, z2, weight=1.0) - ref.mhe(z1, z2, weight=0.0) == pytest.approx(uniform, abs=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_kcl_gaussian_energy_is_exp_of_uniformity(seed: int) -> None:
    z1, z2 = random_views(seed)
    extra = random_views(seed + 100, n=3)[0]
    energy = ref.kcl(z1, z2, negatives=extra, gamma=1.0) - ref.kcl(z1, z2, negatives=extra, gamma=0.0)
    uniform = ref.align_uniform(z1, z1, negatives=extra, t=2.0, weight=1.0)
    assert energy == pytest.approx(math.exp(uniform), abs=1e-12)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("count", [0, 3])
def test_paradigm_rebuilds_infonce(seed: int, count: int) -> None:
    z1, z2 = random_views(seed)
    queue = random_views(seed + 100, n=3)[0][:count]
    temperature = 0.2
    h, hp, extra = ref.unit_rows(z1), ref.unit_rows(z2), ref.unit_rows(queue)
    positive, negative = ref.positive_cosines(h, hp), ref.negative_cosines(h, hp, extra)
    terms = ref.infonce_terms(positive, negative, temperature)
    gates = [1.0 - math.exp(-v) for v in terms]
    weights = [[q / temperature for q in ref.softmax([s / temperature for s in row])] for row in negative]
    grad_h, grad_hp = ref.paradigm_unit_gradient(h, hp, extra, gates, weights, [1.0] * len(h))
    objective = partial(ref.infonce, negatives=queue, temperature=temperature)
    expected = ref.finite_difference(objective, z1, z2)
    assert_close(ref.raw_gradients(z1, grad_h), expected[0], 1e-8)
    assert_close(ref.raw_gradients(z2, grad_hp), expected[1], 1e-8)


@pytest.mark.parametrize("count", [0, 3])
def test_paradigm_gradient_is_that_of_the_frozen_surrogate(count: int) -> None:
    z1, z2 = random_views(5)
    queue = random_views(105, n=3)[0][:count]
    extra = ref.unit_rows(queue)
    gates, weights = ref.baseline_components(ref.unit_rows(z1), ref.unit_rows(z2), extra, 0.3, 0.05)
    assert 0.0 < sum(gates) < len(gates)

    def frozen(a: ref.Rows, b: ref.Rows) -> float:
        h, hp = ref.unit_rows(a), ref.unit_rows(b)
        positive, negative = ref.positive_cosines(h, hp), ref.negative_cosines(h, hp, extra)
        total = 0.0
        for i, row in enumerate(negative):
            for w, s in zip(weights[i], row, strict=True):
                total += gates[i] * w * (s - 1.5 * positive[i])
        return total / len(h)

    assert frozen(z1, z2) == pytest.approx(ref.paradigm(z1, z2, negatives=queue, ratio=1.5), abs=1e-12)
    grads = ref.paradigm_gradient(z1, z2, negatives=queue, ratio=1.5)
    expected = ref.finite_difference(frozen, z1, z2)
    assert_close(grads[0], expected[0], 1e-8)
    assert_close(grads[1], expected[1], 1e-8)


@pytest.mark.parametrize("seed", range(2))
def test_original_stages_are_the_true_losses(seed: int) -> None:
    z1, z2 = random_views(seed)
    pairs = [
        (ref.mmhe_gradient, partial(ref.mhe, weight=10.0, views="both")),
        (ref.mbarlow_gradient, partial(ref.barlow, weight=30.0, normalization="unit")),
    ]
    for gradient, loss in pairs:
        grads = gradient(z1, z2, stage="original")
        expected = ref.finite_difference(loss, z1, z2)
        assert_close(grads[0], expected[0], 1e-7)
        assert_close(grads[1], expected[1], 1e-7)


def test_mmhs_original_holds_the_negatives_constant() -> None:
    z1, z2 = random_views(2)
    h = ref.unit_rows(z1)

    def frozen(a: ref.Rows, b: ref.Rows) -> float:
        x = ref.unit_rows(a)
        distances = [[ref.euclidean(v) for v in row] for row in ref.negative_cosines(x, h, [])]
        return ref.alignment(x, ref.unit_rows(b)) - sum(min(row) for row in distances)

    expected = ref.finite_difference(frozen, z1, z2)[0]
    assert_close(ref.mmhs_gradient(z1, z2, stage="original")[0], expected, 1e-7)


def test_a_closed_gate_stops_a_vector() -> None:
    for gradient in (ref.mmhe_gradient, ref.mmhs_gradient, ref.mbarlow_gradient, ref.mvicreg_gradient):
        grads = np.array(gradient(Z1, Z2)[0])
        assert [bool(row.any()) for row in grads] == [value == 1.0 for value in ref.GOLDEN_GATE]


@pytest.mark.parametrize("temperature", [0.05, 0.1, 0.5])
def test_bound_chain(temperature: float) -> None:
    for seed in range(20):
        h, hp = (ref.unit_rows(z) for z in random_views(seed))
        margin = temperature * math.log(len(h) - 1)
        positive, negative = ref.positive_cosines(h, hp), ref.negative_cosines(h, hp, [])
        coupled = ref.infonce_terms(positive, negative, temperature)
        decoupled = [max(0.0, v) for v in ref.dcl_terms(positive, negative, temperature)]
        hinges = [max(0.0, margin - c + max(row)) for c, row in zip(positive, negative, strict=True)]
        for full, plus, hinge in zip(coupled, decoupled, hinges, strict=True):
            assert plus - 1e-12 <= full <= math.log(2.0) + plus + 1e-12
            assert plus <= hinge / temperature + 1e-12


@pytest.mark.parametrize("seed", range(3))
def test_supcon_debiased_and_dclw_limits(seed: int) -> None:
    z1, z2 = random_views(seed)
    extra = random_views(seed + 100, n=3)[0]
    expected = ref.ntxent(z1, z2, negatives=extra, temperature=0.3)
    labels = np.arange(len(z1))
    for form in ("out", "in"):
        unlabelled = ref.supcon(z1, z2, negatives=extra, temperature=0.3, form=form)
        apart = ref.supcon(z1, z2, labels, negatives=extra, temperature=0.3, form=form)
        assert unlabelled == pytest.approx(expected, abs=1e-12)
        assert apart == pytest.approx(expected, abs=1e-12)
    assert ref.debiased(z1, z2, negatives=extra, temperature=0.3, prior=0.0) == pytest.approx(expected, abs=1e-12)
    for pairs in ("cross", "both"):
        assert ref.dclw(z1, z1, pairs=pairs) == pytest.approx(ref.dcl(z1, z1, temperature=0.1, pairs=pairs), abs=1e-12)
        wide = ref.dclw(z1, z2, sigma=1e9, pairs=pairs)
        assert wide == pytest.approx(ref.dcl(z1, z2, temperature=0.1, pairs=pairs), abs=1e-6)


def test_supcon_jensen_and_one_class() -> None:
    z1, z2 = random_views(3)
    labels = [0, 0, 1, 1, 1, -1]
    outside = ref.supcon(z1, z2, labels, form="out")
    assert ref.supcon(z1, z2, labels, form="in") < outside
    n = len(z1)
    all_one = ref.supcon(z1, z2, [0] * n, form="in")
    assert all_one == pytest.approx(math.log(2 * n - 1), abs=1e-12)


def test_debiased_floor() -> None:
    z = np.eye(3)
    pos, floor = math.exp(2.0), 4.0 * math.exp(-2.0)
    assert ref.debiased(z, z, prior=0.5) == pytest.approx(-math.log(pos / (pos + floor)), abs=1e-12)


def test_siglip_geodesic_and_spectral_by_hand() -> None:
    z = np.eye(3)
    by_hand = math.log1p(math.exp(-(10.0 - 9.0))) + 2.0 * math.log1p(math.exp(-9.0))
    assert ref.siglip(z, z, bias=-9.0) == pytest.approx(by_hand, abs=1e-12)
    assert ref.geodesic(z, z) == pytest.approx(math.log1p(4.0 * math.exp(-5.0 * math.pi)), abs=1e-12)
    assert ref.spectral(z, z) == pytest.approx(-2.0, abs=1e-12)
    assert ref.spectral(z, z, negatives=z) == pytest.approx(-2.0 + 3.0 / 15.0, abs=1e-12)


@pytest.mark.parametrize("curvature", [0.5, 1.0, 2.0])
def test_hyperbolic(curvature: float) -> None:
    z1, z2 = random_views(1)
    assert ref.hyperbolic(z1, z2, weight=0.0) == pytest.approx(ref.infonce(z1, z2, temperature=0.1))
    row = [0.3, -0.4, 1.2]
    point, origin = ref.ball_point(row, curvature), [0.0, 0.0, 0.0]
    assert ref.ball_distance(origin, point, curvature) == pytest.approx(2.0 * 1.3, abs=1e-9)
    far = ref.ball_point([100.0 * v for v in row], curvature)
    assert ref.ball_distance(origin, far, curvature) == pytest.approx(2.0 * 2.3, abs=1e-9)
    opposite = [-v for v in point]
    assert ref.ball_distance(point, opposite, curvature) == pytest.approx(4.0 * 1.3, abs=1e-9)


def test_hyperbolic_flat_limit() -> None:
    z1, z2 = random_views(1)
    x, y = z1[0] / np.linalg.norm(z1[0]), z2[0] / np.linalg.norm(z2[0])
    flat = 2.0 * float(np.linalg.norm(x - y))
    tiny = 1e-6
    distance = ref.ball_distance(ref.ball_point(x, tiny), ref.ball_point(y, tiny), tiny)
    assert distance == pytest.approx(flat, abs=1e-5)


def test_triplet_instances() -> None:
    z1, z2 = random_views(4)
    for distance, instance in (("dot", ref.mpt), ("euclidean", ref.met), ("angle", ref.mat)):
        assert ref.triplet(z1, z2, distance=distance) == instance(z1, z2)


def test_cloa_term() -> None:
    z1, z2 = random_views(4, n=3)
    anchors = np.eye(5)[:2]
    assert ref.cloa_term(anchors, [-1, -1, -1], z1, z2) == 0.0
    assert ref.cloa_term(anchors, [0, 1, -1], anchors[[0, 1, 0]], anchors[[0, 1, 0]]) == 0.0
    views = [ref.unit_rows(z) for z in (z1, z2)]
    expected = 1.0 - (views[0][2][1] + views[1][2][1]) / 2.0
    assert ref.cloa_term(anchors, [-1, -1, 1], z1, z2) == pytest.approx(expected, abs=1e-12)


# ---------------------------------------------------------------------------------------------------------
# properties


@pytest.mark.parametrize("n", [3, 5])
def test_values_at_the_simplex(n: int) -> None:
    z, k, tau = simplex(n), n / (n - 1), 0.3
    expected = {
        "infonce": (partial(ref.infonce, temperature=tau), math.log1p((n - 1) * math.exp(-k / tau))),
        "ntxent": (partial(ref.ntxent, temperature=tau), math.log1p(2 * (n - 1) * math.exp(-k / tau))),
        "dcl": (partial(ref.dcl, temperature=tau), math.log(n - 1) - k / tau),
        "dcl_both": (partial(ref.dcl, temperature=tau, pairs="both"), math.log(2 * n - 2) - k / tau),
        "uniform": (partial(ref.align_uniform, weight=1.0), -4.0 * k),
        "mhe": (partial(ref.mhe, weight=1.0), -2.0 * k),
        "mhs": (partial(ref.mhs, weight=1.0), -math.sqrt(2.0 * k)),
        "dhel": (partial(ref.dhel, temperature=tau), math.log(n - 1) - k / tau),
        "dhel_both": (
            partial(ref.dhel, temperature=tau, energy="both"),
            -1.0 / tau + 2.0 * (math.log(n - 1) - 1.0 / ((n - 1) * tau)),
        ),
        "kcl": (ref.kcl, -1.0 + 16.0 * math.exp(-4.0 * k)),
        "kcl_log": (partial(ref.kcl, kernel="log"), -8.0 * math.log(1.0 + 4.0 * k)),
        "kcl_imq": (partial(ref.kcl, kernel="imq"), -1.0 + 32.0 / math.sqrt(4.0 + 2.0 * k)),
        "kcl_riesz": (partial(ref.kcl, kernel="riesz", s=-1.0), -16.0 * math.sqrt(2.0 * k)),
        "kcl_gaussian_riesz": (partial(ref.kcl, kernel="gaussian_riesz"), -1.0 + 16.0 / math.sqrt(2.0 * k)),
        "mpt": (partial(ref.mpt, margin=k), 0.0),
        "met": (partial(ref.met, margin=math.sqrt(2.0 * k)), 0.0),
        "mat": (partial(ref.mat, margin=math.acos(-1.0 / (n - 1))), 0.0),
    }
    for name, (function, value) in expected.items():
        tolerance = 5e-7 if name in ("met", "mat", "kcl_riesz") else 1e-10
        assert function(z, z) == pytest.approx(value, rel=0, abs=tolerance), name


@pytest.mark.parametrize("name", COSINE_ONLY)
def test_rotation_permutation_and_scale(name: str) -> None:
    z1, z2 = random_views(7)
    extra = random_views(107, n=3)[0]
    labels = np.array([0, 1, 0, -1, 1, 1])
    rng = np.random.default_rng(0)
    rotation, _ = np.linalg.qr(rng.normal(size=(5, 5)))
    order = rng.permutation(6)
    scale = rng.uniform(0.1, 10.0, size=(6, 1))
    function = ref.REFERENCES[name]
    value = function(z1, z2, labels, extra)
    assert math.isfinite(value)
    turned = function(z1 @ rotation, z2 @ rotation, labels, extra @ rotation)
    shuffled = function(z1[order], z2[order], labels[order], extra[::-1])
    scaled = function(scale * z1, z2 / scale, labels, 3.0 * extra)
    for other in (turned, shuffled, scaled):
        assert other == pytest.approx(value, rel=1e-10, abs=1e-10)


@pytest.mark.parametrize("name", sorted(SMOOTH))
def test_gradients_are_tangential(name: str) -> None:
    z1, z2 = random_views(8, n=4, width=3)
    for z, gradient in zip((z1, z2), ref.finite_difference(SMOOTH[name], z1, z2), strict=True):
        assert np.abs(np.sum(z * np.array(gradient), axis=1)).max() < 1e-7


def test_kcl_is_the_mean_over_subsets_and_infonce_is_not() -> None:
    z1, z2 = random_views(9)
    subsets = [list(s) for s in itertools.combinations(range(6), 3)]
    for kernel in ("gaussian", "log", "imq", "riesz", "gaussian_riesz"):
        parts = [ref.kcl(z1[s], z2[s], kernel=kernel) for s in subsets]
        assert ref.mean(parts) == pytest.approx(ref.kcl(z1, z2, kernel=kernel), abs=1e-12)
    parts = [ref.infonce(z1[s], z2[s]) for s in subsets]
    assert abs(ref.mean(parts) - ref.infonce(z1, z2)) > 1e-3


def test_extra_negatives_stand_for_rows_of_the_batch() -> None:
    z1, z2 = random_views(11)
    kept = 4
    a, b = z1[:kept], z2[:kept]
    h, hp = ref.unit_rows(z1), ref.unit_rows(z2)
    positive, cross, same = (
        ref.positive_cosines(h, hp),
        ref.negative_cosines(h, hp, []),
        ref.negative_cosines(h, h, []),
    )
    full = ref.infonce_terms(positive, cross, 0.05)[:kept]
    assert ref.infonce(a, b, negatives=z2[kept:]) == pytest.approx(ref.mean(full), abs=1e-12)
    full = ref.dcl_terms(positive, cross, 0.05)[:kept]
    assert ref.dcl(a, b, negatives=z2[kept:]) == pytest.approx(ref.mean(full), abs=1e-12)
    full = ref.dcl_terms(positive, same, 0.3)[:kept]
    assert ref.dhel(a, b, negatives=z1[kept:]) == pytest.approx(ref.mean(full), abs=1e-12)
    full = ref.mhs_terms(h, [])[:kept]
    assert ref.mhs(a, a, negatives=z1[kept:]) == pytest.approx(ref.mean(full), abs=1e-12)
    stacked_positive, stacked_negative = ref.stacked_cosines(h, hp, [])
    full = ref.infonce_terms(stacked_positive, stacked_negative, 0.5)
    full = full[:kept] + full[len(h) : len(h) + kept]
    both = np.concatenate([z1[kept:], z2[kept:]])
    assert ref.ntxent(a, b, negatives=both) == pytest.approx(ref.mean(full), abs=1e-12)


@pytest.mark.parametrize("name", sorted(ref.REFERENCES))
def test_extra_negatives_none_and_empty(name: str) -> None:
    z1, z2 = random_views(12)
    function = ref.REFERENCES[name]
    if name in FEATURES:
        with pytest.raises(ValueError, match="no pairwise negatives"):
            function(z1, z2, negatives=z1)
        return
    assert function(z1, z2, negatives=np.zeros((0, 5))) == function(z1, z2)


def test_a_zero_row_stays_zero() -> None:
    assert ref.unit_rows([[0.0, 0.0], [3e200, 4e200]]) == [[0.0, 0.0], pytest.approx([0.6, 0.8])]
    assert ref.raw_gradient([0.0, 0.0], [1.0, 2.0]) == [0.0, 0.0]


def test_raw_gradient_is_the_normalisation_rule() -> None:
    row, unit_gradient = [0.3, -1.2, 0.7], [0.5, 0.1, -0.4]

    def linear(a: ref.Rows, b: ref.Rows) -> float:
        return ref.dot(ref.unit_rows(a)[0], unit_gradient)

    expected = ref.finite_difference(linear, [row], [row])[0]
    assert_close([ref.raw_gradient(row, unit_gradient)], expected, 1e-9)
