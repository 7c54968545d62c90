"""From the integers of `osnap` to a sketch."""

from lintra_analysis.kinds.reading import Reading
from lintra_analysis.kinds.sketches import band_of_signed_rows, read_sketch, rows_of_a_report

READING = Reading(read_sketch, rows_of_a_report, band_of_signed_rows)
