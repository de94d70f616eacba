"""Token decoders: what their two steps read, count and compute."""

import numpy as np
import pytest
from pydantic import ValidationError

from core.base.schema import UserError
from core.hardware.layers import shaped_layers
from core.networks.families import families, network_from_name
from core.networks.families.decoder import Decoder
from core.worker.feeds import make_arrays
from core.workload.spec import Target, Workload, refuse_mode

SMALL = {"depth": 2, "sequence": 24, "width": 64, "heads": 4, "feed_forward": 4, "words": 500}
PREFILL, DECODE = (Decoder(phase=phase, **SMALL) for phase in ("prefill", "decode"))


def test_both_steps_have_the_same_weights_and_their_own_inputs() -> None:
    assert PREFILL.parameters == DECODE.parameters == 500 * 64 * 2 + 2 * (4 * 64 * 65 + 4 * 64 + 64 * 9 * 64 - 64 * 64
                                                                       + 5 * 64) + 2 * 64  # fmt: skip
    assert (PREFILL.input_shape, PREFILL.caches) == ((24,), ())
    assert (DECODE.input_shape, DECODE.caches) == ((1,), ((24, 4, 16),) * 4)
    assert (PREFILL.tokens_per_sample, DECODE.tokens_per_sample) == (24, 1)
    assert DECODE.sample_values == 1 + 4 * 24 * 64
    (tokens, *caches), = make_arrays(Workload(network=DECODE), 3)  # fmt: skip
    assert (tokens.shape, [cache.shape for cache in caches]) == ((3, 1), [(3, 24, 4, 16)] * 4)


def test_a_decode_step_multiplies_what_one_position_of_a_prompt_does() -> None:
    longer = Decoder(phase="decode", **SMALL | {"sequence": 48})
    per_layer = (longer.flops_per_sample(False) - DECODE.flops_per_sample(False)) / 2
    assert per_layer / 24 == 2 * 2 * 64 + 6 * 4, "products with keys and values, scale and softmax of each head"
    assert PREFILL.flops_per_sample(False) > 18 * DECODE.flops_per_sample(False)
    cached = next(layer for layer in shaped_layers(DECODE) if layer.count.name == "layer_1_attention")
    assert cached.inputs == 64 + 2 * 24 * 64, "the cache is read"


@pytest.mark.tensorflow
def test_a_token_beside_its_cache_gets_the_logits_of_the_whole_prompt() -> None:
    import keras

    longer = Decoder(phase="prefill", **SMALL | {"sequence": 25})
    whole, step = longer.build(keras), DECODE.build(keras)
    step.set_weights(whole.get_weights())
    tokens = keras.ops.convert_to_tensor(np.random.default_rng(0).integers(0, 500, (3, 25)))
    cache = []
    for number in (1, 2):
        layer = whole.get_layer(f"layer_{number}_attention")
        before = keras.Model(whole.inputs, whole.get_layer(f"layer_{number}_norm_1").output)(tokens)[:, :24]
        cache += [layer._key_dense(before), layer._value_dense(before)]
    np.testing.assert_allclose(step((tokens[:, 24:], *cache)), whole(tokens), atol=1e-4)
    assert whole.count_params() == step.count_params() == DECODE.parameters


def test_a_decoder_is_run_and_not_trained() -> None:
    assert Workload(network=DECODE).mode == "infer"
    with pytest.raises(ValidationError, match="only run, not trained"):
        Workload(network=PREFILL, mode="train")


@pytest.mark.parametrize(
    "target", [Target(framework="litert"), Target(precision="mixed_float16"), Target(precision="int8")], ids=str
)
def test_a_cache_is_float32_and_kerass(target: Target) -> None:
    refuse_mode(Workload(network=PREFILL), target)
    with pytest.raises(ValueError, match="cache"):
        refuse_mode(Workload(network=DECODE), target)


def test_a_prompt_has_other_lengths_and_one_token_has_none() -> None:
    assert PREFILL.with_length(7).input_shape == (7,)
    with pytest.raises(UserError, match="one token per step"):
        DECODE.with_length(7)


def test_the_map_grows_its_length() -> None:
    defaults = {choice.name: choice.default for choice in families()["decoder"].choices}
    assert families()["decoder"].from_choices(defaults | {"width": 99}).sequence == 99
    assert network_from_name("decoder-64x2-h4-s24-f4-v500-decode") == DECODE
