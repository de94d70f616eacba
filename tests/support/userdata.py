"""Own data that are looked at without TensorFlow."""

import pytest

from core.userdata.arrays import DataError
from core.userdata.source import check_data


def refused(path: object) -> str:
    """The sentence that refuses what lies at a path."""
    with pytest.raises(DataError) as caught:
        check_data(str(path))
    sentence = str(caught.value)
    assert sentence.endswith(".")
    assert "\n" not in sentence
    return sentence
