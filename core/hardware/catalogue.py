"""Facts of GPUs by name, each with its source, from ``core/data/gpus.json``, together with the user's own cards.

Rates are peaks without structured sparsity. A rate is None if the card has no tensor cores or no citable source states
it. Facts shared by a class of cards (the bandwidth of a link, the spacing of small kernels) stand once in the file,
measured or marked “assumed: ”, and are filled in for every card without a figure of its own.

The user's own cards stand in one JSON file in the data folder, read strictly: ``{"gpus": [{"name": "Ours",
"fp32_tflops": 20, "memory_gb": 16, "bandwidth_gb_s": 500, "link": "PCIe 4.0 x16"}]}`` is enough; every other field of
:class:`OwnCard` may be added.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, field_validator, model_validator

from core.base.files import READ_ONLY, look, read_limited, read_only, write_whole
from core.base.money import Money
from core.base.schema import Currency, Frozen, PerHour, PriceDay, UserError, as_user_error
from core.base.text import shown
from core.networks.architecture.strict_json import parse

FILE = Path(__file__).parent.parent / "data" / "gpus.json"
OTHER, YOURS = "other", "yours"
FILE_NAME = "gpus.json"
"""Name of the file of the user's cards in the data folder."""
MAX_CARDS, MAX_BYTES = 100, 500_000
"""Accepted content of that file."""
NEAREST = 3
MAX_LISTED = 8
"""Maximum number of cards listed in the message about a name that fits several."""
MAX_SHOWN = 80
_NOISE = frozenset({"nvidia", "tesla", "geforce", "amd", "instinct", "apple", "gpu"})
"""Words that some tools print and others leave out."""

Text = Annotated[str, Field(min_length=1, max_length=400)]
Name = Annotated[str, Field(min_length=1, max_length=80, pattern=r"^[A-Za-z0-9][A-Za-z0-9 ._()+-]*$")]
Tflops = Annotated[float, Field(ge=0.05, le=20_000)]
Gigabytes = Annotated[float, Field(ge=0.5, le=10_000)]
GigabytesPerSecond = Annotated[float, Field(ge=0.1, le=100_000)]
Microseconds = Annotated[float, Field(ge=0.05, le=1_000)]
Watts = Annotated[float, Field(ge=1, le=10_000)]
Multiprocessors = Annotated[int, Field(ge=1, le=1_024)]
CacheMegabytes = Annotated[float, Field(ge=0.1, le=1_024)]


class UnknownGpu(UserError):
    """No card, or more than one, has this name; the message offers the nearest names."""


class CardPrice(Frozen):
    """Price per hour of a card: ``currency`` is three capital letters, ``dated`` a day in ISO 8601."""

    per_hour: PerHour
    currency: Currency
    dated: PriceDay
    source: Text

    @property
    def words(self) -> str:
        """The price, as in ``2.5 EUR (2026-11-01)``."""
        return f"{self.per_hour:.4g} {self.currency} ({self.dated})"

    def into(self, money: Money) -> CardPrice:
        """Convert the price to the money unit, or return it unchanged if no exchange rate leads there."""
        rate = money.rate(self.currency)
        if rate is None or self.currency == money.currency:
            return self
        changes = {"per_hour": rate * self.per_hour, "currency": money.currency}
        return self.model_copy(update=changes | {"source": f"{self.source}; {money.rate_words}"})


class _CardFacts(Frozen):
    """The facts of a card, whoever states them.

    ``architecture``: the generation, with ``, HBM`` where it has another chip for data centres, whose tensor cores and
    memory behave differently (Ampere: A100; Blackwell: B200).
    ``fp32_tflops``: outside tensor cores. ``tf32_tflops`` and ``half_tflops`` (fp16 or bf16): on tensor cores, dense,
    accumulating in fp32. ``bandwidth_gb_s``: of the card's memory. ``multiprocessors``: NVIDIA's streaming
    multiprocessors, AMD's compute units, Apple's GPU cores. ``l2_mb``: the L2 cache that they share, in the megabytes
    of data sheets (2²⁰ bytes for caches, 5 % above 10⁶), without AMD's Infinity Cache. ``link_gb_s``: usable bandwidth
    from host to device. ``launch_us``: spacing of consecutive small kernels in a stream. ``tdp_w``: the power budget.
    Gigabytes are 10⁹ bytes.
    """

    name: Name
    title: Text | None = None
    vendor: Text = YOURS
    architecture: Text = OTHER
    fp32_tflops: Tflops
    tf32_tflops: Tflops | None = None
    half_tflops: Tflops | None = None
    memory_gb: Gigabytes
    bandwidth_gb_s: GigabytesPerSecond
    multiprocessors: Multiprocessors | None = None
    l2_mb: CacheMegabytes | None = None
    link: Text
    link_gb_s: GigabytesPerSecond | None = None
    launch_us: Microseconds | None = None
    tdp_w: Watts | None = None
    price: CardPrice | None = None

    @model_validator(mode="before")
    @classmethod
    def _without_former_field(cls, values: Any) -> Any:
        """Leave out ``power_limited``, which records and files had until 2026-11-29; the watts say more."""
        return {key: values[key] for key in values if key != "power_limited"} if isinstance(values, dict) else values


