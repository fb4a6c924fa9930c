"""Every audit by name, on the clinic, and the audits that run on any policy.

Auditing is evidence, not proof: `tests/planted/` shows what these audits notice, and proofs/ holds the proofs.
"""

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from time import monotonic

from sfumato.lab.audits import end_to_end, enumeration, files, fuzzing, ledger, neighbours, paths, replay, sampling
from sfumato.lab.audits.alarm import Finding, list_findings
from sfumato.lab.generators.scratch import scratch
from sfumato.policy.reading import read_policy

AuditFunction = Callable[[object, Path], list[Finding]]
"""Takes a seed for made-up people and questions, and a folder of its own."""

AUDITS: dict[str, AuditFunction] = {
    enumeration.NAME: lambda seed, _: enumeration.run(seed),
    sampling.NAME: lambda seed, _: sampling.run(seed),
    ledger.NAME: ledger.run,
    replay.NAME: replay.run,
    end_to_end.NAME: end_to_end.run,
    fuzzing.NAME: fuzzing.run,
    neighbours.NAME: neighbours.run,
    files.NAME: files.run,
    paths.NAME: paths.run,
}
_SAMPLED_QUERIES = 3


def run_audits(names: Sequence[str], seed: object, all_of_them: bool = True) -> list[Finding]:
    """Run audits in this order; unless `all_of_them`, stop after the first that raises an alarm.

    An exception inside an audit is a finding.
    """
    alarms: list[Finding] = []
    for name in names:
        with scratch() as folder:
            try:
                alarms += AUDITS[name](seed, folder)
            except Exception as error:  # any failure of an audit is a finding
                alarms.append(Finding(name, f"{type(error).__name__} under the audit"))
        if alarms and not all_of_them:
            break
    return alarms


def audit_policy(path: Path, seconds: float) -> str:
    """Audit a deployed policy on made-up people of the same shape; its data and its ledger are not touched.

    What every person may move is replayed, counts are sampled on neighbours, and the rest of the time goes to fuzzing.
    """
    begun, policy = monotonic(), read_policy(path)
    with scratch() as folder:
        alarms = replay.audit(policy, folder / "replay", "replay")
        alarms += paths.audit(policy, folder / "paths", "paths")
        alarms += end_to_end.sample_policy(policy, folder / "sampled", "sampled", _SAMPLED_QUERIES)
        rest = max(1.0, seconds - (monotonic() - begun))
        findings, question_count = fuzzing.audit(policy, folder / "fuzzed", f"fuzzed {monotonic()}", rest)
    verdict = list_findings([*alarms, *findings])
    return (
        f"{policy.name}: {question_count:,} random questions on neighbours, "
        "every plain question replayed on the worst people, "
        f"{_SAMPLED_QUERIES} counts sampled {end_to_end.SAMPLES_PER_QUERY:,} times each, "
        f"in {monotonic() - begun:.0f} s\n{verdict}"
    )


def main(arguments: Sequence[str]) -> None:
    """Run the named audits with a seed until one raises an alarm, and print that alarm as JSON."""
    seed, *names = arguments
    alarms = run_audits(names, seed, all_of_them=False)
    sys.stdout.write(json.dumps([[alarm.audit, alarm.what] for alarm in alarms[:1]]) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
