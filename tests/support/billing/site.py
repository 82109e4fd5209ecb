"""What the tests' site has settled about its invoices."""

from typing import Final

from billing.adapters.terms import invoice_terms

SITE_TERMS: Final = invoice_terms()
"""As the settings of the tests have it; entry points and sweeps read the same."""
