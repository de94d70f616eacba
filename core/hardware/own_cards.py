"""The user's own cards: one JSON file in the data folder, read strictly, beside the cards that the catalogue ships.

``{"gpus": [{"name": "Ours", "fp32_tflops": 20, "memory_gb": 16, "bandwidth_gb_s": 500, "link": "PCIe 4.0 x16"}]}`` is
enough; every other field of :class:`OwnCard` may be added.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, field_validator

from core.base.files import READ_ONLY, look, read_limited, read_only, write_whole
from core.base.schema import Frozen, UserError, as_user_error
from core.base.text import shown
from core.hardware.catalogue import (
    OTHER,
    CacheMegabytes,
    CardPrice,
    Fact,
    Gigabytes,
    GigabytesPerSecond,
    GpuSpec,
    Microseconds,
    Multiprocessors,
    Name,
    Text,
    Tflops,
    Watts,
    check_names,
    make_spec,
)
from core.networks.architecture.strict_json import parse

FILE_NAME = "gpus.json"
"""Name of the file in the data folder."""
MAX_CARDS = 100
MAX_BYTES = 500_000
YOURS = "yours"


class OwnCard(Frozen):
    """A card as the user describes it, in the units of :class:`~core.hardware.catalogue.GpuSpec`."""

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
    power_limited: bool | None = None
    tdp_w: Watts | None = None
    price: CardPrice | None = None

    @field_validator("price", mode="before")
    @classmethod
    def _of_the_user(cls, value: Any) -> Any:
        return {"source": YOURS} | value if isinstance(value, dict) else value

    def spec(self) -> GpuSpec:
        """Return the card with the facts of its class filled in.

        Raises:
            UserError: The link is unknown.
        """
        plain = {"name": self.name, "title": self.title or self.name, "vendor": self.vendor}
        given = self.model_dump(exclude_none=True, exclude={*plain, "price", "power_limited"})
        facts = {key: Fact(value=value, source=YOURS) for key, value in given.items()}
        if self.power_limited is None:
            return make_spec(plain, facts, self.price, own=True)
        spec = make_spec(plain | {"power_limited": self.power_limited}, facts, self.price, own=True)
        return spec.model_copy(update={"sources": {**spec.sources, "power_limited": YOURS}})


class OwnCards(Frozen):
    """Content of the file."""

    version: Literal[1] = 1
    gpus: Annotated[tuple[OwnCard, ...], Field(max_length=MAX_CARDS)] = ()

    def specs(self) -> tuple[GpuSpec, ...]:
        """Return the cards with the facts of their classes filled in.

        Raises:
            UserError: A card cannot be used, or its name is taken.
        """
        found = []
        for card in self.gpus:
            with as_user_error(f"“{card.name}”: "):
                found.append(card.spec())
        check_names(found)
        return tuple(found)


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
    """Return the user's cards for :func:`~core.hardware.catalogue.catalogue`, or raise UserError."""
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
