"""Cursor pages: stable under inserts, and never counting the whole table."""

from rest_framework.pagination import CursorPagination


class CursorPages(CursorPagination):
    """Pages of at most 200, newest first unless the view names another order."""

    page_size = 50
    page_size_query_param = "page_size"
    max_page_size = 200
    ordering = "-id"
