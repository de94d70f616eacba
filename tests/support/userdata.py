"""Own data that are inspected without TensorFlow."""

import pytest

from core.userdata.arrays import DataError
from core.userdata.source import check_data


def refused(path: object) -> str:
    """Return the sentence that refuses the data at a path."""
    with pytest.raises(DataError) as caught:
        check_data(str(path))
    sentence = str(caught.value)
    assert sentence.endswith(".")
    assert "\n" not in sentence
    return sentence
