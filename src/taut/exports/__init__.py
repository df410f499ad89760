"""Fitted models for other programs: what they can load, and predict with."""

from taut.exports.crfsuite import to_crfsuite
from taut.exports.liblinear import to_liblinear
from taut.exports.onnx import to_onnx

__all__ = ["to_crfsuite", "to_liblinear", "to_onnx"]
