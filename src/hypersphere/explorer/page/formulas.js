// The formulas of Python's closed forms and objectives once more, for maps and moving points in the browser.
// Python is the authority: tests/explorer/test_formulas.py compares every one of them with golden vectors.

const { PI, abs, cos, exp, log, log1p, max, min, sin, sqrt } = Math;

const sigmoid = (x) => (x >= 0 ? 1 / (1 + exp(-x)) : exp(x) / (1 + exp(x)));
const softplus = (x) => max(x, 0) + log1p(exp(-abs(x)));
const sum = (values) => values.reduce((total, value) => total + value, 0);
const folded = (angle) => min(abs(angle), 2 * PI - abs(angle)); // the same angle in [0, π]
const chord = (angle) => 2 * sin(folded(angle) / 2);

function logSumExp(values) {
  const top = values.reduce((a, b) => max(a, b), -Infinity);
  return top === -Infinity ? top : top + log(sum(values.map((value) => exp(value - top))));
}

function softmax(values) {
  const top = values.reduce((a, b) => max(a, b), -Infinity), exps = values.map((value) => exp(value - top)), total = sum(exps);
  return exps.map((each) => each / total);
}

// ---------------------------------------------------------------------------------------------- closed forms
// A form is {weight, edge, soft, ratio}. Everything that the negatives decide is computed once per column of a map.
//   weight(negative, s): W_j of the negatives' angles;
//   edge(positive, column, s): above 0 where the anchor still has a gradient; absent: it never dissipates;
//   soft: GD is the sigmoid of the edge instead of a step;
//   ratio(positive, column, s): R.