class GpuSpec(_CardFacts):
    """One card with every fact that the model needs.

    ``sources``: the source of each field by its name, or the reason why a field is None.
    """

    title: Text
    vendor: Text
    architecture: Text
    link_gb_s: GigabytesPerSecond
    launch_us: Microseconds
    aliases: tuple[Name, ...] = ()
    sources: Mapping[str, Text]
    own: bool = False

    def assumed(self, field: str) -> bool:
        """Check that the field is neither stated for this card nor measured on it."""
        return self.sources.get(field, "").startswith("assumed: ")

    def priced_in(self, money: Money) -> GpuSpec:
        """Return the card with its price in the money unit, if an exchange rate leads there."""
        return self if self.price is None else self.model_copy(update={"price": self.price.into(money)})


class Fact(Frozen):
    """A value of the file with its source; None with the reason why it is missing."""

    value: float | str | None
    source: Text


class Shared(Frozen):
    """Facts shared by a class of cards: ``links`` in GB/s by name, ``launch_us`` by architecture or "other"."""

    links: dict[str, Fact]
    launch_us: dict[str, Fact]

    def launch_of(self, architecture: str) -> Fact:
        """Return the launch spacing of an architecture, or the one of "other"."""
        return self.launch_us.get(architecture, self.launch_us[OTHER])


@cache
def _file() -> dict[str, Any]:
    """Read the file of cards."""
    content: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return content


def checked_on() -> str:
    """Return the day, in ISO 8601, on which the facts of the file were last checked."""
    return str(_file()["checked"])


@cache
def shared() -> Shared:
    """Return the facts that cards have by their class."""
    return Shared.model_validate({"links": _file()["links"], "launch_us": _file()["launch_us"]})


@cache
def _sourced() -> tuple[GpuSpec, ...]:
    return tuple(_card(row) for row in _file()["gpus"])


def _card(row: dict[str, Any]) -> GpuSpec:
    """Build a card of the file: split each fact into value and source, and fill in missing ones by class."""
    plain = {key: row[key] for key in ("name", "title", "aliases", "vendor")}
    price = CardPrice.model_validate(row["price"]) if "price" in row else None
    facts = {key: Fact.model_validate(row[key]) for key in row if key not in plain and key != "price"}
    return make_spec(plain, facts, price)


def make_spec(
    plain: Mapping[str, Any], facts: Mapping[str, Fact], price: CardPrice | None, own: bool = False
) -> GpuSpec:
    """Build a card from its facts; those that cards have by class may be missing if the class is known.

    Raises:
        UserError: The link belongs to no known class and there is no ``link_gb_s``.
    """
    known = dict(facts)
    link, architecture = known.get("link"), known.get("architecture")
    if "link_gb_s" not in known:
        if link is None or link.value not in shared().links:
            links = ", ".join(shared().links)
            raise UserError(f"link_gb_s: say how many GB/s the link carries, or name a link that is known ({links}).")
        known["link_gb_s"] = shared().links[str(link.value)]
    if "launch_us" not in known:
        known["launch_us"] = shared().launch_of(str(architecture.value) if architecture else OTHER)
    values: dict[str, Any] = {key: fact.value for key, fact in known.items()}
    sources = {key: fact.source for key, fact in known.items()}
    return GpuSpec.model_validate({**plain, **values, "price": price, "sources": sources, "own": own})


def catalogue(own: Sequence[GpuSpec] = ()) -> dict[str, GpuSpec]:
    """Return all cards by name, the user's after those of the file.

    Raises:
        UserError: Two cards have the same name.
    """
    check_names(own)
    return {spec.name: spec for spec in (*_sourced(), *own)}


def check_names(own: Sequence[GpuSpec]) -> None:
    """Raise UserError if a user's card has the name of another card."""
    taken = {key: spec.name for spec in _sourced() for key in _keys(spec)}
    for spec in own:
        for key in set(_keys(spec)):
            if key in taken:
                raise UserError(f"“{spec.name}” is already a name of {taken[key]}; give your card another.")
        taken |= {key: spec.name for key in _keys(spec)}


def find_gpu(name: str, cards: Mapping[str, GpuSpec]) -> GpuSpec:
    """Find the card that a user or a tool such as nvidia-smi means; case, punctuation and order do not matter.

    Words may be left out as long as one card remains; a word that no name of a card has (“Laptop”, “Ti”) means another
    card.

    Raises:
        UnknownGpu: No card or several cards fit; the message offers those that fit, or the nearest names.
    """
    words = _words(name)
    exact = [spec for spec in cards.values() if "".join(words) in _keys(spec)]
    fitting = exact or [spec for spec in cards.values() if words and _fits(words, spec)]
    if len(fitting) == 1:
        return fitting[0]
    quoted = f"“{name.strip()[:MAX_SHOWN]}”"
    if fitting:
        listed = _either([spec.name for spec in fitting[:MAX_LISTED]])
        more = f" or {len(fitting) - MAX_LISTED} others" if len(fitting) > MAX_LISTED else ""
        raise UnknownGpu(f"{quoted} fits several GPUs: {listed}{more}.")
    near = _nearest(words, cards)
    hint = f"did you mean {_either(near)}?" if near else "the command “gpus” lists the names."
    raise UnknownGpu(f"{quoted} is no GPU of the catalogue; {hint}")


