"""The 22 questions of TPC-H, and a policy in which the customer is the person."""

import re
from datetime import date
from pathlib import Path
from typing import Any

QUESTIONS: dict[int, str] = {
    int(number): text
    for number, text in re.findall(
        r"(?ms)^-- (\d+)\n(.*?);$", Path(__file__).with_suffix(".sql").read_text(encoding="utf-8")
    )
}

_DAY = {"type": "date", "bounds": [date(1992, 1, 1), date(1998, 12, 31)]}
_NUMBER, _TEXT = {"type": "integer"}, {"type": "text"}
_MONEY = {"type": "decimal", "step": 0.01}


def _listed(*values: str) -> dict[str, Any]:
    return {"type": "text", "values": list(values)}


POLICY: dict[str, Any] = {
    "name": "tpch",
    "budget": {"epsilon": 100, "delta": 1e-6},
    "tables": {
        "customer": {
            "unit": "c_custkey",
            "rows_per_unit": 1,
            "columns": {
                "c_custkey": _NUMBER,
                "c_name": _TEXT,
                "c_address": _TEXT,
                "c_nationkey": {"type": "integer", "bounds": [0, 24]},
                "c_phone": _TEXT,
                "c_acctbal": _MONEY | {"bounds": [-1000, 10000]},
                "c_mktsegment": _listed("AUTOMOBILE", "BUILDING", "FURNITURE", "HOUSEHOLD", "MACHINERY"),
                "c_comment": _TEXT,
            },
        },
        "orders": {
            "unit": "o_custkey",
            "rows_per_unit": 40,
            "columns": {
                "o_orderkey": _NUMBER | {"unique": True},
                "o_custkey": _NUMBER,
                "o_orderstatus": _listed("F", "O", "P"),
                "o_totalprice": _MONEY | {"bounds": [0, 600000]},
                "o_orderdate": _DAY,
                "o_orderpriority": _listed("1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED", "5-LOW"),
                "o_shippriority": {"type": "integer", "bounds": [0, 1]},
                "o_comment": _TEXT,
            },
        },
        "lineitem": {
            "unit": "orders.o_custkey via l_orderkey = o_orderkey",
            "rows_per_unit": 150,
            "groups_per_unit": 10,
            "columns": {
                "l_orderkey": _NUMBER,
                "l_partkey": _NUMBER,
                "l_suppkey": {"type": "integer", "values": "supplier.s_suppkey"},
                "l_linenumber": {"type": "integer", "bounds": [1, 7]},
                "l_quantity": {"type": "decimal", "bounds": [1, 50], "step": 1},
                "l_extendedprice": _MONEY | {"bounds": [0, 110000]},
                "l_discount": _MONEY | {"bounds": [0, 0.1]},
                "l_tax": _MONEY | {"bounds": [0, 0.08]},
                "l_returnflag": _listed("A", "N", "R"),
                "l_linestatus": _listed("F", "O"),
                "l_shipdate": _DAY,
                "l_commitdate": _DAY,
                "l_receiptdate": _DAY,
                "l_shipinstruct": _TEXT,
                "l_shipmode": _TEXT,
            },
        },
        "nation": {"public": True},
        "part": {"public": True},
        "partsupp": {"public": True},
        "region": {"public": True},
        "supplier": {"public": True},
    },
}
