"""Any objective as a loss of sentence-transformers' trainer, an evaluator of geometry, and the monitor as a callback.

loss = hs.integrations.sentence_transformers.Loss(model, "dhel", temperature=0.1)
"""

from __future__ import annotations

from importlib.metadata import version

from hypersphere.integrations import _numbers

OLDEST = (6, 0)

# Before the imports that an older version would fail at.
if _numbers(version("sentence-transformers")) < OLDEST:
    raise ImportError(
        f"hypersphere.integrations.sentence_transformers needs sentence-transformers {'.'.join(map(str, OLDEST))} or "
        f"newer, not {version('sentence-transformers')}: pip install -U 'hypersphere-lab[text]'"
    )

from hypersphere.integrations.sentence_transformers.callback import Callback  # noqa: E402
from hypersphere.integrations.sentence_transformers.evaluator import Evaluator  # noqa: E402
from hypersphere.integrations.sentence_transformers.loss import Loss  # noqa: E402

__all__ = ["Callback", "Evaluator", "Loss"]
