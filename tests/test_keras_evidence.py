"""Published Keras steps: their networks are rebuilt to the parameter, and a rule uses or leaves out every row."""

import pytest

from benchmarks.evidence import keras_notebooks
from benchmarks.evidence.build_keras import NotRebuilt, network_of
from benchmarks.evidence.more_cards import MORE_CARDS
from benchmarks.evidence.operations import OLDER
from core.hardware.catalogue import catalogue
from core.hardware.host import Conditions
from core.hardware.work import ops_of
from core.networks.families.mlp import Mlp

needs_data = pytest.mark.skipif(
    not keras_notebooks.FILE.exists(), reason="the published rows (../shared/data) do not lie beside this checkout"
)


@pytest.mark.parametrize(
    ("architecture", "given", "parameters"),
    [
        ("Flatten(784)-4x Dense512 relu-Dense10 softmax", "28x28", 1_195_018),
        ("Dense4-Dense4-Dense1 on 2 features", "2", 37),
        ("Conv32(3)-MaxPool-Conv64(3)-MaxPool-Flatten-Dense64-drop.5-Dense10, input 28x28x1", "28x28x1", 121_930),
        ("Conv32(3)-BN-LReLU-Conv32 s2-BN-LReLU-Conv64-BN-LReLU-Conv64 s2-BN-LReLU-Dense128-BN-LReLU-drop.5-Dense10",
         "32x32x3", 592_554),
        ("AE: Conv32 s2-Conv64 s2-Conv128 s2-Dense2-Dense2048-ConvT128 s2-ConvT64 s2-ConvT32 s2-Conv1", "32x32x1",
         343_043),
        ("Embedding(20000,128,len100)-Bidirectional(CuDNNLSTM64)-drop.5-Dense1", "100 int tokens", 2_658_945),
        ("ResNet50 include_top=True weights=None 32x32x3 classes=100", "32x32x3", 23_792_612),
        ("PixelCNN: masked Conv7x7 128, 5 residual blocks", "16x16x1", 307_460),
        ("ResNet18 (tf_cnn_benchmarks)", "ImageNet synthetic", 11_699_625),
    ],
)  # fmt: skip
def test_an_architecture_is_rebuilt_to_its_printed_parameters(architecture: str, given: str, parameters: int) -> None:
    assert network_of(architecture, given).parameters == parameters


def test_a_plain_perceptron_is_one_of_our_family() -> None:
    network = network_of("784-Dense25-Dense15-Dense10", "784")
    assert network == Mlp(inputs=784, hidden=(25, 15), outputs=10)


def test_what_is_not_understood_is_not_guessed() -> None:
    with pytest.raises(NotRebuilt, match="one_hot"):
        network_of("one_hot(20000)-LSTM32-Dense1", "600 int tokens")


def test_printed_parameters_may_be_rounded_but_not_wrong() -> None:
    network = network_of("784-Dense25-Dense15-Dense10", "784")  # 20,175
    assert keras_notebooks.agrees(network, "20175")
    assert keras_notebooks.agrees(network, "about 0.02M")
    assert not keras_notebooks.agrees(network, "20500")


@pytest.mark.parametrize(
    ("given", "batch", "validation", "steps"),
    [("28x28", 128, 79, 469), ("784", 128, 94, 375), ("32x32x3", 32, 313, 1563), ("28x28x1", 32, 63, None)],
)
def test_training_steps_follow_from_the_data_set(given: str, batch: int, validation: int, steps: int | None) -> None:
    assert keras_notebooks._training_steps(given, batch, validation) == steps


ROW = {
    "source": "someone/books@1234567890:chapter 1.ipynb#cell3", "framework_version": "TF 2.5 (Keras 2)", "device": "T4",
    "host_cpu": "Colab", "model_family": "mlp", "input": "28x28", "batch": "128", "mode": "train",
    "optimizer": "RMSprop", "precision": "fp32", "jit_xla_eager": "default (tf.function graph)",
    "input_pipeline": "numpy arrays", "ms_per_step_best": "4.0", "best_basis": "printed (incl. val)",
    "val_steps_in_time": "79.0",
}  # fmt: skip


