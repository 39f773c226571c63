// Page 1: one or two objectives over the angles of the positive and the negatives.
// State: a, b (names; b may be absent), a.SETTING, b.SETTING, negatives, spread, show, p and q (the pointer, degrees).

import { clamp, controlSet, degrees, element, linePlot, segments, select, short, slider } from "./drawing.js";
import { FORMS } from "./formulas.js";
import { computeMap, differenceOf, fromPython, lookUp, NEGATIVE, POSITIVE, QUANTITIES } from "./maps.js";
import { drawPanel } from "./panel.js";

const DEGREE = Math.PI / 180, NEGATIVES = 127, SPREAD = 0.1, MOST = 511;
const NARROWEST = 270; // pixels of a map with its frame
const TICKS = { positive: [30, 60, 90], negative: [45, 90, 135, 180] };

export function create(context) {
  const entries = new Map(context.data.objectives.map((entry) => [entry.name, entry]));
  const known = new Map(); // maps by what they were computed from
  const canvases = new Map(); // by the name of their panel
  const asked = {}; // the latest question to Python, by objective
  const controlled = controlSet();
  let state = context.state, drawnMaps = "", panels = [], room = 620, watched = "dissipation";

  const controls = element("aside", { class: "controls", "aria-label": "Settings" });
  const chooser = segments({ label: "Quantity", value: "all", onchange: (show) => context.setState({ show }),
    options: [["all", "All four"], ...Object.entries(QUANTITIES).map(([id, { title }]) => [id, title])] });
  const maps = element("div", { class: "maps" });
  const readout = element("p", { class: "readout", "aria-live": "polite" });
  const cuts = element("div", { class: "cuts" });
  const about = element("aside", { class: "about", "aria-label": "About the objectives" });
  const page = element("div", { class: "page objective" }, controls,
    element("section", { class: "centre", "aria-label": "Maps over the angles" },
      element("div", { class: "lead" },
        element("h1", {}, "What is left of the gradient?"),
        element("p", {}, "Each map shows one anchor: upwards the angle to its positive, to the right the angle to its " +
          "negatives. The line marks where half of the gradient is left.")),
      chooser.element, maps, readout, cuts), about);

  // ------------------------------------------------------------------------------------------------- the state

  const nameOf = (side) => (entries.has(state[side]) ? state[side] : side === "a" && entries.has("infonce") ? "infonce" : "");
  const sides = () => ["a", "b"].filter(nameOf);
  const number = (key, fallback, low, high) =>
    (Number.isFinite(Number(state[key] ?? NaN)) ? clamp(Number(state[key]), low, high) : fallback);
  const negatives = () => Math.round(number("negatives", NEGATIVES, 1, MOST));
  const spread = () => number("spread", SPREAD, 0, 0.5);
  const pointer = () => [number("p", 30, 9, 90) * DEGREE, number("q", 75, 9, 180) * DEGREE];
  const quantities = () => (Object.hasOwn(QUANTITIES, state.show) ? [state.show] : Object.keys(QUANTITIES));
  const set = (key) => (value) => context.setState({ [key]: value });

  function settingsOf(side) {
    return Object.fromEntries(entries.get(nameOf(side)).settings.map(({ name, default: usual, choices, low, high }) => {
      const key = `${side}.${name}`;
      return [name, choices ? (choices.includes(state[key]) ? state[key] : usual) : number(key, usual, low, high)];
    }));
  }

  function mapOf(side) {
    const name = nameOf(side), settings = settingsOf(side), key = JSON.stringify([name, settings, negatives(), spread()]);
    const { kernel, s } = settings; // what Python refuses has no map
    if (kernel === "riesz" && s >= 0) return { key, note: "This kernel cannot align with s ≥ 0. Choose s below 0, or gaussian_riesz." };
    if (!known.has(key)) {
      if (known.size > 8) known.delete(known.keys().next().value);
      known.set(key, FORMS[name] ? computeMap(name, settings, negatives(), spread()) : askPython(name, settings, key));
    }
    return { ...known.get(key), key };
  }

  // An objective without a closed form: its map is computed by Python, if there is a Python to ask.
  function askPython(name, settings, key) {
    if (!context.ask) {
      return { note: `${name} has no closed form, so Python computes its map. Open the page with "hypersphere explore" to see it.` };
    }
    asked[name] = key;
    setTimeout(async () => {
      if (key !== asked[name]) return known.delete(key); // the slider has moved on
      known.set(key, await answerOf(name, settings));
      context.setState({});
    }, 300);
    return { note: `${name} has no closed form: Python is computing its map …` };
  }

  async function answerOf(name, settings) {
    const query = new URLSearchParams({ objective: name, ...settings, negatives: Math.min(negatives(), 31) });
    try {
      return fromPython(await context.ask(`map?${query}`));
    } catch (error) {
      return { note: `Python could not compute this map: ${error.message}` };
    }
  }

  // -------------------------------------------------------------------------------------------------- controls

  function drawControls() {
    const [a, b] = ["a", "b"].map(nameOf);
    if (!controlled.begin(`${a} ${b}`)) return;
    const add = controlled.add, closed = (each) => (each.closed_form ? 0 : 1);
    const listed = [...entries.values()].sort((one, other) => closed(one) - closed(other))
      .map((each) => [each.name, each.closed_form ? each.name : `${each.name} (by Python)`]);
    controls.replaceChildren(
      element("h2", {}, "Objective"),
      add(select, { label: "Show", options: listed, onchange: choose("a") }, () => nameOf("a")), ...slidersOf("a"),
      add(select, { label: "Compare with", options: [["", "nothing"], ...listed], onchange: choose("b") }, () => nameOf("b")),
      ...slidersOf("b"),
      element("h2", {}, "Batch"),
      add(slider, { label: "Negatives", low: 1, high: MOST, log: true, whole: true, onchange: set("negatives") }, negatives),
      add(slider, { label: "Spread of angles", low: 0, high: 0.5, format: (v) => `${short(v / DEGREE)}°`, onchange: set("spread") }, spread),
      element("p", { class: "hint" }, "The negatives lie around the angle on the axis, with this standard deviation."),
      element("button", { type: "button", class: "quiet", onclick: reset }, "Back to the defaults"));
  }

  function slidersOf(side) {
    const name = nameOf(side);
    return (entries.get(name)?.settings ?? []).map((setting) => {
      const read = () => settingsOf(side)[setting.name], common = { label: setting.name, onchange: set(`${side}.${setting.name}`) };
      if (setting.choices) return controlled.add(select, { ...common, options: setting.choices.map((each) => [each, each]) }, read);
      const isAngle = setting.name === "angle" || (setting.name === "margin" && name === "mat");
      const format = (v) => (isAngle ? `${short(v)} rad, ${degrees(v)}` : short(v));
      return controlled.add(slider, { ...setting, ...common, format }, read);
    });
  }

  // Another objective begins with its own defaults.
  function choose(side) {
    return (name) => context.setState({ ...without((key) => key.startsWith(`${side}.`)), [side]: name || null });
  }
  function reset() {
    context.setState(without((key) => key.includes(".") || key === "negatives" || key === "spread"));
  }
  function without(goes) {
    return Object.fromEntries(Object.keys(state).filter(goes).map((key) => [key, null]));
  }

  // ------------------------------------------------------------------------------------------------------ maps

  function drawMaps() {
    const shown = sides().map((side) => ({ side, name: nameOf(side), map: mapOf(side) }));
    const difference = shown.length === 2 && shown.every(({ map }) => map.positive);
    const columns = difference ? 3 : shown.length * quantities().length > 1 ? 2 : 1;
    const fits = room < 560 ? 1 : Math.min(columns, Math.floor((room + 16) / (NARROWEST + 16)));
    const width = Math.floor(Math.min((room - 16 * (fits - 1)) / fits, 560) - 24);
    const now = JSON.stringify([shown.map(({ map }) => [map.key, map.note]), quantities(), width, context.theme.dark]);
    if (now !== drawnMaps) {
      drawnMaps = now;
      maps.dataset.columns = fits;
      const before = new Map(panels.map((panel) => [panel.key, panel]));
      panels = quantities().flatMap((quantity) => wanted(quantity, shown, difference)).map((panel) => {
        const key = JSON.stringify([panel.name, panel.title, panel.map.key, panel.map.note, width, context.theme.dark]);
        return before.get(key) ?? { key, ...drawn({ ...panel, width }) };
      });
      maps.replaceChildren(...panels.map(({ node }) => node));
    }
    panels.forEach(({ mark }) => mark(...pointer()));
    return shown;
  }

  function wanted(quantity, shown, difference) {
    const { title } = QUANTITIES[quantity], [one, other] = shown;
    const panels = shown.map(({ name, map }) =>
      ({ quantity, map, values: map[quantity], name: `${quantity}-${name}`, title: other ? `${title}, ${name}` : title }));
    if (difference) {
      const map = differenceOf(one.map, other.map, quantity);
      panels.push({ quantity, map, values: map.values, name: `${quantity}-difference`, diverging: true,
        title: `${title}, ${one.name} − ${other.name}` });
    }
    return panels;
  }

  function drawn(panel) {
    if (!canvases.has(panel.name)) canvases.set(panel.name, element("canvas"));
    const point = (p, q) => {
      watched = panel.quantity;
      context.setState({ p: (p / DEGREE).toFixed(1), q: (q / DEGREE).toFixed(1) });
    };
    return drawPanel(panel, canvases.get(panel.name), context, { point, key: (event) => steer(event, point) });
  }

  function steer(event, point) {
    const move = { ArrowUp: [1, 0], ArrowDown: [-1, 0], ArrowRight: [0, 1], ArrowLeft: [0, -1] }[event.key];
    if (!move) return;
    event.preventDefault();
    const [p, q] = pointer(), far = (event.shiftKey ? 10 : 1) * DEGREE;
    point(clamp(p + far * move[0], ...POSITIVE), clamp(q + far * move[1], ...NEGATIVE));
  }

  // ------------------------------------------------------------------------------------------------------ cuts

  function drawCuts(shown) {
    const quantity = quantities().includes(watched) ? watched : quantities()[0], { title } = QUANTITIES[quantity];
    const present = shown.filter(({ map }) => map.positive), [p, q] = pointer();
    readout.hidden = cuts.hidden = !present.length;
    readout.replaceChildren(element("span", { class: "at" }, `Positive at ${degrees(p)}, negatives at ${degrees(q)}: `),
      ...present.map(({ name, map }) => element("span", {}, element("strong", {}, name), inWords(map, p, q))));
    cuts.replaceChildren(
      cut(present, quantity, "negative", q, `${title}, positive at ${degrees(p)}`, (angle) => [p, angle]),
      cut(present, quantity, "positive", p, `${title}, negatives at ${degrees(q)}`, (angle) => [angle, q]));
  }

  function inWords(map, p, q) {
    const [kept, weight, ratio, norm] = Object.keys(QUANTITIES).map((quantity) => lookUp(map, quantity, p, q));
    const much = kept > 0.995 ? "all" : kept < 0.005 ? "none" : `${(100 * kept).toFixed(0)} %`;
    const rest = Number.isFinite(ratio) ? `ratio ${short(ratio)}; gradient norm ${short(norm * map.largest)}` : "the ratio is a matrix";
    return ` keeps ${much} of its gradient; the hardest negative has ${(100 * weight).toFixed(0)} % of the weight; ${rest}.`;
  }

  // The values along one axis, through the pointer; at(angle) are the two angles of a point of the cut.
  function cut(present, quantity, axis, marker, title, at) {
    const theme = context.theme, range = axis === "positive" ? POSITIVE : NEGATIVE, [low, high] = QUANTITIES[quantity].limits;
    const series = present.map(({ name, map, side }) => ({
      name, colour: side === "a" ? theme.accent : theme.ink, dash: side === "b" ? "6 4" : undefined,
      points: map[axis].map((angle) => [angle / DEGREE, lookUp(map, quantity, ...at(angle))]),
    }));
    const plot = linePlot({
      width: Math.floor(room < 560 ? room : (room - 16) / 2) - 24, height: 190, series, theme, marker: marker / DEGREE, label: title,
      x: { low: range[0] / DEGREE, high: range[1] / DEGREE, ticks: TICKS[axis], format: (v) => `${v}°`,
        label: `angle of the ${axis === "positive" ? "positive" : "negatives"}` },
      y: { low, high },
    });
    const rows = () => [["objective", "degrees", quantity], ...series.flatMap(({ name, points }) =>
      points.map(([angle, value]) => [name, short(angle), Number(value.toPrecision(8))]))];
    return element("figure", { class: "panel" }, element("h3", {}, title), plot, context.figure(plot, rows, `cut-${quantity}-${axis}`));
  }

  // ----------------------------------------------------------------------------------------------------- words

  function drawAbout() {
    const now = sides().map(nameOf).join(" ");
    if (about.dataset.of === now) return;
    about.dataset.of = now;
    about.replaceChildren(...sides().map((side) => described(entries.get(nameOf(side)))));
  }

  function described(entry) {
    const [formula, ...notes] = entry.formula.split("\n");
    const part = (title, words) => (words ? [element("h3", {}, title), element("p", {}, words)] : []);
    const code = (title, words) => (words ? [element("h3", {}, title), element("pre", { tabindex: 0 }, words)] : []);
    const more = element("details", {}, element("summary", {}, "Variants and settings"),
      notes.map((note) => element("p", { class: "hint" }, note)));
    return element("section", {}, element("h2", {}, entry.name), element("p", { class: "summary" }, `${entry.summary}.`),
      part("When to use it", entry.use), code("Formula", formula), notes.length ? more : null,
      code("Its gradient", entry.gradient), part("Paper", entry.paper ?? entry.source), part("Relations", entry.relations));
  }

  return {
    element: page,
    update(next) {
      const began = performance.now();
      state = next;
      chooser.set(Object.hasOwn(QUANTITIES, state.show) ? state.show : "all");
      page.classList.toggle("two", sides().length === 2);
      room = maps.clientWidth || 620;
      drawControls();
      drawCuts(drawMaps());
      drawAbout();
      page.dataset.milliseconds = (performance.now() - began).toFixed(2); // of work, from a slider to the picture
    },
    destroy() {},
  };
}
