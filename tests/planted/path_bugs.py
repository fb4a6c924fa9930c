"""Bugs of the one charging path and of what the owner sees of it: noise before its charge, messages in a log."""

from tests.planted.bug import Bug, planned

_DIAGNOSTICS = "tests/test_diagnostics.py"

PATH_BUGS: tuple[Bug, ...] = (
    planned(
        "a question measures truncation losses inside its own charge",
        "tests/paths/test_truncation_charges.py",
        (
            "database.py",
            '            tell("run", "")\n',
            '            self._shared.measure_truncation(asked.engine, self.payer)\n            tell("run", "")\n',
        ),
    ),
    planned(
        "truncation losses that a killed process left stay unmeasured",
        "tests/paths/test_truncation_charges.py",
        ("opening.py", "        database.measure_truncation()\n", "        pass\n"),
    ),
    planned(
        "the padding of a sealed table is drawn before its charge",
        "tests/sealed/test_database.py",
        (
            "sealed/batches.py",
            "    ledger = _charge(vault, layout, manifest, padding)",
            "    padding.draw(len(layout.cells), system_source())\n"
            "    ledger = _charge(vault, layout, manifest, padding)",
        ),
    ),
    planned(
        "a release is returned before it is stored",
        "tests/ledger/test_payer.py",
        ("ledger/payer.py", "            charge.settle(stored)", "            return stored"),
    ),
    planned(
        "noise is drawn beside the source of its charge",
        "tests/ledger/test_payer.py",
        ("ledger/payer.py", "release(charge, charge.noise_from(self.source))", "release(charge, self.source)"),
    ),
    planned(
        "a message of an engine is logged",
        _DIAGNOSTICS,
        (
            "diagnostics.py",
            'label, kind, extra={"sfumato": fields})',
            'label, error, extra={"sfumato": fields})',
        ),
    ),
    planned(
        "others can read the debug file",
        _DIAGNOSTICS,
        ("diagnostics.py", "os.open(path, flags, 0o600)", "os.open(path, flags, 0o644)"),
    ),
    planned(
        "an analyst sees statements",
        _DIAGNOSTICS,
        ("database.py", '        self.require_owner("see statements", ', "        self._check_open() or repr("),
    ),
)
