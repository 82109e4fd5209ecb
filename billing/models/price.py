"""Price books and prices: what one unit-hour costs, from when to when."""

from uuid import UUID

from django.contrib.postgres.constraints import ExclusionConstraint
from django.contrib.postgres.fields import DateTimeRangeField, RangeOperators
from django.db import models
from django.db.models import F, Q, Value
from django.db.models.functions import Coalesce

from billing.domain.pricing.price_book import ANY_GROUP, ANY_TIME, BAND_LENGTH_MAX, key_id
from billing.models.customer_class import CustomerClass, CustomerClassMembership
from metering.domain.catalogue.units import GPUSize
from tenants.domain.identifiers import new_id
from tenants.models import Cluster, Organization
from tenants.models.organization import CURRENCY, SLUG

ANY_CLUSTER = UUID(int=0)
"""Stands for no cluster in the constraint, where NULL would equal nothing."""
WHOLE_SITE = UUID(int=0)
"""Stands for all organizations in the constraint, as above."""
SIZE_CHOICES = [(size.value, size.value.capitalize()) for size in GPUSize]


class PriceBook(models.Model):
    """A list of prices in one currency, or a discount on another one.

    A key that a discount book has no price of costs the price of its base book less the discount.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    slug = models.CharField(max_length=63, unique=True, validators=[SLUG])
    name = models.CharField(max_length=200)
    currency = models.CharField(max_length=3, validators=[CURRENCY])
    base_book = models.ForeignKey(
        "self", on_delete=models.PROTECT, related_name="discount_books", null=True, blank=True
    )
    """In the same currency, without a base of its own; the database checks both."""
    discount_percent = models.DecimalField(max_digits=5, decimal_places=2, null=True, blank=True)
    version = models.PositiveIntegerField(default=1)
    generation = models.BigIntegerField(default=0, db_default=0, editable=False)
    """Counts changes of its prices; the database adds one for each."""
    created_at = models.DateTimeField()

    class Meta:
        ordering = ["slug"]
        constraints = [
            models.CheckConstraint(
                condition=Q(base_book__isnull=True, discount_percent__isnull=True)
                | Q(
                    base_book__isnull=False,
                    discount_percent__isnull=False,
                    discount_percent__gt=0,
                    discount_percent__lte=100,
                ),
                name="price_book_discount_has_base",
            ),
        ]

    def __str__(self) -> str:
        """Return the name people know it by."""
        return self.name


class PriceBookAssignment(models.Model):
    """A price book of an organization, of a customer class or of all, for whole UTC hours.

    An organization's own goes before that of its class, and that before the default book, which is
    of neither: `OrganizationBook` has the outcome. It has the two time axes of prices.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    organization = models.ForeignKey(
        Organization,
        on_delete=models.PROTECT,
        related_name="price_book_assignments",
        null=True,
        blank=True,
    )
    customer_class = models.ForeignKey(
        CustomerClass,
        on_delete=models.PROTECT,
        related_name="price_book_assignments",
        null=True,
        blank=True,
    )
    price_book = models.ForeignKey(
        PriceBook, on_delete=models.PROTECT, related_name="assignments", null=True, blank=True
    )
    """None for no book of its own: then the next one applies."""
    valid = DateTimeRangeField()
    generation = models.BigIntegerField(default=0, db_default=0, editable=False)
    """Counts changes of this row; the database adds one for each."""
    published_at = models.DateTimeField()
    superseded_at = models.DateTimeField(null=True, blank=True)
    replaces = models.ForeignKey(
        "self", on_delete=models.PROTECT, related_name="+", null=True, blank=True
    )

    class Meta:
        ordering = ["organization__slug", "valid"]
        constraints = [
            ExclusionConstraint(
                name="price_book_assignments_do_not_overlap",
                expressions=[
                    (
                        Coalesce("organization", "customer_class", Value(WHOLE_SITE)),
                        RangeOperators.EQUAL,
                    ),
                    ("valid", RangeOperators.OVERLAPS),
                ],
                condition=Q(superseded_at__isnull=True),
                violation_error_message="There is an assignment at that time.",
            ),
            models.CheckConstraint(
                condition=Q(organization__isnull=True) | Q(customer_class__isnull=True),
                name="price_book_assignment_is_of_one",
            ),
        ]

    def __str__(self) -> str:
        """Return whose it is, the book and from when."""
        name = self.price_book or "no book of its own"
        return f"{self.owner}: {name} from {self.valid.lower:%Y-%m-%dT%H}Z"

    @property
    def owner(self) -> str:
        """Whose book it is, as people know it."""
        return str(self.organization or self.customer_class or "all organizations")


