// Page 1: one or two objectives over the angles of the positive and the negatives.
// State: a, b (names; b may be absent), a.SETTING, b.SETTING, negatives, spread, show, p and q (the pointer, degrees).

import { barOf, COLOURS, degrees, element, linePlot, paint, segments, select, short, slider, svg, text } from "./drawing.js";
import { FORMS } from "./formulas.js";
import { computeMap, differenceOf, fromPython, lookUp, NEGATIVE, POSITIVE, QUANTITIES } from "./maps.js";

const DEGREE = Math.PI / 180, NEGATIVES = 127, SPREAD = 0.1;

export function create(context) {
  const entries = new Map(context.data.objectives.map((entry) => [entry.name, entry]));
  const shown = new Map(); // maps by what they were computed from
  const canvases = new Map(); // by the name of their panel
  let state = context.state, controlsOf = "", figuresOf = "", panels = [], setters = [], room = 620;

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
        element("p", {}, "Each map shows one anchor: upwards the angle to its positive, to the right the angle to its negatives. The line marks where half of the gradient is left.")),
      chooser.element, maps, readout, cuts), about);

  // ------------------------------------------------------------------------------------------------- the state

  const names = () => ["a", "b"].map((side) => [side, state[side] ?? (side === "a" ? "infonce" : "")]).filter(([, name]) => entries.has(name));
  const number = (key, fallback) => (Number.isFinite(Number(state[key] ?? NaN)) ? Number(state[key]) : fallback);
  const settingsOf = (side, name) => Object.fromEntries(entries.get(name).settings.map((setting) => {
    const given = state[`${side}.${setting.name}`];
    if (setting.choices) return [setting.name, setting.choices.includes(given) ? given : setting.default];
    return [setting.name, number(`${side}.${setting.name}`, setting.default)];
  }));
  const negatives = () => Math.min(Math.max(Math.round(number("negatives", NEGATIVES)), 1), 511);
  const spread = () => Math.min(Math.max(number("spread", SPREAD), 0), 0.5);
  const pointer = () => [Math.min(Math.max(number("p", 30), 9), 90) * DEGREE, Math.min(Math.max(number("q", 75), 9), 180) * DEGREE];
  const quantities = () => (state.show in QUANTITIES ? [state.show] : Object.keys(QUANTITIES));

  function mapOf(side, name) {
    const settings = settingsOf(side, name), key = JSON.stringify([name, settings, negatives(), spread()]);
    if (!shown.has(key)) {
      if (shown.size > 8) shown.delete(shown.keys().next().value);
      shown.set(key, FORMS[name] ? computeMap(name, settings, negatives(), spread()) : askPython(name, settings, key));
    }
    return { ...shown.get(key), key };
  }

  // An objective without a closed form: its map is computed by Python, if there is a Python to ask.
  function askPython(name, settings, key) {
    if (!context.api) return { note: `${name} has no closed form, so Python computes its map. Open the page with "hypersphere explore" to see it.` };
    const query = new URLSearchParams({ objective: name, ...settings, negatives: Math.min(negatives(), 31) });
    const keep = (answer) => { shown.set(key, answer); controlsOf = figuresOf = ""; context.setState({}); };
    setTimeout(async () => { // wait until the slider rests
      if (key !== latest[name]) return shown.delete(key);
      try {
        const answer = await fetch(`${context.api}map?${query}`), body = await answer.json();
        keep(answer.ok ? fromPython(body) : { note: `Python could not compute this map: ${body.error ?? body.sentence ?? answer.status}` });
      } catch {
        keep({ note: "The server gives no answer that can be read. Is it still running?" });
      }
    }, 300);
    latest[name] = key;
    return { note: `${name} has no closed form: Python is computing its map …` };
  }
  const latest = {};

  // -------------------------------------------------------------------------------------------------- controls

  function drawControls() {
    const now = JSON.stringify(names());
    if (now === controlsOf) return setters.forEach(([set, read]) => set(read()));
    controlsOf = now;
    setters = [];
    const listed = [...entries.values()], option = ({ name, closed_form }) => [name, closed_form ? name : `${name} (by Python)`];
    const ordered = [...listed.filter((each) => each.closed_form), ...listed.filter((each) => !each.closed_form)].map(option);
    const change = (side) => (name) => {
      const gone = Object.keys(state).filter((key) => key.startsWith(`${side}.`)).map((key) => [key, null]);
      context.setState({ ...Object.fromEntries(gone), [side]: name || null });
    };
    const [a, b] = ["a", "b"].map((side) => names().find(([each]) => each === side)?.[1] ?? "");
    controls.replaceChildren(
      element("h2", {}, "Objective"),
      kept(select, { label: "Show", options: ordered, onchange: change("a") }, () => a), ...slidersOf("a", a),
      kept(select, { label: "Compare with", options: [["", "nothing"], ...ordered], onchange: change("b") }, () => b), ...slidersOf("b", b),
      element("h2", {}, "Batch"),
      kept(slider, { label: "Negatives", low: 1, high: 511, log: true, whole: true, onchange: (value) => context.setState({ negatives: value }) }, negatives),
      kept(slider, { label: "Spread of angles", low: 0, high: 0.5, format: (v) => `${short(v / DEGREE)}°`, onchange: (value) => context.setState({ spread: value }) }, spread),
      element("p", { class: "hint" }, "The negatives lie around the angle on the axis, with this standard deviation."),
      element("button", { type: "button", class: "quiet", onclick: reset }, "Back to the defaults"));
  }

  // A control that follows the state when something else changes it.
  function kept(control, options, read) {
    const { element: node, set } = control({ ...options, value: read() });
    setters.push([set, read]);
    return node;
  }

  function reset() {
    const changed = Object.keys(state).filter((key) => key.includes(".") || key === "negatives" || key === "spread");
    context.setState(Object.fromEntries(changed.map((key) => [key, null])));
  }

  function slidersOf(side, name) {
    if (!name) return [];
    return entries.get(name).settings.map((setting) => {
      const onchange = (value) => context.setState({ [`${side}.${setting.name}`]: value }), read = () => settingsOf(side, name)[setting.name];
      if (setting.choices) return kept(select, { label: setting.name, options: setting.choices.map((each) => [each, each]), onchange }, read);
      const angular = setting.name === "angle" || (setting.name === "margin" && name === "mat");
      const format = (v) => (angular ? `${short(v)} rad, ${degrees(v)}` : short(v));
      return kept(slider, { ...setting, label: setting.name, format, onchange }, read);
    });
  }

  // ------------------------------------------------------------------------------------------------------ maps

  function drawMaps() {
    const sides = names().map(([side, name]) => ({ side, name, map: mapOf(side, name) }));
    const two = sides.length === 2, difference = two && sides.every(({ map }) => map.positive);
    const columns = difference ? 3 : two || quantities().length > 1 ? 2 : 1, width = Math.floor(panelWidth(columns));
    const now = JSON.stringify([sides.map(({ map }) => [map.key, map.note]), quantities(), width, context.theme.dark]);
    if (now !== figuresOf) {
      figuresOf = now;
      maps.dataset.columns = columns;
      const before = new Map(panels.map((panel) => [panel.key, panel]));
      panels = quantities().flatMap((quantity) => [
        ...sides.map(({ side, name, map }) => ({ quantity, title: two ? `${QUANTITIES[quantity].title}, ${name}` : QUANTITIES[quantity].title, map, values: map[quantity], name: `${quantity}-${name}`, side })),
        ...(difference ? [{ quantity, title: `${sides[0].name} − ${sides[1].name}`, map: differenceOf(sides[0].map, sides[1].map, quantity), name: `${quantity}-difference`, diverging: true }] : []),
      ]).map((panel) => {
        const key = JSON.stringify([panel.name, panel.title, panel.map.key, panel.map.note, width, context.theme.dark]);
        if (before.has(key)) return before.get(key);
        const fresh = { ...panel, values: panel.values ?? panel.map.values, width, key };
        fresh.node = drawPanel(fresh);
        return fresh;
      });
      maps.replaceChildren(...panels.map(({ node }) => node));
    }
    panels.forEach(drawPointer);
    return sides;
  }

  function panelWidth(columns) {
    const fits = room < 560 ? 1 : columns;
    return Math.min((room - 16 * (fits - 1)) / fits, 560) - 24;
  }

  const frameOf = ({ width }) => {
    const box = { left: 40, top: 4, width: width - 48, height: Math.round((width - 48) * 0.58) };
    return { ...box, total: box.top + box.height + 84,
      x: (q) => box.left + ((q - NEGATIVE[0]) / (NEGATIVE[1] - NEGATIVE[0])) * box.width,
      y: (p) => box.top + (1 - (p - POSITIVE[0]) / (POSITIVE[1] - POSITIVE[0])) * box.height };
  };
  const limitsOf = ({ quantity, diverging }) => {
    const [, high] = QUANTITIES[quantity].limits;
    return diverging ? [-high, high] : QUANTITIES[quantity].limits;
  };

  function drawPanel(panel) {
    const { quantity, title, map, values, diverging, width } = panel, theme = context.theme;
    const heading = element("h3", {}, title);
    if (!map.positive) return element("figure", { class: "panel" }, heading, element("p", { class: "sentence" }, map.note));
    const frame = frameOf(panel), canvas = canvases.get(panel.name) ?? element("canvas", {});
    canvases.set(panel.name, canvas);
    paint(canvas, values, map.positive.length, map.negative.length, limitsOf(panel), diverging ? COLOURS.diverging : COLOURS.rising);
    Object.assign(canvas.style, { left: `${frame.left}px`, top: `${frame.top}px`, width: `${frame.width}px`, height: `${frame.height}px` });
    panel.canvas = canvas;
    panel.drawing = svg("svg", { viewBox: `0 0 ${width} ${frame.total}`, width, height: frame.total, "aria-hidden": "true" },
      axes(frame, theme), edgeLines(map, frame), colourBar(panel, frame, theme), (panel.mark = svg("g")), flatSentence(panel, frame, theme));
    const surface = element("div", { class: "surface", tabindex: 0, role: "img", "aria-label": describe(panel),
      onpointermove: (event) => point(event, panel), onpointerdown: (event) => point(event, panel), onkeydown: steer }, canvas, panel.drawing);
    surface.style.height = `${frame.total}px`;
    return element("figure", { class: "panel", "data-quantity": quantity }, heading, surface,
      element("figcaption", {}, diverging ? "Orange: the first is larger. Purple: the second." : QUANTITIES[quantity].says, map.note ? ` ${map.note}` : ""),
      context.figure(() => exported(panel), () => rowsOf(panel), panel.name));
  }

  function axes(frame, theme) {
    const bottom = frame.top + frame.height;
    return [
      ...[45, 90, 135, 180].map((at) => text(frame.x(at * DEGREE), bottom + 15, `${at}°`, theme, { "text-anchor": at === 180 ? "end" : "middle" })),
      ...[30, 60, 90].map((at) => text(frame.left - 5, frame.y(at * DEGREE) + (at === 90 ? 9 : 4), `${at}°`, theme, { "text-anchor": "end" })),
      text(frame.left + frame.width / 2, bottom + 31, "angle of the negatives", theme, { "text-anchor": "middle" }),
      text(0, 0, "angle of the positive", theme, { "text-anchor": "middle", transform: `translate(10 ${frame.top + frame.height / 2}) rotate(-90)` }),
    ];
  }

  function edgeLines(map, frame) {
    if (map.edge.length < 2) return [];
    const d = map.edge.map(([q, p], k) => `${k ? "L" : "M"}${frame.x(q).toFixed(1)},${frame.y(p).toFixed(1)}`).join("");
    return [["#ffffff", 4], ["#101418", 1.8]].map(([stroke, thick]) => svg("path", { d, stroke, "stroke-width": thick, fill: "none", class: "edge" }));
  }

  function colourBar(panel, frame, theme) {
    const [low, high] = limitsOf(panel), top = frame.top + frame.height + 42;
    const colours = panel.diverging ? COLOURS.diverging : COLOURS.rising;
    const beyond = panel.values.some((value) => value > high * 1.01);
    return [
      svg("image", { href: barOf(colours), x: frame.left, y: top, width: frame.width, height: 8, preserveAspectRatio: "none" }),
      text(frame.left, top + 21, short(low), theme),
      text(frame.left + frame.width, top + 21, `${short(high)}${beyond ? " and more" : ""}`, theme, { "text-anchor": "end" }),
      text(frame.left + frame.width / 2, top + 34, panel.diverging ? "difference" : QUANTITIES[panel.quantity].label, theme, { "text-anchor": "middle" }),
    ];
  }

  // A map that shows no change says its value in words.
  function flatSentence(panel, frame, theme) {
    let low = Infinity, high = -Infinity;
    for (const value of panel.values) {
      if (value < low) low = value;
      if (value > high) high = value;
    }
    const [from, to] = limitsOf(panel);
    panel.flat = low > high ? "not a number: a matrix of features" : high - low > 0.03 * (to - from) ? "" : `${high - low < 1e-4 * Math.abs(high) ? short(high) : `${short(low)} to ${short(high)}`} at all angles`;
    if (!panel.flat) return [];
    const wide = 7 * panel.flat.length + 20, x = frame.left + frame.width / 2, y = frame.top + 24;
    return [svg("rect", { x: x - wide / 2, y: y - 15, width: wide, height: 26, rx: 13, fill: theme.paper }),
      text(x, y + 2, panel.flat, theme, { "text-anchor": "middle", fill: theme.ink, "font-size": 12.5 })];
  }

  function describe(panel) {
    const edge = panel.map.edge.length > 1 ? " A line marks where half of the gradient is left." : "";
    return `Map of ${panel.title} over the angles of the positive and of the negatives.${panel.flat ? ` ${panel.flat}.` : ""}${edge} Arrow keys move the pointer.`;
  }

  function drawPointer(panel) {
    if (!panel.mark) return;
    const frame = frameOf(panel), [p, q] = pointer(), x = frame.x(q), y = frame.y(p);
    const line = (x1, y1, x2, y2) => ["#101418", "#ffffff"].map((stroke, k) => svg("line", { x1, y1, x2, y2, stroke, "stroke-width": 1, "stroke-dasharray": "3 3", "stroke-dashoffset": 3 * k }));
    panel.mark.replaceChildren(...line(frame.left, y, frame.left + frame.width, y), ...line(x, frame.top, x, frame.top + frame.height),
      svg("circle", { cx: x, cy: y, r: 5, fill: "none", stroke: "#101418", "stroke-width": 4 }), svg("circle", { cx: x, cy: y, r: 5, fill: "none", stroke: "#ffffff", "stroke-width": 2 }));
  }

  function exported(panel) {
    const frame = frameOf(panel), whole = panel.drawing.cloneNode(true);
    whole.prepend(svg("image", { href: panel.canvas.toDataURL(), x: frame.left, y: frame.top, width: frame.width, height: frame.height, preserveAspectRatio: "none" }));
    return whole;
  }

  function rowsOf({ map, values, quantity }) {
    return [["positive_degrees", "negatives_degrees", quantity], ...Array.from(values, (value, k) => [
      short(map.positive[Math.floor(k / map.negative.length)] / DEGREE), short(map.negative[k % map.negative.length] / DEGREE), Number(value.toPrecision(8))])];
  }

  // --------------------------------------------------------------------------------------- pointer and the cuts

  let watched = "dissipation";

  function point(event, panel) {
    const frame = frameOf(panel), box = event.currentTarget.getBoundingClientRect();
    const x = (event.clientX - box.left - frame.left) / frame.width, y = 1 - (event.clientY - box.top - frame.top) / frame.height;
    if (x < 0 || x > 1 || y < 0 || y > 1) return;
    watched = panel.quantity;
    const at = (range, share) => Number(((range[0] + share * (range[1] - range[0])) / DEGREE).toFixed(1));
    context.setState({ p: at(POSITIVE, y), q: at(NEGATIVE, x) });
  }

  function steer(event) {
    const move = { ArrowUp: [1, 0], ArrowDown: [-1, 0], ArrowRight: [0, 1], ArrowLeft: [0, -1] }[event.key];
    if (!move) return;
    event.preventDefault();
    watched = event.currentTarget.parentElement.dataset.quantity;
    const [p, q] = pointer().map((angle) => angle / DEGREE), far = event.shiftKey ? 10 : 1;
    context.setState({ p: Math.min(Math.max(p + far * move[0], 9), 90).toFixed(1), q: Math.min(Math.max(q + far * move[1], 9), 180).toFixed(1) });
  }

  function drawCuts(sides) {
    const quantity = quantities().includes(watched) ? watched : quantities()[0], theme = context.theme, [p, q] = pointer();
    const present = sides.filter(({ map }) => map.positive);
    readout.replaceChildren(...present.flatMap(({ name, map }) => {
      const at = (of) => lookUp(map, of, p, q), ratio = at("ratio");
      const kept = at("dissipation"), percent = kept > 0.995 ? "all" : kept < 0.005 ? "none" : `${(100 * kept).toFixed(0)} %`;
      return [element("span", {}, element("strong", {}, name), ` keeps ${percent} of its gradient; the hardest negative has ${(100 * at("weight")).toFixed(0)} % of the weight; `,
        Number.isFinite(ratio) ? `ratio ${short(ratio)}; gradient norm ${short(at("norm") * map.largest)}.` : "the ratio is a matrix.")];
    }));
    readout.prepend(element("span", { class: "at" }, `Positive at ${degrees(p)}, negatives at ${degrees(q)}: `));
    const each = room < 560 ? room : (room - 16) / 2;
    const [low, most] = QUANTITIES[quantity].limits;
    const cut = (axis, range, marker, title, at) => {
      const series = present.map(({ name, map, side }) => ({ name, colour: side === "a" ? theme.accent : theme.ink, dash: side === "b" ? "6 4" : undefined,
        points: map[axis].map((angle) => [angle / DEGREE, lookUp(map, quantity, ...at(angle))]) }));
      const drawn = linePlot({ width: Math.floor(each) - 24, height: 190, series, theme, marker: marker / DEGREE, label: title,
        x: { low: range[0] / DEGREE, high: range[1] / DEGREE, ticks: axis === "positive" ? [30, 60, 90] : [45, 90, 135, 180], format: (v) => `${v}°`, label: `angle of the ${axis === "positive" ? "positive" : "negatives"}` },
        y: { low, high: most } });
      const rows = () => [["degrees", ...series.map(({ name }) => name)], ...series[0].points.map(([x], k) => [short(x), ...series.map(({ points }) => Number((points[k]?.[1] ?? NaN).toPrecision(8)))])];
      return element("figure", { class: "panel" }, element("h3", {}, title), drawn, series.length ? context.figure(drawn, rows, `cut-${quantity}-${axis}`) : null);
    };
    const title = QUANTITIES[quantity].title;
    cuts.replaceChildren(
      cut("negative", NEGATIVE, q, `${title}, positive at ${degrees(p)}`, (angle) => [p, angle]),
      cut("positive", POSITIVE, p, `${title}, negatives at ${degrees(q)}`, (angle) => [angle, q]));
  }

  // ----------------------------------------------------------------------------------------------------- words

  function drawAbout() {
    const part = (title, words, kind = "p") => (words ? [element("h3", {}, title), element(kind, kind === "pre" ? { tabindex: 0 } : {}, words)] : []);
    const now = JSON.stringify(names());
    if (about.dataset.of === now) return;
    about.dataset.of = now;
    about.replaceChildren(...names().map(([, name]) => {
      const entry = entries.get(name), [formula, ...notes] = entry.formula.split("\n");
      return element("section", {}, element("h2", {}, name), element("p", { class: "summary" }, `${entry.summary}.`),
        ...part("When to use it", entry.use), ...part("Formula", formula, "pre"), notes.length ? element("details", {}, element("summary", {}, "Variants and settings"), notes.map((note) => element("p", { class: "hint" }, note))) : null, ...part("Its gradient", entry.gradient, "pre"),
        ...part("Paper", entry.paper ?? entry.source), ...part("Relations", entry.relations));
    }));
  }

  return {
    element: page,
    update(next) {
      const began = performance.now();
      state = next;
      chooser.set(state.show in QUANTITIES ? state.show : "all");
      page.classList.toggle("two", names().length === 2);
      room = maps.clientWidth || 620;
      drawControls();
      drawCuts(drawMaps());
      drawAbout();
      page.dataset.milliseconds = (performance.now() - began).toFixed(2); // of work, from a slider to the picture
    },
    destroy() {},
  };
}
