// The closed forms of Python's anatomy once more, for maps in the browser.
// Python is the authority: tests/explorer/test_golden.py compares every one of them with golden vectors.

const { PI, abs, cos, exp, log, max, min, sin, sqrt } = Math;

export const sigmoid = (x) => (x >= 0 ? 1 / (1 + exp(-x)) : exp(x) / (1 + exp(x)));
export const sum = (values) => values.reduce((total, value) => total + value, 0);
const folded = (angle) => min(abs(angle), 2 * PI - abs(angle)); // the same angle in [0, π]
const chord = (angle) => 2 * sin(folded(angle) / 2);

function logSumExp(values) {
  const top = values.reduce((a, b) => max(a, b), -Infinity);
  return top === -Infinity ? top : top + log(sum(values.map((value) => exp(value - top))));
}

function softmax(values) {
  const top = values.reduce((a, b) => max(a, b), -Infinity);
  const exps = values.map((value) => exp(value - top)), total = sum(exps);
  return exps.map((each) => each / total);
}

// A form is {weight, edge, soft, ratio}. Everything that the negatives decide is computed once per column of a map.
//   weight(negative, s): W_j of the negatives' angles;
//   edge(positive, column, s): above 0 where the anchor still has a gradient; absent: it never dissipates;
//   soft: GD is the sigmoid of the edge instead of a step;
//   ratio(positive, column, s): R.

const shareOfAllPairs = (logits) => softmax(logits).map((share) => share / (logits.length + 1));
const softmaxOf = (negative, s) => softmax(negative.map((a) => cos(a) / s.temperature));
const softmaxWeight = (negative, s) => softmaxOf(negative, s).map((share) => share / s.temperature);
const one = () => 1;
const pullOver = (pull) => (positive, column, s) => pull(positive, column, s) / column.total;
const twoOverSize = pullOver((_, column) => 2 / (column.size + 1));

function onNearest(value) {
  return (negative, s) => {
    const angles = negative.map(folded);
    const place = angles.indexOf(min(...angles));
    return angles.map((angle, j) => (j === place ? value(angle, s) : 0));
  };
}

const softmaxEdge = (positive, column, s) => column.logSumExp - cos(positive) / s.temperature;
const dotEdge = (positive, column, s) => s.margin - (cos(positive) - cos(column.nearest));

const infonce = { weight: softmaxWeight, edge: softmaxEdge, soft: true, ratio: one };
const dcl = { weight: softmaxWeight, ratio: one };
const mpt = { weight: onNearest(one), edge: dotEdge, ratio: one };
const met = {
  weight: onNearest((angle) => 1 / chord(angle)),
  edge: (positive, column, s) => s.margin - (chord(column.nearest) - chord(positive)),
  ratio: (positive, column) => chord(column.nearest) / chord(positive),
};
const mat = {
  weight: onNearest((angle) => 1 / sin(angle)),
  edge: (positive, column, s) => s.margin - (column.nearest - folded(positive)),
  ratio: (positive, column) => sin(column.nearest) / sin(folded(positive)),
};
const TRIPLETS = { dot: mpt, euclidean: met, angle: mat };

const slopes = { // -dK/dq of the kernels of the squared distance q
  gaussian: (q, s) => s.t * exp(-s.t * q),
  log: (q, s) => (0.5 * s.t) / (1 + s.t * q),
  imq: (q, s) => 0.5 * s.c * (s.c ** 2 + q) ** -1.5,
  riesz: (q, s) => 0.5 * abs(s.s) * q ** (-s.s / 2 - 1),
};
const kernels = (kernel) => (kernel === "gaussian_riesz" ? ["riesz", "gaussian"] : [kernel, kernel]);

// The modified objectives of Li et al. 2024 by stage: original, +gd (a gate), +w (softmax weights), +r (a set ratio).
function staged(before, after, pull = twoOverSize) {
  const weighted = (s) => s.stage === "+w" || s.stage === "+r";
  return {
    weight: (negative, s) => (weighted(s) ? after : before)(negative, s),
    edge: (positive, column, s) => (s.stage === "original" ? Infinity : dotEdge(positive, column, s)),
    ratio: (positive, column, s) =>
      (s.stage === "+r" ? s.ratio : (weighted(s) ? twoOverSize : pull)(positive, column, s)),
  };
}
const energyWeight = (factor, scale) => (negative, s) =>
  shareOfAllPairs(negative.map((a) => cos(a) * scale(s))).map((share) => share * factor(s));
const quadratic = (negative, s) => negative.map((a) => (2 * s.weight * cos(a)) / (negative.length + 1) ** 2);
const mheWeight = energyWeight((s) => 4 * s.weight, () => 2);
const pairSoftmax = energyWeight(() => 1, (s) => 1 / s.temperature);
const unlessOne = (positive, column, s) => (s.weight === 1 ? twoOverSize(positive, column, s) : NaN); // else a matrix