def _words(text: str) -> tuple[str, ...]:
    joined = re.sub(r"(\d)\s*(gi?b)\b", r"\1gb", text.casefold())
    return tuple(word for word in re.findall(r"[a-z0-9]+", joined) if word not in _NOISE)


def _names(spec: GpuSpec) -> Iterator[tuple[str, ...]]:
    return (_words(name) for name in (spec.name, spec.title, *spec.aliases))


def _keys(spec: GpuSpec) -> tuple[str, ...]:
    return tuple("".join(words) for words in _names(spec))


def _fits(wanted: Sequence[str], spec: GpuSpec) -> bool:
    return any(set(wanted) <= set(words) for words in _names(spec))


def _nearest(words: Sequence[str], cards: Mapping[str, GpuSpec]) -> list[str]:
    names = {key: spec.name for spec in cards.values() for key in _keys(spec)}
    close = get_close_matches("".join(words)[:MAX_SHOWN], names, n=2 * NEAREST, cutoff=0.6)
    return list(dict.fromkeys(names[key] for key in close))[:NEAREST]


def _either(names: Sequence[str]) -> str:
    return " or ".join((", ".join(names[:-1]), names[-1])) if len(names) > 1 else names[0]


class OwnCard(_CardFacts):
    """A card as the user describes it; what is missing is filled in by class."""

    @field_validator("price", mode="before")
    @classmethod
    def _add_source(cls, value: Any) -> Any:
        return {"source": YOURS} | value if isinstance(value, dict) else value

    def spec(self) -> GpuSpec:
        """Return the card with the facts of its class filled in.

        Raises:
            UserError: The link is unknown.
        """
        plain = {"name": self.name, "title": self.title or self.name, "vendor": self.vendor}
        stated = self.model_dump(exclude_none=True, exclude={*plain, "price"})
        facts = {key: Fact(value=value, source=YOURS) for key, value in stated.items()}
        return make_spec(plain, facts, self.price, own=True)


class OwnCards(Frozen):
    """Content of the file."""

    version: Literal[1] = 1
    gpus: Annotated[tuple[OwnCard, ...], Field(max_length=MAX_CARDS)] = ()

    def specs(self) -> tuple[GpuSpec, ...]:
        """Return the cards with the facts of their classes filled in.

        Raises:
            UserError: A card cannot be used, or its name is taken.
        """
        specs = []
        for card in self.gpus:
            with as_user_error(f"“{card.name}”: "):
                specs.append(card.spec())
        check_names(specs)
        return tuple(specs)


def parse_own(data: bytes) -> OwnCards:
    """Parse the cards of a file; all of them are usable.

    Raises:
        UserError: The file is too large, malformed, or describes a card that cannot be used.
    """
    if len(data) > MAX_BYTES:
        raise UserError(f"The file is too large for at most {MAX_CARDS} cards; accepted is up to {MAX_BYTES:,} bytes.")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"The file is no UTF-8 text (byte {error.start + 1:,}).") from None
    if not isinstance(parse(text), Mapping):
        raise UserError("The file must hold one JSON object with the list “gpus”.")
    with as_user_error():
        cards = OwnCards.model_validate_json(text, strict=True)
    cards.specs()
    return cards


def read_own(path: Path) -> OwnCards:
    """Read the user's cards; none if the file does not exist.

    Raises:
        UserError: The file cannot be read or used.
    """
    with as_user_error("Your cards: "):
        if look(path) is None:
            return OwnCards()
        data = read_limited(path, MAX_BYTES, f"at most {MAX_CARDS} cards")
    with as_user_error(f"Your cards in {shown(str(path))}: "):
        return parse_own(data)


def load_own(path: Path) -> tuple[GpuSpec, ...]:
    """Return the user's cards for :func:`catalogue`, or raise UserError."""
    return read_own(path).specs()


def save_own(path: Path, cards: Sequence[OwnCard]) -> OwnCards:
    """Write exactly these cards, all or nothing.

    Raises:
        UserError: A card cannot be used, or the file cannot be written.
    """
    if read_only():
        raise UserError(f"No card is kept or removed here: this server only reads ({READ_ONLY}).")
    try:
        kept = OwnCards(gpus=tuple(cards))
    except ValidationError:
        raise UserError(f"At most {MAX_CARDS} cards of your own are kept.") from None
    kept.specs()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, kept.model_dump_json(indent=1, exclude_none=True) + "\n")
    except OSError as error:
        raise UserError(f"Your cards cannot be written to {path}: {error.strerror or error}.") from None
    return kept


def add_own(path: Path, cards: Sequence[OwnCard]) -> OwnCards:
    """Add cards to those of the file, replacing cards of the same name, or raise UserError."""
    merged = {card.name: card for card in (*read_own(path).gpus, *cards)}
    return save_own(path, tuple(merged.values()))
