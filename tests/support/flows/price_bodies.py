"""What operations of price books, prices and customer classes are sent in the matrix."""

from typing import Any, Final

PRICE_BODIES: Final[dict[str, dict[str, Any]]] = {
    "POST price-books/": {"slug": "new", "name": "New", "currency": "EUR"},
    "POST prices/": {
        "price_book": "{price-books}",
        "size": "medium",
        "unit_price": "3.5",
        "valid_from": "2027-01-01T00:00:00Z",
    },
    "POST price-book-assignments/": {
        "organization": "{organizations}",
        "price_book": "{price-books}",
        "valid_from": "2101-01-01T00:00:00Z",
    },
    "POST prices/pk/withdraw/": {"reason": "Wrong."},
    "POST price-book-assignments/pk/withdraw/": {"reason": "Wrong."},
    "POST customer-classes/": {"slug": "new", "name": "New"},
    "POST customer-class-memberships/": {
        "organization": "{organizations}",
        "customer_class": "{customer-classes}",
        "valid_from": "2101-01-01T00:00:00Z",
    },
    "POST customer-class-memberships/pk/withdraw/": {"reason": "Wrong."},
}
