"""The study kind of validations."""

from core.studies.kind import About, Kind
from core.studies.validation.answer import Validation, validation
from core.studies.validation.export import validation_data, validation_text
from core.studies.validation.record import ValidationPlan, ValidationStudy
from core.studies.validation.run import run_validation

VALIDATION: Kind[ValidationPlan, ValidationStudy, Validation] = Kind(
    name="validation",
    title="Validation",
    record=ValidationStudy,
    describe=lambda plan: f"Validation of the model on {plan.device_name}",
    run=run_validation,
    targets=lambda plan: (plan.target,),
    answer=lambda study, _: validation(study),
    text=lambda study, answer, _: validation_text(study, answer),
    export=lambda study, answer, _: validation_data(study, answer),
    about=lambda study: About(targets=(study.target,)),
)
KIND = VALIDATION
