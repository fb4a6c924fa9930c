"""Where the files of a snapshot lie: beside the ledger. No engine is needed to find them."""

from dataclasses import dataclass
from pathlib import Path

from sfumato.engines.snapshot_manifest import read_manifest
from sfumato.errors import BadSource
from sfumato.policy.policy import Policy


@dataclass(frozen=True, slots=True, repr=False)
class SnapshotPaths:
    """The files beside the ledger. Their names come from the ledger's, which the owner typed, and from random ids."""

    ledger: Path

    def sidecar(self, ending: str) -> Path:
        """Return the file beside the ledger with this ending."""
        return self.ledger.with_name(f"{self.ledger.name}.{ending}")

    @property
    def copies(self) -> list[Path]:
        """Every copy there is, current or not."""
        begins = f"{self.ledger.name}.copy-"
        return [path for path in self.ledger.parent.iterdir() if path.name.startswith(begins) and path.is_file()]

    def copy(self, identity: str) -> Path:
        """Return the file of a copy, given its random id."""
        return self.sidecar(f"copy-{identity}")

    @property
    def builds(self) -> list[Path]:
        """Every folder of a build that is under way or was interrupted."""
        return [path for path in self.ledger.parent.iterdir() if path.name.startswith(f"{self.ledger.name}.build-")]

    @property
    def manifest(self) -> Path:
        """The file that says which copy is current."""
        return self.sidecar("copy.manifest")


def has_ledger(policy: Policy) -> bool:
    """Tell whether there is a snapshot that a ledger belongs to."""
    places = places_of(policy)
    known = read_manifest(places.manifest)
    return bool(places.copies) if known is None else bool(known.ledger)


def places_of(policy: Policy) -> SnapshotPaths:
    """Return where the copy and its salt lie: beside the first that is a file of ledger, source and policy."""
    path = policy.ledger.path
    if path is None:
        file = policy.source.path or policy.ledger.policy_file
        path = file and file.with_name(f"{file.name}.sfumato")
    if path is None:
        raise BadSource(
            "ledger is on a server, and neither source nor policy is a file.",
            "The bounded copy and its salt are files, and lie beside one of the three.",
            'Write the policy into a file, or ledger = "sqlite:PATH".',
        )
    source = policy.source.path
    if not path.name:
        raise BadSource(
            "ledger names no file.",
            "The ledger is a file, and the bounded copy and its salt lie beside it.",
            'Write for example ledger = "sqlite:clinic.ledger".',
        )
    if "?" in str(path):
        raise question_mark("ledger")
    if not path.parent.is_dir():
        raise BadSource(
            "ledger lies in a folder that does not exist.",
            "The bounded copy and its salt lie beside it.",
            "Create the folder, or correct the path.",
        )
    if source is not None and source.is_dir() and path.resolve().is_relative_to(source.resolve()):
        raise BadSource(
            "ledger lies inside source.",
            "The bounded copy and its salt lie beside the ledger, and secrets do not belong among the data.",
            'Write ledger = "sqlite:PATH" with a path outside that folder, or move the data into a folder below it.',
        )
    return SnapshotPaths(path)


def question_mark(what: str) -> BadSource:
    """Return the refusal of a path that DuckDB would not read as one."""
    return BadSource(
        f"The path of the {what} contains a question mark.",
        "DuckDB reads the text after it as a parameter.",
        "Rename the folder or the file.",
    )
