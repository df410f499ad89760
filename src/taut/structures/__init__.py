"""What a label is: each structure is one file here and one line below."""

from taut.compiled.label_rows import Listed
from taut.data.costs import load_cost
from taut.spaces.features import OwnFeatures, RowFeatures
from taut.spaces.labels import part
from taut.structures.bags import Bags
from taut.structures.base import Blocks, CompiledStructure, Structure
from taut.structures.boxes import Boxes
from taut.structures.candidates import Candidates
from taut.structures.chain import Chain
from taut.structures.check import check_structure
from taut.structures.graph import Graph
from taut.structures.graph_cut import CutGraph
from taut.structures.graph_relaxed import RelaxedGraph
from taut.structures.hierarchy import cluster_tree, tree_cost
from taut.structures.joint_kernel import JointKernel
from taut.structures.latent import LatentStructure
from taut.structures.latent_boxes import LatentBoxes
from taut.structures.latent_multiclass import LatentMulticlass
from taut.structures.multiclass import Multiclass
from taut.structures.parts import Parts
from taut.structures.ranking import NdcgRanking, PairwiseRanking
from taut.structures.regression import Regression
from taut.structures.scalar import Scalar
from taut.structures.similar_classes import SimilarClasses
from taut.structures.slack_rescaled import SlackRescaled
from taut.structures.tree import Tree
from taut.structures.word_boxes import WordBoxes

__all__ = [
    "Bags",
    "Blocks",
    "Boxes",
    "Candidates",
    "Chain",
    "CompiledStructure",
    "CutGraph",
    "Graph",
    "JointKernel",
    "LatentBoxes",
    "LatentMulticlass",
    "LatentStructure",
    "Listed",
    "Multiclass",
    "NdcgRanking",
    "OwnFeatures",
    "PairwiseRanking",
    "Parts",
    "Regression",
    "RelaxedGraph",
    "RowFeatures",
    "Scalar",
    "SimilarClasses",
    "SlackRescaled",
    "Structure",
    "Tree",
    "WordBoxes",
    "check_structure",
    "cluster_tree",
    "load_cost",
    "part",
    "tree_cost",
]
