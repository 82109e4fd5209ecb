"""The wiring: settings, URLs, Celery, the admin site, embedded services and the demo."""