class Price(models.Model):
    """The price of a unit-hour of a size, for one price group or any ("*"), on one cluster or any.

    The price of a device's own group goes before that of any group, of one group the price of the
    cluster before that of any cluster, and then that of a time-of-use band before that of any time.
    It has two time axes: the hours
    it is in force, and the time from when it was published until it was superseded. What is
    superseded prices nothing any more, and charges made at it keep it. The others of one key follow
    each other without overlap or gap. A price is never edited: it is closed, or superseded.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    price_book = models.ForeignKey(PriceBook, on_delete=models.PROTECT, related_name="prices")
    size = models.CharField(max_length=16, choices=SIZE_CHOICES)
    price_group = models.CharField(max_length=96, default=ANY_GROUP)
    cluster = models.ForeignKey(
        Cluster, on_delete=models.PROTECT, related_name="+", null=True, blank=True
    )
    """The only one whose use it prices; none for any."""
    band = models.CharField(max_length=BAND_LENGTH_MAX, blank=True, default=ANY_TIME, db_default="")
    """The only time-of-use band it prices; "" for any time."""
    unit_price = models.DecimalField(max_digits=20, decimal_places=10)
    """Per unit-hour, in the book's currency."""
    valid = DateTimeRangeField()
    published_at = models.DateTimeField()
    superseded_at = models.DateTimeField(null=True, blank=True)
    replaces = models.ForeignKey(
        "self", on_delete=models.PROTECT, related_name="+", null=True, blank=True
    )
    """The price whose hours it took over, which is superseded."""

    class Meta:
        ordering = ["price_book__slug", "size", "price_group", "valid"]
        constraints = [
            models.CheckConstraint(condition=Q(unit_price__gte=0), name="price_not_negative"),
            ExclusionConstraint(
                name="prices_do_not_overlap",
                expressions=[
                    ("price_book", RangeOperators.EQUAL),
                    ("size", RangeOperators.EQUAL),
                    ("price_group", RangeOperators.EQUAL),
                    ("valid", RangeOperators.OVERLAPS),
                    (Coalesce("cluster", Value(ANY_CLUSTER)), RangeOperators.EQUAL),
                    ("band", RangeOperators.EQUAL),
                ],
                condition=Q(superseded_at__isnull=True),
                violation_error_message="There is a price for this key at that time.",
            ),
        ]

    def __str__(self) -> str:
        """Return the book, and what costs how much from when."""
        begin = f"{self.valid.lower:%Y-%m-%dT%H}Z"
        price = f"{self.size}/{self.price_group}: {self.unit_price.normalize():f} from {begin}"
        return f"{self.price_book}, {price}"

    @property
    def sku_price_id(self) -> UUID:
        """The id of its key, the same for each price of it; FOCUS' name."""
        return key_id(
            price_book_id=self.price_book_id,
            size=self.size,
            price_group=self.price_group,
            cluster_id=self.cluster_id,
            band=self.band,
        )


