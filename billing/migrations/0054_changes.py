"""Indexes of what changed since a time: charges, documents, journal, payments and what follows."""

from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models
from django.db.models.functions import Greatest


class Migration(migrations.Migration):
    atomic = False

    dependencies = [("billing", "0053_scheduled_exports")]

    operations = [
        # No index of a partitioned table is made concurrently: accrual waits for this one.
        migrations.AddIndex(
            model_name="charge",
            index=models.Index(fields=["created_at"], name="charge_by_creation"),
        ),
        AddIndexConcurrently(
            model_name="accrualexception",
            index=models.Index(
                Greatest("created_at", "resolved_at"), name="accrual_exception_by_change"
            ),
        ),
        AddIndexConcurrently(
            model_name="invoice",
            index=models.Index(Greatest("drafted_at", "finalized_at"), name="invoice_by_change"),
        ),
        AddIndexConcurrently(
            model_name="journalentry",
            index=models.Index(fields=["posted_at", "id"], name="journal_entry_by_posting"),
        ),
        AddIndexConcurrently(
            model_name="payment",
            index=models.Index(fields=["recorded_at", "id"], name="payment_by_recording"),
        ),
        AddIndexConcurrently(
            model_name="paymentallocation",
            index=models.Index(fields=["allocated_at"], name="allocation_by_time"),
        ),
        AddIndexConcurrently(
            model_name="documentdelivery",
            index=models.Index(fields=["recorded_at", "id"], name="document_delivery_by_recording"),
        ),
        AddIndexConcurrently(
            model_name="reminder",
            index=models.Index(fields=["created_at"], name="reminder_by_creation"),
        ),
    ]
