"""The distribution of the privacy loss, composed by several engines; what they certify is intersected by `pld`."""