const shareOfAllPairs = (logits) => softmax(logits).map((share) => share / (logits.length + 1));
const softmaxWeight = (negative, s) => softmax(negative.map((a) => cos(a) / s.temperature)).map((w) => w / s.temperature);
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
    ratio: (positive, column, s) => (s.stage === "+r" ? s.ratio : (weighted(s) ? twoOverSize : pull)(positive, column, s)),
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
    weight: (negative, s) => softmax(negative.map((a) => cos(a) / s.temperature)),
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
export function cell(name, positive, column, s) {
  const form = FORMS[name];
  const edge = form.edge ? form.edge(positive, column, s) : Infinity;
  const dissipation = form.soft ? sigmoid(edge) : edge > 0 ? 1 : 0;
  const ratio = form.ratio(positive, column, s);
  const pull = ratio * column.total * sin(positive);
  return { edge, dissipation, ratio, norm: dissipation * sqrt(column.push ** 2 + pull ** 2) };
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
  const a = [-39.69683028665376, 220.9460984245205, -275.9285104469687, 138.357751867269, -30.66479806614716, 2.506628277459239];
  const b = [-54.47609879822406, 161.5858368580409, -155.6989798598866, 66.80131188771972, -13.28068155288572];
  const c = [-0.007784894002430293, -0.3223964580411365, -2.400758277161838, -2.549732539343734, 4.374664141464968, 2.938163982698783];
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

// ------------------------------------------------------------------------------------------- losses of points
// A loss fills the derivatives with respect to the cosines of n instances, flat n × n matrices:
//   cross x_i·y_j (its diagonal: the positives), same x_i·x_j, other y_i·y_j;
// and returns {value, active}: the loss, and the share of anchors whose gradient has not dissipated.

const DISSIPATED = 0.01; // an anchor whose gradient is scaled by less has stopped, as in Python's anatomy
const COINCIDENT = 1e-12;
const chordOf = (c) => sqrt(max(2 - 2 * c, COINCIDENT));
const chordSlope = (c) => (2 - 2 * c > COINCIDENT ? -1 / chordOf(c) : 0);

// Mean over anchors of formula(positive, log Σ exp of the negatives), which returns the loss, its two derivatives and
// the dissipation. A direction that is flipped takes the second view as anchors.
function softmaxLoss(m, s, reads, directions, formula) {
  const { n } = m, scale = 1 / s.temperature, share = 1 / (n * directions.length);
  const exps = reads.map(() => new Float64Array(n));
  let value = 0, active = 0;
  for (const flip of directions) {
    const views = reads.map((read) => (flip && read === "same" ? "other" : read));
    for (let i = 0; i < n; i++) {
      let top = -Infinity, total = 0;
      views.forEach((view) => {
        const matrix = m[view], [first, step] = stride(view, flip, i, n);
        for (let j = 0, k = first; j < n; j++, k += step) if (j !== i && matrix[k] > top) top = matrix[k];
      });
      views.forEach((view, v) => {
        const matrix = m[view], row = exps[v], [first, step] = stride(view, flip, i, n);
        for (let j = 0, k = first; j < n; j++, k += step) total += row[j] = j === i ? 0 : exp((matrix[k] - top) * scale);
      });
      const [loss, pull, push, dissipation] = formula(m.cross[i * n + i], top * scale + log(total));
      value += loss * share;
      active += dissipation > DISSIPATED ? share : 0;
      m.d.cross[i * n + i] += pull * share;
      const factor = (push * share * scale) / total;
      if (factor === 0) continue;
      views.forEach((view, v) => {
        const grads = m.d[view], row = exps[v], [first, step] = stride(view, flip, i, n);
        for (let j = 0, k = first; j < n; j++, k += step) grads[k] += factor * row[j];
      });
    }
  }
  return { value, active };
}
// Where anchor i's similarities begin in a matrix, and how far they are apart.
const stride = (view, flip, i, n) => (view === "cross" && flip ? [i, n] : [i * n, 1]);

const FIRST = [false], BOTH = [false, true];
const against = (s) => (positive, others) => {
  const x = others - positive / s.temperature, gate = sigmoid(x);
  return [softplus(x), -gate / s.temperature, gate, gate];
};
const decoupled = (s) => (positive, others) => [others - positive / s.temperature, -1 / s.temperature, 1, 1];

function hardest(matrix, n, i) {
  let place = -1;
  for (let j = 0; j < n; j++) if (j !== i && (place < 0 || matrix[i * n + j] > matrix[i * n + place])) place = j;
  return i * n + place;
}

// max(0, d(positive) - d(hardest) + m) for a distance of the cosine.
const tripletLoss = (distance, slope) => (m, s) => {
  const { n } = m;
  let value = 0, active = 0;
  for (let i = 0; i < n; i++) {
    const own = i * n + i, place = hardest(m.cross, n, i);
    const loss = distance(m.cross[own]) - distance(m.cross[place]) + s.margin;
    if (!(loss > 0)) continue;
    value += loss / n;
    active += 1 / n;
    m.d.cross[own] += slope(m.cross[own]) / n;
    m.d.cross[place] -= slope(m.cross[place]) / n;
  }
  return { value, active };
};
const inside = (c) => min(max(c, -1 + 1e-14), 1 - 1e-14);

function logMeanGaussian(m, view, t, factor) { // factor · log mean_{i≠j} e^{-t‖·‖²}, with its derivatives
  const { n } = m, matrix = m[view];
  let total = 0;
  for (let i = 0; i < n; i++) for (let j = 0; j < n; j++) if (j !== i) total += exp(2 * t * (matrix[i * n + j] - 1));
  if (!factor) return log(total / (n * (n - 1)));
  for (let i = 0; i < n; i++) for (let j = 0; j < n; j++) {
    if (j !== i) m.d[view][i * n + j] += (factor * 2 * t * exp(2 * t * (matrix[i * n + j] - 1))) / total;
  }
  return factor * log(total / (n * (n - 1)));
}

export const LOSSES = {
  infonce: (m, s) => softmaxLoss(m, s, ["cross"], FIRST, against(s)),
  ntxent: (m, s) => softmaxLoss(m, s, ["cross", "same"], BOTH, against(s)),
  dcl: (m, s) => softmaxLoss(m, s, ["cross"], FIRST, decoupled(s)),
  dcl_plus: (m, s) => softmaxLoss(m, s, ["cross"], FIRST, (positive, others) => {
    const loss = others - positive / s.temperature;
    return loss > 0 ? [loss, -1 / s.temperature, 1, 1] : [0, 0, 0, 0];
  }),
  arccon: (m, s) => softmaxLoss(m, s, ["cross"], FIRST, (c, others) => {
    const sine = sqrt(max((1 - c) * (1 + c), 1e-12));
    const enlarged = c * cos(s.angle) - sine * sin(s.angle); // cos(θ + u)
    const slope = cos(s.angle) + ((1 - c) * (1 + c) > 1e-12 ? (c / sine) * sin(s.angle) : 0);
    const x = others - enlarged / s.temperature, gate = sigmoid(x);
    return [softplus(x), (-gate * slope) / s.temperature, gate, gate];
  }),
  dhel: (m, s) => softmaxLoss(m, s, ["same"], FIRST, decoupled(s)),
  mpt: tripletLoss((c) => -c, () => -1),
  met: tripletLoss(chordOf, chordSlope),
  mat: tripletLoss((c) => Math.acos(inside(c)), (c) => (inside(c) === c ? -1 / sqrt((1 - c) * (1 + c)) : 0)),
  kcl: (m, s) => {
    const { n } = m, kernel = (c) => exp(2 * s.t * (c - 1));
    let value = 0;
    for (let i = 0; i < n; i++) for (let j = 0; j < n; j++) {
      const k = i * n + j, factor = i === j ? -1 / n : s.gamma / (n * (n - 1)), view = i === j ? "cross" : "same";
      value += factor * kernel(m[view][k]);
      m.d[view][k] += factor * 2 * s.t * kernel(m[view][k]);
    }
    return { value, active: 1 };
  },
  align_uniform: (m, s) => {
    const { n } = m;
    let value = 0;
    for (let i = 0; i < n; i++) {
      const c = m.cross[i * n + i], factor = (1 - s.weight) / n, square = max(2 - 2 * c, COINCIDENT);
      value += factor * (s.alpha === 2 ? 2 - 2 * c : square ** (s.alpha / 2));
      const moves = s.alpha === 2 || 2 - 2 * c > COINCIDENT;
      m.d.cross[i * n + i] -= moves ? factor * s.alpha * square ** (s.alpha / 2 - 1) : 0;
    }
    for (const view of ["same", "other"]) value += logMeanGaussian(m, view, s.t, s.weight / 2);
    return { value, active: 1 };
  },
  siglip: (m, s) => {
    const { n } = m;
    let value = 0, active = 0;
    for (let i = 0; i < n; i++) {
      let push = 0;
      for (let j = 0; j < n; j++) {
        const k = i * n + j, sign = i === j ? -1 : 1, x = sign * (m.cross[k] / s.temperature + s.bias);
        value += softplus(x) / n;
        m.d.cross[k] += (sign * sigmoid(x)) / (n * s.temperature);
        push = max(push, sigmoid(x));
      }
      active += push > DISSIPATED ? 1 / n : 0;
    }
    return { value, active };
  },
  spectral: (m) => {
    const { n } = m;
    let value = 0;
    for (let i = 0; i < n; i++) for (let j = 0; j < n; j++) {
      const k = i * n + j, c = m.cross[k];
      value += i === j ? (-2 * c) / n : (c * c) / (n * (n - 1));
      m.d.cross[k] += i === j ? -2 / n : (2 * c) / (n * (n - 1));
    }
    return { value, active: 1 };
  },
  koleo: (m, s) => {
    const { n } = m;
    let value = 0;
    for (const view of ["same", "other"]) for (let i = 0; i < n; i++) {
      const place = hardest(m[view], n, i), c = m[view][place], distance = sqrt(max(2 - 2 * c, 0));
      value -= log(distance + s.eps) / (2 * n);
      if (2 - 2 * c > COINCIDENT) m.d[view][place] += 1 / (2 * n * distance * (distance + s.eps));
    }
    return { value, active: 1 };
  },
};

// Cosines of flat rows (n × 3), and room for the derivatives.
function matrices(x, y, n) {
  const m = { n, d: {} };
  for (const [view, a, b] of [["cross", x, y], ["same", x, x], ["other", y, y]]) {
    const matrix = new Float64Array(n * n);
    for (let i = 0, k = 0; i < n; i++) for (let j = 0; j < n; j++, k++) {
      matrix[k] = a[3 * i] * b[3 * j] + a[3 * i + 1] * b[3 * j + 1] + a[3 * i + 2] * b[3 * j + 2];
    }
    m[view] = matrix;
    m.d[view] = new Float64Array(n * n);
  }
  return m;
}

// Value, share of active anchors and gradients along the sphere of unit rows x and y, flat arrays of n × 3.
// anchors: {directions, labels, weight} adds CLOA's pull of both views to the direction of each label (-1: none).
export function evaluate(name, x, y, s, anchors = null) {
  const n = x.length / 3, m = matrices(x, y, n);
  const { value, active } = LOSSES[name](m, s);
  const gx = new Float64Array(3 * n), gy = new Float64Array(3 * n);
  for (let i = 0, k = 0; i < n; i++) for (let j = 0; j < n; j++, k++) {
    const c = m.d.cross[k], a = m.d.same[k], b = m.d.other[k];
    if (c === 0 && a === 0 && b === 0) continue;
    for (let e = 0, p = 3 * i, q = 3 * j; e < 3; e++, p++, q++) {
      gx[p] += c * y[q] + a * x[q];
      gy[q] += c * x[p] + b * y[p];
      gx[q] += a * x[p];
      gy[p] += b * y[q];
    }
  }
  const pull = anchors ? pullToAnchors(x, y, gx, gy, anchors) : 0;
  alongSphere(gx, x);
  alongSphere(gy, y);
  return { value: value + pull, active, gx, gy };
}

function pullToAnchors(x, y, gx, gy, { directions, labels, weight }) {
  const factor = weight / max(1, 2 * labels.filter((label) => label >= 0).length);
  let value = 0;
  labels.forEach((label, i) => {
    if (label < 0) return;
    for (const [rows, grads] of [[x, gx], [y, gy]]) {
      value += factor;
      for (let e = 0; e < 3; e++) {
        value -= factor * rows[3 * i + e] * directions[label][e];
        grads[3 * i + e] -= factor * directions[label][e];
      }
    }
  });
  return value;
}

function alongSphere(gradient, rows) {
  for (let i = 0; i < rows.length; i += 3) {
    const radial = gradient[i] * rows[i] + gradient[i + 1] * rows[i + 1] + gradient[i + 2] * rows[i + 2];
    for (let e = i; e < i + 3; e++) gradient[e] -= radial * rows[e];
  }
}

// Numbers of the points, as Python's diagnostics defines them; energy: mean of 1/‖x_i-x_j‖ (Riesz, s = 1).
export function measure(x, y) {
  const n = x.length / 3, m = matrices(x, y, n);
  let alignment = 0, energy = 0;
  for (let i = 0; i < n; i++) {
    alignment += (2 - 2 * m.cross[i * n + i]) / n;
    for (let j = 0; j < n; j++) if (j !== i) energy += 1 / chordOf(m.same[i * n + j]) / (n * (n - 1));
  }
  const uniformity = (logMeanGaussian(m, "same", 2, 0) + logMeanGaussian(m, "other", 2, 0)) / 2;
  return { energy, alignment, uniformity, rank: effectiveRank(x) };
}

// exp of the entropy of the singular values' shares.
export function effectiveRank(rows) {
  const gram = [0, 0, 0, 0, 0, 0]; // xx, yy, zz, xy, xz, yz
  for (let i = 0; i < rows.length; i += 3) {
    const [a, b, c] = [rows[i], rows[i + 1], rows[i + 2]];
    [a * a, b * b, c * c, a * b, a * c, b * c].forEach((value, k) => (gram[k] += value));
  }
  const largest = eigenvalues(gram);
  const singular = largest.map((value) => (value > 1e-16 * largest[0] ? sqrt(value) : 0));
  const total = sum(singular);
  return exp(-sum(singular.map((value) => (value > 0 ? (value / total) * log(value / total) : 0))));
}

// Eigenvalues of a symmetric 3 × 3 matrix, largest first, by Jacobi rotations.
function eigenvalues([xx, yy, zz, xy, xz, yz]) {
  const a = [[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]];
  for (let sweep = 0; sweep < 12; sweep++) for (const [p, q] of [[0, 1], [0, 2], [1, 2]]) {
    if (a[p][q] === 0) continue;
    const theta = (a[q][q] - a[p][p]) / (2 * a[p][q]);
    const t = (theta >= 0 ? 1 : -1) / (abs(theta) + sqrt(theta * theta + 1)), c = 1 / sqrt(t * t + 1), s = t * c;
    for (let k = 0; k < 3; k++) [a[k][p], a[k][q]] = [c * a[k][p] - s * a[k][q], s * a[k][p] + c * a[k][q]];
    for (let k = 0; k < 3; k++) [a[p][k], a[q][k]] = [c * a[p][k] - s * a[q][k], s * a[p][k] + c * a[q][k]];
  }
  return [a[0][0], a[1][1], a[2][2]].sort((u, v) => v - u);
}
