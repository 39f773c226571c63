// Your embeddings: two views from files or a run, under every lens of the package. Python computes all of it.
import { figure, lines, remark, shown, table } from "./charts.js";
import { element } from "./drawing.js";

const JOINED = 4; // bins of Python's histograms that make one here

export function create(context) {
  const root = element("section", { class: "page data-page data-root", "aria-label": "Your embeddings" });
  const status = element("p", { role: "status", "aria-live": "polite" });
  const result = element("div", { class: "data-page" });
  let asked = "", stopper = null, runs = [], listed = "";
  const names = {}; // of what was uploaded, by its id

  const objective = element("select", { onchange: () => context.setState({ lens: objective.value }) },
    (context.data?.objectives ?? []).map((each) => element("option", { value: each.name }, each.name)));
  const lens = element("label", {}, "Anatomy of", objective);

  if (!context.api) {
    const given = context.data?.embeddings;
    root.append(element("h1", {}, "Your embeddings"),
      given ? "" : element("p", {}, "Python examines embeddings: run “hypersphere explore --embeddings FILE”, or call " +
        "hs.explore(z1=…, z2=…) in a notebook."),
      given && context.ask ? element("div", { class: "data-bar" }, lens) : "", status, result);
    if (given) {
      asked = new URLSearchParams({ objective: given.anatomy.objective }).toString();
      show(given);
    }
    const follow = (state) => {
      objective.value = state.lens || given?.anatomy.objective;
      if (given && context.ask) examine({ lens: objective.value });
    };
    follow(context.state);
    return { element: root, update: follow, destroy() { stopper?.abort(); } };
  }

  const input = element("input", { type: "file", multiple: true, id: "data-files", accept: ".npy,.npz,.safetensors,.parquet,.txt",
    onchange: () => { send([...input.files]); input.value = ""; } });
  const drop = element("div", { class: "data-drop" },
    element("label", { for: "data-files" }, "Drop two views here (npy, npz, safetensors, parquet), and a text with a line for " +
      "every row if you have one; or choose files: "), input,
    element("p", { class: "data-soft" }, "One file may hold both views: arrays z1 and z2, or an npy of shape (2, N, D). Row i of " +
      "the second view is the positive of row i of the first. Files stay on this computer and are never unpickled."));
  drop.addEventListener("dragover", (event) => { event.preventDefault(); drop.classList.add("data-over"); });
  drop.addEventListener("dragleave", () => drop.classList.remove("data-over"));
  drop.addEventListener("drop", (event) => {
    event.preventDefault();
    drop.classList.remove("data-over");
    send([...event.dataTransfer.files]);
  });
  const source = element("select", { onchange: () => context.setState({ source: source.value, second: "", texts: "" }) });
  const arrays = element("input", { type: "text", placeholder: "z1,z2", size: 12, spellcheck: "false",
    onchange: () => context.setState({ arrays: arrays.value }) });
  root.append(element("h1", {}, "Your embeddings"), drop, element("div", { class: "data-bar" },
    element("label", {}, "Embeddings of", source), lens,
    element("label", {}, "Arrays, if a file holds several", arrays)), status, result);
  context.ask("runs").then((answer) => { runs = answer.runs.filter((run) => run.embeddings); update(context.state); })
    .catch((error) => { status.textContent = error.message; });

  function choices(state) {
    const options = [["", "nothing chosen yet"]];
    if (context.data?.given) options.push(["given", context.data.given]);
    for (const [id, name] of Object.entries(names)) options.push([`upload:${id}`, name]);
    for (const run of runs) options.push([`run:${run.id}`, `run ${run.name}`]);
    const chosen = state.source ?? "";
    if (!options.some(([value]) => value === chosen)) options.push([chosen, chosen]);
    const now = JSON.stringify(options);
    if (now !== listed) source.replaceChildren(...options.map(([value, text]) => element("option", { value, selected: value === chosen }, text)));
    listed = now;
    source.value = chosen;
  }

  async function send(files) {
    const change = {};
    const views = files.filter((file) => !file.name.toLowerCase().endsWith(".txt"));
    try {
      if (views.length > 2) throw new Error("At most two files can be views of each other.");
      for (const file of files) {
        const largest = context.data?.largest_upload ?? Infinity;
        if (file.size > largest) throw new Error(`${file.name} is larger than ${shown(Math.round(largest / 1e6))} MB, the most ` +
          "that can be uploaded; hypersphere explore --embeddings FILE reads it where it is.");
        status.textContent = `Reading ${file.name} …`;
        const kept = await context.ask(`embeddings?name=${encodeURIComponent(file.name)}`, { method: "POST", body: file });
        names[kept.id] = kept.name;
        const role = views.indexOf(file) === 1 ? "second" : views.includes(file) ? "source" : "texts";
        change[role] = `upload:${kept.id}`;
      }
      if (change.source) change.second ??= "";
      if (change.source && !change.texts) change.texts = "";
      status.textContent = "";
      context.setState(change);
    } catch (error) {
      status.textContent = error.message;
    }
  }

  function question(state) {
    const words = new URLSearchParams();
    for (const name of ["source", "second", "texts", "arrays"]) if (state[name]) words.set(name, state[name]);
    return words;
  }

  async function examine(state) {
    const words = question(state);
    words.set("objective", state.lens || "infonce");
    const now = words.toString();
    if (now === asked) return;
    asked = now;
    stopper?.abort();
    stopper = new AbortController();
    status.textContent = "Python is examining the embeddings …";
    result.setAttribute("aria-busy", "true");
    try {
      const answer = await context.ask(`embeddings?${now}`, { signal: stopper.signal });
      if (now !== asked) return;
      status.textContent = "";
      show(answer, context.api ? `${context.api}parquet?${question(state)}` : "");
    } catch (error) {
      if (error.name === "AbortError" || now !== asked) return;
      status.textContent = error.message;
      result.replaceChildren();
    }
    result.removeAttribute("aria-busy");
  }

  function show(answer, parquet = "") {
    const { diagnosis } = answer;
    const kind = diagnosis.collapsed ? "bad" : diagnosis.findings.length ? "warn" : "good";
    const views = Object.keys(answer.spectrum);
    const values = (row) => [row[0], ...views.map((_, place) => row[1][place] ?? ""), row[2]];
    result.replaceChildren(
      element("p", {}, `${answer.name}: ${shown(answer.rows)} rows of ${answer.dims} dimensions, ` +
        `${answer.views === 2 ? "two views" : "one view"}. ${answer.note ?? ""}`),
      remark(kind, `${diagnosis.question} ${diagnosis.answer}`, `Verdict: ${diagnosis.verdict}.`),
      ...diagnosis.findings.map((each) => remark(each.grave ? "bad" : "warn", each.name, each.words,
        `Evidence: ${each.evidence}`, `Remedy: ${each.remedy}`)),
      element("div", { class: "data-figures" }, cosines(answer), spectrum(answer), kept(answer)),
      ...anatomy(answer.anatomy), ...advice(answer.advice), ...pairs(answer.pairs, answer.views),
      element("h2", {}, "All numbers"), table(["", ...views, "meaning"], diagnosis.table.map(values), "Diagnosis"),
      element("p", { class: "data-soft" }, diagnosis.sampled),
      parquet ? element("p", {}, element("a", { href: parquet, download: "" }, "Download as parquet"),
        ", then look at it with: embedding-atlas FILE.parquet --vector vector") : "");
  }

  function cosines(answer) {
    const series = Object.entries(answer.cosines).map(([label, counts], colour) => {
      const total = counts.reduce((sum, each) => sum + each, 0) || 1, bins = counts.length / JOINED;
      const heights = Array.from({ length: bins }, (_, bin) =>
        counts.slice(bin * JOINED, (bin + 1) * JOINED).reduce((sum, each) => sum + each, 0) / total * (bins / 2));
      return { label, colour, points: heights.map((height, bin) => [-1 + (2 * bin + 1) / bins, height]) };
    });
    const seen = series.flatMap((each) => each.points.filter((point) => point[1] > 0).map((point) => point[0]));
    const [low, high] = [Math.min(...seen) - 0.05, Math.max(...seen) + 0.05];
    for (const each of series) each.points = each.points.filter((point) => point[0] >= low && point[0] <= high);
    return figure(context, lines({ title: "Cosines", series, xLabel: "cosine", yLabel: "density", fill: true }), "cosines");
  }

  function spectrum(answer) {
    const series = Object.entries(answer.spectrum).map(([label, values], colour) => ({ label, colour,
      points: values.map((value, place) => [place + 1, value]).filter((point) => point[1] > 1e-12) }));
    return figure(context, lines({ title: "Spectrum of the covariance", series, xLabel: "direction", yLabel: "variance",
      logarithmic: true }), "spectrum");
  }

  function kept(answer) {
    if (!answer.anatomy.kept) return "";
    const total = answer.anatomy.kept.reduce((sum, each) => sum + each, 0) || 1;
    const points = answer.anatomy.kept.flatMap((each, bin) => [[bin / 20, each / total], [(bin + 1) / 20, each / total]]);
    return figure(context, lines({ title: `Gradient kept by the anchors, ${answer.anatomy.objective}`,
      series: [{ label: "share of the anchors", colour: 0, points }], xLabel: "dissipation (1: all, 0: none)",
      yLabel: "share of anchors", fill: true }), "dissipation");
  }

  function anatomy(part) {
    const heading = element("h2", {}, `Anatomy: what ${part.objective} does to these anchors`);
    if (part.sentence) return [heading, element("p", {}, part.sentence)];
    return [heading, element("p", {}, part.verdict), table(["measured", "value"], Object.entries(part.numbers), "Anatomy"),
      element("details", {}, element("summary", {}, "What the words mean"),
        Object.entries(part.legend).map(([word, meaning]) => element("p", {}, element("b", {}, word), `: ${meaning}`)),
        element("p", {}, `On ${part.batch}; scope ${part.scope}. ${part.conventions}.`))];
  }

  function advice(part) {
    const rows = part.rows.filter((each) => each.parameter).map((each) => [each.objective, each.parameter, each.value,
      each.default, `${Math.round(100 * each.past_default)} %`]);
    const without = new Map(); // objectives by the sentence that says why they have no advice
    for (const { parameter, sentence, objective: name } of part.rows) if (!parameter) {
      without.set(sentence, [...(without.get(sentence) ?? []), name]);
    }
    return [element("h2", {}, "Advice on temperature and margin"), rows.length ? table(["objective", "setting", "advised", "default",
      "anchors past the edge with the default"], rows, `With ${part.negatives} negatives`) : "",
      ...[...without].map(([sentence, names]) => element("p", {}, element("b", {}, `No advice for ${names.join(", ")}`), `: ${sentence}.`)),
      element("p", { class: "data-soft" }, part.sentence)];
  }

  function pairs(part, views) {
    const words = (pair, place) => pair.texts.length ? `${pair.rows[place]}: ${pair.texts[place]}` : String(pair.rows[place]);
    const lists = [["nearest", "Nearest rows of the first view", ["row", "row", "cosine"]]];
    if (views === 2) lists.push(
      ["hardest", "Hardest negatives, beside their anchors' positives", ["anchor", "negative", "cosine", "its positive"]],
      ["farthest", "Farthest positives", ["row", "row", "cosine"]]);
    return [element("h2", {}, "Pairs to look at"), element("div", { class: "data-figures" }, lists.map(([key, title, header]) => table(header, (part[key] ?? []).map((pair) =>
      [words(pair, 0), words(pair, 1), pair.cosine, ...("positive" in pair ? [pair.positive] : [])]), title)))];
  }

  function update(state) {
    if (state.source === undefined && context.data?.given) state = { ...state, source: "given" };
    choices(state);
    objective.value = state.lens || "infonce";
    arrays.value = state.arrays ?? "";
    if (state.source) examine(state);
    else { asked = ""; result.replaceChildren(); }
  }

  update(context.state);
  return { element: root, update, destroy() { stopper?.abort(); } };
}
