"""sfumato: a differentially private statistical database."""

from sfumato.errors import Refusal

__version__ = "0.1.0"
__all__ = ["Refusal", "__version__"]
