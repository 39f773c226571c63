// Where points on the sphere begin, and how they move.

const SAME_PLACE = Math.cos(Math.PI / 90); // two degrees
export const STARTS = { random: "random", cone: "a cone", collapsed: "collapsed", lines: "three lines", clusters: "clusters" };

function generator(seed) { // mulberry32
  let a = (seed * 2654435761) >>> 0;
  const uniform = () => {
    a = (a + 0x6d2b79f5) >>> 0;
    let t = Math.imul(a ^ (a >>> 15), 1 | a);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
  const normal = () => Math.sqrt(-2 * Math.log(1 - uniform())) * Math.cos(2 * Math.PI * uniform());
  return { uniform, vector: () => [normal(), normal(), normal()] };
}

function unit(v) {
  const length = Math.hypot(...v) || 1;
  return v.map((each) => each / length);
}
const plus = (v, w, factor) => v.map((each, k) => each + factor * w[k]);
const times = (v, factor) => v.map((each) => each * factor);

// Points, positives (n × 3, flat) and labels; noise is the spread of a positive around its point, in radians.
// Three lines are CLOA's data (Li & Pimentel-Alarcón 2024): the positive of a point is its negation.
export function startingPoints(start, n, noise, seed) {
  const { uniform, vector } = generator(seed + 1), pole = unit([0.35, 0.5, 0.8]);
  const centres = [0, 1, 2].map(() => unit(vector()));
  const place = {
    random: () => vector(),
    cone: () => plus(pole, vector(), 0.22),
    collapsed: () => plus(pole, vector(), 0.01),
    lines: (label) => plus(times(centres[label], uniform() < 0.5 ? -1 : 1), vector(), 0.08),
    clusters: (label) => plus(centres[label], vector(), 0.25),
  }[start];
  const labels = Array.from({ length: n }, (_, i) => i % 3);
  const x = labels.map((label) => unit(place(label)));
  const spread = start === "collapsed" ? Math.min(noise, 0.02) : noise;
  const y = x.map((row) => unit(plus(times(row, start === "lines" ? -1 : 1), vector(), spread)));
  return { x: Float64Array.from(x.flat()), y: Float64Array.from(y.flat()), labels };
}

// The same points and one more instance, opposite to their mean.
export function withOutlier({ x, y, labels }) {
  const n = labels.length, away = [0, 0, 0], { vector } = generator(1000 + n);
  x.forEach((value, k) => { away[k % 3] -= value; });
  const grown = (rows) => Float64Array.from([...rows, ...unit(plus(unit(away), vector(), 0.05))]);
  return { x: grown(x), y: grown(y), labels: [...labels, n % 3] };
}

// One step of gradient descent on the sphere; the rate counts for one anchor, so it does not depend on their number.
export function descend(rows, gradient, rate) {
  for (let i = 0; i < rows.length; i += 3) {
    for (let e = i; e < i + 3; e++) rows[e] -= ((rate * rows.length) / 3) * gradient[e];
    const length = Math.hypot(rows[i], rows[i + 1], rows[i + 2]);
    for (let e = i; e < i + 3; e++) rows[e] /= length;
  }
}

// How many places the points and their positives are in: those within two degrees of each other share one.
export function countPlaces(x, y) {
  const all = [...x, ...y], places = [];
  const cosine = (i, j) => all[i] * all[j] + all[i + 1] * all[j + 1] + all[i + 2] * all[j + 2];
  for (let i = 0; i < all.length; i += 3) if (!places.some((j) => cosine(i, j) > SAME_PLACE)) places.push(i);
  return places.length;
}
