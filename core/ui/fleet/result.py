"""A fleet run on a page: the verdict, one picture, the table for a review, costs, machines, the files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from functools import partial

import pandas as pd
import streamlit as st

from core.base.evidence import MAX_TARGETS
from core.base.numbers import counted, duration, moment
from core.base.schema import MAX_PER_HOUR, UserError
from core.base.text import clean, sentence_case
from core.rounds.answer.condensed import CondensedRun, condense
from core.studies.fleet.answer import FleetAnswer, answer_of
from core.studies.fleet.export import fleet_data, machines_csv
from core.studies.fleet.figures import cost_figure, drawn, speed_up_figure, throughput_figure
from core.studies.fleet.kind import FLEET
from core.studies.fleet.record import ENDED, FleetMachine, FleetStudy, MachinePrice
from core.studies.fleet.text import cheapest_words, columns, fleet_text, notes, row, shown_batches
from core.ui import charts, evidence, money, navigation, registry, share
from core.ui.card import draw_notes, label_badge, result_card
from core.ui.downloads import File, study_files
from core.ui.notices import Notice, stopped
from core.ui.share import addressed_target, target_address
from core.ui.tables import cleaned, static_table
from core.ui.words import plain

MACHINE, PRICE = "Machine", "An hour"


def _price_key(study_id: str) -> str:
    return f"fleet_prices-{study_id}"


def currency_of(study: FleetStudy) -> str:
    """Return the currency of the plan's prices if they agree on one, else the session's."""
    units = {price.currency for price in study.plan.prices.values()}
    return units.pop() if len(units) == 1 else money.chosen().currency


def machine_prices(study_id: str, study: FleetStudy) -> dict[str, MachinePrice]:
    """Return prices by machine: the session's input, else the plan's.

    Those in another currency than the rest are converted at the session's rate, or left out without one.
    """
    unit, prices = currency_of(study), dict[str, MachinePrice]()
    for name, price in study.plan.prices.items():
        rate = 1.0 if price.currency == unit else money.chosen().rate(price.currency)
        if rate is not None:
            prices[name] = price.model_copy(update={"per_hour": price.per_hour * rate, "currency": unit})
    today = date.today().isoformat()
    for name, amount in st.session_state.get(_price_key(study_id), {}).items():
        prices.pop(name, None)
        if amount:
            prices[name] = MachinePrice(per_hour=amount, currency=unit, dated=today)
    return prices


def _price_fields(study_id: str, study: FleetStudy, prices: Mapping[str, MachinePrice]) -> None:
    """Draw a table of machines with editable prices."""
    st.markdown(plain(f"The prices are yours: what an hour of each machine costs, owned or rented, in "
                      f"{currency_of(study)}. They are kept for this session."))  # fmt: skip
    names = [machine.name for machine in study.machines]
    amounts = [prices[name].per_hour if name in prices else None for name in names]
    table = cleaned(pd.DataFrame({MACHINE: names, PRICE: pd.array(amounts, dtype="Float64")}))
    st.data_editor(
        table, hide_index=True, key=f"{_price_key(study_id)}-table", disabled=[MACHINE], width=420,
        height=min(38 + 35 * len(names), 388), on_change=_take, args=(study_id, names),
        column_config={PRICE: st.column_config.NumberColumn(min_value=0.0, max_value=MAX_PER_HOUR, format="%.4g")},
    )  # fmt: skip
    if not study.plan.prices:
        money.field()
        money.problem()


def _take(study_id: str, names: list[str]) -> None:
    """Store the changed prices; an empty field removes one."""
    kept = st.session_state.setdefault(_price_key(study_id), {})
    edited = st.session_state[f"{_price_key(study_id)}-table"]["edited_rows"]
    for index, change in edited.items():
        if PRICE in change:
            kept[names[int(index)]] = change[PRICE]


def price_days(prices: Mapping[str, MachinePrice]) -> str:
    """Return text such as ``Prices of 2026-11-22.``"""
    days = sorted({price.dated for price in prices.values()})
    if not days:
        return ""
    return f"Prices of {clean(days[0])}." if len(days) == 1 else f"Prices of {clean(days[0])} to {clean(days[-1])}."


ROW_PX, HEAD_PX, SHOWN_ROWS = 35, 38, 12
OF_RAY = "ray.io/"
"""Prefix of Ray's own labels, which mean nothing to a reader; the record holds them."""


