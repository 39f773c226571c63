"""A view of the page in the browser: what a reader does there, sees there, and what it costs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Open = Callable[..., Any]


FRAMES = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"


# Moves every slider of the page to its ends; returns how many there are.
ALL_SLIDERS = """
async () => {
  const frame = () => new Promise((done) => requestAnimationFrame(done));
  const sliders = [...document.querySelectorAll(".controls input[type=range]")];
  for (const end of ["max", "min"]) {
    for (const slider of sliders) { slider.value = slider[end]; slider.dispatchEvent(new Event("input")); }
    await frame();
  }
  return sliders.length;
}
"""


def settle(page: Any) -> None:
    page.evaluate(FRAMES)


def wait_for_steps(page: Any, steps: int) -> int:
    """Waits until the points have moved so often; page.wait_for_function needs eval, which the policy forbids."""
    for _ in range(600):
        done = int(page.locator(".page").get_attribute("data-steps") or 0)
        if done >= steps:
            return done
        page.wait_for_timeout(50)
    raise AssertionError(f"the points did not reach step {steps}")


def choose(page: Any, label: str, value: str) -> None:
    page.get_by_label(label, exact=True).select_option(value)
    settle(page)


def address(page: Any) -> str:
    page.wait_for_timeout(260)
    return str(page.evaluate("location.hash"))


def readout(page: Any) -> str:
    return str(page.locator(".readout").inner_text())


class Work:
    """Milliseconds of processor time that the page spends, however busy the machine is."""

    def __init__(self, page: Any) -> None:
        self.session = page.context.new_cdp_session(page)
        self.session.send("Performance.enable", {"timeDomain": "threadTicks"})
        self.before = self.spent()

    def spent(self) -> float:
        metrics = {each["name"]: each["value"] for each in self.session.send("Performance.getMetrics")["metrics"]}
        return 1000 * float(metrics["TaskDuration"])

    def since(self) -> float:
        return self.spent() - self.before
