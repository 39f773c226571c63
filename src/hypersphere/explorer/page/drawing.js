// Elements, controls, colours and line plots, without a framework. Text is always set as text, never as markup.

const SVG = "http://www.w3.org/2000/svg";

// element("button", {class: "quiet", onclick: f, "aria-label": "…"}, children…)
export function element(tag, attributes = {}, ...children) {
  return build(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes = {}, ...children) {
  return build(document.createElementNS(SVG, tag), attributes, children);
}

function build(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== ""));
  return node;
}

// ----------------------------------------------------------------------------------------------------- numbers

export const clamp = (value, low, high) => Math.min(Math.max(value, low), high);
export const degrees = (radians) => `${Math.round((radians * 180) / Math.PI)}°`;

export function short(value) {
  if (!Number.isFinite(value)) return "–";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e5 || size < 1e-3) return value.toExponential(1).replace(".0e", "e").replace("e+", "e");
  return String(Number(value.toPrecision(size >= 100 ? 4 : 3)));
}

// Round numbers that divide a range into about `count` parts.
export function ticks(low, high, count = 4) {
  if (!(high > low)) return [low];
  const raw = (high - low) / count, power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].find((each) => each * power >= raw * 0.999) * power;
  const first = Math.ceil(low / step - 1e-9);
  const number = Math.floor(high / step + 1e-9) - first + 1;
  return Array.from({ length: number }, (_, k) => Number(((first + k) * step).toPrecision(12)));
}

// ----------------------------------------------------------------------------------------------------- colours

const CIVIDIS = "00224e 002e6a 1a386f 32436d 434e6c 535a6d 61656f 6f7073 7d7c78 8c8878 9b9476 aba072 bcae6c cdbb63 " +
  "dec958 f0d846 fee838";
const DIVERGING = "2d004b 532687 8073ac b1aad1 d8daeb f7f7f6 fee0b6 fcb761 e08214 b25706 7f3b08";

// 256 colours between the given ones, as the bytes of a pixel.
function table(colours, size = 256) {
  const stops = colours.split(" ").map((each) => [0, 2, 4].map((k) => parseInt(each.slice(k, k + 2), 16)));
  const pixels = new Uint8ClampedArray(4 * size).fill(255);
  for (let i = 0; i < size; i++) {
    const at = (i / (size - 1)) * (stops.length - 1), k = Math.min(Math.floor(at), stops.length - 2);
    stops[k].forEach((from, c) => { pixels[4 * i + c] = from + (stops[k + 1][c] - from) * (at - k); });
  }
  return { pixels, words: new Uint32Array(pixels.buffer), bar: null };
}

// cividis rises evenly in lightness, so it survives colour blindness and grey print. Differences go from purple to orange,
// which are equally dark: values below 0 are striped, so that their sign survives as well.
export const COLOURS = { rising: table(CIVIDIS), diverging: { ...table(DIVERGING), striped: true } };

// All colours from low to high, as the address of a picture.
export function barOf(colours) {
  if (!colours.bar) {
    const canvas = element("canvas", { width: 256, height: 1 });
    canvas.getContext("2d").putImageData(new ImageData(colours.pixels, 256, 1), 0, 0);
    colours.bar = canvas.toDataURL();
  }
  return colours.bar;
}

// A grid of values as a picture, the first row at the bottom; a value that is not finite stays clear.
export function paint(canvas, values, rows, columns, [low, high], { words, striped }) {
  if (canvas.width !== columns) canvas.width = columns;
  if (canvas.height !== rows) canvas.height = rows;
  const drawing = canvas.getContext("2d", { willReadFrequently: true }), picture = drawing.createImageData(columns, rows);
  const pixels = new Uint32Array(picture.data.buffer), scale = 255 / (high - low);
  for (let r = 0; r < rows; r++) for (let c = 0, from = r * columns, to = (rows - 1 - r) * columns; c < columns; c++) {
    let value = values[from + c];
    if (striped && value < 0 && (r + c) % 10 < 3) value = 0.5 * Math.max(value, low);
    if (value - value === 0) pixels[to + c] = words[Math.min(Math.max(Math.round((value - low) * scale), 0), 255)];
  }
  drawing.putImageData(picture, 0, 0);
}

// ---------------------------------------------------------------------------------------------------- controls

const here = Math.random().toString(36).slice(2, 8); // a notebook may hold several explorers
let labels = 0;

// Each control is {element, set(value)}; set moves it from outside.
// A labelled slider with its value beside it; log: equal steps are equal factors.
export function slider({ label, low, high, log, whole, value, format = short, hint, onchange }) {
  const id = `control-${here}-${++labels}`, steps = whole && !log ? high - low : 400;
  const toShare = (v) => (log ? Math.log(v / low) / Math.log(high / low) : (v - low) / (high - low));
  const fromShare = (share) => {
    const exact = log ? low * (high / low) ** share : low + share * (high - low);
    return whole ? Math.round(exact) : Number(exact.toPrecision(3));
  };
  const output = element("output", { for: id });
  const input = element("input", { type: "range", id, min: 0, max: steps, step: 1, title: hint,
    oninput: () => { const chosen = fromShare(input.value / steps); show(chosen); onchange(chosen); } });
  const show = (v) => { output.textContent = format(v); input.setAttribute("aria-valuetext", format(v)); };
  const set = (v) => {
    if (!input.matches(":focus")) input.value = Math.round(clamp(toShare(v), 0, 1) * steps);
    show(v);
  };
  set(value);
  return { element: element("div", { class: "control" }, element("label", { for: id }, label), output, input), set };
}