def test_a_row_follows_the_rules() -> None:
    row = keras_notebooks._network_row(ROW, network_of("784-Dense25-Dense15-Dense10", "784"))
    assert row.workload.optimizer == "momentum"
    assert (row.source, row.group, row.host) == ("someone/books", "someone/books chapter 1.ipynb T4", "weak")
    assert row.conditions == Conditions(fed=True, build="fused", under_fit=True)
    assert row.step_ms == pytest.approx(4.0 * 469 / (469 + 79 / 3))
    assert (row.resolution_ms, row.upper) == (0.5, False)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"jit_xla_eager": "jit_compile='auto' default of Keras 3"}, "keras keras True"),
        ({"framework_version": "Keras 2.0.9-2.1 / TF 1.4 (Nov 2017)"}, "graph keras True"),
        ({"framework_version": "TF 1.4.0 raw graph (NOT Keras)"}, "graph fused False"),
        ({"input_pipeline": "train_on_batch, same batch"}, "graph fused False"),
    ],
)
def test_a_framework_is_an_execution_a_build_and_a_loop(changes: dict[str, str], expected: str) -> None:
    row = keras_notebooks._network_row(ROW | changes, network_of("784-Dense25-Dense15-Dense10", "784"))
    assert f"{row.target.execution} {row.conditions.build} {row.conditions.under_fit}" == expected


def test_keras_2_on_tensorflow_1_is_a_fused_build_where_it_normalises() -> None:
    row = ROW | {"framework_version": "Keras 2.1.3 / TF 1.6.0rc1"}
    network = network_of("ResNet50 include_top=True weights=None 32x32x3 classes=10", "32x32x3")
    assert keras_notebooks._network_row(row, network).conditions.build == "fused"


@pytest.mark.parametrize(
    ("host", "device", "kind"),
    [
        ("GCE n1-standard", "K80 (GCE)", "weak"),
        ("EC2", "K80 (p2.xlarge)", "server"),
        ("", "V100 (p3)", "server"),
        ("EC2", "GTX 1080 Ti", "desktop"),
        ("i7-6700K", "RTX 2080", "desktop"),
    ],
)
def test_a_machine_is_one_of_three_kinds(host: str, device: str, kind: str) -> None:
    assert keras_notebooks._host(ROW | {"host_cpu": host, "device": device}) == kind


@needs_data
def test_every_row_is_used_or_left_out_by_a_rule() -> None:
    used, left = keras_notebooks.keras_rows(), keras_notebooks.keras_left_out()
    assert len(used) + sum(each.rows for each in left) == len(keras_notebooks.rows()) == 178
    assert {each.rule for each in left} == {*keras_notebooks.RULES, keras_notebooks.NOT_REBUILT}, "a rule is idle"
    assert sum(each.rows for each in left if each.rule == keras_notebooks.NOT_REBUILT) == 2, "a vocabulary, and one_hot"


@needs_data
def test_networks_have_the_parameters_that_their_rows_print() -> None:
    near = {
        row["architecture"].split()[0]
        for row, network, _ in keras_notebooks._judged()
        if network is not None and row["params"].isdigit() and int(row["params"]) != network.parameters
    }
    assert near == {"GPT:", "bert-base-cased"}, "position embeddings and a pooler are left out of these"


@needs_data
def test_every_row_used_names_a_card_and_has_a_step_that_is_counted() -> None:
    used = keras_notebooks.keras_rows()
    known = {*catalogue(), *OLDER, *MORE_CARDS}
    assert {row.gpu for row in used} <= known
    assert not set(MORE_CARDS) & set(catalogue())
    for workload, target in {(row.workload, row.target) for row in used}:
        assert sum(op.kernels for op in ops_of(workload, target, 2)) > 0
    assert all(row.step_ms > 0 for row in used)
