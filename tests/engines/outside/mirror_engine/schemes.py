"""What the engine declares: loading this imports no driver."""

from sfumato.policy.schemes import SourceScheme

MIRROR = SourceScheme("mirror", backend="mirror_engine.opening:BACKEND", install="mirror-engine")
