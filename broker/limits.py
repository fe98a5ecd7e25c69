"""The caps that keep one query or one message from hurting the others, with their defaults.

Each field is a setting (`XMLBROKER_QUERY__MAX_STEPS=64`), and what exceeds it is refused with the
error code named in its description.
"""

from functools import cached_property
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class QueryLimits(BaseModel):
    """What a subscription may cost before it is accepted."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_length: int = Field(
        default=8192, ge=1, description="bytes of query text, in UTF-8 (query-too-long)"
    )
    max_steps: int = Field(
        default=32, ge=1, description="location steps in all paths (query-too-many-steps)"
    )
    max_predicates: int = Field(
        default=32, ge=0, description="predicates and where conditions (query-too-many-predicates)"
    )
    max_order_keys: int = Field(
        default=16, ge=1, description="keys of an order by (query-too-many-keys)"
    )
    max_nesting: int = Field(
        default=8,
        ge=1,
        le=64,
        description="predicates and parentheses in each other (query-too-deep)",
    )
    max_template_depth: int = Field(
        default=32,
        ge=1,
        le=128,
        description="constant elements in each other (query-template-too-deep)",
    )
    max_active_states: int = Field(
        default=48, ge=1, description="automaton states active at once (query-too-many-states)"
    )
    max_cache_bytes: int = Field(
        default=8192,
        ge=8,
        description="cache it can demand for a label path (query-too-much-cache)",
    )


class MessageLimits(BaseModel):
    """What a message may cost before it is looked at.

    libxml2's own limits stand behind these: depth 256, 10 MB of text, names of 50,000 bytes.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_bytes: int = Field(
        default=4 * 1024 * 1024, ge=1, description="size of a message (too-large)"
    )
    max_elements: int = Field(
        default=200_000, ge=1, description="elements, comments and instructions (too-many-elements)"
    )
    max_attributes: int = Field(
        default=200_000, ge=0, description="attributes (too-many-attributes)"
    )
    max_namespaces: int = Field(
        default=10_000, ge=0, description="namespace declarations (too-many-namespaces)"
    )
    max_names: int = Field(
        default=10_000, ge=1, description="distinct element and attribute names (too-many-names)"
    )
    max_depth: int = Field(
        default=200, ge=1, le=250, description="elements in each other (too-deep)"
    )
    max_path_steps: int = Field(
        default=100_000,
        ge=1,
        description="names in its distinct label paths, the ways from the root down to an element "
        "(too-many-paths)",
    )
    max_ancestors: int = Field(
        default=4_000_000,
        ge=1,
        description="elements that are around elements, counted for each of those (too-nested)",
    )
    doctype: Literal["bare", "refuse"] = Field(
        default="bare",
        description="bare: only a DOCTYPE without internal subset; refuse: none (doctype-refused)",
    )

    @cached_property
    def uncounted_bytes(self) -> int:
        """Messages of up to this size exceed none of the counts: an element takes four bytes."""
        most = (self.max_elements, self.max_attributes, self.max_namespaces, self.max_names)
        return 4 * min(most)


class ResultLimits(BaseModel):
    """What one subscription's result for one message may cost."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_bindings: int = Field(
        default=100_000, ge=1, description="bindings of the for variable (budget-exceeded)"
    )
    max_items: int = Field(
        default=1_000_000,
        ge=1,
        description="lists of a result, and nodes in them (budget-exceeded)",
    )
    output_factor: int = Field(
        default=8, ge=0, description="output bytes for each byte of the message (budget-exceeded)"
    )
    output_base: int = Field(
        default=65_536, ge=0, description="output bytes beyond the factor (budget-exceeded)"
    )
    max_output: int = Field(
        default=1_048_576,
        ge=1,
        description="output bytes in any case: a record's cap (budget-exceeded)",
    )

    def max_output_bytes(self, message_bytes: int) -> int:
        """The cap on the output made from a message of this size."""
        return min(self.max_output, self.uncapped_output_bytes(message_bytes))

    def uncapped_output_bytes(self, message_bytes: int) -> int:
        """The same without a record's cap: so many characters the keys to order by may have."""
        return self.output_factor * message_bytes + self.output_base
