"""Objects in images: readers of boxes and images, features, and pictures."""

from __future__ import annotations

from taut.vision.annotations import Annotated, as_boxes, read_boxes
from taut.vision.boxes import Boxes, Detections, FoundPoses, overlaps
from taut.vision.descriptors import DenseDescriptors
from taut.vision.extraction import extract
from taut.vision.hog import HogPyramid
from taut.vision.images import boxes_of_mask, image_size, list_images, read_image
from taut.vision.joints import FoundJoints, Skeleton, read_joints, skeleton_of
from taut.vision.maps import MapShards, open_maps
from taut.vision.pictures import (
    plot_boxes,
    plot_image_grid,
    plot_joint_grid,
    plot_joints,
    plot_overlap_recall,
    plot_parts,
    plot_precision_recall,
    plot_template,
)
from taut.vision.poses import Aspects, JointPose, aspects_of, mirrored_joints, sizes_of, tree_of
from taut.vision.pyramid import Pyramid, pyramid_of
from taut.vision.templates import Templates
from taut.vision.words import VisualWords, WordMap, histogram, histograms

__all__ = [
    "Annotated",
    "Aspects",
    "Boxes",
    "DenseDescriptors",
    "Detections",
    "FoundJoints",
    "FoundPoses",
    "HogPyramid",
    "JointPose",
    "MapShards",
    "Pyramid",
    "Skeleton",
    "Templates",
    "VisualWords",
    "WordMap",
    "as_boxes",
    "aspects_of",
    "boxes_of_mask",
    "extract",
    "histogram",
    "histograms",
    "image_size",
    "list_images",
    "mirrored_joints",
    "open_maps",
    "overlaps",
    "plot_boxes",
    "plot_image_grid",
    "plot_joint_grid",
    "plot_joints",
    "plot_overlap_recall",
    "plot_parts",
    "plot_precision_recall",
    "plot_template",
    "pyramid_of",
    "read_boxes",
    "read_image",
    "read_joints",
    "sizes_of",
    "skeleton_of",
    "tree_of",
]
