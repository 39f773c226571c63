// Tables and figures of the pages on embeddings, runs and papers.

import { element, short, svg, ticks } from "./drawing.js";

// Told apart by people with any colour vision, and by their lightness in grey print (44, 59, 53 of 100); 3 : 1 and more
// on light and on dark.
export const COLOURS = ["#276cae", "#dd7222", "#787e87"];
const TROUBLE = "#c8352b";
const DASHES = { training: "", held_out: "6 3", validation: "2 3" };
const NUMBER = /^(–|[+-]?\d[\d.,]*( ± \d[\d.,]*)?)$/;
const WIDTH = 420, HEIGHT = 236, LEFT = 52, RIGHT = 12, TOP = 42, BOTTOM = 36;

export function shown(value) {
  if (value == null || Number.isNaN(value)) return "–";
  if (typeof value !== "number") return String(value);
  if (Number.isInteger(value)) return value.toLocaleString("en");
  const size = Math.abs(value);
  return size >= 0.01 && size < 1000 ? value.toFixed(size < 1 ? 4 : 3) : value.toPrecision(4);
}

// A table; cells may be text or nodes, and numbers stand to the right. On a phone, the rows of a wordy one are cards.
export function table(header, rows, caption = "") {
  const wordy = rows.some((row) => row.some((value) => (value?.textContent ?? String(value ?? "")).length > 40));
  const isNumber = (value) => typeof value === "number" || NUMBER.test(value);
  const cell = (value, k) => element("td", { class: isNumber(value) && "data-number",
    "data-label": header[k] || null },
    value instanceof Node ? value : typeof value === "number" ? shown(value) : String(value ?? ""));
  const body = rows.map((row) => element("tr", {}, row.map(cell)));
  const numeric = (k) => rows.some((row) => isNumber(row[k])) && rows.every((row) => isNumber(row[k]) || !row[k]);
  const heads = header.map((name, k) => element("th", { scope: "col", class: numeric(k) && "data-number" }, name));
  return element("div", { class: "data-scroll", tabindex: 0, role: "region", "aria-label": caption || header.join(", ") },
    element("table", { class: `data-table${wordy ? " data-wordy" : ""}` }, caption && element("caption", {}, caption),
      element("thead", {}, element("tr", {}, heads)), element("tbody", {}, body)));
}

function logarithmicTicks(low, high) {
  const values = [];
  for (let power = Math.floor(low); power <= Math.ceil(high); power += 1)
    for (const digit of high - low > 2 ? [1] : [1, 2, 5]) values.push(power + Math.log10(digit));
  const seen = values.filter((each) => each >= low - 1e-9 && each <= high + 1e-9);
  return seen.length > 1 ? seen : ticks(10 ** low, 10 ** high, 3).map(Math.log10);
}

