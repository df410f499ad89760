"""Which labels of a block a visit works on: the argmax, and others beside it.

A sampler chooses, at some w, up to a given number of labels of a block, the loss-augmented argmax
first. Labels of high violation that are little correlated are worth most: they are what the block's
dual can gain from (Branson, Beijbom and Belongie, section 3.1).

========== ============= ===================================== ==================================
name       class         labels                                needs, compiled or plain
========== ============= ===================================== ==================================
"argmax"   `Argmax`      the argmax alone                      nothing
"all"      `AllLabels`   all                                   `all_labels` or `labels(x)`
"top"      `Top`         those of highest score + loss         `all_labels` or `labels(x)`
"m_best"   `MBest`       the same, without enumeration         positions (`Blocks`) or `m_best`
"diverse"  `Diverse`     violated and little correlated        what "top" or "m_best" needs
"random"   `Random`      drawn beside the argmax               as "diverse"; plain: `labels(x)`
"own"      `Own`         what the structure chooses            `sample`
           `Given`       what a function chooses               nothing
========== ============= ===================================== ==================================

`as_sampler` turns a name or a function into a sampler. `docs/structures.md` shows how to write your
own.
"""

from taut.sampling.base import ARGMAX, Argmax, Sampler
from taut.sampling.chance import Random
from taut.sampling.choice import as_sampler
from taut.sampling.diverse import Diverse
from taut.sampling.listed import AllLabels, Top
from taut.sampling.m_best import MBest
from taut.sampling.own import Given, Own

__all__ = [
    "ARGMAX",
    "AllLabels",
    "Argmax",
    "Diverse",
    "Given",
    "MBest",
    "Own",
    "Random",
    "Sampler",
    "Top",
    "as_sampler",
]
