"""A user's own cards: the content of a file, filled-in fields, and the sentences for unusable cards."""

import json

import pytest

from core.hardware.catalogue import (
    MAX_BYTES,
    MAX_CARDS,
    GpuSpec,
    OwnCard,
    add_own,
    catalogue,
    find_gpu,
    load_own,
    parse_own,
    read_own,
    save_own,
    shared,
)

LEAST = {"name": "Ours", "fp32_tflops": 20, "memory_gb": 16, "bandwidth_gb_s": 500, "link": "PCIe 4.0 x16"}


def text(*cards: dict) -> bytes:
    return json.dumps({"gpus": cards}).encode()


def card(**fields) -> OwnCard:
    return OwnCard.model_validate(LEAST | fields)


def test_the_least_a_card_needs_is_filled_in_by_class_and_says_so():
    (spec,) = parse_own(text(LEAST)).specs()
    assert spec.own
    assert (spec.title, spec.fp32_tflops, spec.sources["fp32_tflops"]) == ("Ours", 20.0, "yours")
    assert spec.link_gb_s == shared().links["PCIe 4.0 x16"].value
    assert spec.assumed("launch_us")
    assert spec.launch_us == shared().launch_us["other"].value
    assert (spec.multiprocessors, spec.l2_mb) == (None, None)
    (spec,) = parse_own(text(LEAST | {"architecture": "Ada", "tdp_w": 70})).specs()
    assert spec.launch_us == shared().launch_us["Ada"].value


def test_what_a_person_states_is_theirs_and_nothing_is_put_over_it():
    price = {"per_hour": 1.5, "currency": "EUR", "dated": "2026-11-01"}
    chip = {"multiprocessors": 46, "l2_mb": 36}
    (spec,) = parse_own(text(LEAST | {"link": "wire", "link_gb_s": 9, "launch_us": 3, "price": price} | chip)).specs()
    assert (spec.link_gb_s, spec.launch_us) == (9.0, 3.0)
    assert (spec.multiprocessors, spec.l2_mb) == (46, 36.0)
    assert {spec.sources[key] for key in ("link_gb_s", "launch_us", *chip)} == {"yours"}
    assert spec.price.source == "yours"


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"\xff\xfe", "UTF-8"),
        (b"{", "not valid JSON"),
        (b"[]", "one JSON object"),
        (b'{"gpus": [], "gpus": []}', "twice"),
        (b'{"cards": []}', "cards"),
        (b'{"version": 2, "gpus": []}', "version"),
        (text({key: value for key, value in LEAST.items() if key != "bandwidth_gb_s"}), "bandwidth_gb_s"),
        (text(LEAST | {"fp32_tflops": "20"}), "fp32_tflops"),
        (text(LEAST | {"fp32_tflops": -1}), "fp32_tflops"),
        (text(LEAST | {"memory_gb": 1e9}), "memory_gb"),
        (text(LEAST | {"multiprocessors": 0}), "multiprocessors"),
        (text(LEAST | {"multiprocessors": 1.5}), "multiprocessors"),
        (text(LEAST | {"l2_mb": 4096}), "l2_mb"),
        (text(LEAST | {"name": "<b>"}), "name"),
        (text(LEAST | {"name": ""}), "name"),
        (text(LEAST | {"colour": "green"}), "colour"),
        (text(LEAST | {"link": "PCIe 9"}), "PCIe 5.0 x16"),
        (text(LEAST | {"price": {"per_hour": 1, "currency": "EUR", "dated": "today"}}), "dated by a day"),
        (text(LEAST, LEAST), "already a name of Ours"),
        (text(LEAST | {"name": "a100 80gb sxm"}), "already a name of A100-80GB-SXM"),
        (text(LEAST | {"name": "Tesla-T4"}), "already a name of T4"),
        (text(LEAST | {"title": "NVIDIA H200"}), "already a name of H200"),
        (text(*[LEAST | {"name": f"Ours-{i}"} for i in range(MAX_CARDS + 1)]), "100 items"),
        (b" " * (MAX_BYTES + 1), "too large"),
    ],
)
def test_what_cannot_be_used_is_refused_with_a_sentence(data: bytes, sentence: str):
    with pytest.raises(ValueError, match=r"\.$") as error:
        parse_own(data)
    assert sentence in str(error.value)


def test_own_cards_stand_beside_the_others_are_found_and_shadow_none():
    own = parse_own(text(LEAST)).specs()
    cards = catalogue(own)
    assert list(cards)[-1] == "Ours"
    assert find_gpu("ours", cards) is cards["Ours"]
    assert len(cards) == len(catalogue()) + 1
    shadow = next(iter(catalogue().values())).model_copy(update={"own": True})
    with pytest.raises(ValueError, match="give your card"):
        catalogue([shadow])
    spec = card(architecture="Hopper").spec()
    assert isinstance(spec, GpuSpec)
    assert GpuSpec.model_validate(spec.model_dump()) == spec


def test_what_is_kept_is_read_again_and_adding_replaces_only_the_same_name(tmp_path):
    path = tmp_path / "data" / "gpus.json"
    assert load_own(path) == ()
    kept = save_own(path, [card(), card(name="Second", half_tflops=80, price=None)])
    assert read_own(path) == kept
    assert [spec.name for spec in load_own(path)] == ["Ours", "Second"]
    assert [file.name for file in path.parent.iterdir()] == ["gpus.json"]
    path = tmp_path / "others.json"
    add_own(path, [card(), card(name="Second")])
    add_own(path, [card(fp32_tflops=30)])
    assert {spec.name: spec.fp32_tflops for spec in load_own(path)} == {"Ours": 30.0, "Second": 20.0}


def test_a_refused_card_leaves_the_file_as_it_was(tmp_path):
    path = tmp_path / "gpus.json"
    save_own(path, [card()])
    before = path.read_bytes()
    with pytest.raises(ValueError, match="name of T4"):
        add_own(path, [card(name="T4")])
    with pytest.raises(ValueError, match="At most 100"):
        save_own(path, [card(name=f"Ours-{i}") for i in range(MAX_CARDS + 1)])
    assert path.read_bytes() == before


def test_a_broken_file_is_named(tmp_path):
    path = tmp_path / "gpus.json"
    path.write_text("{", encoding="utf-8")
    with pytest.raises(ValueError, match=r"gpus\.json: .*JSON"):
        load_own(path)
    with pytest.raises(ValueError, match="cannot be read"):
        load_own(tmp_path)
    with pytest.raises(ValueError, match="cannot be written"):
        save_own(path / "below" / "gpus.json", [card()])


def test_a_field_that_files_had_before_is_passed_over():
    (spec,) = parse_own(text(LEAST)).specs()
    assert parse_own(text(LEAST | {"power_limited": True})).specs() == (spec,)
    assert GpuSpec.model_validate(spec.model_dump() | {"power_limited": False}) == spec
