"""The REST doors of every app under /api/v1/."""

urlpatterns: list[object] = []
