// Page 2: points and their positives on a sphere, moving under an objective.
// State: objective, s.SETTING, rate, points, start, noise, seed, anchors ("1"), pull, yaw, pitch.

import { checkbox, clamp, controlSet, element, linePlot, select, short, slider, svg, text } from "./drawing.js";
import { cosinesOf, evaluate, LOSSES, measure } from "./losses.js";
import { createPainter } from "./painter.js";
import { countPlaces, descend, STARTS, startingPoints, withOutlier } from "./points.js";
import { PRESETS, presetOf } from "./presets.js";
import { AXES, buildScene, sceneAsSvg } from "./scene.js";

const CURVES = {
  loss: "loss",
  active: "active anchors",
  alignment: "alignment: mean squared distance of positives",
  uniformity: "uniformity: lower is more even",
  energy: "energy: mean of 1 / distance",
  rank: "effective rank: dimensions in use",
};
const FIXED = { active: [0, 1], rank: [1, 3] }; // limits of curves that have some
const KEPT = 600; // points of a curve
const STEEPEST = 1.57; // the pole turned to the eye
const NOT_MOVED_BY = { kcl: ["c", "s"] }; // settings of kernels that the page has no gradient for

export function create(context) {
  const entries = new Map(context.data.objectives.map((entry) => [entry.name, entry]));
  const movable = Object.keys(LOSSES).filter((name) => entries.has(name));
  const controlled = controlSet();
  let state = context.state, points = null, startedWith = "", history = [], steps = 0, playing = false, frame = 0;
  let grade = null; // loss and gradient of the points as they are
  let cosines = null; // of the points, in memory that is used again
  let grabbed = null, turning = null; // where the pointer took hold of the sphere, and how far it has turned since

  // ------------------------------------------------------------------------------------------------- the state

  const number = (key, fallback, low, high) =>
    (Number.isFinite(Number(state[key] ?? NaN)) ? clamp(Number(state[key]), low, high) : fallback);
  const objective = () => (movable.includes(state.objective) ? state.objective : movable[0]);
  const settings = () => Object.fromEntries(entries.get(objective()).settings.map(({ name, default: usual, low, high }) =>
    [name, typeof usual === "number" ? number(`s.${name}`, usual, low, high) : usual]));
  const rate = () => number("rate", 0.01, 1e-4, 0.1);
  const size = () => Math.round(number("points", 48, 4, 200));
  const noise = () => number("noise", 20, 0, 90);
  const seed = () => number("seed", 0, 0, 1e6);
  const pull = () => number("pull", 1, 0.1, 10);
  const anchored = () => state.anchors === "1";
  const start = () => (Object.hasOwn(STARTS, state.start) ? state.start : "random");
  const turn = () => turning ?? [number("yaw", -0.65, -1e3, 1e3), number("pitch", -0.5, -STEEPEST, STEEPEST)];
  const set = (key) => (value) => context.setState({ [key]: value });

  // ---------------------------------------------------------------------------------------------- the elements

  const button = (name, onclick, kind = "quiet") => element("button", { type: "button", class: kind, onclick }, name);
  const playButton = button("Play", () => play(!playing), "primary");
  const canvas = element("canvas", {
    tabindex: 0, role: "application", "aria-roledescription": "sphere", "aria-label": "Points on a sphere. Arrow keys turn it, the space bar plays and pauses.",
    onpointerdown: grab, onpointermove: drag, onpointerup: release, onpointercancel: release, onkeydown: steer,
  });
  const painter = createPainter(canvas);
  const plain = painter.fallback ? "This browser has no WebGL2, so the sphere is drawn more plainly." : "";
  const readout = element("p", { class: "readout" });
  const curves = element("div", { class: "curves" });
  const watch = PRESETS.map(({ id, name, state: view }) => element("button", { type: "button", class: "quiet", "data-id": id,
    onclick: () => { context.replaceState(view); act(); } }, name));
  const words = element("p", { class: "hint preset", "aria-live": "polite" });
  const controls = element("aside", { class: "controls", "aria-label": "Settings" });
  const page = element("div", { class: "page sphere" }, controls,
    element("section", { class: "centre", "aria-label": "Sphere" },
      element("div", { class: "lead" }, element("h1", {}, "Where do the points go?"),
        element("p", {}, "Discs: anchors. Rings: positives. Colours: classes. Drag to turn.")),
      element("div", { class: "watch", role: "group", "aria-label": "Watch" }, element("span", {}, "Watch:"), watch), words,
      element("div", { class: "transport" }, playButton, button("Step", step), button("Start again", restart),
        button("Add an outlier", addOutlier)),
      element("figure", { class: "stage" }, canvas, readout,
        context.figure(() => sceneAsSvg(scene(), context.theme), () => rowsOfPoints(), "sphere"),
        plain ? element("p", { class: "hint" }, plain) : null)),
    element("section", { class: "panel curves-panel", "aria-label": "Curves" }, element("h2", {}, "While they move"),
      curves, context.figure(() => curves.firstChild, () => rowsOfHistory(), "curves")));

  function drawControls() {
    if (!controlled.begin(objective())) return;
    const add = controlled.add, entry = entries.get(objective()), hidden = NOT_MOVED_BY[entry.name] ?? [];
    const sliders = entry.settings.filter(({ name, choices }) => !choices && !hidden.includes(name));
    controls.replaceChildren(
      element("h2", {}, "Objective"),
      add(select, { label: "Move them by", options: movable.map((name) => [name, name]), onchange: choose }, objective),
      ...sliders.map((each) =>
        add(slider, { ...each, label: each.name, onchange: set(`s.${each.name}`) }, () => settings()[each.name])),
      add(slider, { label: "Learning rate", low: 1e-4, high: 0.1, log: true, onchange: set("rate") }, rate),
      element("h2", {}, "Start"),
      add(select, { label: "Points begin", options: Object.entries(STARTS), onchange: set("start") }, start),
      add(slider, { label: "Points", low: 4, high: 200, whole: true, onchange: set("points") }, size),
      add(slider, { label: "Spread of positives", low: 0, high: 90, format: (v) => `${short(v)}°`, onchange: set("noise") }, noise),
      button("Another draw", () => context.setState({ seed: seed() + 1 })),
      element("h2", {}, "Orthonormal anchors"),
      add(checkbox, { label: "Pull each class to its own direction (CLOA)", onchange: (on) => set("anchors")(on ? "1" : null) }, anchored),
      add(slider, { label: "Weight of the pull", low: 0.1, high: 10, log: true, onchange: set("pull") }, pull),
      element("p", { class: "hint" }, `${entry.name}: ${entry.summary}.`));
  }

  // Another objective begins with its own defaults.
  function choose(name) {
    const gone = Object.keys(state).filter((key) => key.startsWith("s.")).map((key) => [key, null]);
    context.setState({ ...Object.fromEntries(gone), objective: name });
  }

  // -------------------------------------------------------------------------------------------------- movement

  function restart() {
    points = startingPoints(start(), size(), (noise() * Math.PI) / 180, seed());
    history = [];
    steps = 0;
    record();
    draw(true);
  }

  function addOutlier() {
    points = withOutlier(points);
    grade = null;
    draw(true);
    context.announce("One instance was added opposite to the others.");
  }

  function graded() {
    cosines = cosinesOf(points.x, points.y, cosines);
    const anchors = anchored() ? { directions: AXES, labels: points.labels, weight: pull() } : null;
    return evaluate(objective(), points.x, points.y, settings(), anchors, cosines);
  }

  function advance() {
    const { gx, gy } = grade ?? graded();
    descend(points.x, gx, rate());
    descend(points.y, gy, rate());
    steps += 1;
    record();
  }

  function record() {
    grade = graded();
    history.push({ step: steps, loss: grade.value, active: grade.active, ...measure(points.x, points.y, cosines) });
    if (history.length > KEPT) history = history.filter((_, k) => k % 2 === 0); // older steps more coarsely
  }

  function step() {
    play(false);
    advance();
    draw(true);
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
    page.dataset.milliseconds = (performance.now() - began).toFixed(2); // of work for a frame
    page.dataset.steps = steps;
    if (playing) frame = requestAnimationFrame(tick);
  }

  // --------------------------------------------------------------------------------------------------- turning

  function turnBy(from, right, down) {
    return [from[0] + right, clamp(from[1] + down, -STEEPEST, STEEPEST)];
  }
  const keepTurn = ([yaw, pitch]) => context.setState({ yaw: yaw.toFixed(3), pitch: pitch.toFixed(3) });

  function grab(event) {
    grabbed = { x: event.clientX, y: event.clientY, from: turn() };
    canvas.setPointerCapture(event.pointerId);
  }
  function drag(event) {
    if (!grabbed) return;
    const scale = 3 / canvas.clientWidth;
    turning = turnBy(grabbed.from, (event.clientX - grabbed.x) * scale, (event.clientY - grabbed.y) * scale);
    if (!playing) draw(false);
  }
  function release() {
    if (turning) keepTurn(turning);
    grabbed = turning = null;
  }
  function steer(event) {
    const move = { ArrowLeft: [-0.1, 0], ArrowRight: [0.1, 0], ArrowUp: [0, -0.1], ArrowDown: [0, 0.1] }[event.key];
    if (!move && event.key !== " ") return;
    event.preventDefault();
    if (move) keepTurn(turnBy(turn(), ...move));
    else play(!playing);
  }

  // --------------------------------------------------------------------------------------------------- drawing

  const scene = () => buildScene(points, turn(), context.theme, anchored());

  function draw(withCurves) {
    painter.paint(scene(), Math.round(canvas.clientWidth) || 480, Math.min(window.devicePixelRatio || 1, 2));
    const last = history[history.length - 1];
    if (!withCurves || !last) return;
    const n = points.labels.length, active = Math.round(last.active * n), when = steps ? `Step ${steps}` : "Step 0, press Play";
    const dots = `${2 * n} dots in ${countPlaces(points.x, points.y)} places`;
    readout.textContent = `${when}: ${active} of ${n} anchors active, ${dots}.`;
    drawCurves(last);
  }

  function drawCurves(last) {
    const room = curves.clientWidth || 420, columns = room > 620 ? 3 : room > 300 ? 2 : 1, names = Object.keys(CURVES);
    const width = Math.floor(room / columns) - 6, height = 132, total = height * Math.ceil(names.length / columns);
    const spoken = names.map((name) => `${CURVES[name]}: ${short(last[name])}`).join("; ");
    curves.replaceChildren(svg("svg", { viewBox: `0 0 ${room} ${total}`, width: room, height: total, role: "img", "aria-label": spoken },
      names.map((name, k) => drawCurve(name, last, (k % columns) * (width + 6), Math.floor(k / columns) * height, width, height))));
  }

  function drawCurve(name, last, left, top, width, height) {
    const theme = context.theme, series = { name, points: history.map((each) => [each.step, each[name]]), colour: theme.accent };
    const end = Math.max(steps, 20), [low, high] = FIXED[name] ?? limitsOf(series.points.map(([, value]) => value));
    const log = name === "energy" && high > 30 * low && low > 0; // from a collapse it falls by orders of magnitude
    const plot = linePlot({ width, height: height - 18, theme, legend: false, label: CURVES[name], series: [series],
      x: { low: 0, high: end, ticks: [0, end] }, y: { low, high, log, ticks: log ? [low, high] : undefined } });
    plot.setAttribute("x", left);
    plot.setAttribute("y", top + 16);
    const value = { fill: theme.accent, "font-size": 12, "font-weight": 600, "text-anchor": "end" };
    return svg("g", {}, text(left + 2, top + 14, CURVES[name].split(":")[0], theme, { fill: theme.ink, "font-size": 12 }),
      text(left + width - 8, top + 14, short(last[name]), theme, value), plot);
  }

  function limitsOf(values) {
    const finite = values.filter(Number.isFinite), low = Math.min(...finite), high = Math.max(...finite);
    const room = 0.05 * Math.max(1, Math.abs(high));
    return high - low < 0.02 * room ? [low - room, high + room] : [low, high];
  }

  const rowsOfPoints = () => [["label", "x1", "x2", "x3", "y1", "y2", "y3"], ...points.labels.map((label, i) =>
    [label, ...points.x.slice(3 * i, 3 * i + 3), ...points.y.slice(3 * i, 3 * i + 3)])];
  const rowsOfHistory = () => {
    const names = ["step", ...Object.keys(CURVES)];
    return [names, ...history.map((each) => names.map((name) => each[name]))];
  };

  function act() { // for the tour and the presets: from the start
    restart();
    play(true);
  }

  function drawPreset() {
    const preset = presetOf(state);
    watch.forEach((each) => each.setAttribute("aria-pressed", each.dataset.id === preset?.id));
    words.textContent = preset?.words ?? "";
  }

  return {
    element: page,
    act,
    update(next) {
      state = next;
      grade = null;
      drawControls();
      drawPreset();
      const now = JSON.stringify([start(), size(), noise(), seed()]);
      if (now === startedWith) return draw(!playing);
      startedWith = now;
      restart();
    },
    destroy() {
      play(false);
      painter.destroy();
    },
  };
}
