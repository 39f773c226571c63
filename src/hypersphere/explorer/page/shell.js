// The frame of all pages: navigation, the view in the address, light and dark, downloads, the guided tour.

import { element, svg } from "./drawing.js";
import { presetNamed } from "./presets.js";
import { kernelOf, serverAt } from "./python.js";
import { STEPS } from "./tour.js";

const NARROW = 760; // pixels of a phone, as in explorer.css

// Classes differ in lightness too, by 11 of 100 and more, so that they can be told apart in grey print.
export const THEMES = {
  light: { paper: "#ffffff", ground: "#f6f7f9", ink: "#18212d", soft: "#566273", line: "#dde2e9", accent: "#0b66a8",
    onAccent: "#ffffff", classes: ["#004a80", "#d9770f", "#00785a"] },
  dark: { paper: "#161c25", ground: "#0f141b", ink: "#e8ecf2", soft: "#9aa7b7", line: "#2c3644", accent: "#6cb8f0",
    onAccent: "#0f141b", classes: ["#4a94dc", "#f29a55", "#a8ecd2"] },
};

export function createShell(root, pages, options) {
  const states = Object.fromEntries(pages.map(({ id }) => [id, {}]));
  const prefers = window.matchMedia("(prefers-color-scheme: dark)");
  const kernel = options.model ? kernelOf(options.model) : null;
  const ask = options.api ? serverAt(options.api) : kernel?.ask ?? null;
  let dark = usualDark();
  let current = pages[0], page = null, frame = 0, address = 0;

  const button = (kind, onclick, ...caption) => element("button", { type: "button", class: kind, onclick }, ...caption);
  const tabs = pages.map(({ id, title }) => button("", () => go(id), title));
  const nav = element("nav", { "aria-label": "Pages", onkeydown: alongTabs }, tabs);
  const tourButton = button("primary", () => tour(0), ...twoLengths("Two-minute tour", "Tour"));
  const copyButton = button("quiet", copyLink, ...twoLengths("Copy link", "Link"));
  const themeButton = button("quiet", () => setTheme(!dark, true));
  const main = element("main", { tabindex: -1 });
  const status = element("p", { class: "status", role: "status" });
  root.className = options.url ? "explorer whole" : "explorer";
  root.dataset.lmSuppressShortcuts = "true"; // an arrow key that moves a slider does not also move JupyterLab's cells
  root.replaceChildren(element("div", { class: "frame" }, // whose width decides how many columns there are
    element("header", {},
      element("p", { class: "brand" }, "hypersphere", element("span", {}, " explorer")), nav,
      element("div", { class: "tools" }, tourButton, options.url ? copyButton : null, themeButton)),
    main));
  if (options.url) root.append(status);
  else main.before(status);

  // What a page gets. A page that is no longer shown may still change its own state, not that of its successor.
  function contextOf(id) {
    return {
      get state() { return states[id]; },
      get theme() { return theme(); },
      api: options.api, // where pictures and downloads are
      ask, // a question to Python, or null
      data: options.data ?? { objectives: [], version: "" },
      setState: (partial) => setState(id, partial),
      replaceState: (state) => go(id, { ...state }),
      download, figure, announce,
    };
  }
  const theme = () => ({ dark, ...THEMES[dark ? "dark" : "light"] });

  // Changes a part of a page's state; null or undefined removes a key. The page is drawn before the next picture.
  function setState(id, partial) {
    const state = { ...states[id], ...partial };
    for (const key of Object.keys(state)) if (state[key] === null || state[key] === undefined) delete state[key];
    states[id] = state;
    if (id !== current.id) return;
    refresh();
    clearTimeout(address);
    address = setTimeout(() => writeAddress(), 200);
  }

  function refresh() {
    frame ||= requestAnimationFrame(() => {
      frame = 0;
      page.update(states[current.id]);
    });
  }

  function go(id, state) {
    const next = pages.find((each) => each.id === id) ?? pages[0], leaves = page && next !== current;
    if (state) states[next.id] = state;
    if (leaves || !page) {
      page?.destroy();
      current = next;
      page = current.create(contextOf(current.id));
      main.replaceChildren(page.element);
      tabs.forEach((tab) => tab.removeAttribute("aria-current"));
      tabs[pages.indexOf(current)].setAttribute("aria-current", "page");
      main.setAttribute("aria-label", current.title);
      if (options.url) document.title = `${current.title} · hypersphere explorer`;
    }
    page.update(states[current.id]);
    clearTimeout(address);
    writeAddress(leaves);
  }

  // ------------------------------------------------------------------------------------------------ the address

  // Another page is another entry of the browser's history; a slider is not.
  function writeAddress(asEntry = false) {
    if (!options.url) return;
    const query = new URLSearchParams(states[current.id]).toString();
    const hash = `#${current.id}${query ? `?${query}` : ""}`;
    if (hash !== location.hash) history[asEntry ? "pushState" : "replaceState"](null, "", hash);
  }

  function readAddress() {
    const [id, query = ""] = location.hash.slice(1).split(/\?(.*)/s);
    go(id, query || id ? Object.fromEntries(new URLSearchParams(query)) : undefined);
  }

  async function copyLink() {
    writeAddress();
    try {
      await navigator.clipboard.writeText(location.href);
      announce("The link to this view is in the clipboard.");
    } catch {
      announce("The browser keeps the clipboard closed: copy the address instead.");
    }
  }

  // ------------------------------------------------------------------------------------------- light and dark

  function setTheme(toDark, keep) {
    dark = toDark;
    if (keep) remember("hypersphere-theme", dark ? "dark" : "light");
    root.dataset.theme = dark ? "dark" : "light";
    for (const [name, value] of Object.entries(theme())) root.style.setProperty(`--${name}`, value);
    if (options.url) document.documentElement.style.background = theme().ground;
    themeButton.textContent = dark ? "Light" : "Dark";
    themeButton.setAttribute("aria-label", `Switch to ${dark ? "light" : "dark"} colours`);
    page?.update(states[current.id]);
  }

  // What was chosen; else as the notebook around; else as the system.
  function usualDark() {
    const remembered = recall("hypersphere-theme"), { jpThemeLight } = document.body.dataset;
    if (remembered) return remembered === "dark";
    if (!options.url && jpThemeLight) return jpThemeLight === "false";
    return (!options.url && document.body.matches(".dark, .dark-theme")) || prefers.matches;
  }

  function followSystem() {
    if (usualDark() !== dark) setTheme(!dark, false);
  }

  // -------------------------------------------------------------------------------------------------- keyboard

  function alongTabs(event) {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const at = tabs.findIndex((tab) => tab.matches(":focus"));
    tabs[(at + step + tabs.length) % tabs.length].focus();
    event.preventDefault();
  }

  function shortcuts(event) {
    if (!options.url) event.stopPropagation(); // a notebook has meanings of its own for keys
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest?.("input, select, textarea")) return;
    if (event.key === "Escape" && card) endTour();
    const number = Number(event.key);
    if (number >= 1 && number <= pages.length) go(pages[number - 1].id);
  }

  function announce(sentence) {
    status.textContent = sentence;
    status.classList.add("shown");
    setTimeout(() => status.classList.remove("shown"), 4000);
  }

  // ------------------------------------------------------------------------------------------------- downloads

  function download(name, blob) {
    const link = element("a", { href: URL.createObjectURL(blob), download: name });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  }

  // Buttons that save a figure as PNG, SVG and CSV. The source is an <svg>, a <canvas> or a function that returns one;
  // rows are arrays, the header first, or a function that returns them.
  function figure(source, rows, name) {
    const drawn = () => (typeof source === "function" ? source() : source);
    const table = () => (typeof rows === "function" ? rows() : rows);
    const saves = {
      PNG: async () => download(`${name}.png`, await asPng(drawn(), theme().paper)),
      SVG: () => download(`${name}.svg`, new Blob([asSvg(drawn(), theme().paper)], { type: "image/svg+xml" })),
      CSV: () => download(`${name}.csv`, new Blob([asCsv(table())], { type: "text/csv" })),
    };
    const buttons = Object.entries(saves).map(([kind, save]) => button("quiet", save, kind));
    buttons.forEach((each) => each.setAttribute("aria-label", `Save ${name} as ${each.textContent}`));
    return element("div", { class: "saves", role: "group", "aria-label": `Save ${name}` }, buttons);
  }

  // ------------------------------------------------------------------------------------------------------ tour

  let card = null, lit = null;

  function tour(at) {
    const { page: id, preset, title, words, light, act, left } = STEPS[at];
    const { state } = preset ? presetNamed(preset) : STEPS[at];
    lit?.classList.remove("lit");
    go(id, { ...state });
    if (act) page.act();
    lit = light ? main.querySelector(light) : null;
    lit?.classList.add("lit");
    // on a phone the card fills the lower half
    if (options.url) lit?.scrollIntoView({ block: root.clientWidth > NARROW ? "nearest" : "start", behavior: "auto" });
    const last = at + 1 === STEPS.length;
    const fresh = element("section", { class: left ? "tour left" : "tour", role: "dialog",
      "aria-label": `Tour, step ${at + 1} of ${STEPS.length}` },
      element("p", { class: "count" }, `${at + 1} of ${STEPS.length}`),
      element("h2", { tabindex: -1 }, title), words.map((sentence) => element("p", {}, sentence)),
      element("div", { class: "steps" }, last ? null : button("quiet", endTour, "Close"),
        at > 0 ? button("quiet", () => tour(at - 1), "Back") : null,
        last ? button("primary", endTour, "Explore on your own") : button("primary", () => tour(at + 1), "Next")));
    card?.remove();
    card = fresh;
    if (options.url) root.append(card);
    else main.before(card); // in the flow: what is fixed in a notebook is fixed to some cell
    card.querySelector("h2").focus({ preventScroll: true });
    if (!options.url) card.scrollIntoView({ block: "nearest", behavior: "auto" });
  }

  function endTour() {
    lit?.classList.remove("lit");
    card?.remove();
    card = lit = null;
    main.focus({ preventScroll: true });
  }

  // ----------------------------------------------------------------------------------------------------- start

  setTheme(dark, false);
  prefers.addEventListener("change", followSystem);
  const notebook = new MutationObserver(followSystem);
  if (!options.url) notebook.observe(document.body, { attributeFilter: ["data-jp-theme-light", "class"] });
  root.addEventListener("keydown", shortcuts);
  const resized = new ResizeObserver(() => page && refresh());
  resized.observe(main);
  if (options.url) {
    window.addEventListener("hashchange", readAddress);
    readAddress();
  } else {
    const { page: first, ...rest } = options.state ?? {};
    for (const { id } of pages) states[id] = { ...rest }; // each takes what it knows
    go(first);
  }

  return {
    go,
    destroy() {
      page.destroy();
      kernel?.destroy();
      cancelAnimationFrame(frame);
      clearTimeout(address);
      resized.disconnect();
      notebook.disconnect();
      root.removeEventListener("keydown", shortcuts);
      prefers.removeEventListener("change", followSystem);
      window.removeEventListener("hashchange", readAddress);
      root.replaceChildren();
    },
  };
}

