"""What only a dual tells: why a model answers as it does, and which examples it rests on."""

from __future__ import annotations

from taut.explanations.leave_one_out import LeaveOneOut
from taut.explanations.report import Explanation
from taut.explanations.suspects import Suspects

__all__ = ["Explanation", "LeaveOneOut", "Suspects"]