// Curves over x. series: [{label, split, colour, band, points: [[x, y, low, high], …]}]; marks: [{x, label}].
export function lines({ title, series, xLabel = "", yLabel = "", logarithmic = false, limits = null, marks = [],
                        fill = false }) {
  const height = (y) => (logarithmic ? Math.log10(y) : y);
  const drawn = series.map((each) => ({
    ...each, points: each.points.filter((point) => point[1] != null && (!logarithmic || point[1] > 0)) }));
  const xs = drawn.flatMap((each) => each.points.map((point) => point[0]));
  let ys = drawn.flatMap((each) => each.points.flatMap(([, y, low, high]) =>
    (each.band && low != null ? [low, y, high] : [y]).filter((value) => !logarithmic || value > 0).map(height)));
  if (limits) ys = [...limits];
  if (fill) ys.push(0);
  let [left, right] = [Math.min(...xs), Math.max(...xs)], [low, high] = [Math.min(...ys), Math.max(...ys)];
  if (!(right > left)) [left, right] = [left - 0.5, left + 0.5];
  if (!(high > low)) [low, high] = [low - (Math.abs(low) * 0.1 || 0.5), high + (Math.abs(high) * 0.1 || 0.5)];
  if (!limits) [low, high] = [fill ? low : low - 0.04 * (high - low), high + 0.04 * (high - low)];
  const x = (value) => LEFT + ((value - left) / (right - left)) * (WIDTH - LEFT - RIGHT);
  const y = (value) => HEIGHT - BOTTOM - ((value - low) / (high - low)) * (HEIGHT - TOP - BOTTOM);
  const inside = (value) => Math.min(HEIGHT - BOTTOM, Math.max(TOP, y(value)));
  const whole = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", class: "data-figure" });
  const picture = svg("g", { "font-family": "system-ui, sans-serif", "font-size": 12.5, fill: "currentColor" });
  const labels = [...new Set(series.map((each) => each.label))];
  whole.append(svg("title", {}, `${title}: ${labels.join(", ")}`), picture);
  picture.append(svg("text", { x: 4, y: 14, "font-weight": 600, "font-size": 13.5 }, title));
  for (const value of logarithmic ? logarithmicTicks(low, high) : ticks(low, high)) {
    picture.append(svg("line", { x1: LEFT, x2: WIDTH - RIGHT, y1: y(value), y2: y(value), stroke: "currentColor",
      "stroke-opacity": 0.15 }));
    picture.append(svg("text", { x: LEFT - 5, y: y(value) + 4, "text-anchor": "end", "fill-opacity": 0.8 },
      short(logarithmic ? 10 ** value : value)));
  }
  for (const value of ticks(left, right)) picture.append(svg("text",
    { x: x(value), y: HEIGHT - BOTTOM + 16, "text-anchor": "middle", "fill-opacity": 0.8 }, short(value)));
  picture.append(svg("text", { x: (LEFT + WIDTH - RIGHT) / 2, y: HEIGHT - 6, "text-anchor": "middle" }, xLabel));
  if (yLabel) picture.append(svg("text", { x: WIDTH - RIGHT, y: 14, "text-anchor": "end", "fill-opacity": 0.8 }, yLabel));
  for (const each of marks) {
    const line = svg("line", { x1: x(each.x), x2: x(each.x), y1: TOP, y2: HEIGHT - BOTTOM, stroke: TROUBLE,
      "stroke-width": 1.4, "stroke-dasharray": "2 2" });
    line.append(svg("title", {}, each.label));
    picture.append(line);
  }
  for (const each of drawn) {
    if (!each.points.length) continue;
    const colour = COLOURS[each.colour % COLOURS.length];
    const path = each.points.map(([a, b], place) => `${place ? "L" : "M"}${x(a).toFixed(1)} ${inside(height(b)).toFixed(1)}`);
    if (each.band) {
      const ends = each.points.filter((point) => point[2] != null && (!logarithmic || point[2] > 0));
      const upper = ends.map((point) => `${x(point[0]).toFixed(1)} ${inside(height(point[3])).toFixed(1)}`);
      const lower = ends.map((point) => `${x(point[0]).toFixed(1)} ${inside(height(point[2])).toFixed(1)}`).reverse();
      if (ends.length > 1) picture.append(svg("path", { d: `M${[...upper, ...lower].join("L")}Z`, fill: colour, "fill-opacity": 0.13 }));
    }
    if (fill) {
      const [first, last] = [each.points[0][0], each.points.at(-1)[0]];
      picture.append(svg("path", { d: `${path.join("")}L${x(last)} ${inside(0)}L${x(first)} ${inside(0)}Z`, fill: colour,
        "fill-opacity": 0.18 }));
    }
    if (each.points.length === 1) picture.append(svg("circle",
      { cx: x(each.points[0][0]), cy: inside(height(each.points[0][1])), r: 3, fill: colour }));
    picture.append(svg("path", { d: path.join(""), fill: "none", stroke: colour, "stroke-width": each.split === "validation" ? 2.4 : 1.7,
      "stroke-dasharray": DASHES[each.split] ?? "" }));
  }
  let along = 4;
  if (labels.length > 1) for (const label of labels) {
    const colour = COLOURS[series.find((each) => each.label === label).colour % COLOURS.length];
    picture.append(svg("rect", { x: along, y: 26, width: 10, height: 4, fill: colour }));
    picture.append(svg("text", { x: along + 13, y: 32, "font-size": 11.5 }, label));
    along += 24 + widthOf(label);
  }
  const columns = ["curve", "split", xLabel || "x", "value", "low", "high"];
  const rows = [columns, ...series.flatMap((each) => each.points.map((point) =>
    [each.label, each.split ?? "", point[0], point[1], point[2] ?? "", point[3] ?? ""]))];
  follow(whole, picture, drawn, x, left, right);
  return { picture: whole, rows };
}

// How wide a label is, in the font of a figure.
let ruler = null;
function widthOf(label) {
  ruler ??= document.createElement("canvas").getContext("2d");
  ruler.font = "11.5px system-ui, sans-serif";
  return ruler.measureText(label).width;
}