export const FORMS = {
  infonce,
  ntxent: infonce,
  arccon: {
    ...infonce,
    edge: (positive, column, s) => column.logSumExp - cos(positive + s.angle) / s.temperature,
    ratio: (positive, column, s) => sin(positive + s.angle) / sin(positive),
  },
  dcl,
  dcl_plus: { weight: softmaxWeight, edge: softmaxEdge, ratio: one },
  mpt,
  met,
  mat,
  triplet: {
    weight: (negative, s) => TRIPLETS[s.distance].weight(negative, s),
    edge: (positive, column, s) => TRIPLETS[s.distance].edge(positive, column, s),
    ratio: (positive, column, s) => TRIPLETS[s.distance].ratio(positive, column, s),
  },
  paradigm: {
    weight: softmaxOf,
    edge: dotEdge,
    ratio: (positive, column, s) => s.ratio,
  },
  align_uniform: {
    weight: energyWeight((s) => 2 * s.t * s.weight, (s) => 2 * s.t),
    ratio: pullOver((positive, column, s) =>
      (((1 - s.weight) * s.alpha) / (column.size + 1)) * chord(positive) ** (s.alpha - 2)),
  },
  mhe: { weight: mheWeight, ratio: twoOverSize },
  mhs: { weight: onNearest((angle, s) => s.weight / chord(angle)), ratio: pullOver(() => 2) },
  dhel: dcl,
  kcl: {
    weight: (negative, s) => {
      const slope = slopes[kernels(s.kernel)[0]], pairs = negative.length * (negative.length + 1);
      return negative.map((a) => ((4 * s.gamma) / pairs) * slope(chord(a) ** 2, s));
    },
    ratio: pullOver((positive, column, s) =>
      ((s.views === "both" ? 4 : 2) / (column.size + 1)) * slopes[kernels(s.kernel)[1]](chord(positive) ** 2, s)),
  },
  barlow: { weight: quadratic, ratio: unlessOne },
  vicreg_surrogate: {
    weight: (negative, s) => negative.map((a) => (4 * s.weight * cos(a)) / (s.dim * negative.length ** 2)),
    ratio: twoOverSize,
  },
  mmhe: staged(mheWeight, energyWeight((s) => 2 / s.temperature, (s) => 1 / s.temperature)),
  mmhs: staged(
    onNearest((angle, s) => s.weight / chord(angle)),
    onNearest((angle, s) => (s.stage === "+r" ? 1 : s.weight) / chord(angle)),
  ),
  mbarlow: staged(quadratic, pairSoftmax, unlessOne),
  mvicreg: staged(quadratic, pairSoftmax),
};

// What the negatives' angles decide: weights, their sums, the nearest angle.
export function column(name, negative, s) {
  const weights = FORMS[name].weight(negative, s);
  const sizes = weights.map(abs);
  return {
    size: negative.length,
    weights,
    total: sum(weights),
    hardestShare: max(...sizes) / sum(sizes),
    push: sqrt(sum(weights.map((w, j) => (w * sin(negative[j])) ** 2))),
    nearest: min(...negative.map(folded)),
    logSumExp: s.temperature ? logSumExp(negative.map((a) => cos(a) / s.temperature)) : 0,
  };
}

// Edge, dissipation, ratio and gradient norm of an anchor whose positive is at this angle.
// The norm is of the part along the sphere, with the directions of positive and negatives at right angles.
// A map has 40,000 cells: they share one object, if it is given.
export function cell(name, positive, column, s, into = {}) {
  const form = FORMS[name];
  const edge = form.edge ? form.edge(positive, column, s) : Infinity;
  const ratio = form.ratio(positive, column, s), pull = ratio * column.total * sin(positive);
  into.edge = edge;
  into.dissipation = form.soft ? sigmoid(edge) : edge > 0 ? 1 : 0;
  into.ratio = ratio;
  into.norm = into.dissipation * sqrt(column.push * column.push + pull * pull);
  return into;
}

// n angles around a mean, at the middles of n equal shares of a normal distribution; as golden.py draws them.
export function spreadAngles(mean, spread, n) {
  return quantiles(n).map((z) => mean + spread * z);
}

const quantiles = (() => {
  const known = new Map();
  return (n) => {
    if (!known.has(n)) known.set(n, Array.from({ length: n }, (_, k) => normalQuantile((k + 0.5) / n)));
    return known.get(n);
  };
})();

// Acklam's rational approximation, accurate to about 1e-9.
export function normalQuantile(p) {
  const a = [-39.69683028665376, 220.9460984245205, -275.9285104469687, 138.357751867269,
    -30.66479806614716, 2.506628277459239];
  const b = [-54.47609879822406, 161.5858368580409, -155.6989798598866, 66.80131188771972, -13.28068155288572];
  const c = [-0.007784894002430293, -0.3223964580411365, -2.400758277161838, -2.549732539343734,
    4.374664141464968, 2.938163982698783];
  const d = [0.007784695709041462, 0.3224671290700398, 2.445134137142996, 3.754408661907416];
  const horner = (k, x) => k.reduce((total, each) => total * x + each, 0);
  if (p > 0.5) return -normalQuantile(1 - p);
  if (p < 0.02425) {
    const q = sqrt(-2 * log(p));
    return horner(c, q) / (horner(d, q) * q + 1);
  }
  const q = p - 0.5;
  return (horner(a, q * q) * q) / (horner(b, q * q) * q * q + 1);
}
