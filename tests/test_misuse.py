"""No certificate is false: a sample of what `benchmarks/misuse.py` tries."""

import pytest

from misuses import BAD, FAMILIES, run_case


@pytest.mark.parametrize("seed", range(7))
@pytest.mark.parametrize("family", FAMILIES)
def test_no_certificate_is_false(family, seed):
    verdict = run_case(family, seed, few=True)
    assert verdict.kind not in BAD, f"{verdict.kind}: {verdict.note}"
