"""What a label is: each structure is one file here and one line below."""

from taut.structures.base import Blocks, CompiledStructure, Structure
from taut.structures.chain import Chain
from taut.structures.check import check_structure
from taut.structures.multiclass import Multiclass
from taut.structures.ranking import NdcgRanking, PairwiseRanking
from taut.structures.regression import Regression
from taut.structures.scalar import Scalar

__all__ = [
    "Blocks",
    "Chain",
    "CompiledStructure",
    "Multiclass",
    "NdcgRanking",
    "PairwiseRanking",
    "Regression",
    "Scalar",
    "Structure",
    "check_structure",
]
