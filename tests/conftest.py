"""What holds for every test: no example fails for being slow, since the machines are shared."""

from hypothesis import settings

settings.register_profile("sfumato", deadline=None)
settings.load_profile("sfumato")
