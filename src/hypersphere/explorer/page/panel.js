// One map as a figure: picture, axes in degrees, the edge of dissipation, colour bar, pointer.

import { barOf, COLOURS, element, paint, short, svg, text } from "./drawing.js";
import { NEGATIVE, POSITIVE, QUANTITIES } from "./maps.js";

const DEGREE = Math.PI / 180, FLAT = 0.03; // a map that changes by a smaller part of its scale shows nothing
const DARK = "#101418", LIGHT = "#ffffff"; // lines on a map are dark on light, whatever is below
const centred = { "text-anchor": "middle" }, toTheEnd = { "text-anchor": "end" };

// Where the map lies in its drawing, and where angles lie in it.
function frameOf(width) {
  const left = 40, top = 4, wide = width - 48, high = Math.round(wide * 0.58);
  return {
    left, top, wide, high, middle: left + wide / 2, right: left + wide, bottom: top + high, total: top + high + 84,
    x: (q) => left + ((q - NEGATIVE[0]) / (NEGATIVE[1] - NEGATIVE[0])) * wide,
    y: (p) => top + (1 - (p - POSITIVE[0]) / (POSITIVE[1] - POSITIVE[0])) * high,
  };
}

// panel: {quantity, title, name, map, values, diverging, width}. on: {point(p, q), key(event)} in radians.
export function drawPanel(panel, canvas, context, on) {
  const { quantity, title, map, values, diverging, width } = panel, theme = context.theme, heading = element("h3", {}, title);
  if (!map.positive) {
    return { node: element("figure", { class: "panel" }, heading, element("p", { class: "sentence" }, map.note)), mark() {} };
  }
  const frame = frameOf(width), colours = diverging ? COLOURS.diverging : COLOURS.rising;
  const most = QUANTITIES[quantity].limits[1], limits = diverging ? [-most, most] : QUANTITIES[quantity].limits;
  const flat = flatSentence(values, limits), mark = svg("g");
  paint(canvas, values, map.positive.length, map.negative.length, limits, colours);
  const place = { left: frame.left, top: frame.top, width: frame.wide, height: frame.high };
  for (const [side, pixels] of Object.entries(place)) canvas.style[side] = `${pixels}px`;
  const box = { viewBox: `0 0 ${width} ${frame.total}`, width, height: frame.total, "aria-hidden": "true" };
  const label = diverging ? "difference" : QUANTITIES[quantity].label;
  const drawing = svg("svg", box, axes(frame, theme), edgeLines(map, frame), colourBar(frame, theme, colours, limits, values, label),
    mark, flat ? pill(frame, theme, flat) : null);
  const pointed = (event) => {
    const at = event.currentTarget.getBoundingClientRect();
    const x = (event.clientX - at.left - frame.left) / frame.wide, y = 1 - (event.clientY - at.top - frame.top) / frame.high;
    if (x < 0 || x > 1 || y < 0 || y > 1) return;
    on.point(POSITIVE[0] + y * (POSITIVE[1] - POSITIVE[0]), NEGATIVE[0] + x * (NEGATIVE[1] - NEGATIVE[0]));
  };
  const line = map.edge.length > 1 ? " A line marks where half of the gradient is left." : "";
  const spoken = `Map of ${title} over the angles of the positive and of the negatives.${flat ? ` ${flat}.` : ""}${line} Arrow keys move the pointer.`;
  const surface = element("div", { class: "surface", tabindex: 0, role: "application", "aria-roledescription": "map", "aria-label": spoken,
    onpointermove: pointed, onpointerdown: pointed, onkeydown: on.key }, canvas, drawing);
  surface.style.height = `${frame.total}px`;
  const says = diverging ? "Orange: the first is larger. Purple with stripes: the second." : QUANTITIES[quantity].says;
  const node = element("figure", { class: diverging ? "panel difference" : "panel", "data-quantity": quantity }, heading, surface,
    element("figcaption", {}, says, map.note ? ` ${map.note}` : ""),
    context.figure(() => exported(drawing, canvas, frame), () => rowsOf(panel), panel.name));
  return { node, mark: (p, q) => mark.replaceChildren(...cross(frame, p, q)) };
}

