// The explorer: mount(element, options) shows it in an element, as a page of its own, in a notebook or in a document.
//   options = {api: "/api/" or null, data: {objectives, version}, url: whether the view is kept in the address,
//   state: {page, …} the first view where it is not, model: that of a notebook's widget, whose kernel answers}
// Without an api everything comes from data, which is what /api/catalogue returns, and from the kernel.
// An element with the attribute data-explorer is mounted by itself: data-api names the api, data-catalogue a file.

import { create as createEmbeddings } from "./embeddings.js";
import { create as createObjective } from "./objective.js";
import { create as createPapers } from "./papers.js";
import { create as createRuns } from "./runs.js";
import { create as createSphere } from "./sphere.js";
import { createShell } from "./shell.js";

export const PAGES = [
  { id: "objective", title: "Objective", create: createObjective },
  { id: "sphere", title: "Sphere", create: createSphere },
  { id: "embeddings", title: "Your embeddings", create: createEmbeddings },
  { id: "runs", title: "Runs and studies", create: createRuns },
  { id: "papers", title: "Papers", create: createPapers },
];

export function mount(element, options = {}) {
  return createShell(element, PAGES, { api: null, url: false, ...options });
}

async function start(element) {
  const { api = null, catalogue } = element.dataset;
  let data = null;
  try {
    const answer = await fetch(catalogue ?? `${api}catalogue`);
    if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
    data = await answer.json();
  } catch (error) {
    element.textContent = `The list of objectives could not be loaded: ${error.message}.`;
    return;
  }
  mount(element, { api, data, url: true });
}

const own = document.querySelector("[data-explorer]");
if (own) start(own);