def summary(machines: tuple[FleetMachine, ...]) -> str:
    """Return text such as ``7 of 12 machines finished, 3 lost, 2 refused.``"""
    counts = Counter(machine.state for machine in machines)
    finished = counts.pop("finished", 0)
    others = [f"{count:,} {state}" for state, count in counts.most_common()]
    first = f"{finished:,} of {counted(len(machines), 'machine')} finished"
    return f"{', '.join([first, *others])}."


def machines_table(study: FleetStudy, curves: Mapping[str, CondensedRun]) -> pd.DataFrame:
    """Return one row per machine, unfinished ones first."""
    rows = [_row(machine, curves.get(machine.run_id or ""), bool(study.runs)) for machine in study.machines]
    table = pd.DataFrame(rows, columns=["machine", "state", "why", "hardware", "labels", "rounds", "time", "run"])
    return table.sort_values("state", key=lambda states: states == "Finished", kind="stable")


def _row(machine: FleetMachine, run: CondensedRun | None, is_apart: bool) -> dict[str, object]:
    """Return a machine's row. ``is_apart``: the runs are in the study's file alone, so none can be opened."""
    again = f" ({machine.starts} starts)" if machine.starts > 1 else ""
    return {
        "machine": machine.name,
        "state": sentence_case(machine.state) + again,
        "why": machine.reason,
        "hardware": "" if run is None else run.hardware,
        "labels": ", ".join(f"{name}={value}" for name, value in machine.labels.items() if not name.startswith(OF_RAY)),
        "rounds": machine.rounds if run is None else run.rounds,
        "time": "" if run is None else duration(run.elapsed_s),
        "run": None if machine.run_id is None or is_apart else f"/crossover?run={machine.run_id}",
    }


def show(study: FleetStudy, curves: Mapping[str, CondensedRun], key: str) -> None:
    """Show the table; a machine's own run opens from its row."""
    text, table = st.column_config.TextColumn, machines_table(study, curves)
    st.dataframe(
        cleaned(table), hide_index=True, key=key, height=HEAD_PX + ROW_PX * min(SHOWN_ROWS, max(1, len(table))),
        alt="One row per machine with its state, and why it waits or has no complete run.",
        column_config={
            "machine": text("Machine", pinned=True), "state": text("State", width=110), "why": text("Why", width=300),
            "hardware": text("Hardware", width=260), "labels": text("Labels"),
            "rounds": st.column_config.NumberColumn("Rounds", format="localized", width=70), "time": text("Time"),
            "run": st.column_config.LinkColumn("Its run", display_text="Open", width=80),
        },
    )  # fmt: skip


BASELINE, TARGET, CHOSEN = "baseline", "target", "machines"
"""Address parameters of a fleet run beside its id."""
EACH_BEST = "Its fastest at each batch"
FEW = 12  # machines whose table is shown in full, as in a document
UNFOLDED = 0  # of the notes


@dataclass(frozen=True)
class Asked:
    """A visitor's choice of what to compare."""

    baseline: str | None = None
    target: int | None = None
    chosen: tuple[str, ...] = ()

    def address(self, study: FleetStudy) -> dict[str, str]:
        """Return the parameters by which a link shows the same."""
        query = {} if self.baseline in (None, study.machines[0].name) else {BASELINE: str(self.baseline)}
        query |= {} if self.target is None else {TARGET: target_address(self.target)}
        return query | ({CHOSEN: ",".join(self.chosen)} if self.chosen else {})