// Values at the pointer, in the corner of the figure.
function follow(whole, picture, series, x, left, right) {
  const words = svg("text", { x: WIDTH - RIGHT - 2, y: TOP + 9, "text-anchor": "end", "font-size": 12,
    "paint-order": "stroke" });
  const line = svg("line", { y1: TOP, y2: HEIGHT - BOTTOM, stroke: "currentColor", "stroke-opacity": 0 });
  picture.append(line, words);
  const hide = () => { words.textContent = ""; line.setAttribute("stroke-opacity", 0); };
  whole.addEventListener("pointermove", (event) => {
    const box = whole.getBoundingClientRect();
    const at = left + (((event.clientX - box.left) / box.width) * WIDTH - LEFT) / (WIDTH - LEFT - RIGHT) * (right - left);
    const near = series.filter((each) => each.points.length).map((each) => each.points.reduce((best, point) =>
      (Math.abs(point[0] - at) < Math.abs(best[0] - at) ? point : best)));
    if (!near.length || at < left || at > right) { hide(); return; }
    words.textContent = `${short(near[0][0])}: ${near.slice(0, 4).map((point) => shown(point[1])).join(", ")}`;
    line.setAttribute("x1", x(near[0][0]));
    line.setAttribute("x2", x(near[0][0]));
    line.setAttribute("stroke-opacity", 0.4);
  });
  whole.addEventListener("pointerleave", hide);
}

// A figure with its buttons for PNG, SVG and data. A saved copy has the ink of the page, which it no longer inherits.
export function figure(context, chart, name, note = "") {
  const copy = () => {
    const saved = chart.picture.cloneNode(true);
    saved.querySelector("g").setAttribute("color", context.theme?.ink ?? "#18212d");
    return saved;
  };
  return element("figure", { class: "data-box" }, chart.picture, note && element("figcaption", {}, note),
    context.figure ? context.figure(copy, chart.rows, name) : "");
}

// Buttons of a list; the one with the chosen id is marked.
export function listOf(rows, choose) {
  return element("ul", { class: "data-list" }, rows.map(({ id, name, small }) => element("li", {}, element("button",
    { type: "button", "data-id": id, onclick: () => choose(id) }, name, element("small", {}, small)))));
}

// New parts in place of the old, while somebody reads them: what was unfolded, scrolled or focused stays so.
export function replaceParts(place, parts) {
  const named = (node) => node.dataset.id ?? (node.getAttribute("aria-label") ?? node.textContent).replace(/\d+/g, "");
  const all = (kind) => [...place.querySelectorAll(kind)], scrolling = () => [place, ...all("ul, .data-scroll, pre")];
  const unfolded = new Set(all("details[open] > summary").map(named));
  const focused = place.querySelector(":focus"), places = scrolling().map((each) => [each.scrollTop, each.scrollLeft]);
  place.replaceChildren(...parts);
  for (const summary of all("summary")) if (unfolded.has(named(summary))) summary.parentElement.open = true;
  scrolling().forEach((each, k) => { if (places[k]) [each.scrollTop, each.scrollLeft] = places[k]; });
  if (focused) all("a, button, summary, [tabindex]").find((each) => named(each) === named(focused))?.focus({ preventScroll: true });
}

export function markChosen(list, id) {
  for (const button of list.querySelectorAll("button")) button.setAttribute("aria-current", String(button.dataset.id === id));
}

export function remark(kind, title, ...paragraphs) {
  return element("div", { class: `data-remark data-${kind}` }, element("h3", {}, title),
    paragraphs.filter(Boolean).map((words) => element("p", {}, `${words[0].toUpperCase()}${words.slice(1)}`)));
}

export function route(kind, id) {
  return `${kind}/${id.split("/").map(encodeURIComponent).join("/")}`;
}

// Words with `commands` set as code.
export function code(words) {
  return words.split("`").map((part, k) => (k % 2 ? element("code", {}, part) : part));
}

// Text as the commands print it: its paragraphs, and the tables between them.
export function proseOf(text) {
  const words = [], tables = [];
  for (const part of text.split(/\n\s*\n/)) {
    const lines = part.split("\n").map((line) => line.trim());
    if (!lines.every((line) => line.startsWith("|"))) { words.push(part); continue; }
    const [header, , ...rows] = lines.map((line) => line.split("|").slice(1, -1).map((cell) => cell.trim()));
    tables.push({ header, rows });
  }
  return { words, tables };
}
