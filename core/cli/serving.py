"""The ``serving`` command: the request rate that every target carries at a promised latency."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import click

from core.base.schema import UserError
from core.base.text import in_lines, json_text, shown
from core.cli.choices import currency_option
from core.cli.files import FILE, BadInput, check_writable, conclude, json_flag, read_file, refusing, write_out
from core.cli.gpus import own_path
from core.cli.model_code import launcher_for, model_permission
from core.cli.plan_fields import plan_options
from core.cli.study_command import Asked, measured_part, store_option
from core.cli.terminal import say
from core.cli.verdict import answer_of
from core.hardware.catalogue import catalogue, find_gpu, load_own
from core.studies.batch.shapes import Price
from core.studies.kind import Context
from core.studies.serving.export import serving_data, serving_text
from core.studies.serving.kind import SERVING
from core.studies.serving.prediction import plan_to_serve, served_curve, serving_answer
from core.studies.serving.record import ServingPlan
from core.studies.serving.service import Service

TIMES = ("limit_ms", "max_delay_ms")


@click.command("serving")
@click.option("--from-run", "path", type=FILE, required=True, help="A finished sweep of inference, in JSON.")
@plan_options(Service, *TIMES, type=str)
@plan_options(Service, *(name for name in Service.model_fields if name not in TIMES))
@click.option("--gpu", "gpus", multiple=True, help="A card of “python -m core gpus”, modelled beside them; once each.")
@click.option("--price", "prices", multiple=True, help="An hour on a target, such as cpu=0.20; once for each.")
@currency_option
@click.option("--priced-on", help="The day of the prices, such as 2026-11-01 (default: today).")
@plan_options(ServingPlan, "budget_s", default=None, help="Also serve requests here, for so many seconds.")
@click.option("--out", type=FILE, help="Write what it says and was measured, in JSON.")
@store_option
@click.option("--study-out", type=FILE, help="Write the study of served requests alone.")
@json_flag
@model_permission
def serving_command(path: Path, **flags: Any) -> None:
    """Predict the request rate that every target carries at a promised latency, and from which rate one costs less.

    Requests come one by one and are batched as they come. Step times and their spread are those of a sweep. With
    --budget requests really come then, to a batcher that pads, at rates about the predicted ones.
    """
    for name in ("out", "study_out"):
        if flags[name] is not None:
            check_writable(flags[name])
    run = read_file(path)
    dated = flags["priced_on"] or date.today().isoformat()
    with refusing():
        prices = tuple(Price.parse(text, flags["money"].currency, dated) for text in flags["prices"])
        times = {name: milliseconds(str(flags[name])) for name in TIMES}
        service = Service.model_validate({name: flags[name] for name in Service.model_fields} | times)
        known = answer_of(run)
        cards = catalogue(load_own(own_path())) if flags["gpus"] else {}
        curves = [served_curve(run, known, find_gpu(name, cards)) for name in flags["gpus"]]
        answer = serving_answer(run, known, service, prices, curves)
    data, text = serving_data(run, answer), in_lines(serving_text(run, answer))
    unsaved = None
    if flags["budget_s"] is not None:
        with refusing():
            padded = serving_answer(run, known, service.model_copy(update={"pads": True}))
            plan = plan_to_serve(run, padded, budget_s=flags["budget_s"])
        study = measured_part(
            SERVING, Asked(plan, launcher=launcher_for(plan.workload.network, flags["model"])), flags["store"]
        )
        unsaved = write_out(flags["study_out"], study.to_json(indent=1))
        try:
            served = SERVING.answer(study, Context(run=run))
        except UserError as error:  # the prediction stands
            say(str(error))
        else:
            data["measured"] = SERVING.export(study, served, Context(run=run))
            text = in_lines([SERVING.text(study, served, Context(run=run)), "", text])
    conclude(text, data if flags["as_json"] else None, unsaved, write_out(flags["out"], json_text(data)))


def milliseconds(text: str) -> float:
    """Return a time written as ``50`` or ``50ms``. Raises BadInput."""
    try:
        return float(text.strip().removesuffix("ms"))
    except ValueError:
        raise BadInput(f"“{shown(text)}” is no time; write milliseconds, such as 50 or 50ms.") from None
