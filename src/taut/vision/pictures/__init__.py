"""Pictures of boxes and joints on images, of curves, and of templates; they need matplotlib."""

from taut.vision.pictures.curves import plot_overlap_recall, plot_precision_recall
from taut.vision.pictures.images import plot_boxes, plot_image_grid
from taut.vision.pictures.joints import plot_joint_grid, plot_joints
from taut.vision.pictures.templates import plot_parts, plot_template

__all__ = [
    "plot_boxes",
    "plot_image_grid",
    "plot_joint_grid",
    "plot_joints",
    "plot_overlap_recall",
    "plot_parts",
    "plot_precision_recall",
    "plot_template",
]
