"""Measures of predictions: rankings, label sequences, single labels, boxes and joints in images."""

from taut.metrics.classes import hierarchical_f1, level_accuracy, mean_cost
from taut.metrics.detection import (
    CocoPrecision,
    Interval,
    PrecisionRecall,
    average_precision,
    bootstrap_interval,
    coco_average_precision,
    mean_average_precision,
    precision_recall,
)
from taut.metrics.joints import RightShares, pck, pcp, visibility_accuracy
from taut.metrics.localisation import (
    OverlapRecall,
    localisation_accuracy,
    mean_best_overlap,
    overlap_recall,
    suppress,
)
from taut.metrics.poses import angle_errors, pose_losses
from taut.metrics.rankings import mean_ndcg, ndcg
from taut.metrics.sequences import LabelPairs, chunk_f1, position_accuracy, sequence_accuracy

__all__ = [
    "CocoPrecision",
    "Interval",
    "LabelPairs",
    "OverlapRecall",
    "PrecisionRecall",
    "RightShares",
    "angle_errors",
    "average_precision",
    "bootstrap_interval",
    "chunk_f1",
    "coco_average_precision",
    "hierarchical_f1",
    "level_accuracy",
    "localisation_accuracy",
    "mean_average_precision",
    "mean_best_overlap",
    "mean_cost",
    "mean_ndcg",
    "ndcg",
    "overlap_recall",
    "pck",
    "pcp",
    "pose_losses",
    "position_accuracy",
    "precision_recall",
    "sequence_accuracy",
    "suppress",
    "visibility_accuracy",
]
