"""The filter of numbers that came as text."""

from django import template

from config.app.labels import figure

register = template.Library()
register.filter("figure", figure)
