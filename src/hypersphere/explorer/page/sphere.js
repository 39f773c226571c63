// Page 2: points and their positives on a sphere, moving under an objective.
// State: objective, s.SETTING, rate, points, start, noise, seed, anchors ("1"), pull, yaw, pitch.

import { element, linePlot, select, short, slider, svg, text } from "./drawing.js";
import { evaluate, LOSSES, measure } from "./losses.js";
import { createPainter } from "./painter.js";

const STARTS = { random: "random", cone: "a cone", collapsed: "collapsed", lines: "three lines", clusters: "clusters" };
const AXES = [[1, 0, 0], [0, 1, 0], [0, 0, 1]]; // orthonormal anchors
const CURVES = {
  loss: "loss", active: "share of active anchors", alignment: "alignment: distance² of positives",
  uniformity: "uniformity: lower is more even", energy: "energy: mean of 1 / distance", rank: "effective rank: dimensions in use",
};
const KEPT = 600; // points of a curve
const SAME_PLACE = Math.cos(Math.PI / 360); // half a degree

// --------------------------------------------------------------------------------------------------------- starts

function generator(seed) { // mulberry32
  let a = (seed * 2654435761) >>> 0;
  const uniform = () => {
    a = (a + 0x6d2b79f5) >>> 0;
    let t = Math.imul(a ^ (a >>> 15), 1 | a);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
  const normal = () => Math.sqrt(-2 * Math.log(1 - uniform())) * Math.cos(2 * Math.PI * uniform());
  return { uniform, normal, vector: () => [normal(), normal(), normal()] };
}

const unit = (v) => { const length = Math.hypot(...v) || 1; return v.map((each) => each / length); };
const plus = (v, w, factor = 1) => v.map((each, k) => each + factor * w[k]);

// Points, positives (n × 3, flat) and labels; noise is the spread of a positive around its point, in radians.
export function startingPoints(start, n, noise, seed) {
  const { uniform, vector } = generator(seed + 1), pole = unit([0.35, 0.5, 0.8]);
  const centres = [0, 1, 2].map(() => unit(vector()));
  const place = {
    random: () => vector(),
    cone: () => plus(pole, vector(), 0.22),
    collapsed: () => plus(pole, vector(), 0.01),
    lines: (k) => plus(centres[k].map((each) => each * (uniform() < 0.5 ? -1 : 1)), vector(), 0.08),
    clusters: (k) => plus(centres[k], vector(), 0.25),
  }[start];
  const labels = Array.from({ length: n }, (_, i) => i % 3);
  const x = labels.map((label) => unit(place(label)));
  const spread = start === "collapsed" ? Math.min(noise, 0.02) : noise;
  const y = x.map((row) => unit(plus(row.map((each) => (start === "lines" ? -each : each)), vector(), spread)));
  return { x: Float64Array.from(x.flat()), y: Float64Array.from(y.flat()), labels };
}

// One step of gradient descent on the sphere; the rate counts for one anchor, so it does not depend on their number.
export function descend(rows, gradient, rate) {
  for (let i = 0; i < rows.length; i += 3) {
    for (let e = i; e < i + 3; e++) rows[e] -= ((rate * rows.length) / 3) * gradient[e];
    const length = Math.hypot(rows[i], rows[i + 1], rows[i + 2]);
    for (let e = i; e < i + 3; e++) rows[e] /= length;
  }
}

// How many places the points are in: those within half a degree of each other share one.
function countPlaces(x) {
  const found = [];
  for (let i = 0; i < x.length; i += 3) {
    if (!found.some((j) => x[i] * x[j] + x[i + 1] * x[j + 1] + x[i + 2] * x[j + 2] > SAME_PLACE)) found.push(i);
  }
  return found.length;
}

export function create(context) {
  const entries = new Map(context.data.objectives.map((entry) => [entry.name, entry]));
  const movable = Object.keys(LOSSES).filter((name) => entries.has(name));
  let state = context.state, points = null, startedWith = "", history = [], steps = 0, playing = false, frame = 0;
  let controlsOf = "", setters = [], dragged = null, pending = null;
  let grade = null; // loss and gradient of the points as they are

  // ------------------------------------------------------------------------------------------------- the state

  const number = (key, fallback, low, high) => {
    const given = Number(state[key] ?? NaN);
    return Number.isFinite(given) ? Math.min(Math.max(given, low), high) : fallback;
  };
  const objective = () => (movable.includes(state.objective) ? state.objective : "infonce");
  const settings = () => Object.fromEntries(entries.get(objective()).settings.map(({ name, default: usual }) =>
    [name, typeof usual === "number" ? number(`s.${name}`, usual, -1e9, 1e9) : usual]));
  const rate = () => number("rate", 0.01, 1e-4, 0.1);
  const size = () => Math.round(number("points", 48, 4, 200));
  const noise = () => number("noise", 20, 0, 90);
  const anchored = () => state.anchors === "1";
  const turn = () => pending ?? [number("yaw", 0.6, -1e3, 1e3), number("pitch", 0.35, -1.57, 1.57)];
  const start = () => (state.start in STARTS ? state.start : "random");

  // ---------------------------------------------------------------------------------------------- the elements

  const playButton = element("button", { type: "button", class: "primary", onclick: () => play(!playing) }, "Play");
  const button = (name, act) => element("button", { type: "button", class: "quiet", onclick: act }, name);
  const canvas = element("canvas", { tabindex: 0, role: "img", "aria-label": "Points on a sphere. Arrow keys turn it, the space bar plays and pauses.",
    onpointerdown: grab, onpointermove: drag, onpointerup: release, onpointercancel: release, onkeydown: steer });
  const painter = createPainter(canvas);
  const readout = element("p", { class: "readout", role: "status", "aria-live": "off" });
  const curves = element("div", { class: "curves" });
  const controls = element("aside", { class: "controls", "aria-label": "Settings" });
  const page = element("div", { class: "page sphere" }, controls,
    element("section", { class: "centre", "aria-label": "Sphere" },
      element("div", { class: "lead" }, element("h1", {}, "Where do the points go?"),
        element("p", {}, "Discs are anchors, rings their positives, colours their classes. Drag to turn.")),
      element("div", { class: "transport" }, playButton, button("Step", () => { play(false); advance(); draw(true); }),
        button("Start again", restart), button("Add an outlier", addOutlier)),
      element("figure", { class: "stage" }, canvas, readout, context.figure(exported, () => rowsOfPoints(), "sphere"),
        painter.fallback ? element("p", { class: "hint" }, "This browser has no WebGL2, so the sphere is drawn more plainly.") : null)),
    element("section", { class: "panel curves-panel", "aria-label": "Curves" }, element("h2", {}, "While they move"), curves, context.figure(() => curves.firstChild, () => rowsOfHistory(), "curves")));

  function drawControls() {
    if (controlsOf === objective()) return setters.forEach(([set, read]) => set(read()));
    controlsOf = objective();
    setters = [];
    const kept = (control, options, read) => {
      const { element: node, set } = control({ ...options, value: read() });
      setters.push([set, read]);
      return node;
    };
    const sliders = entries.get(objective()).settings.filter((each) => !each.choices && !(objective() === "kcl" && "cs".includes(each.name)));
    const box = element("input", { type: "checkbox", id: "anchors", onchange: () => context.setState({ anchors: box.checked ? "1" : null }) });
    setters.push([(on) => { box.checked = on; }, anchored]);
    box.checked = anchored();
    controls.replaceChildren(
      element("h2", {}, "Objective"),
      kept(select, { label: "Move them by", options: movable.map((name) => [name, name]), onchange: chooseObjective }, objective),
      ...sliders.map((each) => kept(slider, { ...each, label: each.name, onchange: (value) => context.setState({ [`s.${each.name}`]: value }) }, () => settings()[each.name])),
      kept(slider, { label: "Learning rate", low: 1e-4, high: 0.1, log: true, onchange: (value) => context.setState({ rate: value }) }, rate),
      element("h2", {}, "Start"),
      kept(select, { label: "Points begin", options: Object.entries(STARTS), onchange: (value) => context.setState({ start: value }) }, start),
      kept(slider, { label: "Points", low: 4, high: 200, whole: true, onchange: (value) => context.setState({ points: value }) }, size),
      kept(slider, { label: "Spread of positives", low: 0, high: 90, format: (v) => `${short(v)}°`, onchange: (value) => context.setState({ noise: value }) }, noise),
      element("button", { type: "button", class: "quiet", onclick: () => context.setState({ seed: number("seed", 0, 0, 1e6) + 1 }) }, "Another draw"),
      element("h2", {}, "Orthonormal anchors"),
      element("div", { class: "check" }, box, element("label", { for: "anchors" }, "Pull each class to its own direction (CLOA)")),
      kept(slider, { label: "Weight of the pull", low: 0.1, high: 10, log: true, onchange: (value) => context.setState({ pull: value }) }, pull),
      element("p", { class: "hint" }, entries.get(objective()).summary + "."));
  }
  const pull = () => number("pull", 1, 0.1, 10);

  function chooseObjective(name) {
    const gone = Object.keys(state).filter((key) => key.startsWith("s.")).map((key) => [key, null]);
    context.setState({ ...Object.fromEntries(gone), objective: name });
  }

  // -------------------------------------------------------------------------------------------------- movement

  function restart() {
    points = startingPoints(start(), size(), (noise() * Math.PI) / 180, number("seed", 0, 0, 1e6));
    history = [];
    steps = 0;
    record((grade = graded()));
    draw(true);
  }

  function addOutlier() {
    const n = points.x.length / 3, mean = [0, 0, 0];
    points.x.forEach((value, k) => { mean[k % 3] -= value; });
    const away = unit(mean), { vector } = generator(1000 + n);
    const grown = (rows) => Float64Array.from([...rows, ...unit(plus(away, vector(), 0.05))]);
    points = { x: grown(points.x), y: grown(points.y), labels: [...points.labels, n % 3] };
    grade = null;
    draw(true);
    context.announce("One instance was added opposite to the others.");
  }

  const graded = () => evaluate(objective(), points.x, points.y, settings(),
    anchored() ? { directions: AXES, labels: points.labels, weight: pull() } : null);

  function advance() {
    const { gx, gy } = grade ?? graded();
    descend(points.x, gx, rate());
    descend(points.y, gy, rate());
    steps += 1;
    record((grade = graded()));
  }

  function record({ value, active }) {
    history.push({ step: steps, loss: value, active, ...measure(points.x, points.y) });
    if (history.length > KEPT) history = history.filter((_, k) => k % 2 === 0); // older steps more coarsely
  }

  function play(on) {
    playing = on;
    playButton.textContent = playing ? "Pause" : "Play";
    cancelAnimationFrame(frame);
    if (playing) frame = requestAnimationFrame(tick);
  }

  function tick() {
    const began = performance.now();
    advance();
    draw(steps % 4 === 0);
    page.dataset.milliseconds = (0.9 * (page.dataset.milliseconds ?? performance.now() - began) + 0.1 * (performance.now() - began)).toFixed(2);
    page.dataset.steps = steps;
    if (playing) frame = requestAnimationFrame(tick);
  }

  // --------------------------------------------------------------------------------------------------- turning

  function grab(event) {
    dragged = { x: event.clientX, y: event.clientY, turn: turn() };
    canvas.setPointerCapture(event.pointerId);
  }
  function drag(event) {
    if (!dragged) return;
    const scale = 3 / canvas.clientWidth, tilt = dragged.turn[1] + (event.clientY - dragged.y) * scale;
    pending = [dragged.turn[0] + (event.clientX - dragged.x) * scale, Math.min(Math.max(tilt, -1.57), 1.57)];
    if (!playing) draw(false);
  }
  function release() {
    if (pending) context.setState({ yaw: pending[0].toFixed(3), pitch: pending[1].toFixed(3) });
    dragged = pending = null;
  }
  function steer(event) {
    if (event.key === " ") { event.preventDefault(); play(!playing); }
    const move = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (!move) return;
    event.preventDefault();
    const [yaw, pitch] = turn();
    context.setState({ yaw: (yaw + 0.1 * move[0]).toFixed(3), pitch: Math.min(Math.max(pitch + 0.1 * move[1], -1.57), 1.57).toFixed(3) });
  }

  // --------------------------------------------------------------------------------------------------- drawing

  function sceneNow() {
    const [yaw, pitch] = turn(), [cy, sy, cp, sp] = [Math.cos(yaw), Math.sin(yaw), Math.cos(pitch), Math.sin(pitch)];
    const seen = (a, b, c) => { // turned about the vertical axis, then tilted; z towards the eye
      const across = cy * a + sy * c, depth = cy * c - sy * a;
      return [across, cp * b + sp * depth, cp * depth - sp * b];
    };
    return buildScene(points, seen, context.theme, anchored());
  }

  function draw(withCurves) {
    const wide = Math.round(canvas.clientWidth) || 480;
    painter.paint(sceneNow(), wide, Math.min(window.devicePixelRatio || 1, 2));
    const last = history[history.length - 1];
    if (!withCurves || !last) return;
    const n = points.x.length / 3, active = Math.round(last.active * n);
    readout.textContent = `Step ${steps}${steps ? "" : ", press Play"}: ${active} of ${n} anchors active, ${n} points in ${countPlaces(points.x)} places.`;
    drawCurves(last);
  }

  function drawCurves(last) {
    const theme = context.theme, room = curves.clientWidth || 420, columns = room > 620 ? 3 : room > 330 ? 2 : 1;
    const width = Math.floor(room / columns) - 6, height = 132, names = Object.keys(CURVES);
    const whole = svg("svg", { viewBox: `0 0 ${room} ${height * Math.ceil(names.length / columns)}`, width: room, height: height * Math.ceil(names.length / columns),
      role: "img", "aria-label": names.map((name) => `${CURVES[name]}: ${short(last[name])}`).join("; ") });
    names.forEach((name, k) => {
      const series = history.map((each) => [each.step, each[name]]), values = series.map(([, value]) => value).filter(Number.isFinite);
      let [low, high] = { active: [0, 1], rank: [1, 3] }[name] ?? [Math.min(...values), Math.max(...values)];
      const log = name === "energy" && high > 30 * low;
      if (high - low < 1e-3 * Math.max(1, Math.abs(high))) [low, high] = [low - 0.05 * Math.max(1, Math.abs(low)), high + 0.05 * Math.max(1, Math.abs(high))];
      const plot = linePlot({ width, height: height - 18, theme, legend: false, label: CURVES[name], series: [{ name, points: series, colour: theme.accent }],
        x: { low: 0, high: Math.max(steps, 20), ticks: [0, Math.max(steps, 20)] }, y: { low, high, log, ticks: log ? [low, high] : undefined } });
      const corner = { x: (k % columns) * (width + 6), y: Math.floor(k / columns) * height };
      plot.setAttribute("x", corner.x);
      plot.setAttribute("y", corner.y + 16);
      whole.append(text(corner.x + 2, corner.y + 14, CURVES[name].split(":")[0], theme, { fill: theme.ink, "font-size": 12 }),
        text(corner.x + width - 8, corner.y + 14, short(last[name]), theme, { fill: theme.accent, "font-size": 12, "font-weight": 600, "text-anchor": "end" }), plot);
    });
    curves.replaceChildren(whole);
  }

  function exported() {
    const { lines, dots } = sceneNow(), radius = 220, at = (value, sign = 1) => (240 + sign * radius * value).toFixed(1), theme = context.theme;
    const colour = ([r, g, b]) => `rgb(${Math.round(255 * r)} ${Math.round(255 * g)} ${Math.round(255 * b)})`;
    return svg("svg", { viewBox: "0 0 480 480" }, svg("circle", { cx: 240, cy: 240, r: radius, fill: theme.ground, stroke: theme.line }),
      lines.map(([a, b, c, d, rgb, alpha]) => svg("line", { x1: at(a), y1: at(b, -1), x2: at(c), y2: at(d, -1), stroke: colour(rgb), "stroke-opacity": alpha.toFixed(2) })),
      dots.map(([a, b, wide, ring, rgb, alpha]) => svg("circle", { cx: at(a), cy: at(b, -1), r: ((wide * radius) / 2).toFixed(1), "fill-opacity": ring ? 0 : alpha.toFixed(2), fill: colour(rgb), stroke: colour(rgb), "stroke-opacity": alpha.toFixed(2), "stroke-width": ring ? 1.6 : 0 })));
  }

  const rowsOfPoints = () => [["label", "x1", "x2", "x3", "y1", "y2", "y3"], ...points.labels.map((label, i) =>
    [label, ...points.x.slice(3 * i, 3 * i + 3), ...points.y.slice(3 * i, 3 * i + 3)])];
  const rowsOfHistory = () => [["step", ...Object.keys(CURVES)], ...history.map((each) => [each.step, ...Object.keys(CURVES).map((name) => each[name])])];

  return {
    element: page,
    act: (what) => play(what === "play"),
    update(next) {
      state = next;
      grade = null;
      drawControls();
      const now = JSON.stringify([start(), size(), noise(), number("seed", 0, 0, 1e6)]);
      if (now !== startedWith) {
        startedWith = now;
        restart();
      } else draw(!playing);
    },
    destroy() { play(false); painter.destroy(); },
  };
}

// ---------------------------------------------------------------------------------------------------------- scene

const GRID = (() => { // meridians and parallels as pieces of lines
  const pieces = [], ring = (at) => { for (let k = 0; k < 60; k++) pieces.push([at((k * Math.PI) / 30), at(((k + 1) * Math.PI) / 30)]); };
  for (const angle of [0, Math.PI / 4, Math.PI / 2, (3 * Math.PI) / 4]) ring((t) => [Math.cos(angle) * Math.cos(t), Math.sin(t), Math.sin(angle) * Math.cos(t)]);
  for (const height of [-Math.PI / 4, 0, Math.PI / 4]) ring((t) => [Math.cos(height) * Math.cos(t), Math.sin(height), Math.cos(height) * Math.sin(t)]);
  return pieces;
})();

const rgb = (hex) => [1, 3, 5].map((k) => parseInt(hex.slice(k, k + 2), 16) / 255);

// Lines [x, y, x', y', colour, alpha] and dots [x, y, width, ring, colour, alpha] as the eye sees them, far ones first.
function buildScene({ x, y, labels }, seen, theme, withAnchors) {
  const grey = rgb(theme.soft), colours = theme.classes.map(rgb), near = (z) => 0.5 + 0.5 * z, lines = [], dots = [];
  for (const [from, to] of GRID) {
    const [a, b, z] = seen(...from), [c, d] = seen(...to);
    lines.push([a, b, c, d, grey, 0.08 + 0.2 * near(z)]);
  }
  labels.forEach((label, i) => {
    const p = seen(x[3 * i], x[3 * i + 1], x[3 * i + 2]), q = seen(y[3 * i], y[3 * i + 1], y[3 * i + 2]), colour = colours[label % 3];
    lines.push([p[0], p[1], q[0], q[1], colour, 0.15 + 0.4 * near(Math.min(p[2], q[2]))]);
    for (const [[a, b, z], ring] of [[p, 0], [q, 1]]) dots.push([a, b, 0.032 + 0.022 * near(z) + 0.012 * ring, ring, colour, 0.3 + 0.7 * near(z), z]);
  });
  if (withAnchors) AXES.forEach((axis, k) => {
    const [a, b, z] = seen(...axis), [c, d] = seen(0, 0, 0);
    lines.push([c, d, a, b, colours[k], 0.4 + 0.6 * near(z)]);
    dots.push([a, b, 0.1, 1, colours[k], 0.4 + 0.6 * near(z), z + 0.01]);
  });
  dots.sort((one, other) => one[6] - other[6]);
  return { lines, dots };
}
