"""Settings of billing that depend on the environment."""

from typing import Any

from config.env import Environment


def billing_settings(env: Environment) -> dict[str, Any]:
    """Return what the site has settled about its invoices."""
    return {
        "ISSUER": {
            "name": env.ISSUER_NAME,
            "address": env.ISSUER_ADDRESS,
            "tax_id": env.ISSUER_TAX_ID,
            "bank_account": env.ISSUER_BANK_ACCOUNT,
            "country": env.ISSUER_COUNTRY,
        },
        "ISSUER_LOGO": str(env.ISSUER_LOGO or ""),
        "ISSUER_LOGOS": {name: str(path) for name, path in env.ISSUER_LOGOS.items()},
        "USAGE_ANNEX": env.USAGE_ANNEX,
        "E_INVOICES": env.E_INVOICES,
        "INVOICE_SERIES": env.INVOICE_SERIES,
        "INVOICE_FIRST_NUMBER": env.INVOICE_FIRST_NUMBER,
        "CREDIT_NOTE_SERIES": env.CREDIT_NOTE_SERIES,
        "DEBIT_NOTE_SERIES": env.DEBIT_NOTE_SERIES,
        "PAYMENT_DAYS": env.PAYMENT_DAYS,
        "CARRY_MONTHS": env.CARRY_MONTHS,
        "CARRY_BELOW": env.CARRY_BELOW,
        "DUNNING_DAYS": env.DUNNING_DAYS,
        "JOURNAL_LAYOUTS": {
            "DATEV_CONSULTANT": str(env.DATEV_CONSULTANT),
            "DATEV_CLIENT": str(env.DATEV_CLIENT),
            "SAP_COMPANY_CODE": env.SAP_COMPANY_CODE,
            "SAP_DOCUMENT_TYPE": env.SAP_DOCUMENT_TYPE,
            "NETSUITE_SUBSIDIARY": env.NETSUITE_SUBSIDIARY,
        },
    }
