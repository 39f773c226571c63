// Views of the sphere that show one thing each. tests/explorer/test_contract_sphere_page.py lets each of them run and checks its words.

export const PRESETS = [
  {
    id: "stops", name: "InfoNCE stops",
    state: { objective: "infonce", "s.temperature": "0.02", rate: "0.005", points: "24" },
    words: "At a temperature of 0.02 the gradient fades as soon as 24 pairs stand a little apart: after some 350 steps no " +
      "anchor has 1 % of it left. Try 48 points at 0.05: the sphere is too crowded for it, and no anchor stops.",
  },
  {
    id: "goes-on", name: "DCL goes on",
    state: { objective: "dcl", "s.temperature": "0.02", rate: "0.005", points: "24" },
    words: "The same start, temperature and learning rate. Every anchor keeps its whole gradient, so the points spread " +
      "further than under InfoNCE, and they tremble instead of coming to rest.",
  },
  {
    id: "fuses", name: "MET fuses pairs",
    state: { objective: "met", "s.margin": "0.52", points: "40" },
    words: "Every anchor meets its positive: 80 dots become 40. After some 500 steps all hinges are closed, and nothing moves. Different " +
      "instances stay apart. With a margin of 0.2 pairs stop before they meet; with 0.8 no anchor ever stops.",
  },
  {
    id: "gathers", name: "CLOA parts the classes",
    state: { objective: "ntxent", anchors: "1", pull: "5", points: "48" },
    words: "From random places, three orthonormal anchors gather each class in one direction. Switch the anchors off: the " +
      "loss does not see classes and leaves them mixed.",
  },
  {
    id: "recovers", name: "Out of a collapse",
    state: { objective: "ntxent", start: "collapsed", anchors: "1" },
    words: "All points start in nearly one place. The anchors pull the classes apart. Without them the loss gets there too, " +
      "but takes several times as long.",
  },
];

export const presetNamed = (id) => PRESETS.find((each) => each.id === id);

// The preset that a state shows, however the sphere is turned.
export function presetOf({ yaw, pitch, ...state }) {
  const as = (each) => JSON.stringify(Object.entries(each).sort());
  return PRESETS.find((each) => as(each.state) === as(state));
}
