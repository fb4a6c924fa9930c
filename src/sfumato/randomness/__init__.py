"""Bits to exact samples: every law here is drawn as stated, for infinitely many coins."""
