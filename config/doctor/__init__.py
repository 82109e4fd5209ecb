"""What `manage.py doctor` checks of an installation: servers, clusters, deliveries and billing."""
