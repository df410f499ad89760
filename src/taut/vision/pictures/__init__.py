"""Pictures of boxes on images, of what detectors reach, and of templates; they need matplotlib."""

from taut.vision.pictures.curves import plot_overlap_recall, plot_precision_recall
from taut.vision.pictures.images import plot_boxes, plot_image_grid
from taut.vision.pictures.templates import plot_template

__all__ = [
    "plot_boxes",
    "plot_image_grid",
    "plot_overlap_recall",
    "plot_precision_recall",
    "plot_template",
]
