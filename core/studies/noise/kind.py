"""The gradient noise study as a kind."""

from core.base.schema import UserError
from core.studies.kind import About, Context, Kind
from core.studies.noise.answer import TrainingNoise, training_noise
from core.studies.noise.export import noise_data, noise_text
from core.studies.noise.record import NoisePlan, NoiseStudy
from core.studies.noise.run import run_noise_study


def _answer(study: NoiseStudy, _: Context) -> TrainingNoise:
    noise = training_noise(study)
    if noise is None:
        raise UserError("Too few gradients were drawn for a noise scale; give the study more time.")
    return noise


GRADIENT_NOISE: Kind[NoisePlan, NoiseStudy, TrainingNoise] = Kind(
    name="noise",
    title="Gradient noise study",
    record=NoiseStudy,
    describe=lambda plan: f"Gradient noise of {plan.title}",
    run=run_noise_study,
    targets=lambda plan: (plan.target,),
    answer=_answer,
    text=lambda study, noise, _: noise_text(study, noise),
    export=lambda study, noise, _: noise_data(study, noise),
    about=lambda study: About(network=study.plan.workload.title, targets=(study.plan.target,), run_id=study.run_id),
    example="example_noise.json",
    of_a_run=True,
)
KIND = GRADIENT_NOISE