class PriceCalendar(models.Model):
    """Which band each hour of a price book is in, from an hour until the next calendar begins.

    The band of an hour is that of its first instant in the time zone. A calendar is never edited;
    one that is not in force yet can be withdrawn. A discount book has the calendars of its base.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    price_book = models.ForeignKey(PriceBook, on_delete=models.PROTECT, related_name="calendars")
    time_zone = models.CharField(max_length=64)
    bands = models.JSONField()
    """Rules: a list of {"band": slug, "days": ["mon", ..., "holiday"], "from": "HH:MM", "to":
    "HH:MM"} that do not overlap; a time that none covers is in no band."""
    holidays = models.JSONField(default=dict, blank=True)
    """Names by date such as "2026-10-03", as they were known when it was published."""
    country = models.CharField(max_length=2, blank=True, default="")
    """Whose holidays they are, in ISO 3166."""
    subdivision = models.CharField(max_length=8, blank=True, default="")
    last_year = models.PositiveSmallIntegerField(null=True, blank=True)
    """The last year whose holidays are in it; none without an end."""
    begin_at = models.DateTimeField()
    """Its first UTC hour."""
    end_at = models.DateTimeField(null=True, blank=True)
    """The local midnight after its last year; from then on no band is known without a next one."""
    published_at = models.DateTimeField()
    superseded_at = models.DateTimeField(null=True, blank=True)
    """When it was withdrawn."""

    class Meta:
        ordering = ["price_book__slug", "begin_at", "id"]
        constraints = [
            models.UniqueConstraint(
                fields=["price_book", "begin_at"],
                condition=Q(superseded_at__isnull=True),
                name="price_calendar_unique",
            ),
            models.CheckConstraint(
                condition=Q(end_at__isnull=True) | Q(end_at__gt=F("begin_at")),
                name="price_calendar_ends_after_it_begins",
            ),
        ]

    def __str__(self) -> str:
        """Return the book, the zone and from when."""
        return f"{self.price_book}: {self.time_zone} from {self.begin_at:%Y-%m-%dT%H}Z"


class BookPrice(models.Model):
    """What a book prices: its own prices, and those of its base less the discount; a view.

    One id may appear in several books. Of two prices of a key in force, the book's own is used.
    """

    id = models.UUIDField(primary_key=True)
    """The stored price, of the book or of its base."""
    price_book = models.ForeignKey(PriceBook, on_delete=models.DO_NOTHING, related_name="+")
    size = models.CharField(max_length=16)
    price_group = models.CharField(max_length=96)
    cluster = models.ForeignKey(Cluster, on_delete=models.DO_NOTHING, related_name="+", null=True)
    band = models.CharField(max_length=BAND_LENGTH_MAX)
    unit_price = models.DecimalField(max_digits=20, decimal_places=10)
    base_unit_price = models.DecimalField(max_digits=20, decimal_places=10, null=True)
    """Before the discount; None for the book's own prices."""
    valid = DateTimeRangeField()
    superseded_at = models.DateTimeField(null=True)
    is_own = models.BooleanField()

    class Meta:
        managed = False
        db_table = "billing_book_price"

    def __str__(self) -> str:
        """Return what costs how much."""
        return f"{self.size}/{self.price_group}: {self.unit_price.normalize():f}"


class OrganizationBook(models.Model):
    """Which book bills an organization, and for which hours; a view, and the only answer to it.

    At each hour at most one: of its own assignment, else of its class's, else the default book.
    """

    id = models.UUIDField(primary_key=True)
    """The assignment; that of a class is here for each of its organizations."""
    organization = models.ForeignKey(Organization, on_delete=models.DO_NOTHING, related_name="+")
    price_book = models.ForeignKey(
        PriceBook, on_delete=models.DO_NOTHING, related_name="billed_organizations"
    )
    membership = models.ForeignKey(
        CustomerClassMembership, on_delete=models.DO_NOTHING, related_name="+", null=True
    )
    """By which a class's book applies."""
    precedence = models.IntegerField()
    """1 of the organization's own, 2 of its class, 3 of the default book."""
    valid = DateTimeRangeField()

    class Meta:
        managed = False
        db_table = "billing_organization_book"

    def __str__(self) -> str:
        """Return what bills which organizations."""
        return f"{self.organization}: {self.price_book}"