def asked(study: FleetStudy, compared: tuple[str, ...]) -> Asked:
    """Draw the fields, with the address's values as defaults, and return the choice; embedded pages have no fields."""
    names, targets = list(compared), range(len(study.plan.sweep.targets))
    named, query = st.query_params.get(BASELINE), st.query_params.get(CHOSEN, "")
    first = names.index(named) if named in names else 0
    target = addressed_target(st.query_params.get(TARGET), targets)
    chosen = [name for name in query.split(",") if name in names][: MAX_TARGETS - 1]
    if st.context.is_embedded:
        return Asked(names[first], target, tuple(chosen))
    study_key = hash((study.created_at, *names[:3], len(names)))
    with st.container(horizontal=True, vertical_alignment="bottom"):
        baseline = st.selectbox("Baseline", names, first, key=f"fleet_{BASELINE}-{study_key}", width=240,
                                format_func=lambda name: clean(name),
                                help="The machine that all others are compared with.")  # fmt: skip
        if len(targets) > 1:
            words = {None: EACH_BEST} | {t: sentence_case(study.plan.sweep.names[t]) for t in targets}
            target = st.selectbox(
                "Of each machine", list(words), list(words).index(target), key=f"fleet_{TARGET}-{study_key}", width=240,
                format_func=lambda t: clean(words[t]),
                help="Each machine counts as it is best used, or with one target alone.",
            )  # fmt: skip
        if len(names) > MAX_TARGETS:
            chosen = st.multiselect(
                "Machines with a curve of their own", names, chosen, key=f"fleet_{CHOSEN}-{study_key}", width=420,
                max_selections=MAX_TARGETS - 1, format_func=lambda name: clean(name),
                placeholder="The baseline and the fastest",
            )  # fmt: skip
    choice = Asked(baseline, target, tuple(chosen))
    navigation.put(**dict.fromkeys((BASELINE, TARGET, CHOSEN)) | choice.address(study))
    return choice


def curves_of(study: FleetStudy) -> Mapping[str, CondensedRun]:
    """Return the condensed runs of the machines that have ended, as far as they are available."""
    if study.runs:  # the shipped example is not in the store
        return {run.id: condense(run) for run in study.runs}
    ids = [machine.run_id for machine in study.machines if machine.run_id is not None and machine.state in ENDED]
    return registry.engine().store.curves(ids, registry.MADE_AT_ONCE)


