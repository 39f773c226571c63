// The sphere as the eye sees it: lines [x, y, x', y', colour, alpha] and dots [x, y, width, ring, colour, alpha, depth].

import { svg } from "./drawing.js";

export const AXES = [[1, 0, 0], [0, 1, 0], [0, 0, 1]]; // orthonormal anchors
const QUARTER = Math.PI / 4, PIECES = 60;
const GRID = [ // meridians and parallels
  ...[0, 1, 2, 3].map((k) => (t) => [Math.cos(k * QUARTER) * Math.cos(t), Math.sin(t), Math.sin(k * QUARTER) * Math.cos(t)]),
  ...[-1, 0, 1].map((k) => (t) => [Math.cos(k * QUARTER) * Math.cos(t), Math.sin(k * QUARTER), Math.cos(k * QUARTER) * Math.sin(t)]),
].flatMap((at) => Array.from({ length: PIECES }, (_, k) =>
  [at((2 * Math.PI * k) / PIECES), at((2 * Math.PI * (k + 1)) / PIECES)]));

const rgb = (hex) => [1, 3, 5].map((k) => parseInt(hex.slice(k, k + 2), 16) / 255);

// Turned about the vertical axis, then tilted; the third coordinate points to the eye.
function turned([yaw, pitch]) {
  const [cy, sy, cp, sp] = [Math.cos(yaw), Math.sin(yaw), Math.cos(pitch), Math.sin(pitch)];
  return (a, b, c) => {
    const depth = cy * c - sy * a;
    return [cy * a + sy * c, cp * b + sp * depth, cp * depth - sp * b];
  };
}

export function buildScene({ x, y, labels }, turn, theme, withAnchors) {
  const seen = turned(turn), grey = rgb(theme.soft), colours = theme.classes.map(rgb), near = (z) => 0.5 + 0.5 * z;
  const lines = [], dots = [];
  for (const [from, to] of GRID) {
    const [a, b, z] = seen(...from), [c, d] = seen(...to);
    lines.push([a, b, c, d, grey, 0.08 + 0.2 * near(z)]);
  }
  labels.forEach((label, i) => {
    const [p, q] = [x, y].map((rows) => seen(rows[3 * i], rows[3 * i + 1], rows[3 * i + 2])), colour = colours[label % 3];
    lines.push([p[0], p[1], q[0], q[1], colour, 0.15 + 0.4 * near(Math.min(p[2], q[2]))]);
    for (const [[a, b, z], ring] of [[p, 0], [q, 1]]) {
      dots.push([a, b, 0.032 + 0.022 * near(z) + 0.012 * ring, ring, colour, 0.3 + 0.7 * near(z), z]);
    }
  });
  if (withAnchors) AXES.forEach((axis, k) => {
    const [a, b, z] = seen(...axis);
    lines.push([0, 0, a, b, colours[k], 0.4 + 0.6 * near(z)]);
    dots.push([a, b, 0.1, 1, colours[k], 0.4 + 0.6 * near(z), z]);
  });
  dots.sort((one, other) => one[6] - other[6]); // far ones first
  return { lines, dots };
}

// The same as a drawing, for a download.
export function sceneAsSvg({ lines, dots }, theme) {
  const radius = 220, x = (a) => (240 + radius * a).toFixed(1), y = (b) => (240 - radius * b).toFixed(1);
  const css = (colour) => `rgb(${colour.map((share) => Math.round(255 * share)).join(" ")})`;
  return svg("svg", { viewBox: "0 0 480 480" },
    svg("circle", { cx: 240, cy: 240, r: radius, fill: theme.ground, stroke: theme.line }),
    lines.map(([a, b, c, d, colour, alpha]) =>
      svg("line", { x1: x(a), y1: y(b), x2: x(c), y2: y(d), stroke: css(colour), "stroke-opacity": alpha.toFixed(2) })),
    dots.map(([a, b, width, ring, colour, alpha]) => {
      const at = { cx: x(a), cy: y(b), r: ((width * radius) / 2).toFixed(1), opacity: alpha.toFixed(2) };
      return svg("circle", ring ? { ...at, fill: "none", stroke: css(colour), "stroke-width": 1.6 } : { ...at, fill: css(colour) });
    }));
}
