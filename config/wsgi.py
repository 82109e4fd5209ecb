"""The web server's way in."""

import os

from django.core.wsgi import get_wsgi_application

from config.celery import calm_collector

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings.production")
application = get_wsgi_application()
calm_collector()
