"""Bugs of the identity of charges to plant: different measurements under one name, or numbers in another's order."""

from tests.planted.bug import Bug, planned

_IDENTITY = "tests/paths/test_measurement_identity.py"

IDENTITY_BUGS: tuple[Bug, ...] = (
    planned(
        "conditions do not belong to the identity of a charge",
        _IDENTITY,
        (
            "planning/canonical_flow.py",
            '        return (["filter", conditions, below] if conditions else below), tokens\n',
            "        return below, tokens\n",
        ),
    ),
    planned(
        "a window does not know which rows it sees",
        _IDENTITY,
        (
            "planning/canonical_flow.py",
            'digest(["window", seen, self._window(value, tokens)])',
            'digest(["window", self._window(value, tokens)])',
        ),
    ),
    planned(
        "two uses of one table have one name",
        _IDENTITY,
        ("planning/canonical_flow.py", "        self._leaves += 1\n", "        self._leaves = 1\n"),
    ),
    planned(
        "the kind of a join does not belong to the identity of a charge",
        _IDENTITY,
        ("planning/canonical_flow.py", 'return ["join", str(kind), met', 'return ["join", met'),
    ),
    planned(
        "noisier measurements answer a question that asks for more",
        _IDENTITY,
        (
            "planning/kept_measurements.py",
            "    return kept.mechanism.margin(CONFIDENCE) <= asked.mechanism.margin(CONFIDENCE)\n",
            "    return True\n",
        ),
    ),
    planned(
        "kept numbers are shown in the order of another question",
        _IDENTITY,
        (
            "stored_answer.py",
            "        noisy = in_measured_order(noisy, measured)\n",
            "        pass\n",
        ),
    ),
    planned(
        "another spelling does not take up a charge",
        _IDENTITY,
        (
            "ledger/transaction.py",
            "        same_price = unordered(from_json(charge.event)) == unordered(request.event)\n",
            "        same_price = from_json(charge.event) == request.event\n",
        ),
    ),
)