export function checkbox({ label, value, onchange }) {
  const id = `control-${here}-${++labels}`, input = element("input", { type: "checkbox", id, onchange: () => onchange(input.checked) });
  const set = (on) => { input.checked = on; };
  set(value);
  return { element: element("div", { class: "check" }, input, element("label", { for: id }, label)), set };
}

export function select({ label, options, value, onchange }) {
  const id = `control-${here}-${++labels}`;
  const input = element("select", { id, onchange: () => onchange(input.value) },
    options.map(([name, text]) => element("option", { value: name }, text)));
  input.value = value;
  return {
    element: element("div", { class: "control choice" }, element("label", { for: id }, label), input),
    set: (v) => { input.value = v; },
  };
}

// A row of buttons of which one is pressed.
export function segments({ label, options, value, onchange }) {
  const buttons = options.map(([name, text]) =>
    element("button", { type: "button", "data-value": name, onclick: () => onchange(name) }, text));
  const set = (v) => buttons.forEach((each) => each.setAttribute("aria-pressed", each.dataset.value === v));
  set(value);
  return { element: element("div", { class: "segments", role: "group", "aria-label": label }, buttons), set };
}

// Controls that are made anew when their subject changes, and otherwise follow the state.
//   begin(subject): whether they must be made anew; add(kind, options, read): one of them, read() its value.
export function controlSet() {
  let setters = [], made = null;
  return {
    begin(subject) {
      if (made === subject) setters.forEach(([set, read]) => set(read()));
      else setters = [];
      const fresh = made !== subject;
      made = subject;
      return fresh;
    },
    add(kind, options, read) {
      const { element: node, set } = kind({ ...options, value: read() });
      setters.push([set, read]);
      return node;
    },
  };
}

// ------------------------------------------------------------------------------------------------------- plots

export function text(x, y, content, theme, attributes = {}) {
  const usual = { fill: theme.soft, "font-size": 11, "font-family": "system-ui, sans-serif" };
  return svg("text", { x, y, ...usual, ...attributes }, content);
}

// A line plot of {name, points: [[x, y], …], colour, dash}; axes are {label, low, high, ticks, format, log}.
export function linePlot({ width, height, series, x, y, theme, marker, label, legend = true }) {
  const box = { left: 42, right: width - 10, top: legend ? 24 : 10, bottom: height - (x.label ? 36 : 22) };
  const place = (axis, from, to) => (value) => {
    const share = axis.log ? Math.log(value / axis.low) / Math.log(axis.high / axis.low)
      : (value - axis.low) / (axis.high - axis.low);
    return from + clamp(share, -0.02, 1.02) * (to - from);
  };
  const px = place(x, box.left, box.right), py = place(y, box.bottom, box.top);
  const drawn = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label });
  for (const tick of y.ticks ?? ticks(y.low, y.high, 3)) {
    drawn.append(svg("line", { x1: box.left, x2: box.right, y1: py(tick), y2: py(tick), stroke: theme.line }));
    drawn.append(text(box.left - 6, py(tick) + 4, (y.format ?? short)(tick), theme, { "text-anchor": "end" }));
  }
  for (const tick of x.ticks ?? ticks(x.low, x.high)) {
    const words = (x.format ?? short)(tick), overhangs = px(tick) + 3.5 * words.length > width;
    drawn.append(text(overhangs ? width : px(tick), box.bottom + 15, words, theme, { "text-anchor": overhangs ? "end" : "middle" }));
  }
  if (x.label) drawn.append(text((box.left + box.right) / 2, height - 6, x.label, theme, { "text-anchor": "middle" }));
  let after = box.left;
  for (const { name, points, colour, dash } of series) {
    const pieces = [];
    let pen = "M";
    for (const [a, b] of points) {
      if (!Number.isFinite(b)) { pen = "M"; continue; }
      pieces.push(`${pen}${px(a).toFixed(1)},${py(b).toFixed(1)}`);
      pen = "L";
    }
    if (pieces.length === 1) pieces.push(pieces[0].replace("M", "L")); // a dot
    const stroke = { stroke: colour, "stroke-width": 2, "stroke-dasharray": dash, "stroke-linecap": "round", fill: "none" };
    drawn.append(svg("path", { d: pieces.join(""), ...stroke }));
    if (!legend) continue;
    drawn.append(svg("line", { x1: after, x2: after + 20, y1: 10, y2: 10, ...stroke }));
    drawn.append(text(after + 26, 14, name, theme, { fill: theme.ink }));
    after += 46 + 6.4 * name.length;
  }
  if (marker !== undefined) {
    const ends = { x1: px(marker), x2: px(marker), y1: box.top, y2: box.bottom };
    drawn.append(svg("line", { ...ends, stroke: theme.ink, "stroke-dasharray": "2 3" }));
  }
  return drawn;
}