function axes(frame, theme) {
  const across = `translate(10 ${frame.top + frame.high / 2}) rotate(-90)`;
  return [
    ...[45, 90, 135, 180].map((at) =>
      text(frame.x(at * DEGREE), frame.bottom + 15, `${at}°`, theme, at === 180 ? toTheEnd : centred)),
    ...[30, 60, 90].map((at) =>
      text(frame.left - 5, frame.y(at * DEGREE) + (at === 90 ? 9 : 4), `${at}°`, theme, toTheEnd)),
    text(frame.middle, frame.bottom + 31, "angle of the negatives", theme, centred),
    text(0, 0, "angle of the positive", theme, { ...centred, transform: across }),
  ];
}

function edgeLines(map, frame) {
  if (map.edge.length < 2) return [];
  const d = map.edge.map(([q, p], k) => `${k ? "L" : "M"}${frame.x(q).toFixed(1)},${frame.y(p).toFixed(1)}`).join("");
  return [[LIGHT, 4], [DARK, 1.8]].map(([stroke, thick]) =>
    svg("path", { d, stroke, "stroke-width": thick, fill: "none", class: "edge" }));
}

function colourBar(frame, theme, colours, [low, high], values, label) {
  const top = frame.bottom + 42, beyond = values.some((value) => value > high * 1.01) ? " and more" : "";
  const bar = { href: barOf(colours), x: frame.left, y: top, width: frame.wide, height: 8, preserveAspectRatio: "none" };
  return [svg("image", bar), text(frame.left, top + 21, short(low), theme),
    text(frame.right, top + 21, `${short(high)}${beyond}`, theme, toTheEnd), text(frame.middle, top + 34, label, theme, centred)];
}

// The value of a map that shows no change, in words; "" for any other map.
function flatSentence(values, [from, to]) {
  let low = Infinity, high = -Infinity;
  for (const value of values) {
    if (value < low) low = value;
    if (value > high) high = value;
  }
  if (low > high) return "not a number: a matrix of features";
  if (high - low > FLAT * (to - from)) return "";
  const words = (value) => short(Math.abs(value) < 1e-9 * (to - from) ? 0 : value); // a difference of equals is rounding
  return `${high - low <= 1e-4 * Math.abs(high) || words(low) === words(high) ? words(high) : `${words(low)} to ${words(high)}`} at all angles`;
}

function pill(frame, theme, words) {
  const wide = 7 * words.length + 20, box = { x: frame.middle - wide / 2, y: frame.top + 9, width: wide, height: 26, rx: 13 };
  return [svg("rect", { ...box, fill: theme.paper }),
    text(frame.middle, frame.top + 26, words, theme, { ...centred, fill: theme.ink, "font-size": 12.5 })];
}

function cross(frame, p, q) {
  const x = frame.x(q), y = frame.y(p), dashes = { "stroke-width": 1, "stroke-dasharray": "3 3" };
  const ends = [[frame.left, y, frame.right, y], [x, frame.top, x, frame.bottom]];
  return [
    ...ends.flatMap(([x1, y1, x2, y2]) => [DARK, LIGHT].map((stroke, k) =>
      svg("line", { x1, y1, x2, y2, stroke, ...dashes, "stroke-dashoffset": 3 * k }))),
    ...[[DARK, 4], [LIGHT, 2]].map(([stroke, thick]) =>
      svg("circle", { cx: x, cy: y, r: 5, fill: "none", stroke, "stroke-width": thick })),
  ];
}

function exported(drawing, canvas, frame) {
  const whole = drawing.cloneNode(true), place = { x: frame.left, y: frame.top, width: frame.wide, height: frame.high };
  whole.prepend(svg("image", { href: canvas.toDataURL(), ...place, preserveAspectRatio: "none" }));
  return whole;
}

function rowsOf({ map, values, quantity }) {
  const columns = map.negative.length, angle = (radians) => short(radians / DEGREE);
  return [["positive_degrees", "negatives_degrees", quantity], ...Array.from(values, (value, k) =>
    [angle(map.positive[Math.floor(k / columns)]), angle(map.negative[k % columns]), Number(value.toPrecision(8))])];
}
