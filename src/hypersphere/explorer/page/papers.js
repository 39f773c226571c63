// Papers: every reproduced item, published beside measured, with its figure.
import { ask, el, listOf, markChosen, remark, route, table } from "./charts.js";

const LONGEST = 180; // characters of a cell of the overview
const short = (words) => (words.length <= LONGEST ? words : `${words.slice(0, LONGEST - 1).trimEnd()}…`);
const KINDS = { agrees: "good", partly: "warn", "does not agree": "bad", undecided: "warn" };

export function create(context) {
  const element = el("section", { class: "page data-page data-root", "aria-label": "Papers" });
  const status = el("p", { role: "status", "aria-live": "polite", class: "data-soft" });
  const list = el("div", { role: "navigation", "aria-label": "Items" });
  const main = el("div", { class: "data-page" });
  let papers = [], ended = false, drawn = null;
  element.append(el("h2", {}, "Papers: published beside measured"), status,
    el("div", { class: "data-split" }, list, main));

  const picture = (path) => (context.api ? context.api + route("figure", `papers/${path}`)
    : (context.data?.figures ?? "papers/") + path.split("/").map(encodeURIComponent).join("/"));

  function take(answer) {
    if (ended) return;
    papers = answer.papers;
    status.textContent = answer.sentence;
    const wide = window.matchMedia("(min-width: 46rem)").matches; // on a phone, the lists would fill the screen
    list.replaceChildren(...papers.map((paper) => el("details", { open: wide }, el("summary", { title: paper.title }, paper.short),
      listOf(paper.items.map((item) => ({ id: item.name, name: `${item.place}: ${item.title}`, small: item.verdict })),
        (id) => context.setState({ item: id })))));
    update(context.state);
  }

  function overview() {
    const rows = papers.flatMap((paper) => paper.items.filter((item) => item.claim).map((item) => [
      el("button", { type: "button", onclick: () => context.setState({ item: item.name }) }, item.name),
      short(item.published || item.claim), short(item.here || item.measured), item.verdict]));
    main.replaceChildren(rows.length ? table(["item", "published", "measured here", "verdict"], rows, "What was run")
      : el("p", {}, "Nothing was run here yet. hypersphere reproduce --list shows what there is."));
  }

  function update(state) {
    if (!papers.length || state.item === drawn) return;
    drawn = state.item;
    const all = papers.flatMap((paper) => paper.items.map((item) => ({ paper, item })));
    const chosen = all.find(({ item }) => item.name === state.item);
    markChosen(list, chosen?.item.name);
    if (!chosen) { overview(); return; }
    const { paper, item } = chosen;
    const words = { true: "holds", false: "does not hold", null: "not decided" };
    main.replaceChildren(
      el("p", {}, el("button", { type: "button", onclick: () => context.setState({ item: "" }) }, "All items")),
      el("h3", {}, `${item.title} (${item.name})`),
      el("p", { class: "data-soft" }, `${paper.short}: ${paper.title} (${paper.venue}), ${item.place}`),
      remark(KINDS[item.verdict] ?? "warn", item.verdict),
      item.claim ? table(["", "published", "measured here"], [
        ...(item.published || item.here ? [["in short", item.published, item.here]] : []), ["in words", item.claim, item.measured]]) : "",
      item.clauses ? el("ul", {}, Object.entries(item.clauses).map(([clause, holds]) =>
        el("li", {}, el("b", {}, words[String(holds)]), `: ${clause}`))) : "",
      item.fault ? el("p", {}, el("b", {}, "Why it does not agree: "), item.fault) : "",
      item.errata ? el("p", {}, el("b", {}, "Errata: "), item.errata) : "",
      ...item.figures.map((path) => el("figure", { class: "data-box" },
        el("a", { href: picture(path), target: "_blank", rel: "noopener" },
          el("img", { src: picture(path), alt: `${item.title}, computed here`, loading: "lazy" })))),
      ...Object.entries(item.tables ?? {}).filter(([, rows]) => rows.length).map(([title, rows]) => {
        const header = [...new Set(rows.flatMap((row) => Object.keys(row)))];
        return table(header, rows.map((row) => header.map((name) => row[name] ?? "")), `${title}, ${rows.length} rows`);
      }),
      el("p", {}, "Compute it again: ", el("code", {}, item.command)));
  }

  if (context.api) ask(context, "papers").then(take).catch((error) => { status.textContent = error.message; });
  else if (context.data?.papers) take(context.data.papers);
  else status.textContent = "The papers are shown by hypersphere explore --results DIR.";
  return { element, update, destroy() { ended = true; } };
}