class Parts:
    """The parts of a result's frame, for one fleet run. Raises UserError if it supports no answer."""

    def __init__(self, study_id: str, study: FleetStudy, curves: Mapping[str, CondensedRun], wanted: Asked) -> None:
        self._id, self._study, self._curves, self._asked = study_id, study, curves, wanted
        self._prices = machine_prices(study_id, study)
        self._answer = answered(study_id, study, curves, wanted, self._prices)
        self._key = (study_id, wanted, _key(self._prices), len(curves))

    @property
    def sentence(self) -> str:
        return self._answer.sentence

    def verdict(self) -> None:
        answer, study = self._answer, self._study
        about = [f"{counted(len(answer.results), 'machine')} compared, unpaired · {study.plan.sweep.title}"]
        if study.created_at:
            about[0] += f" · {moment(study.created_at, with_time=False)}"
        cheapest = cheapest_words(answer)
        more = [f"{cheapest} {price_days(self._prices)}".strip()] if cheapest else []
        result_card("Fleet", [label_badge(answer.label)], answer.sentence, about, status=study.status, more=more)

    def picture(self) -> None:
        self._chart("fleet", speed_up_figure, border=True)

    def notes(self) -> None:
        self._table()
        draw_notes([Notice("info", text) for text in self._notices()], UNFOLDED)

    def evidence(self) -> dict[str, Callable[[], None]]:
        """Return the evidence by title."""
        return {
            "Machines, their states and runs": self._machines,
            "Throughput by batch size": partial(self._chart, "fleet-throughput", throughput_figure),
            "Cost of a million samples": self._cost,
            "How it was measured": self._how,
        }

    def share(self) -> None:
        name, study, answer = f"fleet-{self._id}", self._study, self._answer
        files = study_files(
            name, lambda: fleet_data(registry.whole(FLEET, study), answer), text=lambda: fleet_text(study, answer),
            figure=partial(speed_up_figure, study, answer, self._asked.chosen),
            meaning="What the fleet run says, and its machines' runs as far as one file holds them.",
        )  # fmt: skip
        table = File("Machines (CSV)", "csv", "text/csv", "One row for each machine and batch size.",
                     lambda: machines_csv(study, answer).encode())  # fmt: skip
        share.panel(name, {"study": self._id} | self._asked.address(study), [*files, table])

    def _chart(self, name: str, figure: Callable[..., object], border: bool = False) -> None:
        charts.show(
            name, partial(figure, self._study, self._answer, self._asked.chosen), self._answer.sentence,
            f"{name}-{self._id}", self._key, border=border,
        )  # fmt: skip

    def _table(self) -> None:
        """Show the table for a design review: each machine's step times and where it is faster."""
        answer, batches = self._answer, shown_batches(self._answer)
        names = columns(answer, batches)
        few = len(answer.results) <= FEW
        first = [] if few else [answer.results[machine] for machine in drawn(answer, self._asked.chosen)]
        rest = [result for result in answer.results if result not in first]
        rows = [row(answer, result, batches) for result in (*first, *rest)]
        if few:
            static_table(rows, names)
        else:
            height = HEAD_PX + 10 * ROW_PX
            st.dataframe(cleaned(pd.DataFrame(rows, columns=names)), hide_index=True, key="fleet-review", height=height,
                         alt="One row per machine: step times, and where it is faster than the baseline.")  # fmt: skip

    def _notices(self) -> list[str]:
        study, answer = self._study, self._answer
        sentences = stopped(study.status, "fleet run", "what was measured until then is compared")
        there = sum(machine.run_id is not None for machine in study.machines)
        if waiting := there - len(self._curves):
            sentences.append(
                f"{counted(waiting, 'run')} of {there:,} cannot be compared yet: each was deleted, is still measured, "
                "or is being prepared in the background."
            )
        return [*sentences, *notes(study, answer)]

    def _machines(self) -> None:
        st.caption(plain(summary(self._study.machines)))
        show(self._study, self._curves, f"fleet-machines-{self._id}")
        navigation.link("history", "Their runs in the history", fleet=self._id)

    def _cost(self) -> None:
        if any(result.price is not None for result in self._answer.results):
            self._chart("fleet-cost", cost_figure)
        if not st.context.is_embedded:
            _price_fields(self._id, self._study, self._prices)

    def _how(self) -> None:
        runs = [result.run for result in self._answer.results]
        facts = (
            ("Machines", f"{len(self._study.machines):,}", "Asked for; those without step times are in their table."),
            ("Rounds", f"{sum(run.rounds for run in runs):,}", "On all machines together."),
            ("Starts of the workers", _range([max(c.units for c in run.curves) for run in runs]),
             "On each machine; a start is one observation."),
            ("Time", duration(self._study.elapsed_s), "From the first machine to the last."),
        )  # fmt: skip
        evidence.how_measured(
            facts, None,
            "Each machine runs the sweep by itself, so that no round has two machines. Step times are compared by the "
            "t test of unequal variances (Welch), with processes as observations; the statements on which machine is "
            "the fastest hold together with 95 %, each comparison with the baseline by itself.",
        )  # fmt: skip


def _range(values: list[int]) -> str:
    low, high = min(values), max(values)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _key(prices: Mapping[str, MachinePrice]) -> int:
    return hash(tuple(sorted((name, price.per_hour, price.currency) for name, price in prices.items())))


def answered(
    study_id: str,
    study: FleetStudy,
    curves: Mapping[str, CondensedRun],
    wanted: Asked,
    prices: Mapping[str, MachinePrice],
) -> FleetAnswer:
    """Return the answer, cached by runs, choices and prices. Raises UserError."""
    known = frozenset((run_id, run.rounds) for run_id, run in curves.items())
    return registry.once(
        ("fleet", study_id, study.status, wanted.baseline, wanted.target, _key(prices), known),
        lambda: answer_of(study, curves, wanted.baseline, wanted.target, prices),
    )


def compared(study: FleetStudy, curves: Mapping[str, CondensedRun]) -> tuple[str, ...]:
    """Return the machines that have step times. Raises UserError if there are fewer than two."""
    names = tuple(m.name for m in study.machines if (run := curves.get(m.run_id or "")) is not None and run.rounds)
    if len(names) < 2:
        answer_of(study, curves)  # raises with the reason
        raise UserError("A comparison needs the runs of two machines.")
    return names
