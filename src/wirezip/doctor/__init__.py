"""What this machine has, what wirezip will use of it, and what is wrong."""

from wirezip.doctor.catalogue import CodecEntry, list_codecs
from wirezip.doctor.report import Problem, Report, examine

__all__ = ["CodecEntry", "Problem", "Report", "examine", "list_codecs"]
