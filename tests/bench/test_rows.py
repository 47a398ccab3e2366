"""The row's schema, and that JSON holds no NaN."""

import csv
import io
import json
from dataclasses import FrozenInstanceError, replace

import pytest

from wirezip.bench.rows import to_csv, to_json

# The fields that every row must have, nested ones with a dot.
SPECIFIED = [
    "op",
    "backend",
    "algorithm",
    "strategy",
    "codec",
    "dtype",
    "data",
    "world_size",
    "logical_bytes",
    "wire_bytes",
    "ratio",
    "time_us.min",
    "time_us.median",
    "time_us.p95",
    "time_us.max",
    "time_us.ci95",
    "algbw_gbps",
    "busbw_gbps",
    "baseline_time_us",
    "speedup",
    "raw_path_time_us",
    "codec_gain",
    "error.exact",
    "error.max_abs",
    "error.mae",
    "error.mse",
    "error.psnr_db",
    "error.cosine",
    "error.rel_l2",
    "error.bound_ok",
    "served_by",
    "verified",
    "link.name",
    "link.emulated",
    "link.rate_gbit_s",
    "samples_us",
    "device",
]


def test_json_has_every_specified_field(row):
    (record,) = json.loads(to_json([row]))
    for name in SPECIFIED:
        outer, _, inner = name.partition(".")
        assert outer in record
        assert not inner or inner in record[outer]
    assert record["time_us"]["ci95"] == [1.5, 2.5]


def test_numbers_that_are_not_finite_become_null(row):
    error = replace(row.error, psnr_db=float("inf"), mse=float("nan"))
    text = to_json([replace(row, ratio=float("nan"), samples_us=(1.0, float("-inf")), error=error), row])
    assert "NaN" not in text
    assert "Infinity" not in text
    record = json.loads(text)[0]
    assert (record["ratio"], record["samples_us"], record["error"]["psnr_db"]) == (None, [1.0, None], None)


def test_no_rows_are_an_empty_array():
    assert json.loads(to_json([])) == []


def test_csv_has_one_column_per_value(row):
    (record,) = csv.DictReader(io.StringIO(to_csv([row])))
    assert record["time_us.median"] == "2.0"
    assert record["time_us.ci95"] == "1.5 2.5"
    assert record["algorithm"] == ""
    assert set(SPECIFIED) - {"samples_us"} <= set(record)


def test_rows_are_immutable(row):
    with pytest.raises(FrozenInstanceError):
        row.ratio = 0.1
