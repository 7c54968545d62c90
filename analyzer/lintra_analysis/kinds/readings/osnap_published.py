"""From the integers of `osnap_published` to a sketch."""

from functools import partial

from lintra_analysis.kinds.reading import Reading
from lintra_analysis.kinds.sketches import band_of_signed_rows, read_sketch, rows_of_a_report

READING = Reading(partial(read_sketch, shrunk_only=False), rows_of_a_report, band_of_signed_rows)