// A caption, and the one for a phone.
const twoLengths = (long, brief) =>
  [element("span", { class: "long" }, long), element("span", { class: "brief" }, brief)];

function asSvg(source, paper) {
  const { width, height } = sizeOf(source);
  const inside = source instanceof HTMLCanvasElement
    ? [svg("image", { href: source.toDataURL("image/png"), width, height })]
    : [...source.cloneNode(true).childNodes];
  const whole = svg("svg", { xmlns: "http://www.w3.org/2000/svg", viewBox: `0 0 ${width} ${height}`, width, height },
    svg("rect", { width, height, fill: paper }), inside);
  return new XMLSerializer().serializeToString(whole);
}

function sizeOf(source) {
  if (source instanceof HTMLCanvasElement) return { width: source.width, height: source.height };
  return { width: source.viewBox.baseVal.width, height: source.viewBox.baseVal.height };
}

async function asPng(source, paper, scale = 2) {
  const { width, height } = sizeOf(source), picture = new Image();
  picture.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(asSvg(source, paper))}`;
  await picture.decode();
  const canvas = element("canvas", { width: width * scale, height: height * scale });
  canvas.getContext("2d").drawImage(picture, 0, 0, width * scale, height * scale);
  return new Promise((done) => canvas.toBlob(done, "image/png"));
}

function asCsv(rows) {
  const cell = (value) => (/[",\n\r]/.test(value) ? `"${String(value).replaceAll('"', '""')}"` : String(value ?? ""));
  return rows.map((row) => row.map(cell).join(",")).join("\n") + "\n";
}

function recall(key) {
  try { return localStorage.getItem(key); } catch { return null; } // a notebook may forbid it
}

function remember(key, value) {
  try { localStorage.setItem(key, value); } catch { /* the choice lasts as long as the page */ }
}
