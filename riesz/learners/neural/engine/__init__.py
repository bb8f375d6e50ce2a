"""Networks and their training: batches, scales, schedules and trained fits."""
