// The guided tour: gradient dissipation for someone who has never heard of it, in two minutes.
// A step shows a state, or a preset of the sphere; left: the card stands there, since the right is what it is about.

export const STEPS = [
  {
    page: "objective", state: { a: "infonce", show: "all" }, title: "What a loss does to one point",
    words: [
      "An embedding model puts every sentence or image on a sphere. A contrastive loss takes one point, the anchor, and pulls it towards its positive: another view of the same thing. It pushes the anchor away from its negatives: everything else.",
      "The force of pull and push is the gradient. Two angles decide it: from the anchor to its positive, and from the anchor to its negatives.",
    ],
  },
  {
    page: "objective", state: { a: "infonce", show: "dissipation" }, light: ".maps", title: "How much gradient is left",
    words: [
      "This map of InfoNCE, the most common contrastive loss, has the two angles as its axes. Yellow: the anchor feels the full gradient. Dark: the gradient has faded away, because the loss counts the anchor as done.",
      "This fading is gradient dissipation. The line marks where half of the gradient is left.",
    ],
  },
  {
    page: "objective", state: { a: "infonce", show: "dissipation", "a.temperature": "0.2" }, light: ".controls", title: "The temperature moves the edge",
    words: [
      "InfoNCE divides all similarities by a temperature. At 0.2 it hardly ever stops; at 0.05 it stopped early. Drag the temperature and watch the line.",
      "Too early, and hard examples are left unfinished. Never, and the model goes on separating what is separate already.",
    ],
  },
  {
    page: "objective", state: { a: "infonce", b: "dcl", show: "dissipation" }, light: ".maps", left: true, title: "A loss that never stops",
    words: [
      "DCL is InfoNCE without the positive in its denominator. That small change removes the dissipation: its map is 1 everywhere.",
      "The third map is their difference. Everything purple is gradient that DCL still has and InfoNCE has lost.",
    ],
  },
  {
    page: "objective", state: { a: "infonce", b: "met", show: "dissipation" }, light: ".maps", left: true, title: "A loss that stops at once",
    words: [
      "MET is a triplet loss with a margin. Its gradient is there in full, or not at all: the edge is a cliff instead of a slope.",
      "Move the pointer over a map: the curves below are a cut through it.",
    ],
  },
  {
    page: "sphere", preset: "stops", act: true, light: ".stage", title: "Watch InfoNCE stop",
    words: [
      "24 points and their positives, at random places. InfoNCE draws every pair together and spreads the pairs.",
      "Watch the share of active anchors: those with gradient left. The temperature is 0.02, so a small gap is enough: one anchor after the other drops out, and after some 350 steps all have.",
    ],
  },
  {
    page: "sphere", preset: "goes-on", act: true, light: ".stage", title: "Watch DCL go on",
    words: [
      "The same start and temperature under DCL. The share of active anchors stays at 1: every anchor keeps its gradient, however far the others are.",
      "Its points end farther apart, and they never rest. In long training runs that is a reason why DCL overfits.",
    ],
  },
  {
    page: "sphere", preset: "fuses", act: true, light: ".stage", title: "Watch MET fuse the pairs",
    words: [
      "MET pulls with full force until its margin is kept. Here that takes until every pair has met: 80 dots become 40. Then nothing moves.",
    ],
  },
  {
    page: "sphere", preset: "gathers", act: true, light: ".stage", title: "Watch classes part",
    words: [
      "CLOA adds three orthonormal anchors, one for each class (colour). From random places each class gathers in a direction of its own.",
      "The buttons above show these four again, and a fifth: out of a collapse.",
    ],
  },
];
