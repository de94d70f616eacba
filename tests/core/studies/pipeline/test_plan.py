"""The arms of a pipeline study: each way of feeding once, every family with the base among it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from core.studies.experiment.record import MAX_ARMS
from core.studies.pipeline.plan import DEFAULT_BASE, FIELDS, PipelinePlan, members, setting
from core.workload.spec import Pipeline, Target, Workload
from simulated.pipelines import make_study

COUNT_OR_AUTO = st.one_of(st.integers(1, 64), st.just("auto"))
BASES = st.builds(
    Pipeline,
    kind=st.just("tfdata"),
    prefetch=st.one_of(st.just(0), COUNT_OR_AUTO),
    parallel_calls=st.one_of(st.none(), COUNT_OR_AUTO),
    preprocess_us=st.one_of(st.just(0.0), st.floats(0.5, 1e5)),
    data=st.one_of(st.none(), st.just("/data/x.npy")),
    shuffle=st.booleans(),
)


def settings_of(study: PipelinePlan, family: str) -> list[str]:
    arms = study.arms
    return [setting(family, arms[i].pipeline) for i in members(arms, family)]  # type: ignore[arg-type]


def test_the_default_study_has_the_arms_of_the_issue() -> None:
    study = make_study()
    assert [arm.code for arm in study.arms[:3]] == ["resident", "host", "base"]
    assert settings_of(study, "prefetch") == ["off", "1", "2", "4", "AUTOTUNE"]
    assert settings_of(study, "calls") == ["1", "2", "4", "AUTOTUNE"]
    assert settings_of(study, "cost") == ["0", "50", "100", "200", "500"]


def test_a_base_between_the_usual_values_takes_its_place_among_them() -> None:
    base = Pipeline(kind="tfdata", prefetch=3, parallel_calls=None, preprocess_us=75.0)
    study = make_study(base)
    assert settings_of(study, "prefetch") == ["off", "1", "2", "3", "4", "AUTOTUNE"]
    assert settings_of(study, "calls") == ["off", "1", "2", "4", "AUTOTUNE"]
    assert settings_of(study, "cost") == ["0", "50", "75", "100", "200", "500"]


@given(BASES)
def test_no_way_of_feeding_is_measured_twice_and_every_arm_belongs_somewhere(base: Pipeline) -> None:
    study = make_study(base)
    arms = study.arms
    assert len(arms) <= MAX_ARMS
    assert len({arm.code for arm in arms}) == len({arm.pipeline for arm in arms}) == len(arms)
    assert {arm.target for arm in arms} == {study.target}
    placed = {i for family in FIELDS for i in members(arms, family)}
    assert placed == set(range(2, len(arms)))


@given(BASES)
def test_an_arm_differs_from_the_base_in_its_familys_field_alone(base: Pipeline) -> None:
    arms = make_study(base).arms
    for family, field in FIELDS.items():
        for i in members(arms, family):
            restored = arms[i].pipeline.model_copy(update={field: getattr(base, field)})
            assert restored == base
            assert Pipeline.model_validate(arms[i].pipeline.model_dump()) == arms[i].pipeline


def test_calls_are_not_varied_where_the_map_has_nothing_to_do() -> None:
    idle = Pipeline(kind="tfdata", prefetch=1)
    assert members(make_study(idle).arms, "calls") == ()
    own = idle.model_copy(update={"data": "/data/x.npy"})
    assert len(members(make_study(own).arms, "calls")) == 5


def test_own_data_feed_the_families_and_random_arrays_the_rest() -> None:
    arms = make_study(DEFAULT_BASE.model_copy(update={"data": "/data/x.npy"})).arms
    assert [arm.pipeline.data for arm in arms[:2]] == [None, None]
    assert {arm.pipeline.data for arm in arms[2:]} == {"/data/x.npy"}


def test_a_base_that_is_no_tfdata_pipeline_is_refused() -> None:
    with pytest.raises(ValidationError, match=r"tf\.data pipeline"):
        PipelinePlan(workload=Workload(network="784-128-10"), target=Target(), base=Pipeline())  # type: ignore[arg-type]
