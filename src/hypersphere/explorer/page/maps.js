// Maps of an objective over the angles of the positive and the negatives.

import { cell, column, spreadAngles } from "./formulas.js";

const SIZE = 200;
export const POSITIVE = [Math.PI / 20, Math.PI / 2]; // the axes of Li et al. 2024
export const NEGATIVE = [Math.PI / 20, Math.PI];
export const QUANTITIES = {
  dissipation: {
    title: "Dissipation", label: "gradient kept, GD", limits: [0, 1],
    says: "1: all of the gradient is left. 0: the anchor has stopped.",
  },
  weight: {
    title: "Weight", label: "share of the weight on the hardest", limits: [0, 1],
    says: "1: only the hardest negative counts. Low: many share the push.",
  },
  ratio: {
    title: "Ratio", label: "ratio R of pull to push", limits: [0, 2.5],
    says: "Above 1 the positive pulls harder than the negatives push.",
  },
  norm: {
    title: "Gradient norm", label: "length of the gradient, largest = 1", limits: [0, 1],
    says: "Length along the sphere, as a share of the largest on the map.",
  },
};
const along = ([low, high], size) => Array.from({ length: size }, (_, k) => low + ((high - low) * k) / (size - 1));

// All four quantities on a grid, rows the positive's angle; edge: [negative, positive] angles at which GD = 1/2.
export function computeMap(name, settings, negatives, spread, size = SIZE) {
  const positive = along(POSITIVE, size), negative = along(NEGATIVE, size);
  const map = { positive, negative, edge: [] }, at = {};
  for (const quantity of Object.keys(QUANTITIES)) map[quantity] = new Float64Array(size * size);
  negative.forEach((mean, c) => {
    const of = column(name, spreadAngles(mean, spread, negatives), settings);
    let before = null;
    positive.forEach((angle, r) => {
      const k = r * size + c;
      cell(name, angle, of, settings, at);
      map.dissipation[k] = at.dissipation;
      map.weight[k] = of.hardestShare;
      map.ratio[k] = at.ratio;
      map.norm[k] = at.norm;
      if (before !== null && before < 0 !== at.edge < 0 && Number.isFinite(at.edge)) {
        map.edge.push([mean, angle - ((positive[1] - positive[0]) * at.edge) / (at.edge - before)]);
      }
      before = at.edge;
    });
  });
  return relative(map);
}

// Lengths of different losses have different units: they are shown as shares of the largest, which is kept.
function relative(map) {
  map.largest = map.norm.reduce((a, b) => (b > a ? b : a), 0) || 1;
  for (let k = 0; k < map.norm.length; k++) map.norm[k] /= map.largest;
  return map;
}

// The answer of /api/map in the same form.
export function fromPython({ positive, negative, maps, note }) {
  const rows = positive.length, columns = negative.length;
  const flat = (values) => Float64Array.from({ length: rows * columns },
    (_, k) => values?.[Math.floor(k / columns)][k % columns] ?? NaN);
  const map = { positive, negative, note, edge: [] };
  for (const quantity of Object.keys(QUANTITIES)) map[quantity] = flat(maps[quantity]);
  for (let c = 0; c < columns; c++) for (let r = 1; r < rows; r++) {
    const low = map.dissipation[(r - 1) * columns + c] - 0.5, high = map.dissipation[r * columns + c] - 0.5;
    const step = positive[r] - positive[r - 1];
    if (low < 0 !== high < 0) map.edge.push([negative[c], positive[r] - (step * high) / (high - low)]);
  }
  return relative(map);
}

// The nearest cell's value at two angles.
export function lookUp(map, quantity, p, q) {
  const index = (axis, angle) => {
    const last = axis.length - 1, share = (angle - axis[0]) / (axis[last] - axis[0]);
    return Math.min(Math.max(Math.round(share * last), 0), last);
  };
  return map[quantity][index(map.positive, p) * map.negative.length + index(map.negative, q)];
}

// One map less the other; where Python computed one of them, at the angles of the finer.
export function differenceOf(one, other, quantity) {
  const key = JSON.stringify([one.key, other.key, "difference"]);
  if (one.positive.length === other.positive.length) { // the same angles
    const values = one[quantity].map((value, k) => value - other[quantity][k]);
    return { positive: one.positive, negative: one.negative, edge: [], key, values };
  }
  const fine = one.positive.length >= other.positive.length ? one : other;
  const values = Float64Array.from({ length: fine.positive.length * fine.negative.length }, (_, k) => {
    const p = fine.positive[Math.floor(k / fine.negative.length)], q = fine.negative[k % fine.negative.length];
    return lookUp(one, quantity, p, q) - lookUp(other, quantity, p, q);
  });
  return { positive: fine.positive, negative: fine.negative, edge: [], key, values };
}
