"""keras.applications by name: names, sizes, and numbers that Keras and the papers give."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from core.networks.architecture.counts import output_shape
from core.networks.families.applications import FILE, NAMES, Application, recorded_networks
from tests.support.framework import answered

PUBLISHED = {  # parameters with 1000 classes: the table at keras.io/api/applications, in exact numbers by count_params
    "ResNet50": 25_636_712,
    "VGG16": 138_357_544,
    "MobileNetV2": 3_538_984,
    "MobileNetV3Small": 2_554_968,
    "EfficientNetB0": 5_330_571,
    "DenseNet121": 8_062_504,
    "InceptionV3": 23_851_784,
    "Xception": 22_910_480,
    "ConvNeXtTiny": 28_589_128,
    "NASNetMobile": 5_326_716,
}
SCRIPT = """
import json, keras
from core.networks.architecture.read import read_architecture
from core.networks.families.applications import Application
found = {}
for name in %r:
    network = Application.from_name(name)
    model = network.build(keras)
    shapes = [list(model.input_shape[1:]), list(model.output_shape[1:])]
    layers = read_architecture(model.to_json().encode(), public=False).layers[:-1]  # the last one casts
    same = all((a.kind, a.options) == (b.kind, b.options) for a, b in zip(layers, network.graph.layers))
    found[name] = [model.count_params(), *shapes, str(model.output.dtype), same]
    keras.mixed_precision.set_dtype_policy("mixed_float16")
print(json.dumps(found))
"""
SMALL = ["MobileNetV2@96:10", "MobileNet@64:1", "ResNet50@160:7"]


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameters_are_the_published_ones(name: str) -> None:
    assert Application(application=name).parameters == PUBLISHED[name]


@pytest.mark.tensorflow
def test_a_few_are_what_keras_builds_at_other_sizes() -> None:
    for name, (parameters, image, output, dtype, same) in answered("-c", SCRIPT % SMALL).items():
        network = Application.from_name(name)
        assert network.parameters == parameters
        assert network.input_shape == tuple(image)
        assert output_shape(network.graph) == tuple(output)
        assert dtype == "float32"
        assert same  # includes padding, which may differ at another size


def test_every_name_is_recorded_reads_at_every_number_of_classes_and_resnet50_has_its_published_operations() -> None:
    assert set(recorded_networks()) == set(NAMES)
    assert FILE.stat().st_size < 300_000
    for name in NAMES:
        network = Application(application=name, outputs=7)
        assert (network.classes, network.label_shape, network.from_logits) == (7, (), True)
        assert Application(application=name, outputs=1000).parameters > network.parameters
    # He et al. 2016, table 1: 3.8 · 10⁹ multiply-adds; Keras's with a bias in each convolution a few more
    assert 7.6e9 < Application(application="ResNet50").flops_per_sample(training=False) < 7.9e9


@settings(max_examples=40)
@given(st.sampled_from(NAMES), st.integers(3, 16), st.integers(1, 10_000))
def test_a_name_reads_back_in_any_case(name: str, steps: int, outputs: int) -> None:
    network = Application(application=name, image=32 * steps, outputs=outputs)
    assert Application.from_name(network.name.swapcase()) == network


def test_names_leave_out_what_is_usual_and_choices_say_them_in_words() -> None:
    assert Application(application="ResNet50").name == "ResNet50"
    assert Application(application="ResNet50", outputs=10).name == "ResNet50:10"
    assert Application(application="ResNet50", image=96, outputs=10).name == "ResNet50@96:10"
    assert Application.from_name("resnet50@224:1000") == Application(application="ResNet50")
    kind = Application.choices[0]
    assert kind.words[kind.default] == "MobileNetV2"
    picked = Application.from_choices({"application": NAMES.index("VGG16"), "image": 64, "classes": 1})
    assert (picked.name, picked.classes, picked.from_logits) == ("VGG16@64:1", 1, False)
    assert picked.layers[-1].parameters == 0  # the sigmoid
    with pytest.raises(ValueError, match="Network is 40"):
        Application.from_choices({"application": len(NAMES), "image": 64, "classes": 1})
    with pytest.raises(ValidationError, match=r"none of keras\.applications"):
        Application(application="os.system")


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("ResNet51", "did you mean ResNet5?0"),
        ("mobilenet2@96", "did you mean .*MobileNetV2"),
        ("qqqq", "accepted are ConvNeXtTiny"),
        ("ResNet50@100", "multiples of 32"),
        ("ResNet50@1024", "less than or equal to 512"),
        ("InceptionV3@64", "InceptionV3 takes images of 96 × 96 at least; this is 64"),
        ("ResNet50:0", "greater than or equal to 1"),
        ("ResNet50@96:10:10", "none of keras.applications"),
        ("", "none of keras.applications"),
        ("x" * 10_000, "none of keras.applications"),
        ("a\n\u202eb", "“ab” is none"),
    ],
)
def test_what_cannot_be_is_answered_with_a_sentence(name: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        Application.from_name(name)
