"""/api/v1/which-price/: what a device share costs an organization in an hour, and why."""

from decimal import Decimal

from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from billing.access import access_priced_organization
from billing.api.money import MoneySerializer
from billing.api.pricing.price_books import PriceSerializer
from billing.domain.documents.document import price_text
from billing.domain.period import floor_hour
from billing.domain.pricing.price_book import GROUP_LENGTH_MAX, require_key
from billing.domain.pricing.price_candidate import PriceOutcome
from billing.domain.pricing.rating import Missing
from billing.selectors.pricing.price_candidates import BookCandidate, PriceCandidate
from billing.selectors.pricing.price_lookup import AppliedPrice, which_price
from tenants.api.serializers import StrictSerializer
from tenants.api.views import LedgerViewSet
from tenants.domain.currencies import MINOR_DIGITS


class WhichPriceQuestionSerializer(StrictSerializer):
    """Whose use of what is priced, and when."""

    organization = serializers.UUIDField()
    size = serializers.CharField(max_length=16)
    price_group = serializers.CharField(
        max_length=GROUP_LENGTH_MAX, help_text="A device share, as usage and charges have it."
    )
    cluster = serializers.UUIDField(
        required=False,
        default=None,
        help_text="Where it is used; without it, on clusters that have no price of their own.",
    )
    at = serializers.DateTimeField(
        required=False, default=None, help_text="A time within the hour; now without it."
    )


class BookCandidateSerializer(serializers.Serializer[BookCandidate]):
    """An assignment of the organization, of its class, or the default one (neither)."""

    assignment = serializers.UUIDField(source="assignment.pk")
    organization = serializers.UUIDField(source="assignment.organization_id", allow_null=True)
    customer_class = serializers.UUIDField(source="assignment.customer_class_id", allow_null=True)
    price_book = serializers.UUIDField(source="assignment.price_book_id", allow_null=True)
    outcome = serializers.ChoiceField(
        choices=["applies", "behind_another", "no_book", "other_currency"]
    )


class PriceCandidateSerializer(serializers.Serializer[PriceCandidate]):
    """A price of the billed book, or of its base less the discount."""

    price = serializers.UUIDField(source="price.pk")
    price_group = serializers.CharField(source="price.price_group")
    cluster = serializers.UUIDField(source="price.cluster_id", allow_null=True)
    band = serializers.CharField(source="price.band")
    unit_price = serializers.DecimalField(
        source="price.unit_price", max_digits=20, decimal_places=10, normalize_output=True
    )
    valid_from = serializers.DateTimeField(source="price.valid.lower")
    valid_until = serializers.DateTimeField(source="price.valid.upper", allow_null=True)
    is_own = serializers.BooleanField(
        source="price.is_own", help_text="False for a price of the base book."
    )
    outcome = serializers.ChoiceField(choices=[outcome.value for outcome in PriceOutcome])


class WhichPriceSerializer(serializers.Serializer[AppliedPrice]):
    """The price in force, or why there is none.

    `considered` has the groups of prices that apply, the most specific first: the first with a
    price in the book is used.
    """

    price = PriceSerializer(allow_null=True)
    unit_price = serializers.SerializerMethodField(help_text="What is charged.")
    list_unit_price = serializers.SerializerMethodField(
        help_text="The base book's price before a discount; else unit_price."
    )
    assignment = serializers.UUIDField(source="billed.pk", allow_null=True, default=None)
    price_book = serializers.UUIDField(source="billed.price_book_id", allow_null=True, default=None)
    band = serializers.CharField(
        allow_null=True,
        help_text="Of the hour; empty for none, null where the last calendar has ended.",
    )
    considered = serializers.ListField(source="groups", child=serializers.CharField())
    books = BookCandidateSerializer(many=True, help_text="Who else's book was considered.")
    candidates = PriceCandidateSerializer(
        many=True, help_text="Prices of these keys, and why each but one does not apply."
    )
    missing = serializers.SerializerMethodField(
        help_text="no_price_book, no_price_calendar or no_price; null when there is a price."
    )

    @extend_schema_field(MoneySerializer(allow_null=True))
    def get_unit_price(self, answer: AppliedPrice) -> dict[str, str] | None:
        """Return the price that is charged."""
        return _money(answer, answer.unit_price)

    @extend_schema_field(MoneySerializer(allow_null=True))
    def get_list_unit_price(self, answer: AppliedPrice) -> dict[str, str] | None:
        """Return the price before a discount."""
        return _money(answer, answer.list_unit_price)

    def get_missing(self, answer: AppliedPrice) -> str | None:
        """Return what is missing."""
        if answer.price is not None:
            return None
        if answer.billed is None:
            return Missing.PRICE_BOOK.value
        return (Missing.CALENDAR if answer.band is None else Missing.PRICE).value


class WhichPriceViewSet(LedgerViewSet):
    """Which price applies."""

    serializer_class = WhichPriceSerializer

    @extend_schema(
        operation_id="get_applied_price",
        parameters=[WhichPriceQuestionSerializer],
        responses=WhichPriceSerializer,
    )
    def ask(self, request: Request) -> Response:
        """Return the price of a device share in an hour."""
        asked = WhichPriceQuestionSerializer(data=request.query_params.dict())
        asked.is_valid(raise_exception=True)
        fields = asked.validated_data
        require_key(size=fields["size"], price_group=fields["price_group"])
        organization = access_priced_organization(self.actor, fields["organization"])
        answer = which_price(
            organization_id=organization.pk,
            size=fields["size"],
            price_group=fields["price_group"],
            cluster_id=fields["cluster"],
            hour=floor_hour(fields["at"] or self.at),
        )
        return Response(WhichPriceSerializer(answer).data)


def _money(answer: AppliedPrice, price: Decimal | None) -> dict[str, str] | None:
    if answer.price is None or price is None:
        return None
    currency = answer.price.price_book.currency
    amount = price_text(price, digits=MINOR_DIGITS.get(currency, 0))
    return {"amount": amount, "currency": currency}
