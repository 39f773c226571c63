// Runs and studies: learning curves with verdicts where they happened, tables of compare, live while they go on.
import { figure, lines, listOf, markChosen, remark, replaceParts, route, shown, table } from "./charts.js";
import { element } from "./drawing.js";

const SPLITS = { training: "a training batch: solid", held_out: "held-out data: dashed", validation: "validation: dotted" };

export function create(context) {
  const root = element("section", { class: "page data-page data-root", "aria-label": "Runs and studies" });
  const status = element("p", { role: "status", "aria-live": "polite", class: "data-soft" });
  const list = element("div", { role: "navigation", "aria-label": "Runs and studies" });
  const main = element("div", { class: "data-page" });
  let events = null, shownId = null, known = { runs: [], studies: [] }, listed = "", ended = false;
  let verdicts = 0; // of the run that is shown; a new one is announced
  root.append(element("h1", {}, "Runs and studies"), status,
    context.api ? element("div", { class: "data-split" }, list, main) : main);

  if (!context.api) {
    const run = context.data?.run;
    if (run) showRun(run);
    if (run && context.ask) status.after(element("p", {},
      element("button", { type: "button", class: "quiet", onclick: readAgain }, "Read it again")));
    else status.textContent = "Runs are read where they are: run “hypersphere explore --runs DIR --studies DIR”.";
    return { element: root, update() {}, destroy() {} };
  }

  // In a notebook, of the run that hs.explore was given.
  async function readAgain() {
    try {
      showRun(await context.ask("run"));
      status.textContent = "";
    } catch (error) {
      status.textContent = error.message;
    }
  }

  async function refresh() {
    try {
      const [runs, studies] = await Promise.all([context.ask("runs"), context.ask("studies")]);
      known = { runs: runs.runs, studies: studies.studies };
      status.textContent = [runs.sentence, studies.sentence].filter(Boolean).join(" ");
      drawList();
    } catch (error) {
      status.textContent = error.message;
    }
  }

  function drawList() {
    const parts = [], now = JSON.stringify([known.studies, known.runs].map((rows) =>
      rows.map((row) => [row.id, row.name, row.objective, row.state])));
    if (now === listed) return; // a button that is replaced under the pointer takes no click
    listed = now;
    if (known.studies.length) parts.push(element("h3", {}, "Studies"), listOf(
      known.studies.map((row) => ({ ...row, small: row.state })), (id) => context.setState({ study: id, run: "" })));
    if (known.runs.length) parts.push(element("h3", {}, "Runs"), listOf(
      known.runs.map((row) => ({ ...row, small: [row.objective, row.state].filter(Boolean).join(", ") })),
      (id) => context.setState({ run: id, study: "" })));
    replaceParts(list, parts);
    markChosen(list, context.state.study || context.state.run || "");
  }

  async function open(state, again = false) {
    const id = state.study ? `study ${state.study}` : state.run ? `run ${state.run}` : "";
    if (id === shownId && !again) return;
    shownId = id;
    markChosen(list, state.study || state.run || "");
    if (!id) { main.replaceChildren(element("p", { class: "data-choose" }, "Choose a run or a study.")); return; }
    if (!again) main.replaceChildren(element("p", { role: "status" }, "Reading …"));
    try {
      const answer = await context.ask(state.study ? route("studies", state.study) : route("runs", state.run));
      if (shownId !== id || ended) return;
      const top = again ? window.scrollY : null;
      if (state.study) showStudy(answer); else showRun(answer);
      const begun = answer.events?.length ?? 0;
      if (again && begun > verdicts) context.announce?.(`Step ${answer.events[begun - 1].step}: ${answer.events[begun - 1].name}.`);
      verdicts = begun;
      if (top !== null) window.scrollTo(window.scrollX, top);
    } catch (error) {
      if (shownId === id && !again) main.replaceChildren(element("p", { role: "alert" }, error.message));
    }
  }

  function showRun(run) {
    const marks = run.events.map((each) => ({ x: each.step, label: `step ${each.step}: ${each.name}` }));
    const splits = new Set(run.panels.flatMap((panel) => panel.curves.map((curve) => curve.split)));
    const charts = run.panels.filter((panel) => panel.curves.length).map((panel) => figure(context, lines({ title: panel.title,
      series: panel.curves, logarithmic: panel.logarithmic, limits: panel.limits, marks, xLabel: "step" }),
      `${run.name} ${panel.title}`));
    const key = [...splits].map((split) => SPLITS[split]).filter(Boolean).join("; ");
    replaceParts(main, [element("h3", {}, run.name),
      element("p", {}, `${[run.objective, run.state, run.steps ? `${shown(run.steps)} steps` : ""].filter(Boolean).join(", ")}. `,
        run.outcome ? `${run.outcome.replace(/\.$/, "")}.` : ""),
      run.sentence ? element("p", { role: "status" }, run.sentence) : "",
      ...run.events.map((each) => remark("bad", `Step ${each.step}: ${each.name}`, each.sentence, each.advice && `Try: ${each.advice}`)),
      run.panels.length && !run.events.length ? remark("good", "No verdict against this run") : "",
      key ? element("p", { class: "data-soft" }, `${key}${run.events.length ? "; red lines: where a verdict began" : ""}.`) : "",
      element("div", { class: "data-figures" }, charts),
      Object.keys(run.scores).length ? table(["score", "value"], Object.entries(run.scores), "Scores at the end") : "",
      run.embeddings && context.api ? element("p", {}, element("a", {
        href: `#embeddings?${new URLSearchParams({ source: `run:${run.id}` })}` }, "Examine its embeddings")) : "",
      run.recipe ? element("details", {}, element("summary", {}, "Recipe"), element("pre", { class: "data-recipe" }, run.recipe)) : ""]);
  }

  function showStudy(study) {
    const cells = (row) => row.map((cell, place) => (place ? element("span", { class: "data-one-line" }, cell) : cell));
    const [first, others] = [study.verdict.slice(0, 3), study.verdict.slice(3)];
    const sentences = (words) => words.map((sentence) => element("p", {}, sentence));
    const runs = study.runs.slice(0, 200).map((row) => [element("button", { type: "button", onclick: () =>
      context.setState({ run: row.id, study: "" }) }, row.name), row.objective, row.state]);
    replaceParts(main, [element("h3", {}, study.name),
      study.sentence ? element("p", { role: "status" }, study.sentence) : "",
      ...sentences(first),
      others.length ? element("details", {}, element("summary", {}, `${others.length} more sentence${others.length > 1 ? "s" : ""}`), sentences(others)) : "",
      study.rows.length ? table(study.header, study.rows.map(cells), study.complete ? "Results" : "Results so far") : "",
      study.report ? element("p", {}, element("a", { href: context.api + route("report", study.id), target: "_blank", rel: "noopener" },
        "The whole report")) : "",
      study.picture ? element("figure", { class: "data-box" }, element("img", { alt: `Ranking of ${study.name}`, loading: "lazy",
        src: context.api + route("figure", `${study.id}/ranking.png`) })) : "",
      runs.length ? element("details", {}, element("summary", {}, `${study.runs.length} runs`), table(["run", "objective", "state"], runs, "Runs")) : ""]);
  }

  // Open while the page is seen: a browser has six connections to a server for all its tabs.
  function follow() {
    if (document.hidden || events || ended) return;
    events = new EventSource(`${context.api}events`);
    let waiting = null;
    events.addEventListener("changed", (event) => {
      const { ids } = JSON.parse(event.data);
      clearTimeout(waiting);
      waiting = setTimeout(refresh, 300);
      const { study, run } = context.state;
      if (ids.some((id) => id === run || id === study || (study && id.startsWith(`${study}/`)))) open(context.state, true);
    });
  }

  function rest() {
    events?.close();
    events = null;
  }

  function seen() {
    if (document.hidden) { rest(); return; }
    refresh();
    if (shownId) open(context.state, true);
    follow();
  }

  document.addEventListener("visibilitychange", seen);
  refresh();
  follow();
  open(context.state);
  return {
    element: root,
    update(state) { open(state); },
    destroy() { ended = true; rest(); document.removeEventListener("visibilitychange", seen); },
  };
}
