// Losses of points on the sphere with their gradients, and numbers of the points, as in Python's objectives and
// diagnostics; tests/explorer/test_golden.py compares every one of them with golden vectors.

import { sigmoid, sum } from "./formulas.js";

const { abs, cos, exp, log, log1p, max, min, sin, sqrt } = Math;
const softplus = (x) => max(x, 0) + log1p(exp(-abs(x)));

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
        for (let j = 0, k = first; j < n; j++, k += step) {
          row[j] = j === i ? 0 : exp((matrix[k] - top) * scale);
          total += row[j];
        }
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

// log mean_{i≠j} e^{-t‖·‖²}; the derivatives of factor · that are added where a factor is given.
function logMeanGaussian(m, view, t, factor = 0) {
  const { n } = m, matrix = m[view], grads = m.d[view];
  let total = 0;
  for (let i = 1; i < n; i++) for (let k = i * n, end = k + i; k < end; k++) total += 2 * exp(2 * t * (matrix[k] - 1));
  const scale = (factor * 2 * t) / total;
  if (factor) for (let i = 0; i < n; i++) for (let j = 0, k = i * n; j < n; j++, k++) {
    if (j !== i) grads[k] += scale * exp(2 * t * (matrix[k] - 1));
  }
  return log(total / (n * (n - 1)));
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
    for (const view of ["same", "other"]) value += (s.weight / 2) * logMeanGaussian(m, view, s.t, s.weight / 2);
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

// Cosines of unit rows x and y, flat arrays of n × 3, with room for their derivatives. room: an earlier answer, whose
// memory is used again; a movie of 200 points would otherwise ask for 2 MB a frame.
export function cosinesOf(x, y, room = null) {
  const n = x.length / 3, views = { cross: [x, y], same: [x, x], other: [y, y] };
  const m = room?.n === n ? room : { n, d: {} };
  for (const [view, [a, b]] of Object.entries(views)) {
    m[view] ??= new Float64Array(n * n);
    m.d[view] ??= new Float64Array(n * n);
    products(m[view], a, b, n);
  }
  return m;
}

function products(matrix, a, b, n) {
  for (let i = 0, k = 0; i < n; i++) {
    const a0 = a[3 * i], a1 = a[3 * i + 1], a2 = a[3 * i + 2];
    for (let q = 0; q < 3 * n; q += 3, k++) matrix[k] = a0 * b[q] + a1 * b[q + 1] + a2 * b[q + 2];
  }
}

// Value, share of active anchors and gradients along the sphere of unit rows x and y.
// anchors: {directions, labels, weight} adds CLOA's pull of both views to the direction of each label (-1: none).
export function evaluate(name, x, y, s, anchors = null, m = cosinesOf(x, y)) {
  const { n, d } = m, gx = new Float64Array(3 * n), gy = new Float64Array(3 * n);
  for (const grads of [d.cross, d.same, d.other]) grads.fill(0);
  const { value, active } = LOSSES[name](m, s);
  pullBack(d.cross, x, y, gx, gy);
  pullBack(d.same, x, x, gx, gx);
  pullBack(d.other, y, y, gy, gy);
  const pull = anchors ? pullToAnchors(x, y, gx, gy, anchors) : 0;
  alongSphere(gx, x);
  alongSphere(gy, y);
  return { value: value + pull, active, gx, gy };
}

// From the derivatives with respect to a_i·b_j to those with respect to a and b, added to ga and gb.
function pullBack(grads, a, b, ga, gb) {
  for (let p = 0, k = 0; p < a.length; p += 3) {
    const a0 = a[p], a1 = a[p + 1], a2 = a[p + 2];
    let sum0 = 0, sum1 = 0, sum2 = 0;
    for (let q = 0; q < b.length; q += 3, k++) {
      const grad = grads[k];
      if (grad === 0) continue; // most losses leave a matrix alone, or have a few entries in a row
      sum0 += grad * b[q];
      sum1 += grad * b[q + 1];
      sum2 += grad * b[q + 2];
      gb[q] += grad * a0;
      gb[q + 1] += grad * a1;
      gb[q + 2] += grad * a2;
    }
    ga[p] += sum0;
    ga[p + 1] += sum1;
    ga[p + 2] += sum2;
  }
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
export function measure(x, y, m = cosinesOf(x, y)) {
  const { n, same, cross } = m;
  let alignment = 0, energy = 0;
  for (let i = 0; i < n; i++) {
    alignment += (2 - 2 * cross[i * n + i]) / n;
    for (let k = i * n, end = k + i; k < end; k++) energy += 2 / chordOf(same[k]); // both orders of a pair
  }
  const uniformity = (logMeanGaussian(m, "same", 2) + logMeanGaussian(m, "other", 2)) / 2;
  return { energy: energy / (n * (n - 1)), alignment, uniformity, rank: effectiveRank(x) };
}

// exp of the entropy of the singular values' shares.
export function effectiveRank(rows) {
  const gram = [0, 0, 0, 0, 0, 0]; // xx, yy, zz, xy, xz, yz
  for (let i = 0; i < rows.length; i += 3) {
    const [a, b, c] = [rows[i], rows[i + 1], rows[i + 2]];
    gram[0] += a * a; gram[1] += b * b; gram[2] += c * c;
    gram[3] += a * b; gram[4] += a * c; gram[5] += b * c;
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
