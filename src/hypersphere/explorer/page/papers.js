// Papers: every reproduced item, published beside measured, with its figure.
import { code, listOf, markChosen, proseOf, remark, route, table } from "./charts.js";
import { element } from "./drawing.js";

const LONGEST = 180; // characters of a cell of the overview
const NARROW = 700; // pixels
const short = (words) => (words.length <= LONGEST ? words : `${words.slice(0, LONGEST - 1).trimEnd()}…`);
const rowsShown = (title, count, all = count) => `${title}, ${all > count ? `the first ${count} of ${all}` : count} rows`;
// A name that a narrow column may break after its slash.
const breakable = (name) => name.split(/(?<=\/)/).flatMap((part) => [element("span", { class: "data-one-line" }, part), element("wbr")]);
const KINDS = { agrees: "good", partly: "warn", "does not agree": "bad", undecided: "warn" };

export function create(context) {
  const root = element("section", { class: "page data-page data-root", "aria-label": "Papers" });
  const status = element("p", { role: "status", "aria-live": "polite", class: "data-soft" });
  const list = element("div", { role: "navigation", "aria-label": "Items" });
  const main = element("div", { class: "data-page" });
  let papers = [], ended = false, drawn = null, unfolded = false;
  root.append(element("h1", {}, "Papers: published beside measured"), status,
    element("div", { class: "data-split" }, list, main));

  const picture = (path) => (context.api ? context.api + route("figure", `papers/${path}`)
    : (context.data?.figures ?? "papers/") + path.split("/").map(encodeURIComponent).join("/"));

  function take(answer) {
    if (ended) return;
    papers = answer.papers;
    status.textContent = answer.sentence;
    list.replaceChildren(...papers.map((paper) => element("details", {}, element("summary", { title: paper.title }, paper.short),
      listOf(paper.items.map((item) => ({ id: item.name, name: `${item.place}: ${item.title}`, small: item.verdict })),
        (id) => context.setState({ item: id })))));
    update(context.state);
  }

  function overview() {
    const rows = papers.flatMap((paper) => paper.items.filter((item) => item.claim).map((item) => [
      element("button", { type: "button", onclick: () => context.setState({ item: item.name }) }, breakable(item.name)),
      short(item.published || item.claim), short(item.here || proseOf(item.measured).words.join(" ")), item.verdict]));
    main.replaceChildren(rows.length ? table(["item", "published", "measured here", "verdict"], rows, "What was run")
      : element("p", {}, "Nothing was run here yet. hypersphere reproduce --list shows what there is."));
  }

  function update(state) {
    if (!papers.length) return;
    if (!unfolded && root.clientWidth) {
      unfolded = true;
      const open = root.clientWidth > NARROW; // on a phone, the lists would fill the screen
      list.querySelectorAll("details").forEach((each) => { each.open = open; });
    }
    if (state.item === drawn) return;
    drawn = state.item;
    const all = papers.flatMap((paper) => paper.items.map((item) => ({ paper, item })));
    const chosen = all.find(({ item }) => item.name === state.item);
    markChosen(list, chosen?.item.name);
    if (!chosen) { overview(); return; }
    const { paper, item } = chosen;
    const words = { true: "holds", false: "does not hold", null: "not decided" };
    const measured = proseOf(item.measured ?? "");
    main.replaceChildren(
      element("p", {}, element("button", { type: "button", class: "quiet", onclick: () => context.setState({ item: "" }) }, "All items")),
      element("h3", {}, `${item.title} (${item.name})`),
      element("p", { class: "data-soft" }, `${paper.short}: ${paper.title} (${paper.venue}), ${item.place}`),
      remark(KINDS[item.verdict] ?? "warn", item.verdict),
      item.claim ? table(["", "published", "measured here"], [
        ...(item.published || item.here ? [["in short", item.published, item.here]] : []), ["in words", element("div", {}, code(item.claim)), element("div", {}, measured.words.map((words) => element("p", {}, code(words))))]]) : "",
      ...measured.tables.map(({ header, rows }) => table(header, rows, "measured here")),
      item.clauses ? element("ul", {}, Object.entries(item.clauses).map(([clause, holds]) =>
        element("li", {}, element("b", {}, words[String(holds)]), ": ", code(clause)))) : "",
      item.fault ? element("p", {}, element("b", {}, "Why it does not agree: "), code(item.fault)) : "",
      item.errata ? element("p", {}, element("b", {}, "Errata: "), code(item.errata)) : "",
      ...item.figures.map((path) => element("figure", { class: "data-box" },
        element("a", { href: picture(path), target: "_blank", rel: "noopener" },
          element("img", { src: picture(path), alt: `${item.title}, computed here`, loading: "lazy" })))),
      ...Object.entries(item.tables ?? {}).filter(([, rows]) => rows.length).map(([title, rows]) => {
        const header = [...new Set(rows.flatMap((row) => Object.keys(row)))];
        return table(header, rows.map((row) => header.map((name) => row[name] ?? "")), rowsShown(title, rows.length, item.rows?.[title]));
      }),
      element("p", {}, "Compute it again: ", element("code", {}, item.command)));
  }

  if (context.api) context.ask("papers").then(take).catch((error) => { status.textContent = error.message; });
  else if (context.data?.papers) take(context.data.papers);
  else status.textContent = "The papers are shown by hypersphere explore --results DIR.";
  return { element: root, update, destroy() { ended = true; } };
}
